// @vitest-environment node
// tests/web/test_document.py compares keys and data with those of the server.
import { expect, it } from "vitest";
import { linesOf, readDocument, spanOf, targetAt } from "./read";

it.each([
  ["", 0],
  ["\ufeff", 0],
  ["# nothing\n", 0],
  ["text", 0],
  ["- a\n- b\n", 0],
  ["graph:\n", 0],
  ["nodes: 3\nstart: [1, {}]\n", 0],
  ["a: [1, 2\n", 1],
  ["a:\n\t- b\n", 1],
  ["a: 1\na: 2\n", 1],
  ["a: *x\n", 1],
  ["a: &x [*x]\n", 1],
  ["a: 1\n---\nb: 2\n", 1],
  ["? [a]\n: b\n", 1],
  ["<<: 3\n", 1],
  ["a: !!python/object x\n", 0],
  ["\0", 0],
])("reads %j", (text, errors) => {
  const document = readDocument(text);
  expect(document.errors.length > 0 ? 1 : 0).toBe(errors);
  for (const { from, to } of document.errors) expect(0 <= from && from <= to && to <= text.length + 1).toBe(true);
});

it.each([
  ["brackets", "[".repeat(200_000)],
  ["braces", "{a: ".repeat(100_000)],
  ["dashes", "- ".repeat(100_000)],
  ["lines", Array.from({ length: 1000 }, (_, depth) => `${" ".repeat(depth)}a:`).join("\n")],
  ["characters", "a".repeat(5 * 1024 * 1024 + 1)],
  ["aliases", `a: &a [${"x, ".repeat(400)}x]\nb: &b [${"*a, ".repeat(400)}*a]\nc: [${"*b, ".repeat(400)}*b]\n`],
])("refuses too many %s", (_, text) => {
  const { errors, value } = readDocument(text);
  expect(errors.length).toBeGreaterThan(0);
  expect(value).toBeUndefined();
});

it("takes brackets in texts for what they are", () => {
  expect(readDocument(`a: |\n  ${"[".repeat(300)}\nb: "${"{".repeat(300)}"\n`).errors).toEqual([]);
});

it("finds items by their places, and places by items", () => {
  const text = "graph:\n  nodes:\n    - id: A # first\n      type: agent # here\n    - {id: B, type: agent}\n  edges: [{from: A, to: B}]\n";
  const document = readDocument(text);
  expect(linesOf(document, { kind: "node", key: "A" })).toEqual({ first: 3, last: 4 });
  expect(linesOf(document, { kind: "edge", graph: "", index: 0 })).toEqual({ first: 6, last: 6 });
  expect(linesOf(document, { kind: "node", key: "C" })).toBeNull();
  expect(targetAt(document, text.indexOf("# here"))).toEqual({ kind: "node", key: "A" });
  expect(targetAt(document, text.indexOf("to: B"))).toEqual({ kind: "edge", graph: "", index: 0 });
  expect(targetAt(document, text.indexOf("edges"))).toEqual({ kind: "graph", graph: "" });
  expect(targetAt(document, 0)).toEqual({ kind: "workflow" });
  const span = spanOf(document, ["graph", "nodes", 1, "id"]);
  expect(span && text.slice(span.from, span.to)).toBe("B");
  expect(spanOf(document, ["graph", "start"])).toBeNull();
});

it("names the graphs inside nodes", () => {
  const text = `nodes:
  - id: Council
    type: debate
    config: {participants: [{id: Ada, type: agent}, {id: Ada, type: agent}]}
  - id: Part
    type: subgraph
    config: {type: config, config: {nodes: {id: "a/b", type: agent}, start: "a/b"}}
`;
  const { nodes, graphs } = readDocument(text);
  expect([...nodes.keys()]).toEqual(["Council", "Part", "Council/Ada", "Council/Ada#2", "Part/a%2Fb"]);
  expect([...graphs.keys()]).toEqual(["", "Council", "Council#2", "Part"]);
  expect(nodes.get("Council")?.graphs).toEqual(["Council", "Council#2"]);
});
