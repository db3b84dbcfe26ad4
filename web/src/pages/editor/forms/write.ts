// How the value of a field gets into the text.
import type { Path } from "../../../document/model";
import type { FieldSpec } from "./catalogue";
import type { Form, Writes } from "./context";
import { isMapping, isSameValue, keyOf, written } from "./values";

/**
 * Writes one key. A value that is the default again takes its key away, unless `keeps` says that the default
 * stood there, written by hand. The options of a node go with their last key.
 */
export function fieldWriter(
  write: (values: Writes) => void,
  keeps: (path: Path, isPreset: boolean) => boolean,
  isSingle = true,
): Form["set"] {
  return (field: FieldSpec, at: Path, container: unknown, value: unknown) => {
    const key = keyOf(field, container);
    const path = [...at, key];
    const now = isMapping(container) ? container[key] : undefined;
    const next = written(field, value, keeps(path, now !== undefined && isSameValue(now, field.default)));
    if (next === undefined && now === undefined) return;
    if (next !== undefined && isSameValue(next, now)) return;
    // What several items have in common is not all that each of them has.
    const isLast = isSingle && isMapping(container) && Object.keys(container).length === 1 && key in container;
    write([next === undefined && isLast && at.length === 1 && at[0] === "config" ? [at, undefined] : [path, next]]);
  };
}

/** A value after writes to places inside it; `at` is its own place. */
export function withWrites(value: unknown, at: Path, writes: Writes): unknown {
  return writes.reduce<unknown>((result, [path, next]) => replaced(result, path.slice(at.length), next), value);
}

function replaced(value: unknown, path: Path, next: unknown): unknown {
  const [first, ...rest] = path;
  if (first === undefined) return next;
  if (Array.isArray(value) || typeof first === "number") {
    const list: unknown[] = Array.isArray(value) ? [...(value as unknown[])] : [];
    const index = Number(first);
    if (rest.length === 0 && next === undefined) list.splice(index, 1);
    else list[index] = replaced(list[index], rest, next);
    return list;
  }
  const mapping: Record<string, unknown> = isMapping(value) ? { ...value } : {};
  const inner = replaced(mapping[first], rest, next);
  if (inner === undefined) delete mapping[first];
  else mapping[first] = inner;
  return mapping;
}
