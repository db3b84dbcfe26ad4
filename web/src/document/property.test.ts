// @vitest-environment node
// Every kind of edit of every item of many files. The tests of single edits say how their results look.
import { describe, expect, it } from "vitest";
import { withValue, without } from "./data";
import { addAfter, addEdge, addNode, copied, freeId, paste, reconnect, remove, rename, setPosition, setValue } from "./edits";
import type { EdgeItem, NodeItem, Path, Span, WorkflowDocument } from "./model";
import { walk } from "./path";
import { readDocument } from "./read";
import { checkEdit } from "./testing/expect";
import { corpus, examples, samples } from "./testing/files";
import { pick, seeded } from "./testing/random";
import { isData } from "./write";

const VALUES: readonly unknown[] = [
  "text", "two words", "yes", "No", "null", "~", "0777", "1e3", "0x1F", "12:30", "2026-11-15", "a: b", "a #b", "#a", " a", "a ", "", "- a", "-", "?", "{", "[a", "a, b",
  "'quoted'", '"double"', "back\\slash", "tab\tin", "\tlead", "line\nline", "line\nline\n", "line\n\n", "\nline", "  lead\nline\n", "a\n  b\n# c\n", "\r\n", "\u0000\u2028\ufeff", "é 中文 😀",
  "*alias", "&anchor", "!tag", "%a", "@a", "`a`", "|", ">", "---", "--- a", "<<", "a:", ":a", "x: y # z", "a]", "true", "long ".repeat(60).trim(),
  0, -1, 1.5, 1e21, true, false, null, [], {}, ["a", 1], ["x\ny"], { a: 1, b: { c: ["d", "e: f"] } }, [{ a: "b\nc\n" }, [1, [2]]],
];

/** A busy machine takes a while. */
const LONG = 120_000;

/** The paths of all values inside one, with its own. */
function* pathsOf(value: unknown, path: Path): Generator<Path> {
  yield path;
  if (Array.isArray(value)) for (const [index, item] of value.entries()) yield* pathsOf(item, [...path, index]);
  else if (isData(value)) for (const [key, inner] of Object.entries(value)) yield* pathsOf(inner, [...path, key]);
}

/** An edit at an anchor changes what its aliases say, as YAML means it. */
const isShared = ({ parsed }: WorkflowDocument, { from, to }: Span): boolean => parsed.aliases.some(({ anchor }) => from <= anchor && anchor < to);

function checkValues(document: WorkflowDocument, { path, value, span }: NodeItem | EdgeItem, random: () => number, share: number): void {
  const { text } = document;
  if (isShared(document, span)) return;
  for (const at of pathsOf(value, path)) {
    if (random() > share) continue;
    const inside = at.slice(path.length);
    for (const next of [pick(random, VALUES), pick(random, VALUES)].slice(0, inside.length)) {
      const what = `set ${JSON.stringify(at)} to ${JSON.stringify(next)}`;
      checkEdit(text, setValue(document, at, next), [span], withValue(document.value, at, next), what);
    }
    if (inside.length > 0) checkEdit(text, setValue(document, at, undefined), [span], without(document.value, at), `unset ${JSON.stringify(at)}`);
    if (isData(walkData(document.value, at))) {
      const next = pick(random, VALUES);
      checkEdit(text, setValue(document, [...at, "new key"], next), [span], withValue(document.value, [...at, "new key"], next), `add to ${JSON.stringify(at)} ${JSON.stringify(next)}`);
      checkEdit(text, setValue(document, [...at, "one", "two", "three"], next), [span], withValue(document.value, [...at, "one", "two", "three"], next), `add deep to ${JSON.stringify(at)} ${JSON.stringify(next)}`);
    }
  }
}

const walkData = (data: unknown, path: Path): unknown => path.reduce<unknown>((found, key) => (found as Record<string, unknown> | undefined)?.[key], data);

const names = (value: unknown): unknown[] => (value === undefined || value === null ? [] : [value].flat());

