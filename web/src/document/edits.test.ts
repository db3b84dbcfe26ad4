// @vitest-environment node
// How the results of single edits look. property.test.ts checks what must be true of all of them.
import { describe, expect, it } from "vitest";
import { addAfter, addEdge, addGuard, addNode, copied, freeId, paste, reconnect, remove, rename, setPosition, setValue, setValues } from "./edits";
import { linesTouched } from "./lines";
import { applied, type Change, type Edit, type Path, type WorkflowDocument } from "./model";
import { readDocument } from "./read";

const edited = (text: string, edit: (document: WorkflowDocument) => Edit | readonly Change[]): string => {
  const made = edit(readDocument(text));
  return applied(text, "changes" in made ? made.changes : made);
};
const set = (text: string, path: Path, value: unknown) => edited(text, (document) => setValue(document, path, value));

describe("scalars", () => {
  it.each([
    ["a: b # c\n", "d", "a: d # c\n"],
    ["a: 'b'\n", "it's", "a: 'it''s'\n"],
    ['a: "b"\n', 'c"d', 'a: "c\\"d"\n'],
    ["a: b\n", "yes", 'a: "yes"\n'],
    ["a: b\n", "0777", 'a: "0777"\n'],
    ["a: b\n", "1e3", 'a: "1e3"\n'],
    ["a: b\n", "null", 'a: "null"\n'],
    ["a: b\n", "c: d", 'a: "c: d"\n'],
    ["a: b\n", "c #d", 'a: "c #d"\n'],
    ["a: b\n", " c", 'a: " c"\n'],
    ["a: b\n", "\\d", "a: \\d\n"],
    ["a: b\n", ": \\d", "a: ': \\d'\n"],
    ["a:\n", 3, "a: 3\n"],
    ["a:   # c\n", true, "a: true   # c\n"],
    ["a: b", "c", "a: c"],
    ["a: b # c\n", "d\ne", "a: |- # c\n  d\n  e\n"],
    ["a: b\r\nc: d\r\n", "d\ne\n", "a: |\r\n  d\r\n  e\r\nc: d\r\n"],
    ["a: b", "d\ne\n", "a: |\n  d\n  e\n"],
    ["a: b\n", "  d\ne", "a: |2-\n    d\n  e\n"],
    ["a: | # c\n  d\n  e\nf: g\n", "h", "a: |- # c\n  h\nf: g\n"],
    ["a: |\n  d\n\n# c\nf: g\n", 1, "a: 1\n\n# c\nf: g\n"],
    ["{a: b, c: d}\n", "d\ne", '{a: "d\\ne", c: d}\n'],
    ["{a: b}\n", "x, y", '{a: "x, y"}\n'],
    ['{"a": "b"}', "c", '{"a": "c"}'],
    ["a: b\n  # c\n", "d\ne", 'a: "d\\ne"\n  # c\n'],
  ])("%j with %j becomes %j", (text, value, result) => {
    expect(set(text, ["a"], value)).toBe(result);
    expect(readDocument(result).value).toMatchObject({ a: value });
  });
});

describe("keys that are missing", () => {
  it.each<[string, Path, unknown, string]>([
    ["a:\n    b: 1\n", ["a", "c", "d"], 2, "a:\n    b: 1\n    c:\n        d: 2\n"],
    ["- id: A # x\n# y\n- id: B\n", [0, "config", "role"], "r", "- id: A # x\n  config:\n    role: r\n# y\n- id: B\n"],
    ["{a: 1}\n", ["b", "c"], [1, "x"], "{a: 1, b: {c: [1, x]}}\n"],
    ["a: {}\n", ["a", "b"], 1, "a:\n  b: 1\n"],
    ["a:\n", ["a", "b"], 1, "a:\n  b: 1\n"],
    ["a: []\n", ["a", 0], { b: 1 }, "a:\n  - b: 1\n"],
    ['{\n\t"a": 1\n}', ["b"], "c", '{\n\t"a": 1,\n\t"b": "c"\n}'],
    ["{\n  a: 1, # one\n}", ["b"], 2, "{\n  a: 1, # one\n  b: 2,\n}"],
    ["", ["a", "b"], 1, "a:\n  b: 1\n"],
    ["# only a comment", ["a"], 1, "# only a comment\na: 1\n"],
  ])("%j at %j", (text, path, value, result) => expect(set(text, path, value)).toBe(result));
});

