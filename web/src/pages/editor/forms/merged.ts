// What several items have in common.
import type { Path } from "../../../document/model";
import { isMapping, isSameValue, type Mapping } from "./values";

export interface Merged {
  value: Mapping;
  /** The places where they differ. */
  mixed: ReadonlySet<string>;
}

export const placeName = (path: Path) => path.join("\u0000");

export function mergeValues(values: readonly Mapping[]): Merged {
  const mixed = new Set<string>();
  const merge = (ones: readonly unknown[], at: Path): unknown => {
    const [first] = ones;
    if (ones.every((one) => isSameValue(one, first))) return first;
    // The options of nodes differ one by one; anything below them is one value.
    const hasParts = at.length === 0 || (at.length === 1 && at[0] === "config");
    if (!hasParts || !ones.every((one) => one === undefined || isMapping(one))) {
      mixed.add(placeName(at));
      return undefined;
    }
    const names = new Set(ones.flatMap((one) => (isMapping(one) ? Object.keys(one) : [])));
    const merged: Record<string, unknown> = {};
    for (const name of names) {
      const found = merge(
        ones.map((one) => (isMapping(one) ? one[name] : undefined)),
        [...at, name],
      );
      if (found !== undefined) merged[name] = found;
    }
    return merged;
  };
  return { value: merge(values, []) as Mapping, mixed };
}
