import { ChangeSet, EditorState, Text } from "@codemirror/state";
import { describe, expect, it } from "vitest";
import type { Diagnostic } from "../../../api/schema";
import { problemBoxes, problemsIn, problemsOfReading, rangeOf, showProblems } from "./problems";

const TEXT = "graph:\n  nodes:\n    - id: Planner # first\n      type: agent\n";
const found: Diagnostic = { code: "only-capped", severity: "warning", file: "", line: 3, column: 7, message: "m", hint: "h" };

describe("rangeOf", () => {
  const doc = Text.of(TEXT.split("\n"));
  const marked = (line: number, column: number) => {
    const { from, to } = rangeOf(doc, line, column);
    return TEXT.slice(from, to);
  };

  it("marks the value of a key, without the comment", () => {
    expect(marked(3, 7)).toBe("Planner");
  });

  it("marks a line if there is no column, and nothing if there is no line", () => {
    expect(marked(4, 0)).toBe("type: agent");
    expect(marked(0, 0)).toBe("");
    expect(marked(99, 1)).toBe("");
  });
});

describe("problemsIn", () => {
  it("finds places again after later changes", () => {
    const since = ChangeSet.of({ from: 0, insert: "# new\n" }, TEXT.length);
    const [problem] = problemsIn(TEXT, [found], since, () => null);
    const now = `# new\n${TEXT}`;
    expect(now.slice(problem?.from, problem?.to)).toBe("Planner");
  });

  it("collapses what was deleted", () => {
    const since = ChangeSet.of({ from: 7, to: TEXT.length }, TEXT.length);
    expect(problemsIn(TEXT, [found], since, () => null)).toMatchObject([{ from: 7, to: 7 }]);
  });

  it("keeps errors of the parser inside of the text", () => {
    expect(problemsOfReading([{ from: 50, to: 60, message: "m" }], 10)).toMatchObject([{ from: 10, to: 10 }]);
  });
});

describe("boxes", () => {
  const state = EditorState.create({ doc: TEXT, extensions: [problemBoxes] });
  const shown = (now: EditorState) => now.field(problemBoxes).shown.size;

  it("are open for problems with a repair, and closed for others", () => {
    const fix = { text: "Add", apply: () => undefined };
    const since = ChangeSet.empty(TEXT.length);
    expect(shown(state.update(showProblems(state, problemsIn(TEXT, [found], since, () => null))).state)).toBe(0);
    expect(shown(state.update(showProblems(state, problemsIn(TEXT, [found], since, () => fix))).state)).toBe(1);
  });
});
