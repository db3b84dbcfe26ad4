// Reads a text: its graphs, nodes and edges, with their places and the keys that they have in the server's drawing.
import { lineEnd, lineNumber } from "./lines";
import type { EdgeItem, GraphItem, NodeItem, Path, Span, Target, WorkflowDocument } from "./model";
import { walk } from "./path";
import { fieldOf, parseText, plain, type Tree } from "./tree";

/** Reads a text as far as it can be read; never throws. */
export function readDocument(text: string): WorkflowDocument {
  const parsed = parseText(text);
  const reader = new Reader(text, variablesOf(parsed.root));
  if (parsed.root?.kind === "map") reader.file(parsed.root);
  const value = parsed.root === null ? (parsed.errors.length > 0 ? undefined : null) : plain(parsed.root);
  return { text, errors: parsed.errors, graphs: reader.graphs, nodes: reader.nodes, value, parsed };
}

/** The lines of an item, from 1, both included; null if it is not in the text. */
export function linesOf(document: WorkflowDocument, target: Target): { first: number; last: number } | null {
  const span = spanOfTarget(document, target);
  if (span === null) return null;
  return { first: lineNumber(document.text, span.from), last: lineNumber(document.text, span.to) };
}

export function spanOfTarget(document: WorkflowDocument, target: Target): Span | null {
  if (target.kind === "workflow") return { from: 0, to: document.text.length };
  if (target.kind === "node") return document.nodes.get(target.key)?.span ?? null;
  const graph = document.graphs.get(target.graph);
  if (target.kind === "graph") return graph?.span ?? null;
  return graph?.edges.find(({ index }) => index === target.index)?.span ?? null;
}

/** The item at a place of the text: the innermost node or edge, else the graph, else the workflow. */
export function targetAt(document: WorkflowDocument, offset: number): Target {
  const holds = ({ from, to }: Span) => from <= offset && offset <= to;
  const size = ({ from, to }: Span) => to - from;
  let found: { target: Target; span: Span } | null = null;
  const offer = (target: Target, span: Span) => {
    // Of two equal ones the later is the inner one: a body that is one node has the span of that node.
    if (holds(span) && (found === null || size(span) <= size(found.span))) found = { target, span };
  };
  for (const graph of document.graphs.values()) {
    offer({ kind: "graph", graph: graph.key }, graph.span);
    for (const { key, span } of graph.nodes) offer({ kind: "node", key }, span);
    for (const { index, span } of graph.edges) offer({ kind: "edge", graph: graph.key, index }, span);
  }
  return (found as { target: Target } | null)?.target ?? { kind: "workflow" };
}

/** Where a value is written (without its key); null if it is not. */
export function spanOf(document: WorkflowDocument, path: Path): Span | null {
  const found = walk(document.parsed.root, path);
  return found === null || found.borrowed ? null : { from: found.tree.from, to: found.tree.to };
}

// Ids and keys. They follow src/roundel/drawing/assembly.py and plan/graph.py.

