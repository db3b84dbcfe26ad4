// A text under change. Each step refers to the text as the steps before have left it; `changes` says what all of them
// do to the first one.
import { equal, withValue, without } from "./data";
import type { Change, Path } from "./model";
import { child, top, walk, type Step } from "./path";
import { Pieces } from "./pieces";
import { addEntry, addItems, addRaw, emptied, removeParts, replaceKey, replaceValue, rootText, type RawItem, type Source } from "./splice";
import { styleAt } from "./style";
import { MERGE, parseText, plain, type ListTree, type MapTree, type ParsedText, type Tree } from "./tree";
import { flowText, isData, keysOf } from "./write";

/** Where some keys usually stand. */
const BEHIND: Readonly<Record<string, string>> = { type: "id", config: "type", edges: "nodes", to: "from" };

const touch = (one: Change, other: Change) => one.from <= other.to && other.from <= one.to;

export class Draft {
  private readonly pieces: Pieces;
  private parsed: ParsedText | null;
  private current: string;
  /** Changes of the current text that are apart from each other. They wait, so that the text is parsed less often. */
  private pending: Change[] = [];

  constructor(text: string, parsed: ParsedText) {
    this.current = text;
    this.parsed = parsed;
    this.pieces = new Pieces(text.length);
  }

  /** The text with all steps so far. */
  get text(): string {
    this.flush();
    return this.current;
  }

  /** The changes that make the first text the current one. */
  changes(): Change[] {
    this.flush();
    return this.pieces.changes();
  }

  /** What is at a path now, as plain data. */
  valueAt(path: Path): unknown {
    this.flush();
    const step = walk(this.root, path);
    return step ? plain(step.tree) : undefined;
  }

  private get root(): Tree | null {
    this.parsed ??= parseText(this.current);
    return this.parsed.root;
  }

  private get source(): Source {
    return { text: this.current, root: this.root };
  }

  private flush(): void {
    if (this.pending.length === 0) return;
    const changes = [...this.pending, ...this.rescues()].sort((one, other) => one.from - other.from);
    this.pending = [];
    this.current = this.pieces.apply(this.current, changes);
    this.parsed = null;
  }

  /** An anchor that goes takes its aliases along, unless the first of them becomes the anchor. */
  private rescues(): Change[] {
    const aliases = this.parsed?.aliases ?? [];
    const isGone = (at: number) => this.pending.some(({ from, to }) => from <= at && at < to);
    const saved = new Set<number>();
    return aliases.flatMap(({ name, from, to, tree, anchor }) => {
      if (!isGone(anchor) || isGone(from) || saved.has(anchor)) return [];
      saved.add(anchor);
      const style = styleAt(this.current, this.root, null, from, 0);
      return [{ from, to, insert: `&${name} ${flowText(plain(tree), style)}` }];
    });
  }

  /** `make` gives the changes of one step. It is called again if they touch those that wait. */
  private step(make: () => Change[]): void {
    let changes = make().filter(({ from, to, insert }) => to > from || insert !== "");
    if (changes.some((one) => this.pending.some((other) => touch(one, other)))) {
      this.flush();
      changes = make().filter(({ from, to, insert }) => to > from || insert !== "");
    }
    this.pending.push(...changes);
  }

  /** A step that moves other items, or decides by what is left. */
  private alone(make: () => Change[]): void {
    this.flush();
    this.step(make);
    this.flush();
  }

  // Values.

  set(path: Path, value: unknown): void {
    if (value === undefined) this.remove(path);
    else if (!this.setParts(path, value)) this.step(() => this.valueChanges(path, value));
  }

  /** Of two mappings or lists only what differs is written. False if they are not alike. */
  private setParts(path: Path, value: unknown): boolean {
    const found = walk(this.root, path);
    if (!found || found.borrowed || found.tree.alias !== undefined) return false;
    const { tree } = found;
    const old = plain(tree);
    if (equal(old, value)) return true;
    if (isData(value) && tree.kind === "map" && tree.entries.length > 0 && keysOf(value).length > 0) {
      const data = old as Record<string, unknown>;
      const wanted = keysOf(value);
      // New keys first: a mapping never becomes empty on the way.
      for (const key of wanted) if (!equal(data[key], value[key])) this.set([...path, key], value[key]);
      for (const key of Object.keys(data)) if (!wanted.includes(key)) this.remove([...path, key]);
      return true;
    }
    if (!Array.isArray(value) || tree.kind !== "list" || value.length === 0 || tree.items.length === 0) return false;
    this.setItems(path, old as unknown[], value);
    return true;
  }

