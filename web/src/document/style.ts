// The style of the text around a place, for what is written there.
import { breakAt, columnOf, lineEnd, nextLine } from "./lines";
import type { Step } from "./path";
import type { Tree } from "./tree";
import { canBeBlock, isData, keysOf, type Style } from "./write";

interface Indents {
  step: number | null;
  dashes: boolean | null;
}

/** How the text indents, by its first mapping and its first list inside a mapping. */
function indentsOf(text: string, tree: Tree, found: Indents): Indents {
  if (tree.kind === "scalar" || tree.flow || tree.alias !== undefined || (found.step !== null && found.dashes !== null)) return found;
  const column = columnOf(text, tree.from);
  const values = tree.kind === "map" ? tree.entries.map(({ value }) => value) : tree.items.map(({ value }) => value);
  for (const value of values) {
    if (tree.kind === "map" && value.kind !== "scalar" && !value.flow && value.alias === undefined) {
      const deeper = columnOf(text, value.from) - column;
      if (value.kind === "list") {
        found.dashes ??= deeper > 0;
        if (deeper > 0) found.step ??= deeper;
      } else found.step ??= deeper;
    }
    indentsOf(text, value, found);
  }
  return found;
}

/** `at` is where the text goes in. */
export function styleAt(text: string, root: Tree | null, around: Step | null, at: number, column: number): Style {
  const { step, dashes } = root ? indentsOf(text, root, { step: null, dashes: null }) : { step: null, dashes: null };
  return {
    eol: breakAt(text, at),
    step: step ?? 2,
    dashes: dashes ?? true,
    json: isJson(text, around),
    blocks: canHoldBlock(text, at, column),
  };
}

function isJson(text: string, around: Step | null): boolean {
  for (let step = around; step !== null; step = step.parent) {
    const { tree } = step;
    if (tree.kind === "map" && tree.entries[0]) return tree.flow && text[tree.entries[0].key.from] === '"';
  }
  return false;
}

/** A comment that is indented like the lines of a block scalar would become a part of it. */
function canHoldBlock(text: string, at: number, column: number): boolean {
  for (let from = nextLine(text, at); from < text.length; from = nextLine(text, from)) {
    const line = text.slice(from, lineEnd(text, from));
    if (line.trim() !== "") return !(line.trimStart().startsWith("#") && line.length - line.trimStart().length > column);
  }
  return true;
}

/** Whether the last line of a written value is one of a block scalar that ends with a line break. The text must
 * not end right behind it. */
export function endsWithBreak(value: unknown): boolean {
  if (typeof value === "string") return canBeBlock(value) && value.endsWith("\n");
  if (Array.isArray(value)) return endsWithBreak(value.at(-1));
  return isData(value) && endsWithBreak(value[keysOf(value).at(-1) ?? ""]);
}
