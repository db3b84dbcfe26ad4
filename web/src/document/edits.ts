// Edits of a workflow as changes of its text. Each touches only the lines of what it edits; comments, order,
// quoting, flow style and line endings of everything else stay as they are.
import type { Draft } from "./draft";
import type { Change, Edit, GraphItem, NewEdge, NewNode, Path, WorkflowDocument } from "./model";
import { draftOf, freeOf, insertNode, nodesAt, pathOfGraph } from "./parts";

export { addGuard } from "./guard";
export { copied, paste } from "./clipboard";
export { remove } from "./remove";
export { rename } from "./rename";

/** Writes a value at a path; keys and lists that are missing on the way are added. `undefined` removes it. */
export const setValue = (document: WorkflowDocument, path: Path, value: unknown): readonly Change[] =>
  setValues(document, [[path, value]]);

/** Several values at once, as one edit. */
export function setValues(document: WorkflowDocument, values: readonly (readonly [Path, unknown])[]): readonly Change[] {
  const draft = draftOf(document);
  for (const [path, value] of values) draft.set(path, value);
  return draft.changes();
}

/** Adds a node to a graph, behind another one or at the end. A text without a graph gets one; the first node of a
 * graph without `start` becomes its start. */
export function addNode(document: WorkflowDocument, graph: string, node: NewNode, after?: string): Edit {
  const draft = draftOf(document);
  const path = insertNode(draft, document, graph, node, after);
  return { changes: draft.changes(), select: nodesAt(draft, [path]) };
}

/** Adds a node, an edge to it from another node, and moves that node's only plain outgoing edge behind it if there is one. */
export function addAfter(document: WorkflowDocument, key: string, node: NewNode): Edit {
  const before = document.nodes.get(key);
  const graph = before && document.graphs.get(before.graph);
  if (!before || !graph) throw new Error(`there is no node ${key}`);
  const draft = draftOf(document);
  if (graph.kind === "graph") {
    const out = graph.edges.filter(({ from }) => from === before.id);
    const [only] = out;
    // An edge with a port, a condition or settings of its own belongs to the node that it leaves.
    const moves = out.length === 1 && only && Object.keys(only.value).every((name) => name === "from" || name === "to");
    if (moves && only.to !== before.id) draft.set([...only.path, "from"], node.id);
    draft.insert([...graph.path, "edges"], moves ? only.index : graph.edges.length, [{ from: before.id, to: node.id }]);
    const ends = graph.end;
    if (ends.length === 1 && ends[0] === before.id && out.length === 0) replaceName(draft, graph, "end", node.id);
  }
  const path = insertNode(draft, document, before.graph, node, key);
  return { changes: draft.changes(), select: nodesAt(draft, [path]) };
}

/** Puts another id in the place of the only one in `start` or `end`. */
function replaceName(draft: Draft, { path, value }: GraphItem, key: "start" | "end", id: string): void {
  draft.set([...path, key, ...(Array.isArray(value[key]) ? [0] : [])], id);
}

export function addEdge(document: WorkflowDocument, graph: string, edge: NewEdge): Edit {
  const draft = draftOf(document);
  const index = document.graphs.get(graph)?.edges.length ?? 0;
  draft.insert([...pathOfGraph(document, graph), "edges"], index, [edge]);
  return { changes: draft.changes(), select: [{ kind: "edge", graph, index }] };
}

/** Changes one or both ends, or the port, of an edge. An empty port removes it. */
export function reconnect(
  document: WorkflowDocument,
  graph: string,
  index: number,
  ends: { from?: string; to?: string; port?: string },
): Edit {
  const edge = document.graphs.get(graph)?.edges[index];
  if (!edge) throw new Error(`there is no edge ${index} in ${graph || "the graph"}`);
  const draft = draftOf(document);
  for (const name of ["from", "to", "port"] as const) {
    const end = ends[name];
    if (end !== undefined && end !== edge[name]) draft.set([...edge.path, name], end === "" ? undefined : end);
  }
  return { changes: draft.changes(), select: [{ kind: "edge", graph, index }] };
}

/** An id that is free in a graph: the wanted one, or one with a number. */
export function freeId(document: WorkflowDocument, graph: string, wanted: string): string {
  return freeOf(new Set(document.graphs.get(graph)?.nodes.map(({ id }) => id)), wanted);
}

/** Stores where the user has moved a node; null lets the layout decide again. */
export function setPosition(
  document: WorkflowDocument,
  places: readonly { key: string; at: { x: number; y: number } | null }[],
): Edit {
  const draft = draftOf(document);
  for (const { key, at } of places) {
    const node = document.nodes.get(key);
    if (node) draft.set([...node.path, "position"], at ? [Math.round(at.x), Math.round(at.y)] : undefined);
  }
  return { changes: draft.changes() };
}
