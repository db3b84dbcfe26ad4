// Where a run is locked: the loop, the message that goes to the next node, and the ways out.
import type { Drawing, RunState, WaitingMessage } from "../../../api/schema";
import { parseAddress, type RoundStep } from "../../../live/address";
import { nodeKey } from "../../../live/path";
import type { Lock } from "../../../live/run_model";

/** The lock that holds a run. A limit that was met while calls were in flight has its event, too, and some
 * limits end a loop without a lock; `held` is what the server says. */
export function currentLock(locks: readonly Lock[], held: Record<string, unknown> | null | undefined): Lock | undefined {
  const open = locks.slice(locks.findLastIndex((lock) => lock.unlocked !== null) + 1);
  const found = open.find((lock) => lock.what === held?.what && lock.address === String(held?.address ?? ""));
  return found ?? open.at(-1);
}

/** The innermost round around the place of the lock. A lock by a person has no address: then it is where the
 * run is. */
export function lockedRound(lock: Lock, state: RunState | undefined): RoundStep | undefined {
  const address = lock.address || (state?.loops.at(-1)?.address ?? "");
  return parseAddress(address).rounds.at(-1);
}

export interface ExitNode {
  id: string;
  key: string;
}

/** The nodes that an edge leads to out of the loop of this round. Only a loop of edges can be left: a loop agent
 * or a debate has no such edge. */
export function exitNodes(drawing: Drawing, composites: ReadonlySet<string>, round: string): ExitNode[] {
  if (!round) return [];
  const entry = nodeKey(round, composites);
  const region = drawing.regions.find((one) => one.kind === "loop" && one.entry === entry);
  if (region === undefined) return [];
  const parents = new Map(drawing.regions.map((one) => [one.key, one.parent]));
  const nodes = new Map(drawing.nodes.map((node) => [node.key, node]));
  const isInside = (key: string): boolean => {
    for (let at = nodes.get(key)?.parent ?? ""; at; at = parents.get(at) ?? "") if (at === region.key) return true;
    return false;
  };
  const found = new Map<string, ExitNode>();
  for (const edge of drawing.edges) {
    const target = nodes.get(edge.target);
    if (!edge.leaves || target === undefined || !isInside(edge.source) || isInside(edge.target)) continue;
    found.set(target.id, { id: target.id, key: target.key });
  }
  return [...found.values()];
}

export interface NextMessage {
  /** The node that gets it. */
  node: string;
  message: WaitingMessage;
}

/** The message that an unlock replaces: the last one that waits for the node that runs next. */
export function nextMessage(state: RunState | undefined): NextMessage | null {
  const ready = state?.ready[0];
  if (state === undefined || ready === undefined) return null;
  const waiting = ready.messages.at(-1);
  if (waiting !== undefined) return { node: ready.node_id, message: waiting };
  // A round that has not begun has no messages yet; they wait at the node at which the loop is entered.
  const queue = state.queues.find((one) => one.node_id === ready.node_id && parseAddress(one.address).rounds.length === parseAddress(ready.address).rounds.length);
  const message = queue?.messages.at(-1);
  return message === undefined ? null : { node: ready.node_id, message };
}

/** Whether a message from one node to another makes the other run. Nodes of the same id in several graphs count
 * together. */
export function triggers(drawing: Drawing, source: string, target: string): boolean {
  const ids = new Map(drawing.nodes.map((node) => [node.key, node.id]));
  const between = drawing.edges.filter((edge) => ids.get(edge.source) === source && ids.get(edge.target) === target);
  return !between.length || between.some((edge) => edge.triggers);
}