/** The places that name a node, outside of it. */
function namesOf(document: WorkflowDocument, node: NodeItem): Span[] {
  const graph = document.graphs.get(node.graph);
  const edges = graph?.edges.filter(({ from, to }) => from === node.id || to === node.id).map(({ span }) => span) ?? [];
  const text = ({ span }: NodeItem) => document.text[span.from];
  const places: Path[] = [...["start", "end", "loops", ...(edges.length === graph?.edges.length ? ["edges"] : []), ...(graph?.nodes.length === 1 ? ["nodes"] : [])].map((key) => [...(graph?.path ?? []), key]), ["debug"]];
  const spans = places.flatMap((path) => {
    const step = walk(document.parsed.root, path);
    return step ? [{ from: step.entry?.from ?? step.tree.from, to: step.tree.to }] : [];
  });
  const commaOf = graph?.nodes.findLast((other) => other !== node && text(other) === "{");
  // An anchor that goes is written at its first alias.
  const moved = document.parsed.aliases.filter(({ anchor }) => edges.some(({ from, to }) => from <= anchor && anchor < to));
  return [...edges, ...commas(document, node.graph, edges), ...(commaOf ? [commaOf.span] : []), ...moved, ...spans];
}

/** In a list in brackets, the comma before the last items goes with them. */
function commas(document: WorkflowDocument, graph: string, gone: readonly Span[]): Span[] {
  const edges = document.graphs.get(graph)?.edges ?? [];
  const kept = edges.findLast(({ span }) => !gone.includes(span));
  return kept && document.text[kept.span.from] === "{" ? [kept.span] : [];
}

function checkNode(document: WorkflowDocument, node: NodeItem): void {
  const { text, value } = document;
  const graph = document.graphs.get(node.graph);
  if (!graph || Object.keys(node.value).length === 0 || isShared(document, node.span)) return;
  checkEdit(text, setPosition(document, [{ key: node.key, at: { x: 1.4, y: -2 } }]).changes, [node.span], withValue(value, [...node.path, "position"], [1, -2]), `move ${node.key}`);
  if (graph.kind !== "graph") return;
  const isLone = !Array.isArray(graph.value.nodes);
  const nodes = [graph.value.nodes].flat();
  const place = graph.nodes.indexOf(node);
  const nodesPath: Path = [...graph.path, "nodes"];
  const made = { id: freeId(document, graph.key, node.id), type: "agent", config: { role: "one\ntwo\n" } };
  const added = [...nodes.slice(0, place + 1), made, ...nodes.slice(place + 1)];
  const edit = addNode(document, graph.key, made, node.key);
  const around = isLone ? graph.span : node.span;
  const newText = checkEdit(text, edit.changes, [around], withValue(value, nodesPath, added), `add behind ${node.key}`);
  expect(edit.select).toHaveLength(1);
  const [selected] = edit.select ?? [];
  expect(selected?.kind === "node" && readDocument(newText).nodes.get(selected.key)?.id).toBe(made.id);

  const after = addAfter(document, node.key, made);
  expect(readDocument(checkEdit(text, after.changes, [graph.span], afterValue(document, node, made), `add after ${node.key}`)).nodes.size).toBe(document.nodes.size + 1);

  const others = graph.nodes.filter(({ id }) => id === node.id).length > 1;
  if (others) return;
  checkEdit(text, rename(document, node.key, "New: name").changes, [node.span, ...namesOf(document, node)], renamedValue(document, node), `rename ${node.key}`);
  checkEdit(text, remove(document, [{ kind: "node", key: node.key }]).changes, [isLone ? graph.span : node.span, ...namesOf(document, node)], removedValue(document, node), `remove ${node.key}`);

  if (node.value.id !== node.id) return;
  const snippet = copied(document, [{ kind: "node", key: node.key }]);
  const self = graph.edges.filter(({ from, to }) => from === node.id && to === node.id);
  expect(readDocument(snippet).errors).toEqual([]);
  const id = freeId(document, graph.key, node.id);
  let pasted = withValue(value, nodesPath, [...nodes, { ...node.value, id }]);
  if (self.length > 0) pasted = withValue(pasted, [...graph.path, "edges"], [...names(graph.value.edges), ...self.map((edge) => ({ ...edge.value, from: id, to: id }))]);
  checkEdit(text, paste(document, graph.key, snippet).changes, [isLone || self.length > 0 ? graph.span : (graph.nodes.at(-1)?.span ?? graph.span)], pasted, `paste ${node.key}`);
}

