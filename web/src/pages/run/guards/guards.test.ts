import { describe, expect, it } from "vitest";
import type { RunPlan } from "../../../api/schema";
import { RunModel, tokensOf } from "../../../live/run_model";
import type { RunEvent } from "../../../live/events";
import { NOTHING_USED, withRoundEnds } from "../../../live/testing";
import { finalRows, likelyTotal, liveRows, orderRows, roundOfScore, shareOf, withForecast, type GuardRow } from "./guards";

function modelOf(events: [string, string, Record<string, unknown>][]): RunModel {
  const model = new RunModel();
  model.apply(
    withRoundEnds(events.map(([event, address, data], index) => ({
      seq: index + 1,
      event,
      timestamp: new Date(index * 1000).toISOString(),
      run_id: "r",
      node_id: address.split("/").at(-1) ?? "",
      address,
      data,
    })) as unknown as RunEvent[]),
  );
  return model;
}

/** Rounds of a loop Writer, each with so many tokens and a score; the last one has only begun. */
function rounds(scores: readonly number[], tokens = 100): [string, string, Record<string, unknown>][] {
  const events: [string, string, Record<string, unknown>][] = [["run_started", "", { workflow: "w", input: "" }]];
  scores.forEach((score, index) => {
    const round = `Writer[${index + 1}]`;
    events.push(["loop_round", round, { loop: "Writer", round: index + 1 }]);
    events.push(["node_state_change", `${round}/Writer`, { status: "running" }]);
    const total = { model_calls: index + 1, tool_calls: 0, input_tokens: tokens * (index + 1), output_tokens: 0, cost_usd: null };
    events.push(["model_call", `${round}/Writer`, { status: "completed", input_tokens: tokens, output_tokens: 0, total }]);
    events.push(["node_state_change", `${round}/Writer`, { status: "completed", output: "x", score }]);
  });
  events.push(["loop_round", `Writer[${scores.length + 1}]`, { loop: "Writer", round: scores.length + 1 }]);
  events.push(["node_state_change", `Writer[${scores.length + 1}]/Writer`, { status: "running" }]);
  return events;
}

const plan = {
  workflow: "w",
  loops: [
    {
      id: "Writer",
      nodes: ["Writer", "Gate"],
      bounded_by: [{ guard: "Gate", limit: 10 }],
      worst_case_rounds: 10,
      cap: 100,
      depth: 0,
      worst_case_total: 10,
    },
  ],
  decisions: [{ node: "Gate", max_rounds: 10, exit_on_score: 90, patience: 3, min_delta: 1, keep: "last" }],
  limits: { tokens: 6000, cost_usd: 5, on_unknown: "lock" },
  time_limit: 600,
  forecast: { tokens: { typical: 3000, worst: null }, cost_usd: null },
} as unknown as RunPlan;

const simple = (key: string, share: number): GuardRow => ({
  key,
  kind: "tokens",
  name: "",
  by: "",
  used: share,
  limit: 1,
  share,
  likely: null,
});

describe("order", () => {
  it("begins with the nearest", () => {
    expect(orderRows([simple("a", 0.2), simple("b", 0.9), simple("c", 0.5)], null)).toEqual(["b", "c", "a"]);
  });

  it("stays within a round, whatever the figures are; new rows come last", () => {
    const rows = [simple("a", 0.99), simple("new", 1), simple("c", 0.5)];
    expect(orderRows(rows, ["b", "c", "a"])).toEqual(["c", "a", "new"]);
  });

  it("takes small novelty as near", () => {
    expect(shareOf("novelty", 0.2, 0.1)).toBeCloseTo(0.5);
    expect(shareOf("novelty", 0.05, 0.1)).toBe(1);
    expect(shareOf("novelty", 0, 0.1)).toBe(1);
    expect(shareOf("tokens", 30, 120)).toBe(0.25);
  });
});

describe("rows", () => {
  const guards = [
    { kind: "rounds", name: "Gate", used: 2, limit: 10, share: 0.2, address: "Writer[3]/Gate" },
    { kind: "rounds", name: "Writer", used: 3, limit: 100, share: 0.03, address: "Writer[3]" },
    { kind: "rounds", name: "Other", used: 1, limit: 4, share: 0.25, address: "Writer[3]/Other" },
    { kind: "tokens", name: "w", used: 200, limit: 6000, share: 0.0333, address: "" },
  ];
  const loops = [{ address: "Writer[3]", loop: "Writer", round: 3, limit: 10, by: "Gate" }];

  it("has one row for the rounds of a loop, and keeps other guards in it", () => {
    const rows = liveRows(guards, loops, modelOf(rounds([50, 50])), plan);
    expect(rows.map((row) => [row.kind, row.name, row.by, row.used, row.limit])).toEqual([
      ["rounds", "Writer", "Gate", 3, 10],
      ["rounds", "Other", "", 1, 4],
      ["tokens", "", "", 200, 6000],
      ["plateau", "Writer", "Gate", 1, 3],
    ]);
  });

  it("has the same key in the next round", () => {
    const model = modelOf(rounds([50, 50]));
    const next = loops.map((loop) => ({ ...loop, address: "Writer[4]", round: 4 }));
    expect(liveRows([], next, model, plan)[0]?.key).toBe(liveRows([], loops, model, plan)[0]?.key);
  });

  it("shows what a run that is over has used", () => {
    const model = modelOf([...rounds([50, 95]), ["run_finished", "", { status: "completed", output: "", usage: { ...NOTHING_USED, model_calls: 2, input_tokens: 200, unpriced_calls: 2 } }]]);
    expect(finalRows(model, plan).map((row) => [row.kind, row.used, row.limit])).toEqual([
      ["tokens", 200, 6000],
      ["cost_usd", 0, 5],
      ["seconds", model.latest / 1000, 600],
      ["rounds", 3, 10],
    ]);
  });
});

describe("forecast", () => {
  const points = (...scores: (number | null)[]) => scores.map((score, index) => ({ number: index + 1, score }));

  it("extrapolates scores to the threshold", () => {
    expect(roundOfScore(points(60, 70), 90)).toBe(4);
    expect(roundOfScore(points(60, 70, 75), 90)).toBe(5);
    expect(roundOfScore(points(60, null, 80), 90)).toBe(4);
    expect(roundOfScore(points(60, 95), 90)).toBe(2);
  });

  it("says nothing without a rise", () => {
    expect(roundOfScore(points(60), 90)).toBeNull();
    expect(roundOfScore(points(80, 70), 90)).toBeNull();
    expect(roundOfScore(points(null, null), 90)).toBeNull();
  });

  it("adds the mean of complete rounds for each round that is likely to come", () => {
    const model = modelOf(rounds([60, 70]));
    // Round 3 has begun and takes 100 tokens; round 4 reaches 90.
    expect(likelyTotal(model, plan, 200, (round) => tokensOf(round.usage))).toBe(400);
  });

  it("says nothing before a round is complete, except what was forecast", () => {
    const model = modelOf(rounds([]));
    expect(likelyTotal(model, plan, 0, (round) => tokensOf(round.usage))).toBeNull();
    expect(withForecast([simple("a", 0)], model, plan)[0]?.likely).toEqual({ value: 3000, basis: "forecast" });
  });
});
