import { columnOf } from "./lines";
import { applied, type Edit, type EdgeItem, type NodeItem, type Span, type Target, type WorkflowDocument } from "./model";
import { draftOf, freeOf, insertNode, nodesAt } from "./parts";
import { walk } from "./path";
import { readDocument } from "./read";
import { rename } from "./rename";
import type { RawItem } from "./splice";
import { itemText, type Style } from "./write";

const STYLE: Style = { eol: "\n", step: 2, dashes: true, json: false, blocks: true };

/** The text of items, for the clipboard: a small workflow of its own. */
export function copied(document: WorkflowDocument, targets: readonly Target[]): string {
  const keys = new Set(targets.flatMap((target) => (target.kind === "node" ? [target.key] : [])));
  const nodes = [...document.nodes.values()].filter(({ key }) => keys.has(key));
  const graph = document.graphs.get(nodes[0]?.graph ?? "");
  // Nodes of one graph at a time: an edge cannot lead from one to another.
  const taken = nodes.filter((node) => node.graph === graph?.key);
  const ids = new Set(taken.map(({ id }) => id));
  const edges = graph?.edges.filter(({ from, to }) => ids.has(from) && ids.has(to)) ?? [];
  const list = (name: string, items: readonly (NodeItem | EdgeItem)[]) =>
    items.length === 0 ? "" : `${name}:\n${items.flatMap((item) => raw(document, item).lines.map((line) => (line ? `  ${line}` : ""))).join("\n")}\n`;
  return list("nodes", taken) + list("edges", edges);
}

/** Adds the nodes and edges of a copied text to a graph, with new ids where theirs are taken. */
export function paste(document: WorkflowDocument, graph: string, text: string): Edit {
  const around = document.graphs.get(graph);
  const snippet = renamed(readDocument(text), new Set(around?.nodes.flatMap(({ id, value }) => [id, String(value.id)])));
  const from = snippet.graphs.get("");
  if (!from || from.nodes.length === 0 || snippet.errors.length > 0) return { changes: [] };
  const draft = draftOf(document);
  if (around?.kind === "node") {
    const paths = from.nodes.map(({ id, type, value }) => insertNode(draft, document, graph, { ...value, id, type }));
    return { changes: draft.changes(), select: nodesAt(draft, paths) };
  }
  const path = around?.path ?? ["graph"];
  const count = around?.nodes.length ?? 0;
  draft.insertRaw([...path, "nodes"], count, from.nodes.map((item) => raw(snippet, item)));
  const ids = new Set(from.nodes.map(({ id }) => id));
  const edges = from.edges.filter((edge) => ids.has(edge.from) && ids.has(edge.to));
  draft.insertRaw([...path, "edges"], around?.edges.length ?? 0, edges.map((item) => raw(snippet, item)));
  if (count === 0 && !around?.start.length && around?.value.is_majority_voting !== true) draft.set([...path, "start"], from.nodes[0]?.id);
  return { changes: draft.changes(), select: nodesAt(draft, from.nodes.map((_, index) => [...path, "nodes", count + index])) };
}

/** The same text, with ids that are not taken. */
function renamed(snippet: WorkflowDocument, taken: ReadonlySet<string>): WorkflowDocument {
  let current = snippet;
  const ids = new Set([...taken, ...(snippet.graphs.get("")?.nodes.map(({ id }) => id) ?? [])]);
  for (const { key, id } of snippet.graphs.get("")?.nodes ?? []) {
    if (!taken.has(id)) continue;
    const free = freeOf(ids, id);
    ids.add(free);
    current = readDocument(applied(current.text, rename(current, key, free).changes));
  }
  return current;
}

/** An item as it is written. Where anchors or aliases make its lines depend on others, as it would be written anew. */
function raw({ text, parsed }: WorkflowDocument, { path, span, value }: NodeItem | EdgeItem): RawItem {
  const step = walk(parsed.root, path);
  const depends = step === null || step.borrowed || hasAnchors(text, span) || parsed.aliases.some(({ from }) => span.from <= from && from < span.to);
  if (depends) return { lines: itemText(value, 0, STYLE).split("\n"), value };
  const column = columnOf(text, span.from);
  const isItem = step.item !== null && text[span.from] === "-" && step.tree.from > span.from;
  const [first = "", ...rest] = text.slice(span.from, span.to).split(/\r\n|\r|\n/);
  const isFlow = step.tree.kind !== "scalar" && step.tree.flow;
  // The dash goes to column 0, and the other lines move as far as it does.
  const shift = isItem ? -column : 2 - column;
  return { lines: [isItem ? first : `- ${first}`, ...rest.map((line) => moveLine(line, shift, isFlow ? 2 : 0))], value };
}

/** Moves a line; in a flow list or mapping to a column that is deep enough, and without tabs. */
function moveLine(line: string, columns: number, least: number): string {
  const content = line.trimStart();
  if (content === "") return "";
  const indent = /^ */.exec(line)?.[0].length ?? 0;
  const kept = least > 0 ? content : line.slice(indent);
  return " ".repeat(Math.max(least, indent + columns)) + kept;
}

/** Roughly: an item that only seems to have an anchor is written anew, too. */
const hasAnchors = (text: string, { from, to }: Span): boolean => /(?:^|[\s,[{])&[^\s,[\]{}]/.test(text.slice(from, to));
