import { describe, expect, it } from "vitest";
import type { RunPlan, RunView } from "../../api/schema";
import { formatsFor } from "../../i18n/format";
import type { RunEvent } from "../../live/events";
import { RunModel } from "../../live/run_model";
import { withRoundEnds } from "../../live/testing";
import { messageBefore } from "../fork/message";
import { alignLoops, alignRounds, alignSaid, areRelated, presented, sharedCount } from "./align";
import { editsOnlyIn, graphChanges, limitChanges } from "./changes";
import { copiedTokens, figuresOf, workOf } from "./figures";
import { messages, type CompareTexts } from "./messages";
import { firstPassing, inWords, type Facts } from "./words";

const START = Date.UTC(2026, 10, 17, 9);
const speakers = new Set(["Writer", "Critic"]);
const texts = messages.en as CompareTexts;
const formats = formatsFor("en", "UTC");

type Step = [seconds: number, event: string, address: string, data?: Record<string, unknown>];

function build(steps: readonly Step[], runId = "a"): RunModel {
  const model = new RunModel();
  const events = steps.map(
    ([seconds, event, address, data], index) => ({
      seq: index + 1,
      event,
      timestamp: new Date(START + seconds * 1000).toISOString(),
      run_id: runId,
      node_id: address.replace(/.*\//, ""),
      address,
      data: data ?? {},
    }),
  ) as unknown as RunEvent[];
  expect(model.apply(withRoundEnds(events))).toBe(true);
  return model;
}

/** The end of the nth model call of a run. */
function modelCall(calls: number): Record<string, unknown> {
  const total = { model_calls: calls, tool_calls: 0, input_tokens: 80 * calls, output_tokens: 20 * calls, cost_usd: 0.01 * calls };
  return { status: "completed", input_tokens: 80, output_tokens: 20, cost_usd: 0.01, total };
}

/** One round of a writer and a critic, which takes two seconds and 100 tokens for each. */
function round(at: number, number: number, line: string, score: number, stem = "Writer"): Step[] {
  const address = `${stem}[${number}]`;
  return [
    [at, "loop_round", address, { loop: "Writer", round: number }],
    [at, "node_state_change", `${address}/Writer`, { status: "running" }],
    [at + 1, "model_call", `${address}/Writer`, modelCall(number)],
    [at + 1, "node_state_change", `${address}/Writer`, { status: "completed", output: line }],
    [at + 1, "node_state_change", `${address}/Critic`, { status: "running" }],
    [at + 2, "node_state_change", `${address}/Critic`, { status: "completed", output: `{"score": ${score}}`, score }],
  ];
}

const begin: Step = [0, "run_started", "", { workflow: "polish", input: "tea" }];
const exit = (at: number, rounds: number, reason: string): Step => [
  at,
  "loop_exit",
  `Writer[${rounds}]`,
  { loop: "Writer", rounds, reason, by: "Gate" },
];
const finish = (at: number, output: string, calls = 3): Step => [at, "run_finished", "", { status: "completed", output, usage: modelCall(calls).total }];

const parentSteps = [begin, ...round(0, 1, "one", 50), ...round(2, 2, "two", 60), ...round(4, 3, "three", 70), exit(6, 3, "max_rounds_reached"), finish(6, "three")];
const copiedSteps = [begin, ...round(0, 1, "one", 50), ...round(2, 2, "two", 60)];
const forkSteps: Step[] = [
  ...copiedSteps,
  [4, "loop_round", "Writer[3]", { loop: "Writer", round: 3 }],
  [4, "node_state_change", "Writer[3]/Writer", { status: "running" }],
  [3600, "message_edited", "Writer[3]/Writer", { text: "shorter" }],
  [3601, "model_call", "Writer[3]/Writer", modelCall(3)],
  [3601, "node_state_change", "Writer[3]/Writer", { status: "completed", output: "III" }],
  [3601, "node_state_change", "Writer[3]/Critic", { status: "running" }],
  [3602, "node_state_change", "Writer[3]/Critic", { status: "completed", output: '{"score": 95}', score: 95 }],
  exit(3602, 3, "score_threshold_reached"),
  finish(3602, "III"),
];

function firstLoop(a: RunModel, b: RunModel) {
  const loop = alignLoops(a, b, speakers)[0];
  if (loop === undefined) throw new Error("there is no loop");
  return loop;
}

describe("alignment", () => {
  const a = build(parentSteps);
  const b = build(forkSteps, "b");

  it("shares the rounds before the fork, and not the one in which it was made", () => {
    const rows = alignRounds(firstLoop(a, b), a, b, speakers);
    expect(rows.map((row) => [row.number, row.isShared])).toEqual([[1, true], [2, true], [3, false]]);
    expect(sharedCount(rows)).toBe(2);
  });

  it("does not call equal rounds of unrelated runs shared", () => {
    const other = build([...parentSteps.map(([at, ...rest]): Step => [at + 60, ...rest])], "c");
    expect(areRelated(a, other)).toBe(false);
    expect(sharedCount(alignRounds(firstLoop(a, other), a, other, speakers))).toBe(0);
  });

  it("shares nothing after the first difference", () => {
    const changed = forkSteps.map((step): Step =>
      step[2] === "Writer[1]/Writer" && step[3]?.output ? [step[0], step[1], step[2], { ...step[3], output: "other" }] : step,
    );
    const other = build(changed, "b");
    const rows = alignRounds(firstLoop(a, other), a, other, speakers);
    expect(rows.map((row) => row.isShared)).toEqual([false, false, false]);
  });

  it("keeps rounds that only one run has, in their place", () => {
    const longer = build([...parentSteps.slice(0, -2), ...round(6, 4, "four", 80)], "c");
    const rows = alignRounds(firstLoop(b, longer), b, longer, speakers);
    expect(rows.map((row) => [row.number, row.a !== undefined, row.b !== undefined])).toEqual([
      [1, true, true],
      [2, true, true],
      [3, true, true],
      [4, false, true],
    ]);
  });

  it("puts what the same node wrote side by side", () => {
    const row = alignRounds(firstLoop(a, b), a, b, speakers)[2]!;
    const said = alignSaid(row, a, b, speakers);
    expect(said.map((one) => [one.nodeId, one.a?.output, one.b?.output])).toEqual([
      ["Writer", "three", "III"],
      ["Critic", '{"score": 70}', '{"score": 95}'],
    ]);
  });

  it("aligns each entry of an inner loop by its address", () => {
    const nest = (last: string): Step[] => [
      begin,
      [0, "loop_round", "Plan[1]", { loop: "Plan", round: 1 }],
      ...round(0, 1, "one", 50, "Plan[1].Writer"),
      [2, "loop_round", "Plan[2]", { loop: "Plan", round: 2 }],
      ...round(2, 1, last, 60, "Plan[2].Writer"),
    ];
    const [x, y] = [build(nest("two")), build(nest("deux"), "b")];
    const loops = alignLoops(x, y, speakers);
    expect(loops.map((loop) => loop.stem)).toEqual(["Plan", "Plan[1].Writer", "Plan[2].Writer"]);
    const outer = alignRounds(loops[0]!, x, y, speakers);
    expect(outer.map((row) => row.isShared)).toEqual([true, false]);
    expect(alignRounds(loops[2]!, x, y, speakers)[0]?.isShared).toBe(false);
  });

  it("has a place for runs without loops", () => {
    const flat: Step[] = [
      begin,
      [0, "node_state_change", "Writer", { status: "running" }],
      [1, "node_state_change", "Writer", { status: "completed", output: "hello" }],
    ];
    const [x, y] = [build(flat), build(flat, "b")];
    const loop = firstLoop(x, y);
    expect(loop.stem).toBe("");
    const said = alignSaid(alignRounds(loop, x, y, speakers)[0]!, x, y, speakers);
    expect(said.map((one) => [one.a?.output, one.b?.output])).toEqual([["hello", "hello"]]);
  });
});

describe("texts", () => {
  it("takes scores out of JSON, and leaves other texts alone", () => {
    expect(presented('{"score": 86, "note": "Good.", "n": 2}')).toEqual({ score: 86, text: "Good. · n: 2" });
    expect(presented('{"note": "Good."}')).toEqual({ score: null, text: '{"note": "Good."}' });
    expect(presented("{not json")).toEqual({ score: null, text: "{not json" });
  });
});

function view(created: number, usage: Record<string, unknown> = {}): RunView {
  return { created: new Date(created).toISOString(), usage } as RunView;
}

describe("figures", () => {
  const a = build(parentSteps);
  const b = build(forkSteps, "b");
  const loop = firstLoop(a, b);

  it("counts the work, and not the time between the parent and the fork", () => {
    expect(workOf(a, START, START)).toBe(6);
    expect(workOf(b, START + 3_600_000, START)).toBe(6);
  });

  it("does not count pauses", () => {
    const paused = build([
      begin,
      [0, "node_state_change", "Writer", { status: "running" }],
      [10, "run_state_change", "", { status: "paused" }],
      [30, "run_state_change", "", { status: "running" }],
      [40, "node_state_change", "Writer", { status: "completed", output: "x" }],
    ]);
    expect(workOf(paused, START, START)).toBe(20);
  });

  it("separates new tokens from those that were copied", () => {
    expect(copiedTokens(b, a)).toBe(200);
    const figures = figuresOf(b, view(START + 3_600_000), loop.b, [1, null, 0.5], 200, START);
    expect(figures).toMatchObject({ tokens: 300, newTokens: 100, modelCalls: 3, novelty: 0.75, rounds: 3 });
    expect(figures.best).toEqual({ score: 95, round: 3 });
    expect(figures.cost).toBeCloseTo(0.03);
  });

  it("counts results as copied although their nodes began at another time", () => {
    const again = forkSteps.map((step): Step =>
      step[2] === "Writer[2]/Writer" && step[3]?.status === "running" ? [2.4, step[1], step[2], step[3]] : step,
    );
    expect(copiedTokens(build(again, "b"), a)).toBe(200);
  });

  it("takes the first of several best rounds", () => {
    const even = build([begin, ...round(0, 1, "one", 50), ...round(2, 2, "two", 50)]);
    const figures = figuresOf(even, view(START), even.loops.get("Writer"), [], null, START);
    expect(figures.best).toEqual({ score: 50, round: 1 });
  });
});

function plan(nodes: [key: string, caption: string][], more: Partial<RunPlan> = {}): RunPlan {
  return {
    workflow: "polish",
    limits: {},
    loops: [],
    decisions: [],
    drawing: {
      nodes: nodes.map(([key, caption]) => ({ key, id: key, type: "agent", caption, start: key === "Writer", end: false, parent: "" })),
      edges: [
        { source: "#start", target: "Writer", kind: "start" },
        { source: "Critic", target: "Writer", kind: "edge" },
      ],
    },
    ...more,
  } as unknown as RunPlan;
}

describe("changes", () => {
  it("names limits that differ, also those that only one run has", () => {
    const one = plan([], { limits: { tokens: 6000, rounds: 3 } });
    const other = plan([], { limits: { tokens: 8000, rounds: 3, cost_usd: 1 } });
    expect(limitChanges(one, other)).toEqual([
      { name: "tokens", a: 6000, b: 8000 },
      { name: "cost_usd", a: null, b: 1 },
    ]);
  });

  it("tells graphs apart by nodes, edges and decisions", () => {
    const one = plan([["Writer", "agent"], ["Critic", "agent"]]);
    expect(graphChanges(one, plan([["Writer", "agent"], ["Critic", "agent"]])).isSame).toBe(true);
    const changed = graphChanges(one, plan([["Writer", "agent, 3"], ["Judge", "agent"]]));
    expect(changed).toMatchObject({ isSame: false, added: ["Judge"], removed: ["Critic"], changed: ["Writer"] });
    const decision = { node: "Writer", max_rounds: 3, exit_on_score: null, patience: null, min_delta: 0, keep: "last" };
    expect(graphChanges(one, { ...one, decisions: [decision] }).changed).toEqual(["Writer"]);
    expect(graphChanges(one, { ...one, workflow: "other" }).isOtherWorkflow).toBe(true);
  });

  it("knows which message the fork replaced", () => {
    const a = build(parentSteps);
    const b = build(forkSteps, "b");
    expect(editsOnlyIn(b, a).map((edit) => [edit.address, edit.text])).toEqual([["Writer[3]/Writer", "shorter"]]);
    expect(editsOnlyIn(a, b)).toEqual([]);
    const { drawing } = plan([["Writer", "agent"], ["Critic", "agent"]]);
    expect(messageBefore(a, drawing, "Writer[3]/Writer")).toEqual({ text: '{"score": 60}', from: "Critic" });
    expect(messageBefore(a, drawing, "Writer[3]")).toEqual({ text: '{"score": 60}', from: "Critic" });
    expect(messageBefore(a, drawing, "Writer[1]")).toEqual({ text: "tea", from: "" });
    expect(messageBefore(a, drawing, "Writer[9]")).toBeUndefined();
  });
});

describe("words", () => {
  const a = build(parentSteps);
  const b = build(forkSteps, "b");
  const loop = firstLoop(a, b);
  const facts: Facts = {
    a: figuresOf(a, view(START), loop.a, [], null, START),
    b: figuresOf(b, view(START + 3_600_000), loop.b, [], 200, START),
    threshold: 90,
    passed: { a: null, b: 3 },
    shared: 2,
    isRelated: true,
    isOtherWorkflow: false,
    isOpen: { a: false, b: false },
  };
  const say = (change: Partial<Facts> = {}) => inWords({ ...facts, ...change }, texts, formats).join(" ");

  it("says who reached the threshold, and what is shared", () => {
    expect(say()).toBe(
      "B reached 90 in round 3; A did not. The best score is B's, 95 in round 3; A has 70 in round 3. " +
        "2 rounds are shared and were not paid for twice.",
    );
  });

  it("does not say that a running run failed to do something, or is cheaper", () => {
    const cheaper = { ...facts.b, cost: 0.001 };
    expect(say({ b: cheaper })).toContain("B cost $0.029 less.");
    const open = say({ b: cheaper, isOpen: { a: true, b: false } });
    expect(open).toContain("A has not so far.");
    expect(open).not.toContain("less");
    expect(open).toContain("A is not over, so this may change.");
  });

  it("does not compare what cannot be compared", () => {
    const other = say({ isOtherWorkflow: true, isRelated: false, b: { ...facts.b, rounds: 1, cost: 1 } });
    expect(other).toMatch(/^The workflows are different/);
    expect(other).not.toContain("less");
    expect(say({ a: { ...facts.a, best: null }, b: { ...facts.b, best: null } })).toContain("There are no scores");
    expect(say({ a: { ...facts.a, best: null }, threshold: null })).toContain("Only B has scores; its best is 95.");
  });

  it("finds the first round that passes", () => {
    expect(firstPassing([{ number: 1, score: null }, { number: 2, score: 90 }, { number: 3, score: 95 }], 90)).toBe(2);
    expect(firstPassing([{ number: 1, score: 90 }], null)).toBeNull();
  });
});
