import { describe, expect, it } from "vitest";
import { ALL, filterPath, isFiltered, parseFilter, queryOf, statusesOf } from "./filter";

describe("the filter in the URL", () => {
  it("survives the way there and back", () => {
    const filter = { q: "tea & 茶", status: "suspended_locked", workflow: "a/b", since: "7d" } as const;
    const path = filterPath(filter);
    expect(parseFilter(path.slice(2))).toEqual(filter);
    expect(filterPath(ALL)).toBe("/");
  });

  it("ignores what it does not know", () => {
    expect(parseFilter("status=sleeping&since=toString&x=1")).toEqual(ALL);
    expect(parseFilter("since=24h").since).toBe("24h");
  });

  it("is not set by blanks", () => {
    expect(isFiltered({ ...ALL, q: "  " })).toBe(false);
    expect(isFiltered({ ...ALL, status: "needs" })).toBe(true);
  });
});

describe("the query of the API", () => {
  it("asks only for sections that the filter leaves", () => {
    expect(statusesOf(ALL, "running")).toEqual(["running"]);
    expect(statusesOf({ ...ALL, status: "needs" }, "needs")).toEqual(["waiting", "suspended_locked", "paused"]);
    expect(statusesOf({ ...ALL, status: "needs" }, "finished")).toEqual([]);
    expect(statusesOf({ ...ALL, status: "failed" }, "finished")).toEqual(["failed"]);
    expect(statusesOf({ ...ALL, status: "failed" }, "running")).toEqual([]);
  });

  it("counts back from now", () => {
    const now = Date.parse("2026-11-17T12:00:00Z");
    expect(queryOf({ ...ALL, since: "1h", q: " tea " }, now)).toEqual({ q: "tea", since: "2026-11-17T11:00:00.000Z" });
  });
});
