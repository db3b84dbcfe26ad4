// Values of the text as switches, choices and fields, and back.
import { describe, expect, it } from "vitest";
import { applied } from "../../../document/model";
import { readDocument } from "../../../document/read";
import { readCondition, writeCondition, placeOf } from "./edge/condition";
import { exchanged, renamedKey } from "./lists";
import { decideOn, readExits, readSource, writePlateau, writeScore, writeSource } from "./loop/exits";
import { mergeValues } from "./merged";
import { readSchema, writeSchema } from "./nodes/schema";
import { anyText, readAny, readDuration, readNumber } from "./values";
import { withWrites } from "./write";

describe("what ends a loop", () => {
  it("is read from the options", () => {
    expect(readExits(undefined)).toEqual({ rounds: 3, score: null, byConsensus: false, plateau: null });
    expect(readExits({ max_rounds: 10, exit_on_score: 95, patience: 3, min_delta: 1 })).toEqual({
      rounds: 10,
      score: 95,
      byConsensus: false,
      plateau: { gain: 1, rounds: 3 },
    });
    expect(readExits({ exit_condition: "consensus", patience: 2 })).toMatchObject({
      byConsensus: true,
      plateau: { gain: 0, rounds: 2 },
    });
  });

  it("has no score of 0 or less, and no plateau without patience", () => {
    expect(readExits({ exit_on_score: 0, min_delta: 2, exit_condition: "max_rounds" })).toMatchObject({
      score: null,
      plateau: null,
      byConsensus: false,
    });
    expect(readExits({ exit_on_score: -1 }).score).toBeNull();
  });

  it("keeps variables", () => {
    const exits = readExits({ max_rounds: "${ROUNDS}", exit_on_score: "${SCORE}", patience: "${PATIENCE}" });
    expect(exits).toMatchObject({ rounds: null, score: "${SCORE}", plateau: { gain: 0, rounds: "${PATIENCE}" } });
  });

  for (const config of [{}, { exit_on_score: 95 }, { patience: 3 }, { exit_on_score: 0.5, patience: 2, min_delta: 0.1 }]) {
    it(`is the same after writing: ${JSON.stringify(config)}`, () => {
      const exits = readExits(config);
      const written = withWrites({ config: {} }, [], [...writeScore(exits.score), ...writePlateau(exits.plateau)]);
      expect(written).toEqual(Object.keys(config).length ? { config } : { config: {} });
    });
  }

  it("leaves nothing behind when it is turned off", () => {
    const before = { config: { max_rounds: 5, exit_on_score: 95, patience: 3, min_delta: 1 } };
    expect(withWrites(before, [], [...writeScore(null), ...writePlateau(null)])).toEqual({ config: { max_rounds: 5 } });
  });

  it("decides by the score", () => {
    const exits = readExits({ exit_on_score: 95 });
    expect([94.9, 95, null].map((score) => decideOn(score, exits))).toEqual(["continue", "exit", "continue"]);
    expect(decideOn(100, readExits({}))).toBe("continue");
    expect(decideOn(100, readExits({ exit_on_score: "${SCORE}" }))).toBe("continue");
  });

  it("finds the score in three ways", () => {
    for (const value of [undefined, "data.points", { regex: "Score: (\\d+)" }]) {
      const source = readSource(value);
      expect(source && writeSource(source)).toEqual(value);
    }
    expect(readSource(3)).toBeNull();
  });
});

describe("the condition of an edge", () => {
  const forms: [unknown, string][] = [
    [undefined, "always"],
    [true, "always"],
    [false, "never"],
    [{ cel: "data.score >= 90" }, "expression"],
    [{ type: "expression", config: { expr: "round < 3" } }, "expression"],
    [{ type: "keyword", config: { any: ["SHIP"], none: "NO", regex: ["a+"], word: true, case_sensitive: false } }, "keyword"],
    ["is_good", "function"],
    [{ type: "function", config: { name: "checks:is_good" } }, "function"],
  ];
  for (const [value, kind] of forms) {
    it(`is the same after reading and writing: ${JSON.stringify(value)}`, () => {
      const condition = readCondition(value);
      expect(condition?.kind).toBe(kind);
      expect(condition && writeCondition(condition)).toEqual(value);
    });
  }

  it("names the place of its text", () => {
    const place = (value: unknown) => {
      const condition = readCondition(value);
      return condition && placeOf(condition);
    };
    expect(place({ cel: "true" })).toEqual(["cel"]);
    expect(place({ type: "expression", config: { expr: "true" } })).toEqual(["config", "expr"]);
    expect(place("f")).toEqual([]);
    expect(place({ type: "function", config: { name: "f" } })).toEqual(["config", "name"]);
  });

  it("is left alone if it is something else", () => {
    for (const value of [3, [], { type: "other" }, { cel: "a", type: "keyword" }]) {
      const condition = readCondition(value);
      expect(condition === null || condition.kind === "keyword").toBe(true);
    }
    expect(readCondition(3)).toBeNull();
  });
});

