import { EditorState, type TransactionSpec } from "@codemirror/state";
import { describe, expect, it } from "vitest";
import { lineEndings } from "./line_endings";

const TEXT = "a: 1\r\nb: 2\r\n";

function after(spec: TransactionSpec, text = TEXT): string {
  const state = EditorState.create({ doc: text, extensions: [EditorState.lineSeparator.of("\n"), lineEndings] });
  return state.update(spec).state.doc.toString();
}

describe("carriage returns", () => {
  it("are added to line breaks that are typed", () => {
    expect(after({ changes: { from: 4, insert: "\nx" }, userEvent: "input" })).toBe("a: 1\r\nx\r\nb: 2\r\n");
    expect(after({ changes: { from: 3, insert: "p\nq" }, userEvent: "input.paste" })).toBe("a: p\r\nq1\r\nb: 2\r\n");
  });

  it("stay at the end of their line if somebody types behind one", () => {
    expect(after({ changes: { from: 5, insert: "0" }, userEvent: "input.type" })).toBe("a: 10\r\nb: 2\r\n");
    expect(after({ changes: { from: 5, insert: "\n  " }, userEvent: "input" })).toBe("a: 1\r\n  \r\nb: 2\r\n");
  });

  it("go with the line break that is deleted", () => {
    expect(after({ changes: { from: 5, to: 6 }, userEvent: "delete.backward" })).toBe("a: 1b: 2\r\n");
  });

  it("are not added to other texts, nor by other edits", () => {
    expect(after({ changes: { from: 4, insert: "\nx" }, userEvent: "input" }, "a: 1\nb: 2\n")).toBe("a: 1\nx\nb: 2\n");
    expect(after({ changes: { from: 4, insert: "\nx" }, userEvent: "input.canvas" })).toBe("a: 1\nx\r\nb: 2\r\n");
  });
});
