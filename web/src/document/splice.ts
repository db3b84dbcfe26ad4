// The smallest changes of a text: a value replaced, an entry or an item added or removed.
import { columnOf, isBlank, lineEnd, lineStart, nextLine, skipGap } from "./lines";
import type { Change } from "./model";
import type { Step } from "./path";
import { endsWithBreak, styleAt } from "./style";
import type { Entry, Item, ListTree, MapTree, Tree } from "./tree";
import {
  canBeBlock,
  entryText,
  fitsFlow,
  flowEntry,
  flowText,
  isData,
  itemText,
  quoted,
  scalarText,
  written,
  type Quotes,
  type Style,
} from "./write";

export interface Source {
  text: string;
  root: Tree | null;
}

const change = (from: number, to: number, insert: string): Change => ({ from, to, insert });
const pad = (columns: number) => " ".repeat(columns);

export const endOfEntry = ({ key, colon, value }: Entry): number => Math.max(key.to, colon ?? 0, value.to);
export const endOfItem = ({ from, value }: Item): number => Math.max(from + 1, value.to);
const endOf = (part: Entry | Item): number => ("key" in part ? endOfEntry(part) : endOfItem(part));
const partsOf = (tree: MapTree | ListTree): readonly (Entry | Item)[] => (tree.kind === "map" ? tree.entries : tree.items);

const isBlockList = (tree: Tree) => tree.kind !== "scalar" && !tree.flow && tree.alias === undefined;
const isBlockText = (tree: Tree) =>
  tree.kind === "scalar" && (tree.style === "literal" || tree.style === "folded") && tree.alias === undefined;

/** The column at which the lines of a mapping or a list begin. */
const columnIn = (text: string, tree: MapTree | ListTree): number => columnOf(text, partsOf(tree)[0]?.from ?? tree.from);

// Values.

/** Writes another value in the place of one. */
export function replaceValue(source: Source, step: Step, value: unknown): Change[] {
  const { text } = source;
  const { tree, parent, entry, item } = step;
  if (parent === null) return replaceRoot(source, step, value);
  const around = parent.tree as MapTree | ListTree;
  const start = entry?.from ?? item?.from ?? tree.from;
  const column = columnOf(text, start);
  const style = styleAt(text, source.root, parent, lineEnd(text, tree.to), column);
  if (around.flow) return replaceInFlow(step, value, style);
  if (entry && entry.colon === null) {
    const { head, body } = written(value, column, style, "key");
    return [change(lineEnd(text, entry.key.to), lineEnd(text, entry.key.to), `${style.eol}${pad(column)}:${head}${body}`)];
  }
  const owner = entry ? "key" : "dash";
  if (!isData(value) && !Array.isArray(value)) {
    const short = quotesOf(tree);
    if (short !== null && !(typeof value === "string" && value.includes("\n"))) {
      const insert = scalarText(value, false, style, short);
      return [tree.from === tree.to ? change(tree.behind, tree.behind, ` ${insert}`) : change(tree.from, tree.to, insert)];
    }
  }
  const isFlow = tree.kind !== "scalar" && tree.flow && partsOf(tree).length > 0 && fitsFlow(value, style, column);
  const result =
    isFlow && typeof value === "object" ? { head: ` ${flowText(value, style)}`, body: "" } : writtenLike(tree, value, column, style, owner);
  const body = result.body && endsText(text, tree) && endsWithBreak(value) ? result.body + style.eol : result.body;
  return replaceBlock(text, tree, { head: result.head, body });
}

const endsText = (text: string, tree: Tree) => lineEnd(text, tree.to) === text.length;

/** The quotes of a scalar in a line; null for any other value. */
function quotesOf(tree: Tree): Quotes | null {
  if (tree.alias !== undefined) return "plain";
  if (tree.kind !== "scalar" || tree.style === "literal" || tree.style === "folded") return null;
  return tree.style;
}

/** A text that was a block scalar stays one, even if it has one line now. */
function writtenLike(tree: Tree, value: unknown, column: number, style: Style, owner: "key" | "dash") {
  if (typeof value === "string" && isBlockText(tree) && style.blocks && /^[^\s\n][^\n]*$/.test(value) && canBeBlock(`${value}\n`)) {
    const { head, body } = written(`${value}\n`, column, style, owner);
    return { head: head.replace("|", "|-"), body };
  }
  return written(value, column, style, owner);
}

