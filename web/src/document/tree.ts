// The text as a tree of values with their places. The package `yaml` parses; what the values mean follows the
// server's parser (src/roundel/workflow/yaml_parser.py): the core schema of YAML 1.2, keys are always text, the
// first of two equal keys counts, `<<` merges, tags are ignored.
import { CST, isAlias, isMap, isScalar, isSeq, Lexer, parseDocument, type Node, type Pair, type YAMLMap, type YAMLSeq } from "yaml";
import type { ReadError, Span } from "./model";
import { parseScalar, type ScalarValue } from "./scalar";

/** `start` is where the anchor or tag begins, `from` where the value itself does, `to` where it ends. */
interface Place extends Span {
  start: number;
  /** Behind the colon or dash, and behind anchor and tag. */
  behind: number;
  /** The name of its anchor. */
  anchor?: string;
  /** Here is an alias. What the tree says is written at the anchor, and so are the places inside it. */
  alias?: string;
}

export interface ScalarTree extends Place {
  kind: "scalar";
  style: "plain" | "single" | "double" | "literal" | "folded";
  value: ScalarValue;
  text: string;
}

export interface Item {
  /** The dash; in a flow list, the start of the value. */
  from: number;
  value: Tree;
}

export interface ListTree extends Place {
  kind: "list";
  flow: boolean;
  items: readonly Item[];
}

export interface Entry {
  name: string;
  /** The key, or the question mark before it. */
  from: number;
  key: Span;
  /** Behind the colon; null if there is none. */
  colon: number | null;
  value: Tree;
}

export interface MapTree extends Place {
  kind: "map";
  flow: boolean;
  /** What is written here, with `<<`, without repeated keys. */
  entries: readonly Entry[];
  /** What `<<` brings and the mapping itself does not have. */
  merged: ReadonlyMap<string, Tree>;
  /** The keys that `<<` would bring if the mapping itself did not have them. */
  hidden: ReadonlySet<string>;
}

export type Tree = ScalarTree | ListTree | MapTree;

export interface AliasUse extends Span {
  name: string;
  tree: Tree;
  /** Where its anchor is. */
  anchor: number;
}

export interface ParsedText {
  root: Tree | null;
  errors: readonly ReadError[];
  aliases: readonly AliasUse[];
}

/** As many characters and levels as the server reads. */
const MOST_CHARACTERS = 5 * 1024 * 1024;
const MOST_LEVELS = 100;
const MOST_ALIASED = 100_000;
/** One mistake often makes more, which help nobody. */
const MOST_ERRORS = 10;

export function parseText(text: string): ParsedText {
  const refused = text.length > MOST_CHARACTERS ? error("the text is larger than 5 MB", 0) : findTooDeep(text);
  if (refused) return { root: null, errors: [refused], aliases: [] };
  const errors: ReadError[] = [];
  try {
    // The package knows no line breaks of a carriage return alone. The replaced text has the same offsets.
    const document = parseDocument(text.replace(/\r(?!\n)/g, "\n"), {
      schema: "failsafe",
      keepSourceTokens: true,
      prettyErrors: false,
      strict: true,
      uniqueKeys: false,
      logLevel: "error",
    });
    for (const { message, pos } of document.errors.slice(0, MOST_ERRORS)) errors.push({ message, from: pos[0], to: pos[1] });
    const composer = new Composer(errors);
    const root = document.contents ? composer.tree(document.contents, propsOf([]), 1) : null;
    return { root, errors, aliases: composer.aliases };
  } catch (failure) {
    // Both recurse into what is nested; neither the size nor the levels above bound every shape of text.
    errors.push(error(failure instanceof TooLarge ? failure.message : "the text is nested too deep", 0));
    return { root: null, errors, aliases: [] };
  }
}

const error = (message: string, from: number, to = from + 1): ReadError => ({ message, from, to });

class TooLarge extends Error {}

/** Anchor and tag of a value, from the tokens before it. */
interface Props {
  start: number | null;
  /** Behind the last of them. */
  end: number | null;
}

