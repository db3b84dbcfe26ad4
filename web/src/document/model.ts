// What a text says, and where: the graphs, nodes and edges of a workflow with their places in the text.
// All positions are offsets into the text, in UTF-16 units, as CodeMirror counts.

import type { ParsedText } from "./tree";

export interface Span {
  from: number;
  to: number;
}

/** Replaces a part of a text. Changes of one edit refer to the text before the edit, and do not overlap. */
export interface Change extends Span {
  insert: string;
}

/** Keys and places from the top of the text, such as `["graph", "nodes", 0, "config"]`. */
export type Path = readonly (string | number)[];

/** What a person selects and edits. Keys are those of the drawing: ids, preceded by the ids around them. */
export type Target =
  | { kind: "workflow" }
  | { kind: "graph"; graph: string }
  | { kind: "node"; key: string }
  | { kind: "edge"; graph: string; index: number };

export interface NodeItem {
  key: string;
  id: string;
  type: string;
  path: Path;
  /** The whole item: of a block sequence from its dash to the end of its last line, of a flow one its braces. */
  span: Span;
  /** The key of the graph that contains it. */
  graph: string;
  /** The keys of the graphs inside it, in order; not those that stand in files of their own. */
  graphs: readonly string[];
  /** What is written there, as plain data. */
  value: Readonly<Record<string, unknown>>;
}

export interface EdgeItem {
  path: Path;
  span: Span;
  graph: string;
  /** Its place in the list of edges. */
  index: number;
  from: string;
  to: string;
  port: string;
  value: Readonly<Record<string, unknown>>;
}

export interface GraphItem {
  /** Empty for the graph of the file; else that of the node around it, with `#2` and so on for further graphs of a node. */
  key: string;
  path: Path;
  span: Span;
  nodes: readonly NodeItem[];
  edges: readonly EdgeItem[];
  start: readonly string[];
  end: readonly string[];
  value: Readonly<Record<string, unknown>>;
  /** What is written there: a graph, or a node that stands alone, as a body or a participant. */
  kind: "graph" | "node";
}

/** Why a text cannot be read. */
export interface ReadError extends Span {
  message: string;
}

export interface WorkflowDocument {
  text: string;
  /** Without errors the text is YAML; what it says may still be wrong, and the server's check tells. */
  errors: readonly ReadError[];
  /** By key; the graph of the file has the empty key. */
  graphs: ReadonlyMap<string, GraphItem>;
  nodes: ReadonlyMap<string, NodeItem>;
  /** The whole text as plain data; undefined if it cannot be read. */
  value: unknown;
  /** The values with their places, for edits. */
  parsed: ParsedText;
}

/** An edit of the text, and what is selected afterwards. */
export interface Edit {
  changes: readonly Change[];
  select?: readonly Target[];
  /** The keys of a node that has another id now. */
  renamed?: { from: string; to: string };
}

/** A new node, as it is written. */
export type NewNode = { id: string; type: string } & Record<string, unknown>;
/** A new edge, as it is written. */
export type NewEdge = { from: string; to: string } & Record<string, unknown>;

export function applied(text: string, changes: readonly Change[]): string {
  let result = "";
  let at = 0;
  for (const change of [...changes].sort((one, other) => one.from - other.from)) {
    result += text.slice(at, change.from) + change.insert;
    at = change.to;
  }
  return result + text.slice(at);
}

export function isSame(one: Target, other: Target): boolean {
  if (one.kind === "node") return other.kind === "node" && one.key === other.key;
  if (one.kind === "edge") return other.kind === "edge" && one.graph === other.graph && one.index === other.index;
  if (one.kind === "graph") return other.kind === "graph" && one.graph === other.graph;
  return other.kind === "workflow";
}
