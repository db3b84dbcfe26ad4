import { nameOf, partsOf } from "../live/address_parts";
import type { Draft } from "./draft";
import type { Edit, GraphItem, NodeItem, Path, WorkflowDocument } from "./model";
import { draftOf, nodesAt, ownerOf } from "./parts";
import { labelOf } from "./read";

/** Gives a node another id, here and wherever its graph names it. */
export function rename(document: WorkflowDocument, key: string, id: string): Edit {
  const node = document.nodes.get(key);
  const graph = node && document.graphs.get(node.graph);
  if (!node || !graph) throw new Error(`there is no node ${key}`);
  if (node.id === id) return { changes: [] };
  const draft = draftOf(document);
  draft.set([...node.path, "id"], id);
  // Of several nodes with one id, the first is the one that the names mean.
  if (graph.nodes.find((other) => other.id === node.id) === node) renameIn(draft, document, graph, node, id);
  const select = nodesAt(draft, [node.path]);
  const [now] = select;
  return { changes: draft.changes(), select, ...(now?.kind === "node" && { renamed: { from: key, to: now.key } }) };
}

function renameIn(draft: Draft, document: WorkflowDocument, graph: GraphItem, node: NodeItem, id: string): void {
  if (graph.kind === "node") {
    const owner = ownerOf(document, graph);
    if (owner) replaceNames(draft, [...owner.path, "config", "agent_pairs"], pairsOf(owner), node.id, id);
  } else {
    for (const { path, from, to } of graph.edges) {
      if (from === node.id) draft.set([...path, "from"], id);
      if (to === node.id) draft.set([...path, "to"], id);
    }
    for (const name of ["start", "end"] as const) replaceNames(draft, [...graph.path, name], graph.value[name], node.id, id);
    draft.renameKey([...graph.path, "loops", node.id], id);
    for (const path of outputsOf(graph, new Set([node.id]))) draft.set(path, id);
  }
  // A breakpoint names a node wherever it is, so it stays if another graph has such a node.
  const isOnly = [...document.nodes.values()].every((other) => other === node || other.id !== node.id);
  if (isOnly) for (const { path, text } of breakpointsOf(document)) draft.set(path, renamedAddress(text, node.id, id));
}

const pairsOf = ({ value }: NodeItem): unknown => (value.config as Record<string, unknown> | undefined)?.agent_pairs;

/** Where the `loop` nodes of a graph name one of these nodes as their output. */
export function outputsOf(graph: GraphItem, ids: ReadonlySet<string>): Path[] {
  return graph.nodes.flatMap(({ type, path, value }) => {
    const output = (value.config as Record<string, unknown> | undefined)?.output;
    return type === "loop" && ids.has(String(output)) ? [[...path, "config", "output"]] : [];
  });
}

/** Replaces a name in a text, a list, or a list of lists. */
function replaceNames(draft: Draft, path: Path, names: unknown, old: string, id: string): void {
  if (Array.isArray(names)) names.forEach((name, index) => replaceNames(draft, [...path, index], name, old, id));
  else if ((typeof names === "string" || typeof names === "number") && String(names) === old) draft.set(path, id);
}

/** The breakpoints of the file and of its graphs. */
export function breakpointsOf(document: WorkflowDocument): { path: Path; text: string }[] {
  const places = new Map<string, Path>([["", []]]);
  for (const { path, kind } of document.graphs.values()) if (kind === "graph") places.set(path.join("\0"), path);
  return [...places.values()].flatMap((around) => {
    const path: Path = [...around, "debug", "break_at"];
    const value = valueAt(document.value, path);
    const items = Array.isArray(value) ? value.map((item: unknown, index) => ({ path: [...path, index], item })) : [{ path, item: value }];
    return items.flatMap(({ path: at, item }) => {
      if (typeof item === "string") return item.trimStart().startsWith("cel:") ? [] : [{ path: at, text: item }];
      const text = valueAt(item, ["at"]);
      return typeof text === "string" ? [{ path: [...at, "at"], text }] : [];
    });
  });
}

function valueAt(value: unknown, path: Path): unknown {
  return path.reduce<unknown>((found, key) => (typeof found === "object" && found !== null ? (found as Record<string, unknown>)[key] : undefined), value);
}

/** Whether an address such as `Writer[3]/Reviewer` has a node or loop of this id in it. */
export const namesNode = (address: string, id: string): boolean => address === id || partsOf(address).some((part) => nameOf(part) === labelOf(id));

/** An address with another id. A breakpoint that is nothing but an id may be written without escapes. */
function renamedAddress(address: string, old: string, id: string): string {
  if (address === old) return id;
  return partsOf(address)
    .map((part) => (nameOf(part) === labelOf(old) ? labelOf(id) + part.slice(labelOf(old).length) : part))
    .join("");
}