function propsOf(tokens: readonly CST.SourceToken[]): Props {
  const props = tokens.filter(({ type }) => type === "anchor" || type === "tag");
  const last = props.at(-1);
  return { start: props[0]?.offset ?? null, end: last ? last.offset + last.source.length : null };
}

const STYLES: Readonly<Record<string, ScalarTree["style"]>> = {
  QUOTE_SINGLE: "single",
  QUOTE_DOUBLE: "double",
  BLOCK_LITERAL: "literal",
  BLOCK_FOLDED: "folded",
};

class Composer {
  readonly aliases: AliasUse[] = [];
  private readonly anchors = new Map<string, { tree: Tree; size: number } | null>();
  private size = 0;
  private aliased = 0;

  constructor(private readonly errors: ReadError[]) {}

  private fail(message: string, { from, to }: Span): void {
    if (this.errors.length < MOST_ERRORS) this.errors.push({ message, from, to });
  }

  /** `empty` is the place of a value that is not written. */
  tree(node: Node | null | undefined, props: Props, depth: number, empty = 0): Tree {
    if (depth > MOST_LEVELS) throw new TooLarge(`the text is nested more than ${MOST_LEVELS} deep`);
    this.size += 1;
    if (isAlias(node)) return this.alias(node.source, node.range as [number, number, number], props, empty);
    const anchor = (node as { anchor?: string } | null | undefined)?.anchor;
    if (anchor === undefined) return this.content(node, props, depth, empty);
    this.anchors.set(anchor, null);
    const before = this.size;
    const tree = this.content(node, props, depth, empty);
    tree.anchor = anchor;
    this.anchors.set(anchor, { tree, size: this.size - before + 1 });
    return tree;
  }

  private alias(name: string, [from, to]: [number, number, number], props: Props, empty: number): Tree {
    const found = this.anchors.get(name);
    if (!found) {
      const why = found === null ? `the alias *${name} is inside the value that it names` : `there is no anchor &${name} above`;
      this.fail(why, { from, to });
      return { kind: "scalar", style: "plain", value: null, text: "", from, to, start: props.start ?? from, behind: props.end ?? empty };
    }
    this.size += found.size;
    this.aliased += found.size;
    if (this.aliased > MOST_ALIASED) throw new TooLarge(`the aliases stand for more than ${MOST_ALIASED} values`);
    const { anchor: _, ...shared } = found.tree;
    const tree: Tree = { ...shared, from, to, start: props.start ?? from, behind: props.end ?? empty, alias: name };
    this.aliases.push({ name, from, to, tree, anchor: found.tree.start });
    return tree;
  }

  private content(node: Node | null | undefined, props: Props, depth: number, empty: number): Tree {
    if (isMap(node)) return this.map(node, props, depth, empty);
    if (isSeq(node)) return this.list(node, props, depth, empty);
    if (isScalar(node)) return scalar(node as Parsed, props, empty);
    const at = props.end ?? empty;
    return { kind: "scalar", style: "plain", value: null, text: "", from: at, to: at, start: props.start ?? at, behind: at };
  }

  private list(node: YAMLSeq, props: Props, depth: number, at: number): Tree {
    const [from, end] = node.range as [number, number, number];
    const token = node.srcToken as CST.BlockSequence | CST.FlowCollection | undefined;
    const flow = token?.type === "flow-collection";
    const sources = (token?.items ?? []).filter((item) =>
      flow ? item.value || item.key || hasProps(item.start) || item.sep : item.start.some(isDash) || item.value,
    );
    const items = node.items.map((item, index): Item => {
      const start = sources[index]?.start ?? [];
      const dash = start.find(isDash);
      const empty = dash ? dash.offset + 1 : end;
      const value = this.tree(item as Node, propsOf(start), depth + 1, empty);
      return { from: flow ? value.start : (dash?.offset ?? value.start), value };
    });
    const to = flow ? end : Math.max(from, ...tail(items).map(({ value, from: dash }) => Math.max(value.to, dash + 1)));
    return { kind: "list", flow, items, from, to, start: props.start ?? from, behind: props.end ?? at };
  }

