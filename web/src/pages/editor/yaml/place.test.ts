import { describe, expect, it } from "vitest";
import { placeAt, rowOf } from "./place";

/** The place of `|` in a text, as `map.key > list > …` and what is being written. */
function at(marked: string): string {
  const offset = marked.indexOf("|");
  const place = placeAt(marked.replace("|", ""), offset);
  if (place === null) return "nothing";
  const levels = place.levels.map(({ kind, key }) => (kind === "list" ? "[]" : key || "?"));
  return `${levels.join(" > ")}${place.isValue ? " =" : ""}`;
}

describe("rowOf", () => {
  it("reads dashes, keys and values, without comments", () => {
    expect(rowOf("    - id: Planner # the first")).toEqual({ dashes: [4], column: 6, key: "id", value: "Planner" });
    expect(rowOf("- - a")).toMatchObject({ dashes: [0, 2], column: 4, key: null, value: "a" });
    expect(rowOf("  # nothing")).toBeNull();
    expect(rowOf('  "a: b": c\r')).toMatchObject({ key: "a: b", value: "c" });
  });
});

describe("placeAt", () => {
  it("finds keys at the top", () => {
    expect(at("gra|")).toBe("?");
    expect(at("version: 1\n|")).toBe("?");
    expect(at("version: 1|")).toBe("version =");
  });

  it("finds keys below keys", () => {
    expect(at("graph:\n  id: x\n  |")).toBe("graph > ?");
    expect(at("graph:\n  limits:\n    tok|\n  nodes: []")).toBe("graph > limits > ?");
    expect(at("graph:\n  on_failure: |")).toBe("graph > on_failure =");
  });

  it("finds items of lists, indented or not", () => {
    expect(at("graph:\n  nodes:\n    - id: A\n      ty|")).toBe("graph > nodes > [] > ?");
    expect(at("graph:\n  nodes:\n  - id: A\n    type: |")).toBe("graph > nodes > [] > type =");
    expect(at("graph:\n  nodes:\n    - id: A\n      type: agent\n    - i|")).toBe("graph > nodes > [] > ?");
    expect(at("graph:\n  nodes:\n    - id: A\n      config:\n        max|")).toBe("graph > nodes > [] > config > ?");
  });

  it("knows the values beside a key, before and after it", () => {
    const text = "graph:\n  nodes:\n    - id: A\n      config:\n        x: 1\n      type: loop\n    - id: B\n      type: agent\n";
    const place = placeAt(text, text.indexOf("x: 1"));
    expect(place?.levels.at(2)).toMatchObject({ kind: "list" });
    expect(place?.levels.at(3)?.values).toEqual({ id: "A", config: "", type: "loop" });
  });

  it("finds places in brackets", () => {
    expect(at("graph:\n  edges:\n    - {from: A, to: |}")).toBe("graph > edges > [] > to =");
    expect(at("graph:\n  edges:\n    - {from: A, |}")).toBe("graph > edges > [] > ?");
    expect(at("graph:\n  edges:\n    - {from: A, condition: {type: keyword, config: {an|}}}")).toBe(
      "graph > edges > [] > condition > config > ?",
    );
    expect(at("graph: {start: [A, |]}")).toBe("graph > start > [] =");
  });

  it("gives up in thousands of brackets", () => {
    expect(placeAt("[".repeat(200_000), 200_000)).toBeNull();
  });

  it("says nothing in comments and in blocks of text", () => {
    expect(at("graph: # a |")).toBe("nothing");
    expect(at("graph:\n  description: >\n    some te|")).toBe("nothing");
  });
});