function replaceBlock(text: string, tree: Tree, { head, body }: { head: string; body: string }): Change[] {
  if (isBlockList(tree)) {
    const first = lineEnd(text, tree.behind);
    // A list that begins in the line of its dash.
    if (tree.from < first) return [change(tree.behind, lineEnd(text, tree.to), head + body)];
    return [change(tree.behind, tree.behind, head), change(first, lineEnd(text, tree.to), body)];
  }
  if (isBlockText(tree)) {
    const header = /^[|>][-+0-9]*/.exec(text.slice(tree.from, tree.to))?.[0].length ?? 1;
    const first = lineEnd(text, tree.from);
    return [change(tree.behind, tree.from + header, head), change(first, Math.max(first, tree.to), body)];
  }
  const end = lineEnd(text, tree.to);
  const rest = text.slice(tree.to, end);
  // Comments behind the value stay in the line of the key.
  if (rest.trim() === "" || body === "") return [change(tree.behind, tree.to, head + body)];
  return [change(tree.behind, tree.to, head), change(end, end, body)];
}

function replaceInFlow({ tree, entry }: Step, value: unknown, style: Style): Change[] {
  const quotes = quotesOf(tree) ?? "plain";
  const isScalar = !isData(value) && !Array.isArray(value);
  const insert = isScalar ? scalarText(value, true, style, quotes) : flowText(value, style);
  if (tree.from < tree.to) return [change(tree.from, tree.to, insert)];
  if (entry?.colon === null) return [change(entry.key.to, entry.key.to, `: ${insert}`)];
  return [change(tree.behind, tree.behind, ` ${insert}`)];
}

function replaceRoot({ text, root }: Source, { tree }: Step, value: unknown): Change[] {
  const style = styleAt(text, root, null, tree.to, 0);
  return [change(tree.from, tree.to, rootText(value, style))];
}

/** The text of a whole document. */
export function rootText(value: unknown, style: Style): string {
  if (isData(value) && Object.keys(value).length > 0) {
    return Object.entries(value)
      .map(([key, inner]) => entryText(key, inner, 0, style))
      .join(style.eol);
  }
  return Array.isArray(value) && value.length > 0
    ? value.map((item) => itemText(item, 0, style)).join(style.eol)
    : flowText(value, style);
}

/** Writes another key in the place of one. */
export function replaceKey(source: Source, { entry, parent }: Step, name: string): Change[] {
  const { key } = entry as Entry;
  const quote = source.text[key.from];
  const wanted: Quotes = quote === "'" ? "single" : quote === '"' ? "double" : "plain";
  return [change(key.from, key.to, quoted(name, (parent?.tree as MapTree).flow, wanted))];
}

// Additions.

/** Adds an entry to a mapping that has some: behind another one, or at the end. */
export function addEntry(source: Source, step: Step, key: string, value: unknown, behind?: string): Change[] {
  const { text } = source;
  const tree = step.tree as MapTree;
  const found = tree.entries.findIndex(({ name }) => name === behind);
  const place = found < 0 ? tree.entries.length : found + 1;
  if (tree.flow) {
    const style = styleAt(text, source.root, step, tree.to, 0);
    return addToFlow(text, tree, place, flowEntry(key, value, style), style);
  }
  const last = tree.entries[place - 1] as Entry;
  const column = columnIn(text, tree);
  const at = lineEnd(text, endOfEntry(last));
  const style = styleAt(text, source.root, step, at, column);
  const tail = at === text.length && endsWithBreak(value) ? style.eol : "";
  return [change(at, at, style.eol + pad(column) + entryText(key, value, column, style) + tail)];
}

