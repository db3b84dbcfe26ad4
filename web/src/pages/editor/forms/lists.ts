// Edits that move text as it is written, so that comments and quotes stay.
import { setValues } from "../../../document/edits";
import type { Change, Path, WorkflowDocument } from "../../../document/model";
import { spanOf } from "../../../document/read";
import { isMapping, type Mapping } from "./values";

function valueIn(document: WorkflowDocument, path: Path): unknown {
  return path.reduce<unknown>(
    (value, key) => (Array.isArray(value) ? (value as unknown[])[Number(key)] : isMapping(value) ? value[key] : undefined),
    document.value,
  );
}

/** Exchanges two elements of a list. */
export function exchanged(document: WorkflowDocument, one: Path, other: Path): readonly Change[] {
  const [a, b] = [spanOf(document, one), spanOf(document, other)];
  if (!a || !b) {
    return setValues(document, [
      [one, valueIn(document, other)],
      [other, valueIn(document, one)],
    ]);
  }
  const { text } = document;
  return [
    { ...a, insert: text.slice(b.from, b.to) },
    { ...b, insert: text.slice(a.from, a.to) },
  ];
}

const PLAIN = /^[A-Za-z_][\w.-]*$/;

/** Gives a key another name, in place. */
export function renamedKey(document: WorkflowDocument, at: Path, from: string, to: string): readonly Change[] {
  const { text } = document;
  const span = spanOf(document, [...at, from]);
  if (span && PLAIN.test(to)) {
    const start = text.lastIndexOf(from, span.from - 1);
    const between = text.slice(start + from.length, span.from);
    if (start >= 0 && /^["']?\s*:(\s|#[^\n]*\n)*$/.test(between)) return [{ from: start, to: start + from.length, insert: to }];
  }
  // The order of the names stays also where they cannot be replaced one by one.
  const mapping = valueIn(document, at);
  const entries = isMapping(mapping) ? Object.entries(mapping) : [];
  const renamed: Mapping = Object.fromEntries(entries.map(([name, value]) => [name === from ? to : name, value]));
  return setValues(document, [[at, renamed]]);
}