  private setItems(path: Path, old: readonly unknown[], value: readonly unknown[]): void {
    const most = Math.min(old.length, value.length);
    let head = 0;
    while (head < most && equal(old[head], value[head])) head += 1;
    let tail = 0;
    while (tail < most - head && equal(old[old.length - 1 - tail], value[value.length - 1 - tail])) tail += 1;
    const behind = most - tail;
    for (let index = head; index < behind; index += 1) this.set([...path, index], value[index]);
    if (value.length > old.length) this.insert(path, behind, value.slice(behind, value.length - tail));
    else this.removeItems(path, Array.from({ length: old.length - value.length }, (_, index) => behind + index));
  }

  private valueChanges(path: Path, value: unknown): Change[] {
    const { root } = this;
    if (root === null) return this.beginning(withValue(undefined, path, value));
    let step: Step = top(root);
    for (const [index, key] of path.entries()) {
      const next = child(step, key);
      if (next === null || next.borrowed) return this.missing(step, key, withValue(next && plain(next.tree), path.slice(index + 1), value));
      step = next;
    }
    return replaceValue(this.source, step, value);
  }

  /** A key that a mapping or list does not have itself. */
  private missing(step: Step, key: string | number, value: unknown): Change[] {
    const { tree } = step;
    const isPair = tree.kind === "map" && tree.flow && this.current[tree.from] !== "{";
    const isWritten = tree.alias === undefined && tree.kind !== "scalar" && !isPair && (typeof key === "number") === (tree.kind === "list");
    if (!isWritten) return replaceValue(this.source, step, withValue(tree.kind === "scalar" ? undefined : plain(tree), [key], value));
    if (tree.kind === "list") return this.additions(step, tree.items.length, [value]);
    if (tree.entries.length === 0) return replaceValue(this.source, step, { [key]: value });
    return addEntry(this.source, step, String(key), value, BEHIND[key]);
  }

  private beginning(value: unknown): Change[] {
    const at = this.current.length;
    const style = styleAt(this.current, null, null, at, 0);
    const before = this.current === "" || /[\r\n\ufeff]$/.test(this.current) ? "" : style.eol;
    return [{ from: at, to: at, insert: before + rootText(value, style) + style.eol }];
  }

  /** Gives the key at a path another name. */
  renameKey(path: Path, name: string): void {
    this.step(() => {
      const found = walk(this.root, path);
      return found?.entry && !found.borrowed ? replaceKey(this.source, found, name) : [];
    });
  }

  // Lists.

  /** Adds items to a list. One that is missing or empty is begun; a lone item becomes a list. */
  insert(path: Path, index: number, values: readonly unknown[]): void {
    if (values.length === 0) return;
    this.flush();
    const step = walk(this.root, path);
    if (step?.tree.kind === "list" && !step.borrowed && step.tree.alias === undefined) {
      this.alone(() => this.additions(step, index, values));
      return;
    }
    const data = step === null || (step.tree.kind === "scalar" && step.tree.value === null) ? [] : [plain(step.tree)].flat();
    const list = [...data.slice(0, index), ...values, ...data.slice(index)];
    this.alone(() => this.valueChanges(path, list));
  }

  private additions(step: Step, index: number, values: readonly unknown[]): Change[] {
    const { items } = step.tree as ListTree;
    if (items.length === 0) return replaceValue(this.source, step, [...values]);
    return addItems(this.source, step, Math.min(index, items.length), values);
  }

  /** Adds items with their comments, as far as the list is written in lines. */
  insertRaw(path: Path, index: number, items: readonly RawItem[]): void {
    if (items.length === 0) return;
    this.flush();
    const step = walk(this.root, path);
    const tree = step?.tree;
    const isEmpty = tree === undefined || (tree.kind === "scalar" && tree.value === null) || (tree.kind === "list" && tree.items.length === 0);
    if (isEmpty) {
      // The first item begins the list in the style of the text, and then makes room for itself with its comments.
      this.insert(path, 0, [items[0]?.value]);
      const begun = walk(this.root, path);
      if (begun?.tree.kind !== "list" || begun.tree.flow) {
        this.insert(path, 1, items.slice(1).map(({ value }) => value));
        return;
      }
      this.insertRaw(path, 1, items);
      this.removeItems(path, [0]);
    } else if (tree?.kind === "list" && !tree.flow && !step?.borrowed && tree.alias === undefined) {
      this.alone(() => addRaw(this.source, step as Step, index, items));
    } else this.insert(path, index, items.map(({ value }) => value));
  }

