// Parts that several edits share.
import { Draft } from "./draft";
import type { GraphItem, NewNode, Path, Target, WorkflowDocument } from "./model";
import { readDocument } from "./read";

export const draftOf = ({ text, parsed }: WorkflowDocument): Draft => new Draft(text, parsed);

/** The path of the graph of the file, also before there is one. */
export function pathOfGraph(document: WorkflowDocument, graph: string): Path {
  const found = document.graphs.get(graph);
  if (found) return found.path;
  if (graph !== "") throw new Error(`there is no graph ${graph}`);
  return ["graph"];
}

export function freeOf(taken: ReadonlySet<string>, wanted: string): string {
  if (!taken.has(wanted)) return wanted;
  const [, name = wanted, number] = /^(.*?)(?: (\d{1,9}))?$/s.exec(wanted) ?? [];
  for (let next = number === undefined ? 2 : Number(number) + 1; ; next += 1) {
    if (!taken.has(`${name} ${next}`)) return `${name} ${next}`;
  }
}

/** Adds a node and returns its path. */
export function insertNode(draft: Draft, document: WorkflowDocument, graph: string, node: NewNode, after?: string): Path {
  const around = document.graphs.get(graph);
  if (around?.kind === "node") return insertBeside(draft, around, node);
  const path: Path = [...pathOfGraph(document, graph), "nodes"];
  const nodes = around?.nodes ?? [];
  const behind = nodes.findIndex(({ key }) => key === after);
  const index = behind < 0 ? nodes.length : behind + 1;
  draft.insert(path, index, [node]);
  const isFirst = nodes.length === 0 && (around?.start.length ?? 0) === 0 && around?.value.is_majority_voting !== true;
  if (isFirst) draft.set([...path.slice(0, -1), "start"], node.id);
  return [...path, index];
}

/** A participant gets another one beside it; a body that is one node becomes a graph. */
function insertBeside(draft: Draft, { path, nodes: [only] }: GraphItem, node: NewNode): Path {
  const index = path.at(-1);
  if (typeof index === "number" && path.at(-2) === "participants") {
    draft.insert(path.slice(0, -1), index + 1, [node]);
    return [...path.slice(0, -1), index + 1];
  }
  if (path.at(-1) === "participants") {
    draft.insert(path, 1, [node]);
    return [...path, 1];
  }
  if (path.at(-1) === "judge") throw new Error("a judge is one node");
  draft.set(path, { nodes: [only?.value, node], edges: [], start: only?.id });
  return [...path, "nodes", 1];
}

/** The nodes at these paths of the changed text, to select them. */
export function nodesAt(draft: Draft, paths: readonly Path[]): Target[] {
  const wanted = new Set(paths.map((path) => JSON.stringify(path)));
  const found = [...readDocument(draft.text).nodes.values()].filter(({ path }) => wanted.has(JSON.stringify(path)));
  return found.map(({ key }) => ({ kind: "node", key }));
}

/** The node around a graph; undefined for the graph of the file. */
export const ownerOf = (document: WorkflowDocument, { key }: GraphItem) =>
  [...document.nodes.values()].find(({ graphs }) => graphs.includes(key));
