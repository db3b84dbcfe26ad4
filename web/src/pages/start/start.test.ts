import { describe, expect, it } from "vitest";
import type { Problem, VariableView } from "../../api/schema";
import { EMPTY_DRAFT, type Draft } from "./draft";
import { bodyOf, commandOf, dataOf, IdempotencyKeys, limitsOf, newKey, quote, readValue, refusalOf, variablesOf } from "./start";

function draft(some: Partial<Draft>): Draft {
  return { ...EMPTY_DRAFT, ...some };
}

function variable(name: string, value: unknown, secret = false): VariableView {
  return { name, value, secret };
}

describe("variables", () => {
  const known = [variable("ROUNDS", 3), variable("TONE", "plain"), variable("FAST", true), variable("KEY", null, true), variable("LIST", [1])];

  it("sends only what was changed, with its type", () => {
    const variables = { ROUNDS: "5", TONE: "plain", FAST: "false", KEY: "x", LIST: "[2]", GONE: "1" };
    expect(variablesOf(draft({ variables }), known)).toEqual({ ROUNDS: 5, FAST: false });
  });

  it("keeps texts as they are", () => {
    expect(readValue("007", "1")).toBe("007");
    expect(readValue("many", 3)).toBe("many");
    expect(readValue("", 3)).toBe("");
  });
});

it("reads limits with separators, and names those that are wrong", () => {
  const limits = { tokens: "8,000", cost_usd: "0.5", rounds: "2.5", steps: "many", seconds: " ", model_calls: "-1" };
  expect(limitsOf(draft({ limits }))).toEqual({ values: { tokens: 8000, cost_usd: 0.5 }, wrong: ["rounds", "steps", "model_calls"] });
});

it("takes only objects as structured fields", () => {
  expect(dataOf(draft({ data: '{"a": 1}' }))).toEqual({ a: 1 });
  expect(dataOf(draft({ data: " " }))).toBeNull();
  expect(dataOf(draft({ data: "[1]" }))).toBeUndefined();
  expect(dataOf(draft({ data: "{a" }))).toBeUndefined();
});

describe("the body", () => {
  it("says nothing about what was left alone", () => {
    expect(bodyOf(draft({ input: "tea" }), "mine", undefined, [], null, false)).toEqual({ workflow: "mine", input: "tea" });
  });

  it("has everything that was filled in", () => {
    const full = draft({ input: "tea", data: '{"n": 1}', limits: { tokens: "9" }, breakpoints: ["Writer[2]", " ", "cel: round > 2"] });
    expect(bodyOf(full, { text: "t" }, "team", [], "Writer: x", true)).toEqual({
      workflow: { text: "t" },
      input: { text: "tea", data: { n: 1 } },
      group: "team",
      limits: { tokens: 9 },
      breakpoints: ["Writer[2]", { cel: "round > 2" }],
      script: "Writer: x",
      paused: true,
    });
  });
});

describe("the command", () => {
  it("quotes for the shell", () => {
    expect(quote("plain-1.yaml")).toBe("plain-1.yaml");
    expect(quote("it's $HOME")).toBe(`'it'\\''s $HOME'`);
    expect(quote("")).toBe("''");
  });

  it("has each field once", () => {
    const full = draft({ input: "a b", variables: { TONE: "x y" }, limits: { tokens: "9" }, breakpoints: ["cel: a > 1"] });
    expect(commandOf(full, "mine", [variable("TONE", "plain")], true)).toBe(
      "roundel run mine.yaml \\\n  --var 'TONE=x y' \\\n  --limit tokens=9 \\\n  --script script.yaml \\\n  --break 'cel: a > 1' \\\n  --input 'a b'",
    );
  });
});

describe("a refusal", () => {
  const problem = (some: Partial<Problem>) => ({ title: "", status: 422, type: "urn:roundel:problem:bad-request", ...some }) as Problem;

  it("stands at its field", () => {
    const location = ["body", "input", "RunInput", "data"];
    expect(refusalOf(problem({ errors: [{ location, message: "no" }] }), "").field).toBe("input");
    expect(refusalOf(problem({}), "a limit is a number: of rounds").field).toBe("limits");
    expect(refusalOf(problem({}), "no breakpoint can be at 'Nope'").field).toBe("breakpoints");
    expect(refusalOf(problem({ status: 404 }), "there is no workflow").field).toBe("workflow");
    expect(refusalOf(undefined, "the server cannot be reached")).toEqual({
      field: "",
      notes: [{ line: 0, text: "the server cannot be reached" }],
    });
  });

  it("shows errors of the workflow with their lines, and no warnings", () => {
    const one = { code: "x", file: "f", column: 1, hint: "", severity: "error", line: 3, message: "bad" };
    const refusal = refusalOf(problem({ diagnostics: [one, { ...one, severity: "warning" }] }), "");
    expect(refusal).toEqual({ field: "workflow", notes: [{ line: 3, text: "bad" }] });
  });
});

it("has one key for one body", () => {
  const keys = new IdempotencyKeys();
  const key = keys.keyFor({ workflow: "a" });
  expect(keys.keyFor({ workflow: "a" })).toBe(key);
  expect(keys.keyFor({ workflow: "b" })).not.toBe(key);
  expect(newKey()).toMatch(/^[0-9a-f]{32}$/);
});