/** Adds items to a list that has some. */
export function addItems(source: Source, step: Step, index: number, values: readonly unknown[]): Change[] {
  const { text } = source;
  const tree = step.tree as ListTree;
  if (tree.flow) {
    const style = styleAt(text, source.root, step, tree.to, 0);
    return addToFlow(text, tree, index, values.map((value) => flowText(value, style)).join(", "), style);
  }
  const column = columnIn(text, tree);
  const before = tree.items[index - 1];
  const like = (before ?? tree.items[0])?.value;
  const at = before ? lineEnd(text, endOfItem(before)) : (tree.items[0] as Item).from;
  const style = styleAt(text, source.root, step, at, column);
  const texts = values.map((value) => itemLike(like, value, column, style));
  const gap = gapBetween(text, tree, style);
  if (!before) return [change(at, at, texts.map((one) => one + gap + style.eol + pad(column)).join(""))];
  const tail = at === text.length && endsWithBreak(values.at(-1)) ? style.eol : "";
  return [change(at, at, texts.map((one) => gap + style.eol + pad(column) + one).join("") + tail)];
}

/** An item in the style of another one: in one line if that is, and if it fits. */
export function itemLike(like: Tree | undefined, value: unknown, column: number, style: Style): string {
  const isFlow = like !== undefined && like.kind !== "scalar" && like.flow && like.alias === undefined;
  return isFlow && fitsFlow(value, style, column + 2) ? `- ${flowText(value, style)}` : itemText(value, column, style);
}

/** An item as it is written elsewhere: its lines, with the dash of the first at column 0, and its value. */
export interface RawItem {
  lines: readonly string[];
  value: unknown;
}

/** Adds items as they are written elsewhere to a block list that has some. */
export function addRaw(source: Source, step: Step, index: number, items: readonly RawItem[]): Change[] {
  const { text } = source;
  const tree = step.tree as ListTree;
  const column = columnIn(text, tree);
  const before = tree.items[index - 1];
  const at = before ? lineEnd(text, endOfItem(before)) : (tree.items[0] as Item).from;
  const style = styleAt(text, source.root, step, at, column);
  const gap = gapBetween(text, tree, style);
  const texts = items.map(({ lines }) => lines.map((line) => (line === "" ? "" : pad(column) + line)).join(style.eol));
  if (!before) return [change(at, at, texts.map((one) => one.slice(column) + gap + style.eol + pad(column)).join(""))];
  return [change(at, at, texts.map((one) => gap + style.eol + one).join(""))];
}

/** The line breaks between items that are apart from each other. */
function gapBetween(text: string, { items }: ListTree, { eol }: Style): string {
  const [one, two] = items.slice(-2);
  if (!one || !two) return "";
  const start = nextLine(text, endOfItem(one));
  return start < two.from && isBlank(text, start, nextLine(text, start)) && nextLine(text, start) <= two.from ? eol : "";
}

