// Plain data: comparison, and copies with one value changed.
import type { Path } from "./model";
import { isData } from "./write";

export function equal(one: unknown, other: unknown): boolean {
  if (Object.is(one, other)) return true;
  if (Array.isArray(one) && Array.isArray(other)) return one.length === other.length && one.every((item, index) => equal(item, other[index]));
  if (!isData(one) || !isData(other)) return false;
  const keys = Object.keys(one).filter((key) => one[key] !== undefined);
  const others = Object.keys(other).filter((key) => other[key] !== undefined);
  return keys.length === others.length && keys.every((key) => Object.hasOwn(other, key) && equal(one[key], other[key]));
}

/** A copy with a value at a path. Mappings and lists that are missing on the way are made; `undefined` removes. */
export function withValue(data: unknown, path: Path, value: unknown): unknown {
  const [key, ...rest] = path;
  if (key === undefined) return value;
  if (typeof key === "number" && (Array.isArray(data) || !isData(data))) {
    const list = Array.isArray(data) ? [...(data as unknown[])] : [];
    const inner = withValue(list[key], rest, value);
    if (inner === undefined) list.splice(key, 1);
    else list[Math.min(key, list.length)] = inner;
    return list;
  }
  const old = isData(data) ? data : {};
  const inner = withValue(old[key], rest, value);
  const copy = { ...old };
  if (inner === undefined) delete copy[key];
  else copy[key] = inner;
  return copy;
}

/** A copy without the value at a path, and without the mappings and lists that become empty by that. Items of lists
 * stay. */
export function without(data: unknown, path: Path): unknown {
  const parent = path.slice(0, -1);
  const left = withValue(data, path, undefined);
  const around = parent.reduce<unknown>((found, key) => (isData(found) || Array.isArray(found) ? (found as Record<string, unknown>)[key] : undefined), left);
  const isEmpty = Array.isArray(around) ? around.length === 0 : isData(around) && Object.keys(around).length === 0;
  return isEmpty && typeof parent.at(-1) === "string" ? without(data, parent) : left;
}