/** The id in the form that addresses and keys use. */
export const labelOf = (id: string): string =>
  id.replace(/[/[\]#%]/g, (found) => `%${found.charCodeAt(0).toString(16).toUpperCase().padStart(2, "0")}`);

const UNSAFE =
  /[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\u2028\u2029\ufff9-\ufffb\ufffe\uffff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;
const safe = (text: string): string => text.replace(/\r\n/g, "\n").replace(UNSAFE, "\ufffd");

/** The id of a node that has none. */
const UNNAMED = "?";

function variablesOf(root: Tree | null): ReadonlyMap<string, string> {
  const vars = fieldOf(root, "vars");
  const found = new Map<string, string>();
  if (vars?.kind !== "map") return found;
  for (const { name, value } of vars.entries) {
    const text = textOf(value) ?? textOf(fieldOf(value, "value"));
    if (text !== null) found.set(name, text);
  }
  return found;
}

/** The text of a scalar. A number counts as text, as in a draft of the server. */
function textOf(tree: Tree | undefined): string | null {
  if (tree?.kind !== "scalar" || tree.value === null || typeof tree.value === "boolean") return null;
  return String(tree.value);
}

const itemsOf = (tree: Tree | undefined, path: Path): { tree: Tree; path: Path; from: number }[] => {
  if (tree?.kind === "list") return tree.items.map(({ value, from }, index) => ({ tree: value, path: [...path, index], from }));
  const isLone = tree?.kind === "map" && (fieldOf(tree, "id") !== undefined || fieldOf(tree, "from") !== undefined);
  return isLone ? [{ tree, path, from: tree.from }] : [];
};

class Reader {
  readonly graphs = new Map<string, GraphItem>();
  readonly nodes = new Map<string, NodeItem>();
  private readonly keys = new Map<string, number>();

  constructor(
    private readonly text: string,
    private readonly variables: ReadonlyMap<string, string>,
  ) {}

  file(root: Tree): void {
    const graph = fieldOf(root, "graph");
    if (graph?.kind === "map") this.graph(graph, ["graph"], "", "");
    else if (graph === undefined && fieldOf(root, "nodes") !== undefined) this.graph(root, [], "", "");
  }

  /** `prefix` begins the keys of its nodes. */
  private graph(tree: Tree, path: Path, key: string, prefix: string): void {
    const items = itemsOf(fieldOf(tree, "nodes"), [...path, "nodes"]);
    const made = items.map((item) => this.node(item.tree, item.path, item.from, key, prefix));
    const graph: GraphItem = {
      key,
      path,
      kind: "graph",
      span: this.span(tree, tree.from),
      nodes: made.map(({ node }) => node),
      edges: this.edges(tree, path, key),
      start: this.names(fieldOf(tree, "start")),
      end: this.names(fieldOf(tree, "end")),
      value: record(tree),
    };
    this.graphs.set(key, graph);
    for (const { node, tree: inner } of made) this.inside(node, inner);
  }

  /** A body or a participant that is one node. */
  private lone(tree: Tree, path: Path, key: string, prefix: string, from: number): void {
    const { node } = this.node(tree, path, from, key, prefix);
    const ends = [node.id];
    this.graphs.set(key, { key, path, kind: "node", span: node.span, nodes: [node], edges: [], start: ends, end: ends, value: node.value });
    this.inside(node, tree);
  }

  private node(tree: Tree, path: Path, from: number, graph: string, prefix: string): { node: NodeItem & { graphs: string[] }; tree: Tree } {
    const id = this.name(fieldOf(tree, "id")) || UNNAMED;
    const key = this.key(prefix + labelOf(id));
    const type = textOf(fieldOf(tree, "type")) ?? "";
    const node = { key, id, type, path, span: this.span(tree, from), graph, graphs: [], value: record(tree) };
    this.nodes.set(key, node);
    return { node, tree };
  }

  private key(wanted: string): string {
    const text = safe(wanted);
    const number = (this.keys.get(text) ?? 0) + 1;
    this.keys.set(text, number);
    return number === 1 ? text : `${text}#${number}`;
  }

  /** The graphs inside a node, in the order of the server's `bodies`. */
  private inside(node: NodeItem & { graphs: string[] }, tree: Tree): void {
    const config = fieldOf(tree, "config");
    const path: Path = [...node.path, "config"];
    const add = (body: Tree | undefined, at: Path, from: number, isGraph: boolean) => {
      if (body?.kind !== "map") return;
      const key = this.graphKey(node);
      node.graphs.push(key);
      if (isGraph) this.graph(body, at, key, `${node.key}/`);
      else this.lone(body, at, key, `${node.key}/`, from);
    };
    if (node.type === "subgraph" && textOf(fieldOf(config, "type")) === "config") {
      const graph = fieldOf(config, "config");
      add(graph, [...path, "config"], graph?.from ?? 0, true);
    } else if (node.type === "loop_agent") {
      const body = fieldOf(config, "body");
      const [only] = body?.kind === "list" ? body.items : [];
      const held = only?.value ?? body;
      const at: Path = [...path, "body", ...(only ? [0] : [])];
      if (held) add(held, at, only?.from ?? held.from, fieldOf(held, "nodes") !== undefined);
    } else if (node.type === "debate" || node.type === "vote") {
      for (const item of itemsOf(fieldOf(config, "participants"), [...path, "participants"])) {
        add(item.tree, item.path, item.from, false);
      }
      const judge = fieldOf(fieldOf(config, "consensus"), "judge");
      if (node.type === "debate" && judge) add(judge, [...path, "consensus", "judge"], judge.from, false);
    }
  }

  private graphKey({ key, graphs }: NodeItem): string {
    let number = graphs.length + 1;
    let wanted = number === 1 ? key : `${key}#${number}`;
    // Of a node whose id is taken, the key itself ends with a number.
    while (this.graphs.has(wanted)) wanted = `${key}#${(number += 1)}`;
    return wanted;
  }

  private edges(tree: Tree, path: Path, graph: string): EdgeItem[] {
    return itemsOf(fieldOf(tree, "edges"), [...path, "edges"]).map((item, index) => ({
      path: item.path,
      span: this.span(item.tree, item.from),
      graph,
      index,
      from: this.name(fieldOf(item.tree, "from")),
      to: this.name(fieldOf(item.tree, "to")),
      port: this.name(fieldOf(item.tree, "port")),
      value: record(item.tree),
    }));
  }

  private names(tree: Tree | undefined): string[] {
    const trees = tree?.kind === "list" ? tree.items.map(({ value }) => value) : tree ? [tree] : [];
    return trees.map((one) => this.name(one)).filter((name) => name !== "");
  }

  private name(tree: Tree | undefined): string {
    const text = textOf(tree) ?? "";
    if (!text.includes("${")) return text;
    return text.replace(/(?<!\$)\$\{(\w+)\}/g, (whole, name: string) => this.variables.get(name) ?? whole);
  }

  private span(tree: Tree, from: number): Span {
    // An alias has no lines of its own inside.
    const isBlock = tree.alias === undefined && tree.kind !== "scalar" && !tree.flow;
    return { from, to: isBlock ? lineEnd(this.text, tree.to) : tree.to };
  }
}

function record(tree: Tree): Readonly<Record<string, unknown>> {
  return tree.kind === "map" ? (plain(tree) as Record<string, unknown>) : {};
}
