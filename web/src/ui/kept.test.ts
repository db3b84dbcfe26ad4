// @vitest-environment happy-dom
import { afterEach, expect, it, vi } from "vitest";
import { keep, keptDrafts, readKept, readKeptObject } from "./kept";

afterEach(() => {
  vi.unstubAllGlobals();
  sessionStorage.clear();
});

it("keeps texts, and removes them", () => {
  keep("tab", "a", "text");
  expect(readKept("tab", "a")).toBe("text");
  expect(readKept("browser", "a")).toBeNull();
  keep("tab", "a", null);
  expect(readKept("tab", "a")).toBeNull();
});

it("finds drafts by their prefix, and passes over what is none", () => {
  keep("tab", "draft.1", '{"text": "x"}');
  keep("tab", "draft.2", "{");
  keep("tab", "draft.3", "7");
  keep("tab", "other", '{"text": "y"}');
  expect(keptDrafts("draft.")).toEqual({ "1": { text: "x" } });
  expect(readKeptObject("tab", "draft.3")).toBeNull();
});

it("goes on without storage", () => {
  vi.stubGlobal("sessionStorage", undefined);
  expect(() => keep("tab", "a", "b")).not.toThrow();
  expect(readKept("tab", "a")).toBeNull();
  expect(keptDrafts("a")).toEqual({});
});
