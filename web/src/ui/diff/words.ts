// The difference of two texts by words, and by lines with words marked in them.

// The module itself: by its name, the package comes with all its other kinds of differences.
import { diffArrays } from "diff/lib/diff/array.js";

export interface DiffPart {
  kind: "equal" | "added" | "removed";
  text: string;
}

/** A line of the result. `changed` lines exist in both texts and have marks inside. */
export interface DiffLine {
  kind: "equal" | "added" | "removed" | "changed";
  parts: readonly DiffPart[];
}

/** Chinese and Japanese have no spaces: each character counts as a word, as their readers count them. */
const IDEOGRAPH = "\\p{Script=Han}\\p{Script=Hiragana}\\p{Script=Katakana}";
const TOKEN = new RegExp(`[${IDEOGRAPH}]|(?:(?![${IDEOGRAPH}])[\\p{L}\\p{M}\\p{N}_])+|\\r?\\n|[^\\S\\n]+|[^]`, "gu");
const WORD = /[\p{L}\p{N}_]/u;

/** The time of a diff grows with the square of its edits: two long texts with nothing in common would
 * otherwise block the page for seconds. */
const MAX_EDITS = 1500;

export function tokens(text: string): string[] {
  return text.match(TOKEN) ?? [];
}

/** The words of both texts in order, each marked as equal, removed or added. Texts with too many differences are
 * compared by lines; if that is also too much, one replaces the other. */
export function wordDiff(before: string, after: string): DiffPart[] {
  if (before === after) return before ? [{ kind: "equal", text: before }] : [];
  const parts = compare(tokens(before), tokens(after)) ?? compare(wholeLines(before), wholeLines(after));
  if (parts !== null) return tidy(slide(parts));
  return [
    { kind: "removed", text: before },
    { kind: "added", text: after },
  ];
}

function compare(before: string[], after: string[]): DiffPart[] | null {
  const changes = diffArrays(before, after, { maxEditLength: MAX_EDITS });
  if (changes === undefined) return null;
  return changes.map((change) => ({
    kind: change.added ? "added" : change.removed ? "removed" : "equal",
    text: change.value.join(""),
  }));
}

function wholeLines(text: string): string[] {
  return text.match(/[^\n]*\n|[^\n]+/g) ?? [];
}

/** Moves changes so that they meet: `{+.lower(+})` and `{+)+}` are the same text as `{+.lower()+}` and `)`, which is how
 * a person would have typed it. */
function slide(parts: readonly DiffPart[]): DiffPart[] {
  const result: DiffPart[] = [];
  for (const part of parts) {
    const equal = result.at(-1);
    const before = result.at(-2);
    if (
      part.kind !== "equal" &&
      equal?.kind === "equal" &&
      before?.kind === part.kind &&
      result.at(-3)?.kind !== (part.kind === "added" ? "removed" : "added") &&
      part.text.endsWith(equal.text)
    ) {
      const text = before.text + equal.text + part.text.slice(0, -equal.text.length);
      result.splice(-2, 2, { kind: part.kind, text }, equal);
    } else result.push(part);
  }
  return result;
}

/** Joins changes that only a space or a sign separates: one longer change is easier to read than crumbs. Within
 * a change, what was removed comes first. */
function tidy(parts: readonly DiffPart[]): DiffPart[] {
  const result: DiffPart[] = [];
  let removed = "";
  let added = "";
  let between = "";
  const flush = () => {
    if (removed) result.push({ kind: "removed", text: removed });
    if (added) result.push({ kind: "added", text: added });
    if (between) result.push({ kind: "equal", text: between });
    removed = added = between = "";
  };
  for (const part of parts) {
    if (part.kind === "equal") {
      const isOpen = removed !== "" || added !== "";
      if (isOpen && !between && part.text.length <= 3 && !WORD.test(part.text) && !part.text.includes("\n")) {
        between = part.text;
      } else {
        flush();
        result.push(part);
      }
      continue;
    }
    // A change on one side only stays apart: there is nothing to join it with.
    if (between && ((part.kind === "added" && !removed) || (part.kind === "removed" && !added))) flush();
    removed += between;
    added += between;
    between = "";
    if (part.kind === "removed") removed += part.text;
    else added += part.text;
  }
  flush();
  return result;
}

/** How many words were added and removed. */
export function countWords(parts: readonly DiffPart[]): { added: number; removed: number } {
  const count = { added: 0, removed: 0 };
  for (const part of parts) {
    if (part.kind !== "equal") count[part.kind] += tokens(part.text).filter((token) => WORD.test(token)).length;
  }
  return count;
}

/** Lines of both texts in order; a line that was only changed has its words marked. */
export function lineDiff(before: string, after: string): DiffLine[] {
  const old = before.split(/\r?\n/);
  const now = after.split(/\r?\n/);
  const changes = diffArrays(old, now, { maxEditLength: MAX_EDITS }) ?? [
    { value: old, removed: true, added: false, count: old.length },
    { value: now, removed: false, added: true, count: now.length },
  ];
  const lines: DiffLine[] = [];
  let removed: string[] = [];
  let added: string[] = [];
  for (const change of changes) {
    if (change.removed) removed = removed.concat(change.value);
    else if (change.added) added = added.concat(change.value);
    else {
      lines.push(...pairs(removed, added));
      removed = [];
      added = [];
      for (const text of change.value) lines.push({ kind: "equal", parts: [{ kind: "equal", text }] });
    }
  }
  lines.push(...pairs(removed, added));
  return lines;
}

/** Two lines are one changed line if this part of the longer one is equal. */
const SIMILAR = 0.4;

/** Lines that were replaced: each removed line with the next added one that is similar to it. */
function pairs(removed: readonly string[], added: readonly string[]): DiffLine[] {
  const lines: DiffLine[] = [];
  let at = 0;
  const whole = (kind: "added" | "removed", text: string): DiffLine => ({ kind, parts: [{ kind, text }] });
  for (const old of removed) {
    let found: { index: number; parts: DiffPart[] } | null = null;
    // A search further down would make large replacements slow, and their pairs accidental.
    for (let index = at; index < Math.min(added.length, at + 4) && found === null; index++) {
      const now = added[index] ?? "";
      if (!isLikely(old, now)) continue;
      const parts = wordDiff(old, now);
      if (similarity(parts, old, now) >= SIMILAR) found = { index, parts };
    }
    if (found === null) {
      lines.push(whole("removed", old));
      continue;
    }
    for (; at < found.index; at++) lines.push(whole("added", added[at] ?? ""));
    lines.push({ kind: "changed", parts: found.parts });
    at = found.index + 1;
  }
  for (; at < added.length; at++) lines.push(whole("added", added[at] ?? ""));
  return lines;
}

/** Excludes lines whose lengths alone say that they differ, and those too long to compare in passing. */
function isLikely(old: string, now: string): boolean {
  const [short, long] = old.length < now.length ? [old.length, now.length] : [now.length, old.length];
  return long > 0 && long < 5000 && short / long >= SIMILAR;
}

function similarity(parts: readonly DiffPart[], old: string, now: string): number {
  let equal = 0;
  for (const part of parts) if (part.kind === "equal") equal += part.text.trim().length;
  return equal / Math.max(old.trim().length, now.trim().length, 1);
}

/** Whether a text reads better by lines: it has several, and some are indented or end as code does. */
export function looksLikeCode(text: string): boolean {
  const lines = text.split("\n").filter((line) => line.trim());
  if (lines.length < 2) return false;
  const marked = lines.filter((line) => /^(\t| {2,})\S/.test(line) || /[{};:]\s*$/.test(line)).length;
  return marked / lines.length >= 0.3;
}