  private map(node: YAMLMap, props: Props, depth: number, at: number): Tree {
    const [from, end] = node.range as [number, number, number];
    const flow = node.flow === true || (node.srcToken?.type !== "block-map" && node.srcToken !== undefined);
    const entries: Entry[] = [];
    const names = new Set<string>();
    for (const pair of node.items as Pair<Node, Node | null>[]) {
      const entry = this.entry(pair, depth);
      if (entry === null) continue;
      if (names.has(entry.name)) this.fail(`the key "${entry.name}" is there twice`, entry.key);
      else entries.push(entry);
      names.add(entry.name);
    }
    const to = flow ? end : Math.max(from, ...tail(entries).map((entry) => Math.max(entry.value.to, entry.colon ?? entry.key.to)));
    return { kind: "map", flow, entries, ...this.merged(entries, names), from, to, start: props.start ?? from, behind: props.end ?? at };
  }

  private entry({ key, value, srcToken }: Pair<Node, Node | null>, depth: number): Entry | null {
    const before = srcToken?.start ?? [];
    const sep = srcToken?.sep ?? [];
    const colon = sep.find(({ type }) => type === "map-value-ind");
    const behind = colon ? sep.slice(sep.indexOf(colon) + 1) : [];
    const ends = (key as { range?: [number, number, number] } | null)?.range;
    const at = ends?.[0] ?? colon?.offset ?? 0;
    const span = { from: at, to: ends?.[1] ?? at };
    const colonEnd = colon ? colon.offset + 1 : null;
    const tree = this.tree(value, propsOf(behind), depth + 1, colonEnd ?? span.to);
    if (!isScalar(key)) {
      this.fail("a key must be plain text", span);
      return null;
    }
    if (key.anchor !== undefined) {
      const named = scalar(key as unknown as Parsed, propsOf([]), at);
      this.anchors.set(key.anchor, { tree: { ...named, value: named.text }, size: 1 });
    }
    const question = before.find(({ type }) => type === "explicit-key-ind");
    const keyProps = propsOf(before);
    const from = question?.offset ?? keyProps.start ?? at;
    const name = key.type === "PLAIN" && key.value === "<<" ? MERGE : String(key.value ?? "");
    return { name, from, key: span, colon: colonEnd, value: tree };
  }

  private merged(entries: readonly Entry[], own: ReadonlySet<string>): Pick<MapTree, "merged" | "hidden"> {
    const entry = entries.find(({ name }) => name === MERGE);
    const merged = new Map<string, Tree>();
    const hidden = new Set<string>();
    if (!entry) return { merged, hidden };
    const sources = entry.value.kind === "list" ? entry.value.items.map(({ value }) => value) : [entry.value];
    for (const source of sources) {
      if (source.kind === "map") {
        for (const [name, tree] of fields(source)) {
          if (own.has(name)) hidden.add(name);
          else if (!merged.has(name)) merged.set(name, tree);
        }
      } else if (source.kind !== "scalar" || source.value !== null) this.fail("<< can only take in mappings", entry.key);
    }
    return { merged, hidden };
  }
}

/** The name of the key `<<` that merges; a quoted "<<" is an ordinary key. */
export const MERGE = "\0<<";

type Parsed = { value: unknown; type?: string; range: [number, number, number]; srcToken?: CST.Token };

function scalar({ value, type, range, srcToken }: Parsed, props: Props, empty: number): ScalarTree {
  const text = String(value ?? "");
  const style = STYLES[type ?? ""] ?? "plain";
  if (style === "plain" && text === "" && srcToken?.type !== "scalar") {
    const at = props.end ?? empty;
    return { kind: "scalar", style, value: null, text, from: at, to: at, start: props.start ?? at, behind: at };
  }
  const [from, end] = range;
  const to = srcToken?.type === "block-scalar" ? blockEnd(srcToken, end) : end;
  return { kind: "scalar", style, value: style === "plain" ? parseScalar(text) : text, text, from, to, start: props.start ?? from, behind: props.end ?? empty };
}

