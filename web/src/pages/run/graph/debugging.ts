// What the debugger knows about nodes and lines: breakpoints, messages that wait, what runs next.
import { nodeOf } from "../../../live/address";
import { nodeKey } from "../../../live/path";
import type { BreakpointState, NodeQueue, RunState } from "../../../api/schema";
import type { Scene } from "../../../graph/scene";

/** `node` stops before each run of the node, `some` before some: in a round, or if a condition holds. */
export type Stop = "node" | "some";

const NAMED = /node\s*==\s*(["'])(.*?)\1/g;

/** Which nodes have breakpoints, by key. */
export function stopsOf(scene: Scene, breakpoints: readonly BreakpointState[]): Map<string, Stop> {
  const found = new Map<string, Stop>();
  for (const { text } of breakpoints) {
    for (const node of scene.byKey.values()) {
      const stop = stopAt(text, node.id, node.key);
      if (stop !== null && found.get(node.key) !== "node") found.set(node.key, stop);
    }
  }
  return found;
}

function stopAt(text: string, id: string, key: string): Stop | null {
  if (text === id) return "node";
  if (text.startsWith("cel:")) return [...text.matchAll(NAMED)].some((found) => found[2] === id) ? "some" : null;
  return nodeOf(text) === id || text === key ? "some" : null;
}

export interface Waiting {
  /** Messages that came over a line, by its id. */
  lines: ReadonlyMap<string, number>;
  /** Messages that came from elsewhere, such as the input, by the key of the node. */
  nodes: ReadonlyMap<string, number>;
}

export const NOTHING_WAITS: Waiting = { lines: new Map(), nodes: new Map() };

/** Where messages wait. */
export function waitingOf(scene: Scene, queues: readonly NodeQueue[], composites: ReadonlySet<string>): Waiting {
  const lines = new Map<string, number>();
  const nodes = new Map<string, number>();
  const add = (map: Map<string, number>, key: string) => map.set(key, (map.get(key) ?? 0) + 1);
  for (const queue of queues) {
    const key = nodeKey(queue.address, composites);
    const into = scene.lines.filter((line) => line.drawn.target === key);
    for (const message of queue.messages) {
      const line = into.find((one) => scene.byKey.get(one.drawn.source)?.id === message.source);
      if (line === undefined) add(nodes, key);
      else add(lines, line.id);
    }
  }
  return { lines, nodes };
}

/** What the next steps run: the first is next, the others are held. */
export function readyOf(state: RunState, composites: ReadonlySet<string>): Map<string, "next" | "held"> {
  const found = new Map<string, "next" | "held">();
  for (const [number, node] of state.ready.entries()) {
    const key = nodeKey(node.address, composites);
    if (!found.has(key)) found.set(key, number === 0 ? "next" : "held");
  }
  return found;
}
