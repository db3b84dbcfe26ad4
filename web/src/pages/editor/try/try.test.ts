// @vitest-environment node
import { describe, expect, it } from "vitest";
import type { Drawing } from "../../../api/schema";
import { readDocument } from "../../../document/read";
import type { RunEvent } from "../../../live/events";
import { RunModel } from "../../../live/run_model";
import { MOST_ROWS, rowsOf } from "./rows";
import { exampleOf, scriptToSend, suggestedScript, type ScriptWords } from "./script";

const WORDS: ScriptWords = { head: "Replies.", people: "People:", reply: (node, number) => `${node} ${number}` };

const TEXT = `graph:
  nodes:
    - {id: Writer, type: agent}
    - {id: "on", type: agent, config: {output_schema: {type: object, properties: {score: {type: integer, minimum: 3}}}}}
    - {id: Editor, type: human}
    - {id: Final, type: passthrough}
`;

describe("a suggested script", () => {
  it("answers for agents, and leaves people to the reader", () => {
    const script = suggestedScript(readDocument(TEXT), null, WORDS);
    expect(script.split("\n")).toEqual([
      "# Replies.",
      'Writer: ["Writer 1", "Writer 2"]',
      // Other parsers take the name for a boolean.
      '"on": [{"data":{"score":3}}]',
      "# People:",
      '# Editor: ["Editor 1"]',
      "",
    ]);
  });

  it("ends with what an edge out of the loop waits for", () => {
    const edge = { kind: "edge", source: "Editor", port: "", triggers: true, back: false, leaves: true };
    const drawing = {
      nodes: [{ key: "Final", id: "Final", type: "passthrough" }],
      edges: [{ ...edge, target: "Final", text: 'text == "OK"', label: { lines: ['text == "OK"'] } }],
    } as unknown as Drawing;
    expect(suggestedScript(readDocument(TEXT), drawing, WORDS)).toContain('# Editor: ["OK"]');
  });

  it("is never empty, since no script means real models", () => {
    expect(scriptToSend(" \n")).toBe("{}");
    expect(scriptToSend("Writer: a")).toBe("Writer: a");
  });
});

it("examples fit their schemas", () => {
  const properties = { verdict: { enum: ["accept", "revise"] }, notes: { type: "array", items: { type: "string" } }, ok: { type: "boolean" } };
  expect(exampleOf({ type: "object", properties })).toEqual({ verdict: "accept", notes: ["text"], ok: true });
  expect(exampleOf({ type: ["number", "null"] })).toBe(1);
  expect(exampleOf({ default: 7 })).toBe(7);
  const endless: Record<string, unknown> = { type: "array" };
  endless.items = endless;
  expect(JSON.stringify(exampleOf(endless))).toBe("[[[[[[null]]]]]]");
});

describe("rows", () => {
  let seq = 0;
  const event = (name: string, address: string, data: Record<string, unknown>) => ({
    seq: ++seq,
    event: name,
    timestamp: new Date(seq * 1000).toISOString(),
    run_id: "r",
    node_id: address.split("/").pop() ?? "",
    address,
    data,
  }) as unknown as RunEvent;
  const ran = (address: string, output: string) => [
    event("node_state_change", address, { status: "running" }),
    event("node_state_change", address, { status: "completed", output }),
  ];
  const round = (address: string) => event("loop_round", address, { loop: "Writer" });

  it("have a heading for each round", () => {
    seq = 0;
    const model = new RunModel();
    model.apply([round("Writer[1]"), ...ran("Writer[1]/Writer", "tea"), ...ran("Writer[1]/Editor", "more")]);
    model.apply([round("Writer[2]"), ...ran("Writer[2]/Writer", "cake"), ...ran("Final", "cake")]);
    const shown = rowsOf(model).rows.map((row) => (row.kind === "round" ? row.address : `${row.depth} ${row.execution.node_id}: ${row.text}`));
    expect(shown).toEqual(["Writer[1]", "1 Writer: tea", "1 Editor: more", "Writer[2]", "1 Writer: cake", "0 Final: cake"]);
  });

  it("are the newest of a long run", () => {
    seq = 0;
    const model = new RunModel();
    for (let number = 1; number <= MOST_ROWS + 5; number++) model.apply(ran(`Step${number}`, ""));
    const { rows, left } = rowsOf(model);
    expect(left).toBe(5);
    expect(rows).toHaveLength(MOST_ROWS);
  });
});
