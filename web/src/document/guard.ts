import type { Edit, EdgeItem, GraphItem, NewEdge, NewNode, WorkflowDocument } from "./model";
import { draftOf, freeOf, insertNode, nodesAt } from "./parts";

export interface LoopToGuard {
  /** The id of the node at which the loop is entered. */
  entry: string;
  /** The places of the edges that lead back to it. */
  back: readonly number[];
  /** The id of the node behind the loop; null if there is none yet. */
  exit: string | null;
}

/** Puts a guard into a loop, wired so that the proof accepts it (docs/loops.md#guards).
 *
 * A `loop` decides about each round: the back edges lead to it, and from it one edge on to the entry and one out of
 * the loop. Any other guard only counts, beside the back edges: these stay, and each gets a twin to the guard, under
 * the same condition and port. */
export function addGuard(document: WorkflowDocument, graph: string, loop: LoopToGuard, guard: NewNode): Edit {
  const around = document.graphs.get(graph);
  if (!around) throw new Error(`there is no graph ${graph}`);
  const back = loop.back.flatMap((index) => around.edges[index] ?? []);
  const draft = draftOf(document);
  const edges = guard.type === "loop" ? decided(loop, back, guard) : counted(loop, back, guard);
  const exit = loop.exit ?? freeOf(new Set([...around.nodes.map(({ id }) => id), guard.id]), "Final");
  edges.push({ from: guard.id, to: exit, ...(guard.type === "loop" && { port: "exit" }) });
  if (guard.type === "loop") {
    for (const edge of back) {
      draft.set([...edge.path, "to"], guard.id);
      for (const name of MOVED) if (edge.value[name] !== undefined) draft.remove([...edge.path, name]);
    }
  }
  const last = Math.max(-1, ...back.map(({ index }) => index));
  draft.insert([...around.path, "edges"], last < 0 ? around.edges.length : last + 1, edges);
  if (loop.exit === null) insertNode(draft, document, graph, { id: exit, type: "passthrough" });
  const path = insertNode(draft, document, graph, guard, lastSource(around, back));
  return { changes: draft.changes(), select: nodesAt(draft, [path]) };
}

/** Settings of an edge that concern the queue of its target, or how often that runs. */
const MOVED = ["keep_message", "clear_context", "clear_kept_context", "carry_data", "dynamic"] as const;

function decided({ entry }: LoopToGuard, back: readonly EdgeItem[], guard: NewNode): NewEdge[] {
  const settings = Object.assign({}, ...[...back].reverse().map(({ value }) => value)) as Record<string, unknown>;
  const moved = MOVED.flatMap((name) => (settings[name] === undefined ? [] : [[name, settings[name]] as const]));
  return [{ from: guard.id, to: entry, port: "continue", ...Object.fromEntries(moved) }];
}

function counted({ entry }: LoopToGuard, back: readonly EdgeItem[], guard: NewNode): NewEdge[] {
  const twins = new Map<string, NewEdge>();
  for (const { from, port, value } of back) {
    const name = JSON.stringify([from, port]);
    const twin: NewEdge = { from, to: guard.id, ...(port && { port }), ...(value.condition !== undefined && { condition: value.condition }) };
    // A graph has one edge for each source, target and port: one for two conditions has none.
    const same = twins.get(name);
    if (same && JSON.stringify(same.condition) !== JSON.stringify(twin.condition)) delete same.condition;
    else twins.set(name, twin);
  }
  return [...twins.values(), { from: guard.id, to: entry }];
}

/** The key of the node from which the last of the back edges comes. */
const lastSource = ({ nodes }: GraphItem, back: readonly EdgeItem[]): string | undefined =>
  nodes.findLast(({ id }) => back.some(({ from }) => from === id))?.key;
