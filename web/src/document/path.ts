import type { Path } from "./model";
import { entryOf, type Entry, type Item, type Tree } from "./tree";

/** A value on the way to another one. */
export interface Step {
  tree: Tree;
  /** The mapping or list around it, and its place there; null at the top. */
  parent: Step | null;
  entry: Entry | null;
  item: Item | null;
  index: number;
  /** It comes from an alias or from `<<`, so it is written elsewhere. */
  borrowed: boolean;
}

/** The step into a mapping or a list; null if there is nothing at that key. */
export function child(parent: Step, key: string | number): Step | null {
  const { tree } = parent;
  const borrowed = parent.borrowed || tree.alias !== undefined;
  if (tree.kind === "list" && typeof key === "number") {
    const item = tree.items[key];
    return item ? { tree: item.value, parent, entry: null, item, index: key, borrowed } : null;
  }
  if (tree.kind !== "map") return null;
  const entry = entryOf(tree, String(key));
  if (entry) return { tree: entry.value, parent, entry, item: null, index: -1, borrowed };
  const merged = tree.merged.get(String(key));
  return merged ? { tree: merged, parent, entry: null, item: null, index: -1, borrowed: true } : null;
}

export const top = (tree: Tree): Step => ({ tree, parent: null, entry: null, item: null, index: -1, borrowed: false });

/** Follows a path to its end; null if something on it is missing. */
export function walk(root: Tree | null, path: Path): Step | null {
  let step: Step | null = root && top(root);
  for (const key of path) step = step && child(step, key);
  return step;
}
