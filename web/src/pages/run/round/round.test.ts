// @vitest-environment happy-dom
import { describe, expect, it } from "vitest";
import type { LoopRule } from "../../../api/schema";
import { formatsFor } from "../../../i18n/format";
import type { RunEvent } from "../../../live/events";
import { RunModel } from "../../../live/run_model";
import { workSeconds } from "../../../live/work";
import { cutText } from "../../../ui/Expandable";
import { describeDecision, isDecision, withoutGain } from "./decision";
import { comparable, comparedRound, entriesOf, listed, placeOf, executionAt, sentOn } from "./entries";
import { inlineArguments, prettyJson } from "./json";
import { liveOf } from "./LiveBar";
import { messages } from "./messages";

function modelOf(...events: [string, string, Record<string, unknown>][]): RunModel {
  const model = new RunModel();
  model.apply(
    events.map(([event, address, data], index) => ({
      seq: index + 1,
      event,
      timestamp: new Date(index * 1000).toISOString(),
      run_id: "r",
      node_id: address.split("/").at(-1) ?? "",
      address,
      data,
    })) as unknown as RunEvent[],
  );
  return model;
}

const begin = (address: string): [string, string, Record<string, unknown>] => [
  "node_state_change",
  address,
  { status: "running" },
];
const end = (address: string, output: string, more = {}): [string, string, Record<string, unknown>] => [
  "node_state_change",
  address,
  { status: "completed", output, ...more },
];
const round = (address: string): [string, string, Record<string, unknown>] => [
  "loop_round",
  address,
  { loop: address.replace(/.*\./, "").replace(/\[.*/, ""), round: Number(/(\d+)\]$/.exec(address)?.[1]) },
];

const nested = modelOf(
  begin("Input"),
  end("Input", "x"),
  round("Planner[1]"),
  begin("Planner[1]/Planner"),
  end("Planner[1]/Planner", "plan"),
  round("Planner[1].Coder[1]"),
  begin("Planner[1].Coder[1]/Coder"),
  end("Planner[1].Coder[1]/Coder", "one", { data: { score: 50 }, score: 50 }),
  round("Planner[1].Coder[2]"),
  begin("Planner[1].Coder[2]/Coder"),
  ["tool_call", "Planner[1].Coder[2].Coder[1]/look", { name: "look", arguments: { a: 1 }, status: "running", round: 1, caller: "Planner[1].Coder[2]/Coder" }],
  begin("Planner[1]/Reviewer"),
  begin("Planner[1]/Draft/Say"),
  begin("Planner[1]/Draft/Check"),
  begin("Final"),
);