function afterValue({ value }: WorkflowDocument & { value: unknown }, node: NodeItem, made: { id: string; type: string }): unknown {
  const document = readDocument(JSON.stringify(value));
  const graph = document.graphs.get(node.graph);
  if (!graph) return value;
  const out = graph.edges.filter(({ from }) => from === node.id);
  const [only] = out;
  const moves = out.length === 1 && only && Object.keys(only.value).length === 2;
  const edges = [...names(graph.value.edges)];
  const link = { from: node.id, to: made.id };
  if (moves) edges.splice(only.index, 1, link, only.to === node.id ? only.value : { ...only.value, from: made.id });
  else edges.push(link);
  const nodes = [...names(graph.value.nodes)];
  nodes.splice(graph.nodes.findIndex(({ key }) => key === node.key) + 1, 0, made);
  let result = withValue(withValue(value, [...graph.path, "edges"], edges), [...graph.path, "nodes"], nodes);
  if (out.length === 0 && graph.end.length === 1 && graph.end[0] === node.id) {
    result = withValue(result, [...graph.path, "end", ...(Array.isArray(graph.value.end) ? [0] : [])], made.id);
  }
  return result;
}

function renamedValue(document: WorkflowDocument, node: NodeItem): unknown {
  const graph = document.graphs.get(node.graph);
  let { value } = document;
  value = withValue(value, [...node.path, "id"], "New: name");
  for (const edge of graph?.edges ?? []) {
    for (const end of ["from", "to"] as const) if (edge[end] === node.id) value = withValue(value, [...edge.path, end], "New: name");
  }
  for (const name of ["start", "end"]) {
    const path = [...(graph?.path ?? []), name];
    const old = graph?.value[name];
    if (Array.isArray(old)) old.forEach((one, index) => (value = String(one) === node.id ? withValue(value, [...path, index], "New: name") : value));
    else if (old !== undefined && String(old) === node.id) value = withValue(value, path, "New: name");
  }
  const loops = graph?.value.loops;
  if (isData(loops) && loops[node.id] !== undefined) {
    value = withValue(value, [...(graph?.path ?? []), "loops"], Object.fromEntries(Object.entries(loops).map(([key, loop]) => [key === node.id ? "New: name" : key, loop])));
  }
  const isOnly = [...document.nodes.values()].filter(({ id }) => id === node.id).length === 1;
  const points = walkData(value, ["debug", "break_at"]);
  if (!isOnly || !Array.isArray(points)) return value;
  const changed = points.map((point: unknown) => (typeof point === "string" ? renamePoint(point, node.id) : isData(point) && typeof point.at === "string" ? { at: renamePoint(point.at, node.id) } : point));
  return withValue(value, ["debug", "break_at"], changed);
}

/** The samples have only ids without special characters in breakpoints. */
const renamePoint = (point: string, id: string): string =>
  point.startsWith("cel:") ? point : point.split("/").map((part) => (part.replace(/\[\d+\]$/, "") === id ? part.replace(id, "New: name") : part)).join("/");

