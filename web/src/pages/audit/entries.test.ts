import { expect, it } from "vitest";
import type { AuditEntry } from "../../api/schema";
import { detailsText, matches, targetPath } from "./entries";
import { EVERYTHING, isFiltered, queryOf } from "./filter";

function entry(action: string, subject: string, details: Record<string, unknown> = {}): AuditEntry {
  return { number: 1, time: "", who: { id: "1", name: "mk", role: "admin" }, action, subject, details };
}

it("leads to what an entry is about, if that still exists", () => {
  expect(targetPath(entry("run.fork", "b80b"))).toBe("/runs/b80b");
  expect(targetPath(entry("run.delete", "b80b"))).toBe("");
  expect(targetPath(entry("run.start", "polish", { saved: "", group: "" }))).toBe("");
  expect(targetPath(entry("run.start", "polish", { saved: "my polish" }))).toBe("/workflows/my%20polish");
  expect(targetPath(entry("workflow.save", "tea/polish"))).toBe("/workflows/polish?group=tea");
  expect(targetPath(entry("memory.forget", ""))).toBe("/memory?group=~");
  expect(targetPath(entry("token.create", "ci"))).toBe("");
});

it("searches names, actions, targets and details", () => {
  const one = entry("run.fork", "b80b", { at: "Writer[3]", reason: "", by: null });
  expect(detailsText(one.details)).toBe("at: Writer[3]");
  expect(matches(one, "MK writer")).toBe(true);
  expect(matches(one, "mk reader")).toBe(false);
});

it("asks the server only for what is set", () => {
  expect(queryOf(EVERYTHING, 0)).toEqual({});
  expect(isFiltered(EVERYTHING)).toBe(false);
  const filter = { ...EVERYTHING, by: "mk", subject: " b80b ", since: "1h" as const };
  expect(queryOf(filter, 7_200_000)).toEqual({ by: "mk", subject: "b80b", since: "1970-01-01T01:00:00.000Z" });
  expect(isFiltered(filter)).toBe(true);
});
