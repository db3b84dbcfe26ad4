// Lines of a text. A line ends before its line break, which may be `\n`, `\r\n` or `\r`.
import type { Change } from "./model";

function isBreak(text: string, at: number): boolean {
  const code = text.charCodeAt(at);
  return code === 0x0a || code === 0x0d;
}

export function lineStart(text: string, offset: number): number {
  let at = offset;
  while (at > 0 && !isBreak(text, at - 1)) at -= 1;
  // A byte order mark is no character of the line.
  return at === 0 && text.startsWith("\ufeff") && offset > 0 ? 1 : at;
}

export function lineEnd(text: string, offset: number): number {
  let at = offset;
  while (at < text.length && !isBreak(text, at)) at += 1;
  return at;
}

/** Behind the line break of a line; the end of the text for the last line. */
export function nextLine(text: string, offset: number): number {
  const end = lineEnd(text, offset);
  if (text.startsWith("\r\n", end)) return end + 2;
  return Math.min(end + 1, text.length);
}

export const columnOf = (text: string, offset: number): number => offset - lineStart(text, offset);

export const isBlank = (text: string, from: number, to: number): boolean => /^[ \t\r\n\ufeff]*$/.test(text.slice(from, to));

/** The line break that the lines around a place use. */
export function breakAt(text: string, offset: number): string {
  const start = lineStart(text, offset);
  const around = start > 1 ? text.slice(start - 2, start) : text.slice(lineEnd(text, offset), nextLine(text, offset));
  if (around.endsWith("\r\n")) return "\r\n";
  if (around.endsWith("\r")) return "\r";
  if (around.endsWith("\n")) return "\n";
  return "\n";
}

/** Behind the spaces, line breaks and comments that follow a place. */
export function skipGap(text: string, offset: number): number {
  let at = offset;
  for (;;) {
    while (at < text.length && " \t\r\n".includes(text[at] ?? "")) at += 1;
    const comment = text[at] === "#" && (at === 0 || " \t\r\n".includes(text[at - 1] ?? "") || ",[]{}".includes(text[at - 1] ?? ""));
    if (!comment) return at;
    at = lineEnd(text, at);
  }
}

/** Counts lines from 1. */
export function lineNumber(text: string, offset: number): number {
  let count = 1;
  for (let at = 0; at < offset; at += 1) {
    if (text[at] === "\n" || (text[at] === "\r" && text[at + 1] !== "\n")) count += 1;
  }
  return count;
}

/** The numbers of the lines, from 1, of which changes remove or replace something. */
export function linesTouched(text: string, changes: readonly Change[]): number[] {
  const touched = new Set<number>();
  for (const { from, to, insert } of changes.map((change) => narrowed(text, change))) {
    const addsLines = from === to && isBetweenLines(text, from, insert);
    if (addsLines) continue;
    const last = lineNumber(text, Math.max(from, to - 1));
    for (let line = lineNumber(text, from); line <= last; line += 1) touched.add(line);
  }
  return [...touched].sort((one, other) => one - other);
}

/** Without what is the same before and after. */
function narrowed(text: string, { from, to, insert }: Change): Change {
  let [start, end, head, tail] = [from, to, 0, insert.length];
  while (start < end && head < tail && text[start] === insert[head]) [start, head] = [start + 1, head + 1];
  while (start < end && head < tail && text[end - 1] === insert[tail - 1]) [end, tail] = [end - 1, tail - 1];
  return { from: start, to: end, insert: insert.slice(head, tail) };
}

/** Whether a text that goes in at a place leaves the lines there as they are. */
function isBetweenLines(text: string, at: number, insert: string): boolean {
  if (at === lineEnd(text, at)) return /^[\r\n]/.test(insert);
  const start = lineStart(text, at);
  // Lines that go in before an item begin behind its indentation, and end with it.
  return isBlank(text, start, at) && /[\r\n][ \t]*$/.test(insert) && insert.endsWith(text.slice(start, at));
}
