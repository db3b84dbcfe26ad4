import { describe, expect, it } from "vitest";
import { readDocument } from "../../../document/read";
import { completionsAt, written } from "./completion";
import { keyAt } from "./hover";
import type { FieldInfo, Fields, ObjectInfo } from "./schema";

const field = (key: string, more: Partial<FieldInfo> = {}): FieldInfo => ({
  key,
  aliases: [],
  title: key,
  description: `about ${key}`,
  type: "text",
  shape: "single",
  widget: "text",
  unit: null,
  required: false,
  default: null,
  choices: null,
  objects: [],
  ...more,
});
const object = (name: string, fields: FieldInfo[], more: Partial<ObjectInfo> = {}): ObjectInfo => ({
  name,
  title: name,
  description: "",
  fields,
  variants: null,
  ...more,
});
const many = (name: string) => ({ type: "object", shape: "list" as const, objects: [name] });
const choices = (...values: string[]) => values.map((value) => ({ value, title: value }));

const fields: Fields = {
  types: {
    agent: object("agent", [field("role"), field("tools", { shape: "list", widget: "tool" })], { ports: [{ name: "error", title: "" }] }),
    loop: object("loop", [field("max_rounds", { type: "integer" }), field("keep", { choices: choices("last", "best") })], {
      ports: [{ name: "continue", title: "again" }, { name: "exit", title: "over" }],
    }),
  },
  objects: {
    workflow: object("workflow", [field("graph", { type: "object", objects: ["graph"] }), field("tools", { type: "object", shape: "map", objects: ["tool"] })]),
    tool: object("tool", [field("python"), field("timeout")]),
    graph: object("graph", [
      field("nodes", many("node")),
      field("edges", many("edge")),
      field("start", { shape: "list", widget: "node" }),
      field("loops", { type: "object", shape: "map", objects: ["cap"] }),
    ]),
    cap: object("cap", [field("max_rounds")]),
    node: object("node", [
      field("id", { required: true }),
      field("type", { choices: choices("agent", "loop") }),
      field("config", { type: "object" }),
      field("log_output", { type: "boolean" }),
    ]),
    edge: object("edge", [
      field("from", { widget: "node" }),
      field("to", { widget: "node" }),
      field("port", { widget: "port" }),
      field("condition", { type: "object", objects: ["condition"] }),
    ]),
    condition: object("condition", [field("type", { choices: choices("keyword") }), field("config", { type: "object" })], {
      variants: { key: "type", config: "config", objects: { keyword: "keyword" } },
    }),
    keyword: object("keyword", [field("any"), field("none")]),
  },
};

const TEXT = `tools:
  search: {python: "a:b"}
graph:
  nodes:
    - id: Writer
      type: agent
    - id: "no"
      type: loop
  edges:
    - {from: Writer, to: "no"}
`;

/** The labels that are offered at `|`, in a text that is appended. */
function offered(more: string, text = TEXT): string[] {
  const marked = text + more;
  const offset = marked.lastIndexOf("|");
  const whole = marked.slice(0, offset) + marked.slice(offset + 1);
  const found = completionsAt({ fields, document: readDocument(text) }, whole, offset);
  return found?.options.map(({ label }) => label) ?? [];
}

describe("completionsAt", () => {
  it("offers keys that are not there yet", () => {
    expect(offered("  |")).toEqual(["start", "loops"]);
    expect(offered("  nodes2:\n|")).toEqual([]);
  });

  it("offers keys of the type of the node", () => {
    const text = "graph:\n  nodes:\n    - id: A\n      type: loop\n      config:\n        |";
    expect(offered(text, "")).toEqual(["max_rounds", "keep"]);
    expect(offered(text.replace("loop", "agent"), "")).toEqual(["role", "tools"]);
  });

  it("offers choices and truth values", () => {
    expect(offered("graph:\n  nodes:\n    - id: A\n      type: |", "")).toEqual(["agent", "loop"]);
    expect(offered("graph:\n  nodes:\n    - id: A\n      log_output: |", "")).toEqual(["true", "false"]);
  });

  it("offers nodes at the ends of edges, and the ports of the node that an edge leaves", () => {
    expect(offered("    - {from: |")).toEqual(["Writer", "no"]);
    expect(offered("    - from: |")).toEqual(["Writer", "no"]);
    expect(offered('    - {from: "no", to: Writer, port: |}')).toEqual(["continue", "exit"]);
    expect(offered("  start: |")).toEqual(["Writer", "no"]);
    expect(offered("  start: [Writer, |]")).toEqual(["Writer", "no"]);
  });

  it("offers fields of variants", () => {
    expect(offered("    - {from: Writer, to: x, condition: {type: keyword, config: {|}}}")).toEqual(["any", "none"]);
  });

  it("offers names of nodes as keys of loops, and fields below them", () => {
    expect(offered("  loops:\n    |")).toEqual(["Writer", "no"]);
    expect(offered("  loops:\n    Writer: {|}")).toEqual(["max_rounds"]);
  });

  it("offers the tools of the file", () => {
    const text = TEXT.replace("      type: agent\n", "      type: agent\n      config:\n        tools: [|]\n");
    expect(offered(text, "")).toEqual([]);
    const offset = text.indexOf("|");
    const found = completionsAt({ fields, document: readDocument(TEXT) }, text.replace("|", ""), offset);
    expect(found?.options.map(({ label }) => label)).toEqual(["search"]);
  });
});

describe("written", () => {
  it("quotes what would be no text", () => {
    expect(["Test Gate", "no", "3", "a: b", "评审"].map(written)).toEqual(["Test Gate", '"no"', '"3"', '"a: b"', "评审"]);
  });
});

describe("keyAt", () => {
  it("finds the field of a key", () => {
    const text = "graph:\n  nodes:\n    - id: A\n      type: loop\n      config: {max_rounds: 3}\n";
    const found = keyAt(fields, text, text.indexOf("rounds"));
    expect(found && text.slice(found.from, found.to)).toBe("max_rounds");
    expect(found?.field.description).toBe("about max_rounds");
    expect(keyAt(fields, text, text.indexOf("loop"))).toBeNull();
  });
});