function addToFlow(text: string, tree: MapTree | ListTree, index: number, insert: string, style: Style): Change[] {
  const parts = partsOf(tree);
  const first = parts[0];
  if (!first) {
    const inside = text.slice(tree.from + 1, tree.to - 1);
    const end = inside.trim() === "" ? tree.to - 1 : tree.from + 1;
    return [change(tree.from + 1, end, end === tree.to - 1 ? insert : insert + (inside.startsWith(" ") ? "" : " "))];
  }
  const before = parts[index - 1];
  const near = before ?? first;
  const start = lineStart(text, near.from);
  const ownLine = isBlank(text, start, near.from) && start > tree.from;
  const gap = ownLine ? style.eol + text.slice(start, near.from) : " ";
  if (!before) return [change(first.from, first.from, `${insert},${gap}`)];
  const end = endOf(before);
  const after = skipGap(text, end);
  if (text[after] === ",") {
    const line = lineEnd(text, after);
    const at = ownLine && /^,[ \t]*(?:#.*)?$/.test(text.slice(after, line)) ? line : after + 1;
    return [change(at, at, `${gap}${insert},`)];
  }
  const line = lineEnd(text, end);
  if (ownLine && /^[ \t]*(?:#.*)?$/.test(text.slice(end, line))) return [change(end, end, ","), change(line, line, gap + insert)];
  return [change(end, end, `,${gap}${insert}`)];
}

// Removals.

/** Removes some of the entries or items of a mapping or a list; at least one stays. */
export function removeParts(text: string, tree: MapTree | ListTree, indexes: readonly number[]): Change[] {
  const parts = partsOf(tree);
  const gone = new Set(indexes);
  return tree.flow ? removeFromFlow(text, parts, gone) : removeLines(text, parts, gone);
}

function removeLines(text: string, parts: readonly (Entry | Item)[], gone: ReadonlySet<number>): Change[] {
  const first = parts.findIndex((_, index) => !gone.has(index));
  const changes: Change[] = [];
  const head = parts[0] as Entry | Item;
  const shares = !isBlank(text, lineStart(text, head.from), head.from);
  if (first > 0 && shares) {
    // The first part stands behind a dash. What is next takes its place, or a comment before that.
    const next = (parts[first] as Entry | Item).from;
    const comment = nextLine(text, endOf(parts[first - 1] as Entry | Item));
    const from = comment < next && text.slice(comment, next).trimStart().startsWith("#") ? text.indexOf("#", comment) : next;
    changes.push(change(head.from, from, ""));
  }
  for (const [index, part] of parts.entries()) {
    if (gone.has(index) && !(shares && index < first)) changes.push(removal(text, part.from, endOf(part)));
  }
  return joined(changes);
}

/** The lines from one place to another, with the empty lines below if there is one above, too. */
function removal(text: string, from: number, to: number): Change {
  const start = lineStart(text, from);
  const end = lineEnd(text, to);
  // The break of the line before stays: that line may be one of a block scalar, which ends with it.
  if (end === text.length) return change(start, end, "");
  let next = nextLine(text, end);
  const above = start === 0 || isBlank(text, lineStart(text, beforeBreak(text, start)), start);
  while (above && next < text.length && isBlank(text, next, lineEnd(text, next))) next = nextLine(text, next);
  return change(start, next, "");
}

/** The end of the line before. */
function beforeBreak(text: string, start: number): number {
  return text.startsWith("\r\n", start - 2) ? start - 2 : Math.max(0, start - 1);
}

/** Ranges that meet or overlap become one. */
function joined(changes: readonly Change[]): Change[] {
  const result: Change[] = [];
  for (const one of [...changes].sort((a, b) => a.from - b.from)) {
    const last = result.at(-1);
    if (last && one.from <= last.to) result[result.length - 1] = change(last.from, Math.max(last.to, one.to), "");
    else result.push(one);
  }
  return result;
}

function removeFromFlow(text: string, parts: readonly (Entry | Item)[], gone: ReadonlySet<number>): Change[] {
  const changes: Change[] = [];
  const lastKept = parts.findLastIndex((_, index) => !gone.has(index));
  for (const [index, part] of parts.entries()) {
    if (gone.has(index) && index < lastKept) changes.push(flowRemoval(text, part, parts[index + 1] as Entry | Item));
  }
  if (lastKept === parts.length - 1) return joined(changes);
  const kept = parts[lastKept] as Entry | Item;
  const next = parts[lastKept + 1] as Entry | Item;
  const end = endOf(parts[parts.length - 1] as Entry | Item);
  const start = lineStart(text, next.from);
  const rest = skipGap(text, end);
  const closes = lineEnd(text, end) < rest && text[rest] !== ",";
  if (isBlank(text, start, next.from) && start > endOf(kept) && closes) {
    const comma = skipGap(text, endOf(kept));
    return joined([...changes, change(comma, comma + 1, ""), change(start, nextLine(text, end), "")]);
  }
  return joined([...changes, change(endOf(kept), end, "")]);
}

function flowRemoval(text: string, part: Entry | Item, next: Entry | Item): Change {
  const start = lineStart(text, part.from);
  const comma = skipGap(text, endOf(part));
  const line = nextLine(text, comma);
  // Alone in its lines: these go, and what is before the next one stays.
  if (isBlank(text, start, part.from) && line <= next.from) return change(start, line, "");
  return change(part.from, next.from, "");
}

/** Writes an empty list or mapping in the place of one whose parts all go. */
export function emptied(text: string, tree: MapTree | ListTree): Change[] {
  const empty = tree.kind === "map" ? "{}" : "[]";
  if (tree.flow) return [change(tree.from, tree.to, empty)];
  return replaceBlock(text, tree, { head: ` ${empty}`, body: "" });
}
