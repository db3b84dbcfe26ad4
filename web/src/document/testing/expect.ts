// What must be true of every edit.
import { ChangeSet, Text } from "@codemirror/state";
import { expect } from "vitest";
import { equal } from "../data";
import { linesTouched, lineNumber } from "../lines";
import { applied, type Change, type Span } from "../model";
import { readDocument } from "../read";

/** Applies an edit, and checks that it touches no other lines than those of the spans, that undo restores the
 * bytes, and that the data are the old ones with exactly this change. Returns the new text. */
export function checkEdit(text: string, changes: readonly Change[], allowed: readonly Span[], data: unknown, what: string): string {
  const result = applied(text, changes);
  const describe = () => `${what}\n--- before\n${text}\n--- after\n${result}`;
  for (const line of linesTouched(text, changes)) {
    const isAllowed = allowed.some(({ from, to }) => lineNumber(text, from) <= line && line <= lineNumber(text, to));
    if (!isAllowed && text.split(/\r\n|\r|\n/)[line - 1]?.trim() !== "") expect.fail(`line ${line} of another item changes: ${describe()}`);
  }
  // CodeMirror refuses changes that overlap; its inverse is what undo does.
  const before = Text.of(text.split("\n"));
  const set = ChangeSet.of([...changes], text.length, "\n");
  const after = set.apply(before);
  if (after.toString() !== result) expect.fail(`CodeMirror makes another text: ${describe()}`);
  if (set.invert(before).apply(after).toString() !== text) expect.fail(`undo does not restore the text: ${describe()}`);
  const read = readDocument(result);
  if (read.errors.length > 0) expect.fail(`${read.errors[0]?.message} (${lineNumber(result, read.errors[0]?.from ?? 0)}): ${describe()}`);
  if (!equal(read.value, data)) expect.fail(`${describe()}\n--- expected\n${JSON.stringify(data, null, 1)}\n--- read\n${JSON.stringify(read.value, null, 1)}`);
  return result;
}
