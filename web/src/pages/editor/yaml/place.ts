// Where a position is in a text of YAML: the maps and lists around it, by indentation and brackets. It does not parse:
// while somebody types, the text is often no YAML.

/** A map or a list around a position. */
export interface Level {
  kind: "map" | "list";
  /** The key in a map that leads to the position. */
  key: string;
  /** The values of one line in a map, by key. */
  values: Readonly<Record<string, string>>;
}

export interface Place {
  /** From the outermost to the innermost. The key of the last one is empty where a key is being written. */
  levels: readonly Level[];
  /** Whether a value is being written, and not a key. */
  isValue: boolean;
  /** Inside of brackets, where no line begins. */
  isFlow: boolean;
  /** Where the word begins that is being written, and how far the map is indented. */
  from: number;
  indent: number;
}

interface Row {
  /** The columns of the dashes that begin items. */
  dashes: readonly number[];
  /** The column of the key or of the value behind the dashes. */
  column: number;
  key: string | null;
  /** What is behind the key, or the whole value. */
  value: string;
}

const KEY = /^("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^\s#[\]{},&*!|>'"%@`-][^:#]*?|-[^\s:][^:#]*?):(?:\s|$)/;
const COMMENT = /\s+#.*$/;

export function unquoted(text: string): string {
  const word = text.trim();
  const isQuoted = word.length > 1 && (word[0] === '"' || word[0] === "'") && word.endsWith(word[0]);
  return isQuoted ? word.slice(1, -1) : word;
}

/** Null for lines that say nothing: empty ones and comments. */
export function rowOf(line: string): Row | null {
  const text = line.replace(/\r$/, "");
  let column = /^ */.exec(text)?.[0].length ?? 0;
  if (column === text.length || text[column] === "#") return null;
  const dashes: number[] = [];
  for (let dash = /^-(?: +|$)/.exec(text.slice(column)); dash; dash = /^-(?: +|$)/.exec(text.slice(column))) {
    dashes.push(column);
    column += dash[0].length;
  }
  const rest = text.slice(column);
  const found = KEY.exec(rest);
  const value = (found ? rest.slice(found[0].length) : rest).replace(COMMENT, "").replace(/^#.*$/, "").trim();
  return { dashes, column, key: found ? unquoted(found[1] ?? "") : null, value };
}

/** The values of the map at a column, in the lines around one of its own. */
function valuesAround(lines: readonly string[], at: number, column: number): Record<string, string> {
  const values: Record<string, string> = {};
  const take = (row: Row) => {
    if (row.column === column && row.key !== null) values[row.key] ??= unquoted(row.value);
  };
  for (let index = at; index >= 0; index--) {
    const row = rowOf(lines[index] ?? "");
    if (row === null) continue;
    if ((row.dashes[0] ?? row.column) < column) {
      // The first key of an item is beside its dash.
      if (row.dashes.length > 0) take(row);
      break;
    }
    take(row);
  }
  for (let index = at + 1; index < lines.length; index++) {
    const row = rowOf(lines[index] ?? "");
    if (row === null) continue;
    if ((row.dashes[0] ?? row.column) < column) break;
    take(row);
  }
  return values;
}

/** The maps and lists around what begins at a column of a line; null inside of a block of text. */
function levelsAbove(lines: readonly string[], at: number, column: number, own: readonly number[]): Level[] | null {
  const levels: Level[] = [];
  /** What contains the position begins to the left of this. */
  let need = column;
  const enterItems = (dashes: readonly number[]) => {
    for (const dash of [...dashes].reverse()) {
      if (dash >= need) continue;
      levels.unshift({ kind: "list", key: "", values: {} });
      need = dash;
    }
  };
  enterItems(own);
  for (let index = at - 1; index >= 0 && (need > 0 || levels[0]?.kind === "list"); index--) {
    const row = rowOf(lines[index] ?? "");
    if (row === null || row.column > need) continue;
    // A list may begin in the column of its key.
    const isLeft = row.column < need || levels[0]?.kind === "list";
    if (isLeft && row.key !== null && /^(?:$|[|>&!])/.test(row.value)) {
      if (/^[|>]/.test(row.value)) return null;
      levels.unshift({ kind: "map", key: row.key, values: valuesAround(lines, index, row.column) });
    }
    need = Math.min(need, row.column);
    enterItems(row.dashes);
  }
  return levels;
}

/** Where the innermost bracket opens that is still open at a position; -1 outside of brackets. */
function openBracket(text: string, offset: number): number {
  let depth = 0;
  for (let at = offset - 1; at >= Math.max(0, offset - 5000); at--) {
    const sign = text[at];
    if (sign === "}" || sign === "]") depth++;
    else if (sign === "{" || sign === "[") {
      if (depth > 0) depth--;
      else return /(?:^|[\n,[{]|[:-]\s)\s*$/.test(text.slice(Math.max(0, at - 80), at)) ? at : -1;
    }
  }
  return -1;
}

/** The parts between the commas of brackets, up to the bracket that closes. */
function partsOf(text: string, from: number): { text: string; from: number; to: number }[] {
  const parts: { text: string; from: number; to: number }[] = [];
  let depth = 0;
  let start = from;
  let quote = "";
  let at = from;
  for (; at < text.length; at++) {
    const sign = text[at] ?? "";
    if (quote) {
      if (sign === quote) quote = "";
    } else if ((sign === '"' || sign === "'") && /[\s,:[{]/.test(text[at - 1] ?? " ")) quote = sign;
    else if (sign === "{" || sign === "[") depth++;
    else if (sign === "}" || sign === "]") {
      if (depth === 0) break;
      depth--;
    } else if (sign === "," && depth === 0) {
      parts.push({ text: text.slice(start, at), from: start, to: at });
      start = at + 1;
    } else if (sign === "\n" && depth === 0 && /^\s*(?:- |[\w"']+:)/.test(text.slice(at + 1, at + 40)) && text[from - 1] === "[") break;
  }
  parts.push({ text: text.slice(start, at), from: start, to: at });
  return parts;
}

/** Brackets inside of brackets: no workflow has more. */
const MOST_BRACKETS = 32;

export function placeAt(text: string, offset: number, depth = 0): Place | null {
  if (depth > MOST_BRACKETS) return null;
  const bracket = openBracket(text, offset);
  return bracket >= 0 ? inBrackets(text, offset, bracket, depth) : inBlock(text, offset);
}

function inBrackets(text: string, offset: number, bracket: number, depth: number): Place | null {
  const outer = placeAt(text, bracket, depth + 1);
  if (outer === null) return null;
  // Where no key is, the brackets themselves are what is written.
  const around = outer.isValue ? outer.levels : outer.levels.slice(0, -1);
  const parts = partsOf(text, bracket + 1);
  const part = parts.find(({ from, to }) => from <= offset && offset <= to);
  if (part === undefined) return null;
  const before = text.slice(part.from, offset);
  const word = /[^\s,[\]{}:"']*$/.exec(before)?.[0] ?? "";
  const base = { isFlow: true, from: offset - word.length, indent: 0 };
  if (text[bracket] === "[") return { ...base, levels: [...around, { kind: "list", key: "", values: {} }], isValue: true };
  const values: Record<string, string> = {};
  for (const one of parts) {
    const found = /^\s*([^:]+?)\s*:(?:\s|$)([^]*)$/.exec(one.text);
    if (found) values[unquoted(found[1] ?? "")] = unquoted(found[2] ?? "");
  }
  const written = /^\s*([^:]+?)\s*:\s[^]*$/.exec(before);
  const key = written ? unquoted(written[1] ?? "") : "";
  const from = written ? part.from + (/^\s*[^:]+?\s*:\s+/.exec(before)?.[0].length ?? 0) : base.from;
  return { ...base, from, levels: [...around, { kind: "map", key, values }], isValue: key !== "" };
}

function inBlock(text: string, offset: number): Place | null {
  const lines = text.split("\n");
  const start = text.lastIndexOf("\n", offset - 1) + 1;
  const at = text.slice(0, start).split("\n").length - 1;
  const before = text.slice(start, offset);
  if (/(?:^|\s)#/.test(before)) return null;
  const indent = /^ */.exec(before)?.[0].length ?? 0;
  const row = rowOf(before) ?? { dashes: [], column: Math.max(indent, before.length), key: null, value: "" };
  const above = levelsAbove(lines, at, row.column, row.dashes);
  if (above === null) return null;
  const values = valuesAround([...lines.slice(0, at), before + (lines[at] ?? "").slice(before.length), ...lines.slice(at + 1)], at, row.column);
  if (row.key !== null) {
    const from = start + row.column + (/^[^:]*:\s*/.exec(before.slice(row.column))?.[0].length ?? 0);
    return { levels: [...above, { kind: "map", key: row.key, values }], isValue: true, isFlow: false, from, indent: row.column };
  }
  const from = start + row.column;
  // Behind a dash stands a value, or the first key of a map.
  return { levels: [...above, { kind: "map", key: "", values }], isValue: false, isFlow: false, from, indent: row.column };
}