/** The end of the last line of a block scalar. Empty lines behind it belong to it only with `+`. */
function blockEnd(token: CST.BlockScalar, end: number): number {
  const header = token.props.find(({ type }) => type === "block-scalar-header");
  const keeps = header !== undefined && "source" in header && header.source.includes("+");
  const trimmed = keeps ? token.source.replace(/\r?\n?$/, "") : token.source.trimEnd();
  if (trimmed === "" && !keeps) {
    const last = token.props.filter(({ type }) => type !== "newline" && type !== "space").at(-1);
    return last && "source" in last ? last.offset + last.source.length : end;
  }
  return end - token.source.length + trimmed.length;
}

const isDash = ({ type }: CST.SourceToken) => type === "seq-item-ind";
const hasProps = (tokens: readonly CST.SourceToken[]) => tokens.some(({ type }) => type === "anchor" || type === "tag");
const tail = <T>(list: readonly T[]): readonly T[] => list.slice(-1);

/** The values of a mapping by key, with those that `<<` brings. */
export function* fields(tree: MapTree): Generator<readonly [string, Tree]> {
  yield* tree.merged;
  for (const { name, value } of tree.entries) if (name !== MERGE) yield [name, value];
}

export function fieldOf(tree: Tree | null | undefined, name: string): Tree | undefined {
  if (tree?.kind !== "map") return undefined;
  return entryOf(tree, name)?.value ?? tree.merged.get(name);
}

export const entryOf = (tree: MapTree, name: string): Entry | undefined => tree.entries.find((entry) => entry.name === name);

const known = new WeakMap<Tree, unknown>();

/** The plain data of a tree; the same object each time. */
export function plain(tree: Tree): unknown {
  if (tree.kind === "scalar") return tree.value;
  const found = known.get(tree);
  if (found !== undefined) return found;
  const data = collect(tree);
  known.set(tree, data);
  return data;
}

function collect(tree: ListTree | MapTree): unknown {
  if (tree.kind === "list") return tree.items.map(({ value }) => plain(value));
  const data: Record<string, unknown> = {};
  for (const [name, value] of tree.merged) put(data, name, plain(value));
  for (const { name, value } of tree.entries) if (name !== MERGE) put(data, name, plain(value));
  return data;
}

/** A key `__proto__` must stay a key. */
function put(data: Record<string, unknown>, name: string, value: unknown): void {
  if (name === "__proto__") Object.defineProperty(data, name, { value, enumerable: true, configurable: true, writable: true });
  else data[name] = value;
}

/** A text can be small and nested so deep that parsing takes seconds. Counts roughly first, since almost no text
 * is near the bound, then exactly. */
function findTooDeep(text: string): ReadError | null {
  let open = 0;
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === 0x5b || code === 0x7b) open += 1;
    else if (code === 0x5d || code === 0x7d) open = Math.max(0, open - 1);
    if (open > MOST_LEVELS) break;
  }
  const dashes = /(?:[-?] ){40}/.exec(text);
  if (open <= MOST_LEVELS && dashes === null) return null;
  return deepest(text);
}

/** Counts the brackets that open lists and mappings, and the dashes in a line. */
function deepest(text: string): ReadError | null {
  const message = `the text is nested more than ${MOST_LEVELS} deep here`;
  let levels = 0;
  let dashes = 0;
  let at = 0;
  let isText = false;
  for (const token of new Lexer().lex(text)) {
    if (token === CST.SCALAR || token === CST.DOCUMENT || token === CST.FLOW_END) {
      isText = token === CST.SCALAR;
      continue;
    }
    if (!isText) {
      if (token === "[" || token === "{") levels += 1;
      else if (token === "]" || token === "}") levels -= 1;
      else if (token === "-" || token === "?") dashes += 1;
      else if (token === "\n" || token === "\r\n") dashes = 0;
    }
    if (levels + dashes > MOST_LEVELS) return error(message, at);
    isText = false;
    at += token.length;
  }
  return null;
}