describe("removals", () => {
  it.each<[string, Path, string]>([
    ["a:\n  config:\n    b: 1 # x\n  c: 2\n", ["a", "config", "b"], "a:\n  c: 2\n"],
    ["- a: 1\n  b: 2\n", [0, "a"], "- b: 2\n"],
    ["- a: 1\n  # of b\n  b: 2\n", [0, "a"], "- # of b\n  b: 2\n"],
    ["- a: 1\n", [0, "a"], "- {}\n"],
    ["{a: 1, b: 2, c: 3}", ["b"], "{a: 1, c: 3}"],
    ["{a: 1, b: 2, c: 3}", ["c"], "{a: 1, b: 2}"],
    ["{a: {b: 1}, c: 2}", ["a", "b"], "{c: 2}"],
    ["a: 1\nb: 2", ["b"], "a: 1\n"],
    ["a: |\n  x\nb: 2", ["b"], "a: |\n  x\n"],
    ["x:\n  - a\n\n  - b\n\n  - c\n", ["x", 1], "x:\n  - a\n\n  - c\n"],
    ["x: [\n  1, # one\n  2\n]\n", ["x", 1], "x: [\n  1 # one\n]\n"],
  ])("%j without %j", (text, path, result) => expect(set(text, path, undefined)).toBe(result));
});

describe("anchors, aliases and merge keys", () => {
  it.each<[string, Path, unknown, string]>([
    ["a: &x 1\nb: *x\n", ["b"], 2, "a: &x 1\nb: 2\n"],
    ["a: &x {k: 1, l: 2}\nb: *x\n", ["b", "k"], 3, "a: &x {k: 1, l: 2}\nb: {k: 3, l: 2}\n"],
    ["a: &x {k: 1}\nb:\n  <<: *x\n", ["b", "k"], 3, "a: &x {k: 1}\nb:\n  <<: *x\n  k: 3\n"],
    ["a: &x {k: 1, l: 2}\nb:\n  <<: *x\n  m: 1\n", ["b", "k"], undefined, "a: &x {k: 1, l: 2}\nb:\n  <<: {l: 2}\n  m: 1\n"],
    ["a: &x 1\nb: *x\nc: *x\n", ["a"], undefined, "b: &x 1\nc: *x\n"],
    ["a: &x 1\nb: *x\n", ["a"], 2, "a: &x 2\nb: *x\n"],
  ])("%j at %j", (text, path, value, result) => expect(set(text, path, value)).toBe(result));
});

const REVIEW = `graph:
  nodes:
    - id: Writer # the first
      type: agent
    - {id: Reviewer, type: agent}
  edges:
    # there
    - {from: Writer, to: Reviewer}
    # and back
    - from: Reviewer
      to: Writer
      condition: {type: keyword, config: {none: [ACCEPT]}}
  start: Writer
  loops:
    Writer: {max_rounds: 3}
debug: {break_at: ["Writer[2]/Reviewer", Writer]}
`;

describe("nodes and edges", () => {
  it("begins a graph", () => {
    expect(edited("", (document) => addNode(document, "", { id: "A", type: "agent" }))).toBe(
      "graph:\n  nodes:\n    - id: A\n      type: agent\n  start: A\n",
    );
  });
  it("adds an edge to a graph without edges behind its nodes", () => {
    const text = "nodes:\n- id: A\n  type: agent\nstart: A\n";
    expect(edited(text, (document) => addEdge(document, "", { from: "A", to: "A" }))).toBe(
      "nodes:\n- id: A\n  type: agent\nedges:\n- from: A\n  to: A\nstart: A\n",
    );
  });
  it("adds a node between two", () => {
    const result = edited(REVIEW, (document) => addAfter(document, "Writer", { id: "New", type: "human" }));
    expect(result).toContain("      type: agent\n    - id: New\n      type: human\n    - {id: Reviewer");
    expect(result).toContain("    # there\n    - {from: Writer, to: New}\n    - {from: New, to: Reviewer}\n    # and back\n");
  });
  it("reconnects the ends and the port of an edge", () => {
    const result = edited(REVIEW, (document) => reconnect(document, "", 0, { to: "Writer", port: "error" }));
    expect(result).toBe(REVIEW.replace("to: Reviewer}", "to: Writer, port: error}"));
  });
  it("renames a node wherever it is named", () => {
    const result = edited(REVIEW, (document) => rename(document, "Writer", "Author: A"));
    expect(result).toBe(
      REVIEW.replace("id: Writer", 'id: "Author: A"')
        .replace("from: Writer", 'from: "Author: A"')
        .replace("to: Writer", 'to: "Author: A"')
        .replace("start: Writer", 'start: "Author: A"')
        .replace("    Writer: {", '    "Author: A": {')
        .replace('"Writer[2]/Reviewer", Writer', '"Author: A[2]/Reviewer", "Author: A"'),
    );
  });
  it("removes a node with everything that names it", () => {
    const result = edited(REVIEW, (document) => remove(document, [{ kind: "node", key: "Writer" }]));
    expect(result).toBe("graph:\n  nodes:\n    - {id: Reviewer, type: agent}\n");
  });
  it("renames and removes the node whose message leaves a loop", () => {
    const text = "graph:\n  nodes:\n    - {id: W, type: agent}\n    - {id: G, type: loop, config: {max_rounds: 2, output: W}}\n";
    expect(edited(text, (document) => rename(document, "W", "V"))).toBe(text.replace("id: W", "id: V").replace("output: W", "output: V"));
    const result = edited(text, (document) => remove(document, [{ kind: "node", key: "W" }]));
    expect(result).toBe("graph:\n  nodes:\n    - {id: G, type: loop, config: {max_rounds: 2}}\n");
  });
  it("stores positions in one line", () => {
    const places = [{ key: "Writer", at: { x: 1.6, y: -20 } }, { key: "Reviewer", at: { x: 0, y: 3 } }];
    const moved = edited(REVIEW, (document) => setPosition(document, places));
    expect(moved).toContain("      type: agent\n      position: [2, -20]\n    - {id: Reviewer, type: agent, position: [0, 3]}\n");
    expect(edited(moved, (document) => setPosition(document, places.map(({ key }) => ({ key, at: null }))))).toBe(REVIEW);
  });
  it("finds free ids", () => {
    const document = readDocument("nodes: [{id: A}, {id: A 2}]\n");
    expect([freeId(document, "", "B"), freeId(document, "", "A"), freeId(document, "", "A 2")]).toEqual(["B", "A 3", "A 3"]);
  });
  it("sets several values at once", () => {
    const document = readDocument("a: 1\nb: 2\n");
    expect(applied("a: 1\nb: 2\n", setValues(document, [[["a"], 3], [["c"], 4], [["b"], undefined]]))).toBe("a: 3\nc: 4\n");
  });
});