describe("entries", () => {
  it("lists what ran in a round, with inner loops where they were entered and subgraphs as groups", () => {
    expect(entriesOf(nested, "Planner[1]")).toEqual([
      { kind: "execution", address: "Planner[1]/Planner" },
      { kind: "loop", stem: "Planner[1].Coder" },
      { kind: "execution", address: "Planner[1]/Reviewer" },
      { kind: "group", path: "Draft", addresses: ["Planner[1]/Draft/Say", "Planner[1]/Draft/Check"] },
    ]);
  });

  it("lists what ran outside of loops", () => {
    expect(entriesOf(nested, "")).toEqual([
      { kind: "execution", address: "Input" },
      { kind: "loop", stem: "Planner" },
      { kind: "execution", address: "Final" },
    ]);
    expect(listed(entriesOf(nested, ""))).toEqual(["Input", "Final"]);
  });

  it("finds the round of nodes, rounds and tool calls", () => {
    expect(placeOf(nested, "Planner[1].Coder[2]/Coder")).toBe("Planner[1].Coder[2]");
    expect(placeOf(nested, "Planner[1].Coder[2].Coder[1]/look")).toBe("Planner[1].Coder[2]");
    expect(placeOf(nested, "Planner[1]")).toBe("Planner[1]");
    expect(placeOf(nested, "Final")).toBe("");
    expect(executionAt(nested, "Planner[1].Coder[2].Coder[1]/look")).toBe("Planner[1].Coder[2]/Coder");
  });

  it("compares with rounds in which the node returned something", () => {
    const model = modelOf(
      ...[1, 2, 3, 4].flatMap((number) => [
        round(`W[${number}]`),
        begin(`W[${number}]/W`),
        ...(number === 2 ? [] : [end(`W[${number}]/W`, `text ${number}`)]),
      ]),
    );
    const third = model.executions.get("W[3]/W");
    if (third === undefined) throw new Error("it did not run");
    const choices = comparable(model, third);
    expect(choices.map((choice) => choice.number)).toEqual([1, 4]);
    expect(comparedRound(choices, 3, "")).toBe("W[1]");
    expect(comparedRound(choices, 3, "W[4]")).toBe("W[4]");
    expect(comparedRound(choices, 1, "")).toBe("W[1]");
    expect(comparedRound([], 1, "")).toBe("");
  });

  it("does not count waiting as work", () => {
    const idle = [
      { status: "waiting" as const, from: 2000, to: 5000, address: "", reason: "" },
      { status: "paused" as const, from: 8000, to: null, address: "", reason: "" },
    ];
    expect(workSeconds(idle, 1000, 10_000)).toBe(4);
    expect(workSeconds(idle, 2500, 4000)).toBe(0);
  });

  it("names messages to the next round", () => {
    const [event, address, data] = round("W[2]");
    const model = modelOf(
      round("W[1]"),
      begin("W[1]/Critic"),
      end("W[1]/Critic", "no"),
      [event, address, { ...data, triggered_by: ["W[1]/Critic"] }],
    );
    expect(sentOn(model, "W[1]")).toEqual([{ source: "W[1]/Critic", target: "W" }]);
    expect(sentOn(model, "W[2]")).toEqual([]);
  });
});

describe("decisions", () => {
  const formats = formatsFor("en", "");
  const config: LoopRule = { node: "Gate", max_rounds: 10, exit_on_score: 95, patience: 3, min_delta: 1, keep: "last" };

  function decided(scores: readonly number[], more: Record<string, unknown>, language: "en" | "zh" = "en") {
    const events = scores.flatMap((score, index) => {
      const at = `Coder[${index + 1}]`;
      return [round(at), begin(`${at}/Gate`), end(`${at}/Gate`, "", { score, report: { score, should_exit: false, ...more } })];
    });
    const model = modelOf(...events);
    const execution = model.executions.get(`Coder[${scores.length}]/Gate`);
    if (execution === undefined) throw new Error("it did not run");
    expect(isDecision(execution)).toBe(true);
    return describeDecision(model, execution, config, messages[language], formatsFor(language, ""));
  }

  it("says how far the score is, and how it changed", () => {
    expect(decided([62, 74, 85], { best_round: 3 })).toEqual({
      port: "continue",
      sentence: "85 is below 95, and 11 more than round 2",
      aside: "best 3 · plateau 0 of 3",
    });
    expect(decided([84, 61], { best_round: 1 })).toMatchObject({
      sentence: "61 is below 95, and 23 less than round 1",
      aside: "best 1 · plateau 1 of 3",
    });
    expect(decided([62, 74, 85], {}, "zh").sentence).toBe("85 低于 95，比第 2 轮高 11");
  });

  it("says why the loop is left", () => {
    expect(decided([97], { should_exit: true, exit_reason: "score_threshold_reached", held: ["score_threshold_reached"] })).toMatchObject({
      port: "exit",
      sentence: "97 reaches 95",
    });
    expect(
      decided([50], {
        should_exit: true,
        exit_reason: "max_rounds_reached",
        held: ["max_rounds_reached", "plateau_reached"],
      }).sentence,
    ).toBe("all rounds are used · 50 is below 95 · also: the score no longer rises");
  });

  it("counts for counters and timers", () => {
    const model = modelOf(
      round("W[1]"),
      begin("W[1]/G"),
      ["node_state_change", "W[1]/G", { status: "completed", report: { count: 3, max_iterations: 3 } }],
      begin("W[1]/T"),
      ["node_state_change", "W[1]/T", { status: "completed", report: { elapsed: 12.5, limit: 60 } }],
    );
    const at = (address: string) => {
      const execution = model.executions.get(address);
      if (execution === undefined) throw new Error("it did not run");
      return describeDecision(model, execution, undefined, messages.en, formats);
    };
    expect(at("W[1]/G")).toEqual({ port: "exit", sentence: "3 of 3", aside: "" });
    expect(at("W[1]/T")).toMatchObject({ port: "continue", sentence: `${formats.duration(12.5)} of ${formats.duration(60)}` });
  });

  it("counts rounds without a gain as the engine does", () => {
    expect(withoutGain([50, 50.5, 51], 1)).toEqual({ count: 0, since: 2 });
    expect(withoutGain([50, null, 40], 0)).toEqual({ count: 2, since: 0 });
    expect(withoutGain([null, null], 0).count).toBe(0);
    expect(withoutGain([0.2, 0.3], 0.1).count).toBe(0);
  });
});