  // Removals.

  /** Removes a value with its key, and what becomes empty by that. */
  remove(path: Path): void {
    this.alone(() => this.removal(path));
  }

  private removal(path: Path): Change[] {
    const step = walk(this.root, path);
    if (!step) return [];
    const { parent } = step;
    if (!parent) return [{ from: step.tree.from, to: step.tree.to, insert: "" }];
    const outer = path.slice(0, -1);
    if (step.borrowed) return this.borrowedRemoval(step, outer, path.at(-1) as string | number);
    const { tree } = parent;
    const index = tree.kind === "map" ? tree.entries.findIndex((entry) => entry === step.entry) : step.index;
    const changes = this.partsRemoval(outer, parent, [index]);
    if (tree.kind !== "map" || !step.entry || !tree.hidden.has(step.entry.name)) return changes;
    return [...changes, ...this.mergeChanges(outer, parent, [...tree.merged.keys()])];
  }

  /** `keep` leaves an empty list where all items go. */
  removeItems(path: Path, indexes: readonly number[], keep = false): void {
    if (indexes.length === 0) return;
    this.flush();
    const step = walk(this.root, path);
    if (step?.tree.kind !== "list") return;
    if (step.borrowed || step.tree.alias !== undefined) {
      const data = (plain(step.tree) as unknown[]).filter((_, index) => !indexes.includes(index));
      this.set(path, data.length > 0 || keep ? data : undefined);
    } else this.alone(() => this.partsRemoval(path, step, indexes, keep));
  }

  private partsRemoval(path: Path, step: Step, indexes: readonly number[], keep = false): Change[] {
    const tree = step.tree as MapTree | ListTree;
    const count = tree.kind === "map" ? tree.entries.length : tree.items.length;
    if (indexes.length < count) return removeParts(this.current, tree, indexes);
    if (path.length === 0) return [{ from: tree.from, to: tree.to, insert: "" }];
    const stays = keep || step.item !== null || (path.length === 1 && path[0] === "graph");
    return stays ? emptied(this.current, tree) : this.removal(path);
  }

  /** The rest of what an alias or `<<` brings is written out. */
  private borrowedRemoval(step: Step, outer: Path, key: string | number): Change[] {
    let parent = step.parent as Step;
    let path = outer;
    const inside: (string | number)[] = [key];
    while (parent.borrowed && parent.parent) {
      inside.unshift(path.at(-1) as string | number);
      path = path.slice(0, -1);
      parent = parent.parent;
    }
    const data = without(plain(parent.tree), inside);
    const { tree } = parent;
    if (tree.kind !== "map" || tree.alias !== undefined) return replaceValue(this.source, parent, data);
    const wanted = data as Record<string, unknown>;
    const lost = [...tree.merged.keys()].filter((name) => !equal(wanted[name], plain(tree.merged.get(name) as Tree)));
    const kept = [...tree.merged.keys()].filter((name) => !lost.includes(name));
    const others = lost.filter((name) => wanted[name] !== undefined);
    return this.mergeChanges(path, parent, kept, Object.fromEntries(others.map((name) => [name, wanted[name]])));
  }

  /** Writes out what `<<` brings: the values of these keys, and others in their place. */
  private mergeChanges(path: Path, step: Step, kept: readonly string[], others: Readonly<Record<string, unknown>> = {}): Change[] {
    const tree = step.tree as MapTree;
    const entry = tree.entries.find(({ name }) => name === MERGE);
    if (!entry) return [];
    const values = { ...Object.fromEntries(kept.map((name) => [name, plain(tree.merged.get(name) as Tree)])), ...others };
    if (Object.keys(values).length === 0) return this.partsRemoval(path, step, [tree.entries.indexOf(entry)]);
    const inner: Step = { tree: entry.value, parent: step, entry, item: null, index: -1, borrowed: false };
    return replaceValue(this.source, inner, values);
  }
}