describe("guards", () => {
  const text = REVIEW.replace("  start: Writer\n", "  start: Writer\n  end: Reviewer\n");
  it("counts beside the back edge", () => {
    const guard = { id: "Guard", type: "loop_counter", config: { max_iterations: 3 } };
    const result = edited(text, (document) => addGuard(document, "", { entry: "Writer", back: [1], exit: "Reviewer" }, guard));
    expect(result).toContain(`      condition: {type: keyword, config: {none: [ACCEPT]}}
    - from: Reviewer
      to: Guard
      condition:
        type: keyword
        config:
          none: [ACCEPT]
    - from: Guard
      to: Writer
    - from: Guard
      to: Reviewer
  start`);
  });
  it("decides in the place of the back edge", () => {
    const guard = { id: "Gate", type: "loop", config: { max_rounds: 3 } };
    const result = edited(text, (document) => addGuard(document, "", { entry: "Writer", back: [1], exit: "Reviewer" }, guard));
    expect(result).toContain("      to: Gate\n      condition: {type");
    expect(result).toContain("    - from: Gate\n      to: Writer\n      port: continue\n    - from: Gate\n      to: Reviewer\n      port: exit\n");
  });
});

describe("the clipboard", () => {
  it("copies items with their comments and the edges between them", () => {
    const document = readDocument(REVIEW);
    const both = copied(document, [{ kind: "node", key: "Writer" }, { kind: "node", key: "Reviewer" }]);
    expect(both).toBe(`nodes:
  - id: Writer # the first
    type: agent
  - {id: Reviewer, type: agent}
edges:
  - {from: Writer, to: Reviewer}
  - from: Reviewer
    to: Writer
    condition: {type: keyword, config: {none: [ACCEPT]}}
`);
    const edit = paste(document, "", both);
    const result = applied(REVIEW, edit.changes);
    expect(result).toContain("    - id: Writer 2 # the first\n      type: agent\n    - {id: Reviewer 2, type: agent}\n  edges:");
    expect(result).toContain("    - {from: Writer 2, to: Reviewer 2}\n    - from: Reviewer 2\n      to: Writer 2\n");
    expect(edit.select).toEqual([{ kind: "node", key: "Writer 2" }, { kind: "node", key: "Reviewer 2" }]);
  });
  it("pastes into an empty text", () => {
    expect(edited("", (document) => paste(document, "", "nodes:\n  - id: A # x\n    type: agent\n"))).toBe(
      "graph:\n  nodes:\n    - id: A # x\n      type: agent\n  start: A\n",
    );
  });
  it("pastes nothing but workflows", () => {
    for (const text of ["", "words", "nodes: [", "a: 1"]) expect(paste(readDocument(REVIEW), "", text).changes).toEqual([]);
  });
});

it("tells which lines changes touch", () => {
  expect(linesTouched("a\nb\nc\n", [{ from: 1, to: 1, insert: "\nnew" }])).toEqual([]);
  expect(linesTouched("a\nb\nc\n", [{ from: 2, to: 3, insert: "x" }])).toEqual([2]);
  expect(linesTouched("a\nb\nc\n", [{ from: 0, to: 4, insert: "" }])).toEqual([1, 2]);
});
