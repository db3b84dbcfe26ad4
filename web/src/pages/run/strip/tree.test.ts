import { describe, expect, it } from "vitest";
import type { RunPlan } from "../../../api/schema";
import type { RunEvent } from "../../../live/events";
import { withRoundEnds } from "../../../live/testing";
import { RunModel } from "../../../live/run_model";
import { layoutStrip } from "./layout";
import { knownRound, roundsAtDepth, rowsOf } from "./rows";
import { readTree } from "./tree";

type Told = [at: number, name: string, address: string, data?: Record<string, unknown>];

function modelOf(told: readonly Told[], isSerial = true): RunModel {
  const model = new RunModel();
  const events = told.map(([at, name, address, data], index): RunEvent => {
    const node = address.split("/").pop()?.replace(/\[\d+\]$/, "");
    return { seq: index + 1, event: name, timestamp: new Date(at).toISOString(), run_id: "r", node_id: node, address, data: data ?? {} } as unknown as RunEvent;
  });
  expect(model.apply(isSerial ? withRoundEnds(events) : events)).toBe(true);
  return model;
}

function planOf(loops: [id: string, bound: number, depth: number, nodes: string[]][], nodes: [id: string, type: string][] = []): RunPlan {
  return {
    loops: loops.map(([id, bound, depth, inside]) => ({
      id,
      nodes: inside,
      bounded_by: [],
      worst_case_rounds: bound,
      cap: 100,
      depth,
      worst_case_total: null,
    })),
    drawing: { nodes: nodes.map(([id, type]) => ({ key: id, id, type, parent: "", region: "" })) },
    decisions: [],
  } as unknown as RunPlan;
}

const NOTHING = new Map<string, number>();
const ran = (at: number, address: string, until: number, data: Record<string, unknown> = {}): Told[] => [
  [at, "node_state_change", address, { status: "running" }],
  [until, "node_state_change", address, { status: "completed", ...data }],
];
const begin = (at: number, address: string): Told => {
  const [, loop = "", round = ""] = /([^.]*)\[(\d+)\]$/.exec(address) ?? [];
  return [at, "loop_round", address, { loop, round: Number(round) }];
};

describe("rounds of a run", () => {
  const plan = planOf([["W", 5, 0, ["W"]]]);

  it("have the score, the best, failures and retries", () => {
    const model = modelOf([
      begin(0, "W[1]"),
      ...ran(0, "W[1]/W", 1000, { score: 40 }),
      begin(1000, "W[2]"),
      ...ran(1000, "W[2]/W", 2000, { score: 80 }),
      begin(2000, "W[3]"),
      [2000, "node_state_change", "W[3]/W", { status: "running" }],
      [3000, "node_state_change", "W[3]/W", { status: "failed", error: "no", type: "Timeout", handled: true }],
      begin(3000, "W[4]"),
      [3000, "node_state_change", "W[4]/W", { status: "running" }],
      [3500, "node_state_change", "W[4]/W", { status: "failed", error: "no", type: "Timeout" }],
      ...ran(4000, "W[4]/W", 5000, { score: 60 }),
    ]);
    const rounds = readTree(model, plan, NOTHING, 6000).loops[0]?.rounds ?? [];
    expect(rounds.map((one) => one.value)).toEqual([40, 80, null, 60]);
    expect(rounds.map((one) => one.isBest)).toEqual([false, true, false, false]);
    expect(rounds.map((one) => one.failed)).toEqual(["", "", "Timeout", ""]);
    expect(rounds.map((one) => one.isRetried)).toEqual([false, false, false, true]);
    expect(rounds[0]?.fill).toBeCloseTo(0.4);
  });

  it("keep their objects until they change", () => {
    const model = modelOf([begin(0, "W[1]"), ...ran(0, "W[1]/W", 1000, { score: 1 }), begin(1000, "W[2]")]);
    const before = readTree(model, plan, NOTHING, 2000).loops[0]?.rounds;
    const after = readTree(model, plan, NOTHING, 3000).loops[0]?.rounds;
    expect(after?.[0]).toBe(before?.[0]);
    expect(after?.[1]).not.toBe(before?.[1]);
  });

  it("show novelty where there is no score", () => {
    const model = modelOf([begin(0, "W[1]"), ...ran(0, "W[1]/W", 1000, { output: "a" })]);
    const [only] = readTree(model, plan, new Map([["W[1]", 0.3]]), 1000).loops[0]?.rounds ?? [];
    expect(only).toMatchObject({ measure: "novelty", value: 0.3, fill: 0.3, isBest: false });
  });

  it("are running only while the run works", () => {
    const told: Told[] = [begin(0, "W[1]"), [0, "node_state_change", "W[1]/W", { status: "running" }]];
    expect(readTree(modelOf(told), plan, NOTHING, 500).loops[0]?.rounds[0]).toMatchObject({ isOpen: true, active: "W", to: 500 });
    const paused = modelOf([...told, [700, "run_state_change", "", { status: "paused" }]]);
    const resting = readTree(paused, plan, NOTHING, 90_000);
    expect(resting.loops[0]?.rounds[0]).toMatchObject({ isOpen: false, to: 700 });
    expect(resting.rest?.status).toBe("paused");
  });
});

