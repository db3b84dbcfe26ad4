// The rows of the list: what the pages of the API are merged to, in which order they stand, and what has to
// wait while somebody points at them.
import type { RunView } from "../../api/schema";
import { GROUPS, STATUSES, type Group } from "./filter";

export interface Part {
  rows: readonly RunView[];
  /** The cursor of the next page. */
  next: string | null;
}

export type Parts = Record<Group, Part>;

export interface Listed {
  parts: Parts;
  /** Runs that left the filter. They are not listed, but a row that is still shown takes its texts from them. */
  left: readonly RunView[];
}

export const NOTHING: Part = { rows: [], next: null };

export function groupOf(run: RunView): Group {
  return GROUPS.find((group) => STATUSES[group].includes(run.status)) ?? "finished";
}

/** The order of the API: the newest first. */
function isOlder(a: RunView, b: RunView): boolean {
  return a.created < b.created || (a.created === b.created && a.id < b.id);
}

/**
 * A first page that was read again, before the further pages that are known. Those stay: they begin where the
 * page ends. What stood on the old first page and is missing on the new one has left.
 */
export function mergeFirstPage(known: Part | undefined, page: Part): Part {
  const last = page.rows.at(-1);
  if (known === undefined || page.next === null || last === undefined) return page;
  const older = known.rows.filter((run) => isOlder(run, last));
  return older.length ? { rows: [...page.rows, ...older], next: known.next } : page;
}

export function appendPage(known: Part, page: Part): Part {
  const ids = new Set(known.rows.map((run) => run.id));
  return { rows: [...known.rows, ...page.rows.filter((run) => !ids.has(run.id))], next: page.next };
}

/**
 * The live runs that were known and are on none of the new pages: they changed their status between two
 * reads, were deleted, or do not fit the filter any more.
 */
export function vanished(before: Parts | undefined, now: Parts): string[] {
  if (before === undefined) return [];
  const ids = new Set(GROUPS.flatMap((group) => now[group].rows.map((run) => run.id)));
  return (["needs", "running"] as const).flatMap((group) =>
    before[group].rows.map((run) => run.id).filter((id) => !ids.has(id)),
  );
}

/** The ids of the rows of each section, in order. */
export type Layout = Record<Group, readonly string[]>;

/** Where each run belongs now. A run on two pages was read while it changed: its newest state counts. */
export function arrange(parts: Parts): { layout: Layout; rows: Map<string, RunView> } {
  const rows = new Map<string, RunView>();
  for (const group of GROUPS) {
    for (const run of parts[group].rows) {
      const other = rows.get(run.id);
      if (other === undefined || other.updated <= run.updated) rows.set(run.id, run);
    }
  }
  const layout: Record<Group, string[]> = { needs: [], running: [], finished: [] };
  for (const run of rows.values()) layout[groupOf(run)].push(run.id);
  const at = (id: string) => rows.get(id)?.updated ?? "";
  // Who has waited the shortest time comes first. `updated` does not change while a run waits.
  layout.needs.sort((a, b) => (at(a) === at(b) ? (a < b ? -1 : 1) : at(a) < at(b) ? 1 : -1));
  layout.running.sort((a, b) => (isOlder(rows.get(a) as RunView, rows.get(b) as RunView) ? 1 : -1));
  layout.finished.sort((a, b) => (isOlder(rows.get(a) as RunView, rows.get(b) as RunView) ? 1 : -1));
  return { layout, rows };
}

/** The layout while somebody points at the list: nothing moves, but older runs may follow at the end. */
export function hold(shown: Layout, wanted: Layout): Layout {
  const known = new Set(GROUPS.flatMap((group) => shown[group]));
  const last = wanted.finished.findLastIndex((id) => known.has(id));
  const more = wanted.finished.slice(last + 1).filter((id) => !known.has(id));
  return last < 0 || more.length === 0 ? shown : { ...shown, finished: [...shown.finished, ...more] };
}

export interface Pending {
  /** Runs that would come to "Needs you". */
  needs: number;
  /** Other runs that would appear or move. */
  others: number;
}

export function pendingOf(shown: Layout, wanted: Layout): Pending {
  const place = new Map(GROUPS.flatMap((group) => shown[group].map((id) => [id, group] as const)));
  const count = (group: Group) => wanted[group].filter((id) => place.get(id) !== group).length;
  return { needs: count("needs"), others: count("running") + count("finished") };
}

export type Item =
  | { type: "head"; group: Group; count: number }
  | { type: "run"; group: Group; id: string }
  | { type: "more"; group: Group };

/** The rows and headings from top to bottom; sections without rows are left out. */
export function itemsOf(layout: Layout, parts: Parts): Item[] {
  const items: Item[] = [];
  for (const group of GROUPS) {
    if (layout[group].length === 0) continue;
    items.push({ type: "head", group, count: layout[group].length });
    for (const id of layout[group]) items.push({ type: "run", group, id });
    if (parts[group].next !== null) items.push({ type: "more", group });
  }
  return items;
}
