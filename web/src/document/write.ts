// Values as YAML text, in the style of what is around them.
import { looksTyped } from "./scalar";

export interface Style {
  /** The line break. */
  eol: string;
  /** How many columns a mapping inside a mapping is indented. */
  step: number;
  /** Whether the dashes of a list inside a mapping are indented. */
  dashes: boolean;
  /** Keys and texts in double quotes, as JSON. */
  json: boolean;
  /** Whether a text of several lines may be a block scalar there. */
  blocks: boolean;
}

export type Quotes = "plain" | "single" | "double";

const pad = (columns: number) => " ".repeat(columns);
/** A line of a flow list or mapping that is no longer than this is easy to read. */
const LONGEST_FLOW = 100;

export const isData = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

export const keysOf = (value: Record<string, unknown>): string[] => Object.keys(value).filter((key) => value[key] !== undefined);

// Scalars.

// Control characters, line breaks of other standards, halves of surrogate pairs and the byte order mark.
const ESCAPED =
  /[\0-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/;
const PLAIN_START = /^(?:[^\s\-?:,[\]{}#&*!|>'"%@`]|[-?:](?=[^\s,[\]{}]))/;

function canBePlain(text: string, flow: boolean): boolean {
  if (text === "" || text === "<<" || looksTyped(text) || text !== text.trim() || ESCAPED.test(text) || text.includes("\t")) return false;
  if (!PLAIN_START.test(text) || /: |:$| #/.test(text) || /^(?:---|\.\.\.)/.test(text)) return false;
  return !(flow && /[,[\]{}]/.test(text));
}

const double = (text: string): string =>
  JSON.stringify(text).replace(
    /[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]/g,
    (found) => `\\u${found.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );

export function quoted(text: string, flow: boolean, wanted: Quotes = "plain"): string {
  if (wanted === "plain" && canBePlain(text, flow)) return text;
  if (ESCAPED.test(text)) return double(text);
  const single = wanted === "single" || (wanted === "plain" && /["\\]/.test(text));
  return single ? `'${text.replaceAll("'", "''")}'` : double(text);
}

export function scalarText(value: unknown, flow: boolean, style: Style, wanted: Quotes = "plain"): string {
  if (typeof value === "string") return quoted(value, flow, style.json ? "double" : wanted);
  if (typeof value === "number" && !Number.isFinite(value)) return Number.isNaN(value) ? ".nan" : value > 0 ? ".inf" : "-.inf";
  return value === null || value === undefined ? "null" : String(value);
}

export const keyText = (name: string, flow: boolean, style: Style): string => quoted(name, flow, style.json ? "double" : "plain");

// Block scalars.

/** Whether a text can be written as it is, line by line, behind `|`. */
export function canBeBlock(text: string): boolean {
  if (!/\n/.test(text) || text.trim() === "" || /^\t|\n\n$/.test(text)) return false;
  return !ESCAPED.test(text.replaceAll("\n", ""));
}

/** The header, and the lines behind it, each with its line break before it. */
export function blockScalar(text: string, column: number, style: Style): { head: string; body: string } {
  const chomp = text.endsWith("\n") ? "" : "-";
  const indicator = /^\n*[ \t]/.test(text) ? String(style.step) : "";
  const lines = (chomp ? text : text.slice(0, -1)).split("\n");
  const indented = lines.map((line) => style.eol + (line === "" ? "" : pad(column + style.step) + line));
  return { head: `|${indicator}${chomp}`, body: indented.join("") };
}

// Flow style.

export function flowText(value: unknown, style: Style): string {
  if (Array.isArray(value)) return `[${value.map((item) => flowText(item, style)).join(", ")}]`;
  if (!isData(value)) return scalarText(value, true, style);
  return `{${keysOf(value).map((key) => flowEntry(key, value[key], style)).join(", ")}}`;
}

export const flowEntry = (key: string, value: unknown, style: Style): string =>
  `${keyText(key, true, style)}: ${flowText(value, style)}`;

/** Whether a value fits into one line: short, and without texts of several lines. */
export function fitsFlow(value: unknown, style: Style, column: number): boolean {
  return !hasLines(value) && column + flowText(value, style).length <= LONGEST_FLOW;
}

function hasLines(value: unknown): boolean {
  if (typeof value === "string") return value.includes("\n");
  if (Array.isArray(value)) return value.some(hasLines);
  return isData(value) && Object.values(value).some(hasLines);
}

// Block style. `column` is that of the key or dash.

/** What follows a colon or a dash: the rest of its line, and the lines below. */
export interface Written {
  head: string;
  body: string;
}

const inline = (text: string): Written => ({ head: ` ${text}`, body: "" });

export function behindKey(value: unknown, column: number, style: Style): Written {
  const short = inlineText(value, column, style);
  if (short !== null) return short;
  if (typeof value === "string") return behindScalar(value, column, style);
  if (Array.isArray(value)) {
    const at = column + (style.dashes ? style.step : 0);
    return { head: "", body: value.map((item) => style.eol + pad(at) + itemText(item, at, style)).join("") };
  }
  const data = value as Record<string, unknown>;
  return { head: "", body: style.eol + pad(column + style.step) + mapText(data, column + style.step, style) };
}

function behindDash(value: unknown, column: number, style: Style): Written {
  const short = inlineText(value, column, style);
  if (short !== null) return short;
  if (typeof value === "string") return behindScalar(value, column, { ...style, step: 2 });
  const text = Array.isArray(value)
    ? value.map((item) => itemText(item, column + 2, style)).join(style.eol + pad(column + 2))
    : mapText(value as Record<string, unknown>, column + 2, style);
  return { head: ` ${text}`, body: "" };
}

function behindScalar(text: string, column: number, style: Style): Written {
  const { head, body } = blockScalar(text, column, style);
  return { head: ` ${head}`, body };
}

/** Scalars, empty values and short lists of scalars stay in the line. */
function inlineText(value: unknown, column: number, style: Style): Written | null {
  if (typeof value === "string" && style.blocks && canBeBlock(value)) return null;
  if (Array.isArray(value)) {
    const isFlat = value.every((item) => !isData(item) && !(Array.isArray(item) && item.some((inner) => typeof inner === "object")));
    return value.length === 0 || (isFlat && fitsFlow(value, style, column)) ? inline(flowText(value, style)) : null;
  }
  if (isData(value)) return keysOf(value).length === 0 ? inline("{}") : null;
  return inline(scalarText(value, false, style));
}

export function mapText(value: Record<string, unknown>, column: number, style: Style): string {
  return keysOf(value)
    .map((key) => entryText(key, value[key], column, style))
    .join(style.eol + pad(column));
}

export function entryText(key: string, value: unknown, column: number, style: Style): string {
  const { head, body } = behindKey(value, column, style);
  return `${keyText(key, false, style)}:${head}${body}`;
}

export function itemText(value: unknown, column: number, style: Style): string {
  const { head, body } = behindDash(value, column, style);
  return `-${head}${body}`;
}

export const written = (value: unknown, column: number, style: Style, owner: "key" | "dash"): Written =>
  owner === "key" ? behindKey(value, column, style) : behindDash(value, column, style);