describe("a thousand rounds", () => {
  it("are read and laid out in a few milliseconds", () => {
    const told: Told[] = [];
    for (let number = 1; number <= 1000; number++) {
      told.push(begin(number * 1000, `W[${number}]`), ...ran(number * 1000, `W[${number}]/W`, number * 1000 + 900, { score: number % 90 }));
    }
    const model = modelOf(told);
    const plan = planOf([["W", 1200, 0, ["W"]]]);
    const times = Array.from({ length: 31 }, () => {
      const began = performance.now();
      const made = readTree(model, plan, NOTHING, 2_000_000);
      layoutStrip({ tree: made, mode: "even", room: 1160, paths: [], selected: "", brush: null, scrolls: false });
      return performance.now() - began;
    });
    // The fastest one: whatever else the machine does must not matter.
    expect(Math.min(...times)).toBeLessThan(8);
  });
});

describe("time without work", () => {
  const plan = planOf([["W", 5, 0, ["W"]]]);

  it("is what statuses say, and what nobody says", () => {
    const model = modelOf([
      [0, "run_started", "", { workflow: "w", input: "" }],
      begin(0, "W[1]"),
      ...ran(0, "W[1]/W", 1000),
      [1000, "run_state_change", "", { status: "waiting" }],
      [9000, "run_state_change", "", { status: "running" }],
      begin(9000, "W[2]"),
      ...ran(9000, "W[2]/W", 10_000),
      begin(30_000, "W[3]"),
      ...ran(30_000, "W[3]/W", 31_000),
    ]);
    const { pauses } = readTree(model, plan, NOTHING, 31_000);
    expect(pauses.map(({ status, from, to }) => [status, from, to])).toEqual([
      ["waiting", 1000, 9000],
      ["nothing", 10_000, 30_000],
    ]);
  });

  it("names who ended a lock, and marks what was repeated", () => {
    const model = modelOf([
      begin(0, "W[1]"),
      ...ran(0, "W[1]/W", 1000),
      [1000, "breaker_tripped", "W[1]", { trigger: "dead_loop", messages: [{ address: "W[1]/W" }] }],
      [1000, "run_state_change", "", { status: "suspended_locked" }],
      [8000, "breaker_unlocked", "W[1]", { by: "ana" }],
      [8000, "run_state_change", "", { status: "running" }],
    ]);
    const made = readTree(model, plan, NOTHING, 9000);
    expect(made.pauses[0]).toMatchObject({ status: "suspended_locked", at: "W[1]", by: "ana" });
    expect(made.loops[0]?.rounds[0]?.isStale).toBe(true);
  });
});

describe("other runs", () => {
  it("without loops have a cell for each node", () => {
    const model = modelOf([...ran(0, "One", 1000), ...ran(1000, "Two", 1001)]);
    const made = readTree(model, planOf([]), NOTHING, 2000);
    expect(made.loops.flatMap((one) => one.rounds.map((cell) => cell.name))).toEqual(["One", "Two"]);
  });

  it("with parallel rounds have lanes, and names of elements", () => {
    const model = modelOf([
      [0, "run_started", "", { input: '["tea", "cup"]' }],
      [0, "loop_round", "E[1]", { loop: "E", round: 1, element: "tea", elements: 2 }],
      [0, "node_state_change", "E[1]/T", { status: "running" }],
      [10, "loop_round", "E[2]", { loop: "E", round: 2, lane: 1, element: "cup", elements: 2 }],
      [10, "node_state_change", "E[2]/T", { status: "running" }],
      [500, "node_state_change", "E[1]/T", { status: "completed", output: "x" }],
      [600, "node_state_change", "E[2]/T", { status: "completed", output: "y" }],
    ], false);
    const [only] = readTree(model, planOf([["E", 1000, 0, ["T"]]], [["E", "loop_agent"]]), NOTHING, 700).loops;
    expect(only).toMatchObject({ kind: "lanes", elements: 2 });
    expect(only?.rounds.map((one) => one.said)).toEqual(["tea", "cup"]);
  });
});

describe("rows", () => {
  const plan = planOf([
    ["P", 3, 0, ["P", "C", "R"]],
    ["C", 10, 1, ["C"]],
  ]);
  const model = modelOf([
    begin(0, "P[1]"),
    begin(0, "P[1].C[1]"),
    ...ran(0, "P[1].C[1]/C", 1000),
    begin(1000, "P[1].C[2]"),
    ...ran(1000, "P[1].C[2]/C", 2000),
    [2000, "loop_exit", "P[1].C[2]", { reason: "done", rounds: 2 }],
    [2000, "node_state_change", "P[1]/R", { status: "running" }],
  ]);

  it("lead to an address, and on to the loop that was left there", () => {
    const rows = rowsOf(model, plan, "P[1]", 2);
    expect(rows.map((row) => [row.loop, row.rounds, row.bound, row.isLeft])).toEqual([
      ["P", 1, 3, false],
      ["C", 2, 10, true],
    ]);
  });

  it("know rounds from rounds of tools", () => {
    expect(knownRound(model, "P[1].C[2]/C[4]/search")).toBe("P[1].C[2]");
    expect(roundsAtDepth(model, 1)).toEqual(["P[1].C[1]", "P[1].C[2]"]);
  });
});