function removedValue(document: WorkflowDocument, node: NodeItem): unknown {
  const graph = document.graphs.get(node.graph);
  const path = graph?.path ?? [];
  let { value } = document;
  const drop = (at: Path, kept: unknown[], keep: boolean) => {
    if (walkData(value, at) === undefined || walkData(value, at) === null) return;
    value = kept.length > 0 || keep ? withValue(value, at, kept) : without(value, at);
  };
  const edges = graph?.edges.filter(({ from, to }) => from !== node.id && to !== node.id).map((edge) => edge.value) ?? [];
  if (edges.length < (graph?.edges.length ?? 0)) drop([...path, "edges"], edges, false);
  drop([...path, "nodes"], names(graph?.value.nodes).filter((one) => one !== node.value), true);
  for (const name of ["start", "end"]) {
    const kept = names(graph?.value[name]).filter((one) => String(one) !== node.id);
    if (kept.length < names(graph?.value[name]).length) drop([...path, name], kept, false);
  }
  if (walkData(value, [...path, "loops", node.id]) !== undefined) value = without(value, [...path, "loops", node.id]);
  const points = walkData(value, ["debug", "break_at"]);
  const inside = [...document.nodes.values()].filter(({ key }) => key === node.key || key.startsWith(`${node.key}/`)).map(({ id }) => id);
  const outside = [...document.nodes.values()].filter(({ key }) => key !== node.key && !key.startsWith(`${node.key}/`)).map(({ id }) => id);
  const gone = inside.filter((id) => !outside.includes(id));
  if (!Array.isArray(points)) return value;
  const textOf = (point: unknown) => (isData(point) ? String(point.at) : String(point));
  const kept = points.filter((point: unknown) => textOf(point).startsWith("cel:") || !textOf(point).split("/").some((part) => gone.includes(part.replace(/\[\d+\]$/, ""))));
  if (kept.length < points.length) drop(["debug", "break_at"], kept, false);
  return value;
}

function checkEdge(document: WorkflowDocument, edge: EdgeItem): void {
  const { text, value } = document;
  const graph = document.graphs.get(edge.graph);
  if (!graph || Object.keys(edge.value).length === 0 || isShared(document, edge.span)) return;
  const ends = { from: "Other: one", to: edge.to, port: "error" };
  const changed = withValue(withValue(value, [...edge.path, "from"], "Other: one"), [...edge.path, "port"], "error");
  checkEdit(text, reconnect(document, edge.graph, edge.index, ends).changes, [edge.span], changed, `reconnect ${edge.from} ${edge.to}`);
  const edges = names(graph.value.edges);
  const kept = edges.filter((_, index) => index !== edge.index);
  const path: Path = [...graph.path, "edges"];
  const whole = kept.length === 0 ? graph.span : edge.span;
  const removal = remove(document, [{ kind: "edge", graph: edge.graph, index: edge.index }]);
  checkEdit(text, removal.changes, [whole, ...commas(document, edge.graph, [edge.span])], kept.length > 0 ? withValue(value, path, kept) : without(value, path), `remove ${edge.from} ${edge.to}`);
  const made = { from: "A", to: "B: b", condition: { type: "keyword", config: { any: ["x, y"] } } };
  const isLone = !Array.isArray(graph.value.edges);
  checkEdit(text, addEdge(document, edge.graph, made).changes, [isLone ? graph.span : (graph.edges.at(-1)?.span ?? graph.span)], withValue(value, path, [...edges, made]), `add to ${edge.graph}`);
}

describe.each([...examples(), ...samples(), ...corpus()])("edits of $name", ({ name, text, share = 1 }) => {
  const document = readDocument(text);
  const random = seeded([...name].reduce((sum, character) => sum * 31 + character.charCodeAt(0), 7));

  it("reads it", () => {
    expect(document.errors).toEqual([]);
    expect(document.graphs.size).toBeGreaterThan(0);
  });
  it("sets values of nodes and edges", { timeout: LONG }, () => {
    for (const node of document.nodes.values()) checkValues(document, node, random, share);
    for (const graph of document.graphs.values()) for (const edge of graph.edges) checkValues(document, edge, random, share);
  });
  it("adds, renames, removes and copies nodes", { timeout: LONG }, () => {
    for (const node of document.nodes.values()) checkNode(document, node);
  });
  it("reconnects, adds and removes edges", { timeout: LONG }, () => {
    for (const graph of document.graphs.values()) for (const edge of graph.edges) checkEdge(document, edge);
  });
});
