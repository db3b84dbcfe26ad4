import { describe, expect, it } from "vitest";
import type { RunView } from "../../api/schema";
import { appendPage, arrange, hold, itemsOf, mergeFirstPage, NOTHING, pendingOf, vanished, type Part, type Parts } from "./list";

function run(id: string, status: string, created: number, updated = created): RunView {
  const time = (value: number) => `2026-11-17T00:00:${String(value).padStart(2, "0")}.000Z`;
  return { id, status, created: time(created), updated: time(updated) } as RunView;
}

function part(next: string | null, ...rows: RunView[]): Part {
  return { rows, next };
}

function parts(some: Partial<Parts>): Parts {
  return { needs: NOTHING, running: NOTHING, finished: NOTHING, ...some };
}

const ids = (some: Part) => some.rows.map((one) => one.id);

describe("a first page that is read again", () => {
  const known = part("c4", run("d", "completed", 4), run("c", "completed", 3), run("b", "completed", 2), run("a", "completed", 1));

  it("pushes rows on, and keeps the further pages", () => {
    const merged = mergeFirstPage(known, part("c2", run("e", "completed", 5), run("d", "completed", 4)));
    expect(ids(merged)).toEqual(["e", "d", "c", "b", "a"]);
    expect(merged.next).toBe("c4");
  });

  it("drops what was deleted within the page", () => {
    const merged = mergeFirstPage(known, part("c2", run("d", "completed", 4), run("b", "completed", 2)));
    expect(ids(merged)).toEqual(["d", "b", "a"]);
  });

  it("is complete if nothing follows it", () => {
    expect(ids(mergeFirstPage(known, part(null, run("d", "completed", 4))))).toEqual(["d"]);
  });

  it("orders runs of the same millisecond by id", () => {
    const page = part("x", run("f", "completed", 2));
    expect(ids(mergeFirstPage(known, page))).toEqual(["f", "b", "a"]);
  });
});

it("appends a page once", () => {
  const known = part("c1", run("b", "completed", 2));
  const more = appendPage(known, part(null, run("b", "completed", 2), run("a", "completed", 1)));
  expect(ids(more)).toEqual(["b", "a"]);
  expect(more.next).toBeNull();
});

it("finds live runs that are on no page any more", () => {
  const before = parts({ running: part(null, run("a", "running", 1), run("b", "running", 2)), finished: part(null, run("z", "failed", 0)) });
  const now = parts({ needs: part(null, run("a", "waiting", 1)) });
  expect(vanished(before, now)).toEqual(["b"]);
  expect(vanished(undefined, now)).toEqual([]);
});

describe("the order", () => {
  it("takes the newest state of a run that was read in two sections", () => {
    const { layout, rows } = arrange(
      parts({ running: part(null, run("a", "running", 1, 1)), finished: part(null, run("a", "completed", 1, 5)) }),
    );
    expect(layout).toEqual({ needs: [], running: [], finished: ["a"] });
    expect(rows.get("a")?.status).toBe("completed");
    const other = arrange(
      parts({ needs: part(null, run("a", "waiting", 1, 7)), finished: part(null, run("a", "failed", 1, 5)) }),
    );
    expect(other.layout.needs).toEqual(["a"]);
  });

  it("puts who began to wait last first, and otherwise what was started last", () => {
    const { layout } = arrange(
      parts({
        needs: part(null, run("a", "paused", 3, 4), run("b", "suspended_locked", 1, 9)),
        running: part(null, run("c", "running", 2, 9), run("d", "running", 5, 6)),
      }),
    );
    expect(layout.needs).toEqual(["b", "a"]);
    expect(layout.running).toEqual(["d", "c"]);
  });
});

describe("while somebody points at the list", () => {
  const shown = { needs: ["w"], running: ["r", "s"], finished: ["f"] };

  it("moves nothing, and counts what waits", () => {
    const wanted = { needs: ["r", "w"], running: ["n", "s"], finished: ["f"] };
    expect(hold(shown, wanted)).toBe(shown);
    expect(pendingOf(shown, wanted)).toEqual({ needs: 1, others: 1 });
    expect(pendingOf(wanted, wanted)).toEqual({ needs: 0, others: 0 });
  });

  it("adds older runs at the end only", () => {
    const wanted = { needs: ["w"], running: ["s"], finished: ["r", "f", "e", "d"] };
    expect(hold(shown, wanted)).toEqual({ ...shown, finished: ["f", "e", "d"] });
  });
});

it("has no heading for a section without rows, and offers further pages below their section", () => {
  const all = parts({ running: part(null), finished: part("more", run("f", "failed", 1)) });
  const items = itemsOf({ needs: [], running: [], finished: ["f"] }, all);
  expect(items).toEqual([
    { type: "head", group: "finished", count: 1 },
    { type: "run", group: "finished", id: "f" },
    { type: "more", group: "finished" },
  ]);
});