describe("JSON", () => {
  it("stays as it is written", () => {
    expect(prettyJson('{"n": 12345678901234567890, "a": 1, "a": 1.0}')).toBe('{"n": 12345678901234567890, "a": 1, "a": 1.0}');
    expect(prettyJson('["a\\n, {", []]')).toBe('["a\\n, {", []]');
  });

  it("shows escaped letters, and keeps what cannot be seen", () => {
    expect(prettyJson('["\\u8bf4\\u660e \\ud83d\\ude00"]')).toBe('["说明 😀"]');
    const kept = '["\\u202e \\u200b \\u0007 \\u0022 \\ud83d \\\\u8bf4"]';
    expect(prettyJson(kept)).toBe(kept);
  });

  it("is indented if it is long", () => {
    const long = "x".repeat(100);
    expect(prettyJson(`{"a":{"b":[1,2]},"c":"${long}"}`)).toBe(`{\n  "a": {"b": [1, 2]},\n  "c": "${long}"\n}`);
  });

  it("is nothing else", () => {
    expect(prettyJson("12")).toBeNull();
    expect(prettyJson("{not json}")).toBeNull();
    expect(prettyJson("Dear {name}")).toBeNull();
  });

  it("reads like a call", () => {
    expect(inlineArguments({ path: "a b", n: 2 })).toBe('path: "a b", n: 2');
    expect(inlineArguments({})).toBe("");
  });
});

describe("long texts", () => {
  it("are cut by lines, and by length", () => {
    const lines = Array.from({ length: 30 }, (_, at) => `line ${at}`);
    const cut = cutText(lines.join("\n"), 24);
    expect(cut.lines).toBe(6);
    expect(cut.head.endsWith("line 23")).toBe(true);
    expect(cutText("x".repeat(10_000), 10).head.length).toBe(1200);
    expect(cutText("a\nb\nc", 2).isCut).toBe(false);
    expect(cutText("", 2)).toEqual({ head: "", lines: 0, isCut: false });
  });

  it("are not cut within a character", () => {
    const { head } = cutText(`x${"😀".repeat(5000)}`, 2);
    expect(head.at(-1)).not.toMatch(/[\ud800-\udbff]$/);
    expect([...head].every((one) => one === "x" || one === "😀")).toBe(true);
  });
});

describe("the live bar", () => {
  it("says what runs in another round", () => {
    const model = modelOf(
      round("W[1]"),
      begin("W[1]/W"),
      end("W[1]/W", "x"),
      round("W[2]"),
      begin("W[2]/W"),
      ["tool_call", "W[2].W[1]/look", { name: "look", arguments: { a: 1 }, status: "running", round: 1, caller: "W[2]/W" }],
    );
    expect(liveOf(model, "W[1]")).toMatchObject({ round: 2, node: "W", text: "look(a: 1)" });
    expect(liveOf(model, "W[2]")).toBeNull();
    model.apply([
      { seq: 7, event: "run_finished", timestamp: new Date(9000).toISOString(), run_id: "r", data: { status: "stopped" } },
    ] as RunEvent[]);
    expect(liveOf(model, "W[1]")).toBeNull();
  });
});
