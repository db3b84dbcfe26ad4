import { describe, expect, it } from "vitest";
import type { Diagnostic, DrawnEdge, DrawnNode, Drawing, Region } from "../../../api/schema";
import { applied } from "../../../document/model";
import { readDocument } from "../../../document/read";
import { applyFix, capEdit, fixOf, loopOfProof, regionOfProblem } from "./fix";

const TEXT = `graph:
  nodes:
    - {id: Writer, type: agent}
    - {id: Reviewer, type: agent} # says ACCEPT
    - {id: Final, type: passthrough}
  edges:
    - {from: Writer, to: Reviewer}
    - {from: Reviewer, to: Writer, condition: {type: keyword, config: {none: [ACCEPT]}}}
    - {from: Reviewer, to: Final, condition: {type: keyword, config: {any: [ACCEPT]}}}
  start: Writer
  end: Final
`;

const problem: Diagnostic = { code: "only-capped", severity: "warning", file: "", line: 3, column: 8, message: "", hint: "" };
const node = (id: string, parent = ""): DrawnNode => ({ key: id, id, parent, region: "", missing: false }) as DrawnNode;
const edge = (source: string, target: string, more: Partial<DrawnEdge> = {}): DrawnEdge =>
  ({ source, target, kind: "edge", back: false, leaves: false, triggers: true, explicit: false, port: "", ...more }) as DrawnEdge;
const region: Region = {
  key: "Writer[]",
  kind: "loop",
  repeats: true,
  title: "loop Writer",
  entry: "Writer",
  parent: "",
  problems: [problem],
} as unknown as Region;
const drawing: Drawing = {
  regions: [region],
  nodes: [node("Writer", "Writer[]"), node("Reviewer", "Writer[]"), node("Final")],
  edges: [edge("Writer", "Reviewer"), edge("Reviewer", "Writer", { back: true }), edge("Reviewer", "Final", { leaves: true })],
} as unknown as Drawing;

describe("fixOf", () => {
  it("finds the way back and the way out", () => {
    const fix = fixOf(readDocument(TEXT), drawing, region);
    expect(fix).toEqual({
      graph: "",
      loop: { entry: "Writer", back: [1], exit: "Final" },
      guard: { id: "Loop Guard", type: "loop_counter", config: { max_iterations: 3 } },
    });
  });

  it("adds lines, and changes none", () => {
    const document = readDocument(TEXT);
    const fix = fixOf(document, drawing, region);
    const now = fix && applied(TEXT, applyFix(document, fix).changes);
    expect(TEXT.split("\n").filter((line) => !now?.split("\n").includes(line))).toEqual([]);
    const { edges } = readDocument(now ?? "").graphs.get("") ?? { edges: [] };
    expect(edges.map(({ from, to }) => `${from} → ${to}`)).toEqual([
      "Writer → Reviewer",
      "Reviewer → Writer",
      "Reviewer → Loop Guard",
      "Loop Guard → Writer",
      "Loop Guard → Final",
      "Reviewer → Final",
    ]);
  });

  it("gives up if the loop is not in the text any more", () => {
    expect(fixOf(readDocument(TEXT.replace("from: Reviewer, to: Writer", "from: Final, to: Writer")), drawing, region)).toBeNull();
    expect(fixOf(readDocument("graph: {}"), drawing, region)).toBeNull();
  });
});

describe("regions", () => {
  it("are found by a problem and by a proof", () => {
    expect(regionOfProblem(drawing, problem)).toBe(region);
    expect(regionOfProblem(drawing, { ...problem, line: 4 })).toBeUndefined();
    const proof = { id: "Writer", nodes: ["Writer", "Reviewer"], bounded_by: [], worst_case_rounds: null, cap: 100, depth: 0, worst_case_total: null };
    expect(loopOfProof(drawing, proof)).toEqual({ region, node: "Writer" });
    expect(loopOfProof(drawing, { ...proof, nodes: ["Writer"] })).toBeUndefined();
  });
});

describe("capEdit", () => {
  it("writes the cap of the loop", () => {
    const document = readDocument(TEXT);
    const now = readDocument(applied(TEXT, capEdit(document, "Writer", 7).changes));
    expect(now.value).toMatchObject({ graph: { loops: { Writer: { max_rounds: 7 } } } });
  });
});