describe("the schema of an answer", () => {
  it("is a list of fields, and back", () => {
    const schema = {
      type: "object",
      properties: { code: { type: "string", description: "all of it" }, tags: { type: "array", items: { type: "string" } } },
      required: ["code"],
      additionalProperties: false,
    };
    const fields = readSchema(schema);
    expect(fields?.map((one) => [one.name, one.type, one.isRequired])).toEqual([
      ["code", "string", true],
      ["tags", "array", false],
    ]);
    expect(fields && writeSchema(fields, schema)).toEqual(schema);
  });

  it("stays JSON where a list of fields would lose something", () => {
    const flat = (property: unknown) => ({ type: "object", properties: { a: property } });
    for (const value of [
      { type: "array" },
      flat({ type: "object", properties: {} }),
      flat({ type: "string", enum: ["x"] }),
      flat({ type: "array", items: { type: "number" } }),
      { ...flat({ type: "string" }), title: "Answer" },
      { ...flat({ type: "string" }), required: ["b"] },
    ]) {
      expect(readSchema(value)).toBeNull();
    }
  });
});

describe("values of any type", () => {
  it("are the same after showing and reading", () => {
    for (const value of ["text", "3", "true", "", '"quoted"', 3, true, null, { a: [1, "b"] }, ["x"]]) {
      const read = readAny(anyText(value));
      expect(read).toEqual(value === "" ? undefined : value);
    }
    expect(() => readAny('{"a": ')).toThrow(SyntaxError);
  });

  it("are numbers and durations only if nothing is left over", () => {
    expect(["3", " 1.5 ", "60,000", "1e3", "3x", "", "0x10", "-"].map(readNumber)).toEqual([3, 1.5, 60000, 1000, NaN, NaN, NaN, NaN]);
    expect(readDuration("30m")).toEqual({ amount: 30, unit: "m" });
    expect(readDuration(90)).toEqual({ amount: 90, unit: "s" });
    expect(readDuration("soon")).toBeNull();
  });
});

describe("several items", () => {
  it("have in common what is the same in all of them", () => {
    const { value, mixed } = mergeValues([
      { type: "agent", config: { role: "a", stream: false, params: { a: 1 } }, timeout: 3 },
      { type: "agent", config: { role: "b", stream: false, params: { a: 2 } } },
    ]);
    expect(value).toEqual({ type: "agent", config: { stream: false } });
    expect([...mixed].sort()).toEqual(["config\u0000params", "config\u0000role", "timeout"]);
  });
});

describe("edits of lists and names", () => {
  const text = `models:
  # the usual one
  default: {model: a}   # cheap
  "slow": {model: b}
list:
  - {id: A}   # first
  - id: B
    type: agent   # of B
`;
  const document = readDocument(text);

  it("keep comments when elements change places", () => {
    const result = applied(text, exchanged(document, ["list", 0], ["list", 1]));
    expect(readDocument(result).value).toMatchObject({ list: [{ id: "B", type: "agent" }, { id: "A" }] });
    expect(result).toContain("type: agent   # ");
  });

  it("replace a name in its place", () => {
    expect(applied(text, renamedKey(document, ["models"], "default", "quick"))).toBe(text.replace("default:", "quick:"));
    expect(applied(text, renamedKey(document, ["models"], "slow", "large"))).toBe(text.replace('"slow"', '"large"'));
    expect(readDocument(applied(text, renamedKey(document, ["models"], "slow", "very: slow"))).value).toMatchObject({
      models: { default: { model: "a" }, "very: slow": { model: "b" } },
    });
  });
});
