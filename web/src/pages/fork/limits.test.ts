import { expect, it } from "vitest";
import { changedLimits, currentLimit, limitNames, limitProblem } from "./limits";

it("offers the usual limits and those of the run, once each", () => {
  expect(limitNames({ tokens: 6000, steps: 9, unpriced: "allow" })).toEqual([
    "rounds",
    "model_calls",
    "tokens",
    "cost_usd",
    "seconds",
    "steps",
  ]);
});

it("refuses what the server would refuse", () => {
  expect(limitProblem("rounds", "")).toBeNull();
  expect(limitProblem("rounds", "0")).toBe("whole");
  expect(limitProblem("tokens", "0")).toBeNull();
  expect(limitProblem("tokens", "1.5")).toBe("whole");
  expect(limitProblem("cost_usd", "0.08")).toBeNull();
  expect(limitProblem("cost_usd", "-1")).toBe("number");
  expect(limitProblem("seconds", "0")).toBe("number");
});

it("sends only what differs", () => {
  expect(changedLimits({ tokens: "6000", rounds: " ", cost_usd: "0.5" }, { tokens: 6000 })).toEqual({ cost_usd: 0.5 });
});

it("knows the limits that the run has now", () => {
  const plan = { limits: { tokens: 6000, seconds: null }, loops: [{ cap: 100 }, { cap: 20 }] };
  expect(currentLimit("tokens", plan)).toBe("6000");
  expect(currentLimit("rounds", plan)).toBe("100");
  expect(currentLimit("seconds", plan)).toBeUndefined();
  expect(currentLimit("rounds", { limits: {}, loops: [] })).toBeUndefined();
});
