import type { Draft } from "./draft";
import type { Edit, GraphItem, NodeItem, Path, Target, WorkflowDocument } from "./model";
import { draftOf, ownerOf } from "./parts";
import { breakpointsOf, namesNode, outputsOf } from "./rename";

/** Removes nodes and edges; with a node its edges, and its name in `start`, `end`, `loops`, the output of a loop and breakpoints. */
export function remove(document: WorkflowDocument, targets: readonly Target[]): Edit {
  const keys = new Set(targets.flatMap((target) => (target.kind === "node" ? [target.key] : [])));
  const draft = draftOf(document);
  removeBreakpoints(draft, document, keys);
  // Inner graphs first, so that the paths of outer items stay; items inside removed nodes go with them.
  for (const graph of [...document.graphs.values()].reverse()) {
    if (!isInside(document, graph, keys)) removeFrom(draft, graph, keys, edgesOf(targets, graph), ownerOf(document, graph));
  }
  return { changes: draft.changes(), select: [] };
}

const edgesOf = (targets: readonly Target[], { key }: GraphItem): Set<number> =>
  new Set(targets.flatMap((target) => (target.kind === "edge" && target.graph === key ? [target.index] : [])));

function isInside(document: WorkflowDocument, graph: GraphItem, keys: ReadonlySet<string>): boolean {
  const owner = ownerOf(document, graph);
  if (!owner) return false;
  if (keys.has(owner.key)) return true;
  const around = document.graphs.get(owner.graph);
  return around !== undefined && isInside(document, around, keys);
}

function removeFrom(
  draft: Draft,
  graph: GraphItem,
  keys: ReadonlySet<string>,
  edges: Set<number>,
  owner: NodeItem | undefined,
): void {
  const gone = graph.nodes.filter(({ key }) => keys.has(key));
  if (graph.kind === "node") {
    if (gone.length > 0) removeLone(draft, graph, owner);
    return;
  }
  const kept = new Set(graph.nodes.filter(({ key }) => !keys.has(key)).map(({ id }) => id));
  const ids = new Set(gone.map(({ id }) => id).filter((id) => !kept.has(id)));
  for (const path of outputsOf({ ...graph, nodes: graph.nodes.filter(({ key }) => !keys.has(key)) }, ids)) draft.remove(path);
  for (const { index, from, to } of graph.edges) if (ids.has(from) || ids.has(to)) edges.add(index);
  removeParts(draft, [...graph.path, "edges"], [...edges], false);
  removeParts(draft, [...graph.path, "nodes"], gone.map(({ path }) => path.at(-1)).filter((at) => typeof at === "number"), true, gone.length > 0);
  for (const name of ["start", "end"] as const) removeNames(draft, graph, name, ids);
  for (const id of ids) draft.remove([...graph.path, "loops", id]);
}

/** A body, or a participant with the pairs that it is in. */
function removeLone(draft: Draft, { path, nodes: [only] }: GraphItem, owner: NodeItem | undefined): void {
  draft.remove(path);
  if (!owner || !only) return;
  const pairs: Path = [...owner.path, "config", "agent_pairs"];
  const value = draft.valueAt(pairs);
  if (!Array.isArray(value)) return;
  draft.removeItems(pairs, value.flatMap((pair: unknown, index) => (Array.isArray(pair) && pair.map(String).includes(only.id) ? [index] : [])));
}

function removeParts(draft: Draft, path: Path, indexes: readonly number[], keep: boolean, lone = indexes.length > 0): void {
  if (indexes.length > 0 && Array.isArray(draft.valueAt(path))) draft.removeItems(path, indexes, keep);
  else if (lone) draft.set(path, keep ? [] : undefined);
}

function removeNames(draft: Draft, { path, value }: GraphItem, name: "start" | "end", ids: ReadonlySet<string>): void {
  const names = value[name];
  if (!Array.isArray(names)) {
    if (ids.has(String(names))) draft.remove([...path, name]);
    return;
  }
  const indexes = names.flatMap((one, index) => (ids.has(String(one)) ? [index] : []));
  draft.removeItems([...path, name], indexes);
}

/** A breakpoint at a node that no longer exists is an error. */
function removeBreakpoints(draft: Draft, document: WorkflowDocument, keys: ReadonlySet<string>): void {
  const isGone = (key: string): boolean => keys.has(key) || [...keys].some((one) => key.startsWith(`${one}/`));
  const all = [...document.nodes.values()];
  const kept = new Set(all.filter(({ key }) => !isGone(key)).map(({ id }) => id));
  const ids = all.filter(({ key, id }) => isGone(key) && !kept.has(id)).map(({ id }) => id);
  const found = breakpointsOf(document).filter(({ text }) => ids.some((id) => namesNode(text, id)));
  for (const { path } of found.reverse()) {
    const inside = path.at(-1) === "at" ? path.slice(0, -1) : path;
    if (draft.valueAt(path) !== undefined) draft.remove(inside);
  }
}
