// @vitest-environment happy-dom
import { beforeEach, describe, expect, it } from "vitest";
import { createEditor } from "../store";
import { dropKept, keepText, readKept } from "./kept";
import { isName, suggestedName } from "./names";

describe("names", () => {
  it("are those that the server takes", () => {
    expect(["tea", "评审 2", "a.b", "x"].every(isName)).toBe(true);
    expect(["", ".a", "a/b", " a", "a ", "a\nb", "\u202ea", "x".repeat(201)].some(isName)).toBe(false);
  });

  it("come from the graph, or differ from the workflow that is copied", () => {
    expect(suggestedName({ graph: { id: "tea" } }, "")).toBe("tea");
    expect(suggestedName({ graph: { id: "a/b" } }, "")).toBe("");
    expect(suggestedName({ graph: { id: "tea" } }, "coffee")).toBe("coffee 2");
    expect(suggestedName(null, "")).toBe("");
  });
});

describe("unsaved text", () => {
  const saved = { name: "tea", group: "", version: 4, etag: '"4"', text: "a: 1\n" };
  beforeEach(() => localStorage.clear());

  it("is kept until it is saved", () => {
    const store = createEditor(saved.text, saved);
    const stop = keepText(store);
    store.getState().replace("a: 2\n");
    stop();
    expect(readKept(saved)).toMatchObject({ text: "a: 2\n", version: 4 });
    expect(readKept({ ...saved, text: "a: 2\n" })).toBeNull();
    expect(readKept(null)).toBeNull();
    const again = keepText(store);
    store.getState().setSaved({ ...saved, version: 5, text: "a: 2\n" });
    again();
    expect(readKept(saved)).toBeNull();
    store.getState().close();
  });

  it("is dropped on request, and ignored if it is something else", () => {
    localStorage.setItem("roundel.unsaved//tea", "no JSON");
    expect(readKept(saved)).toBeNull();
    localStorage.setItem("roundel.unsaved//tea", JSON.stringify({ text: "b", version: 1, time: 2 }));
    expect(readKept(saved)?.text).toBe("b");
    dropKept(saved);
    expect(readKept(saved)).toBeNull();
  });
});
