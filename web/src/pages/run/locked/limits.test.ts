import { expect, test } from "vitest";
import { above, raisableLimit, roundsFor } from "./limits";

const used = { tokens: 3500, seconds: 80 };

test("a budget is doubled", () => {
  const data = { limit: 1000, spent: 710, reserved: 0, wanted: 400 };
  expect(raisableLimit({ what: "tokens", data }, used)).toEqual({
    name: "tokens",
    current: 1000,
    need: 1110,
    suggestion: 2000,
    isNeeded: true,
  });
});

test("a suggestion always covers the next step", () => {
  const data = { limit: 100, spent: 90, reserved: 300, wanted: 841 };
  expect(raisableLimit({ what: "input_tokens", data }, used)?.suggestion).toBe(1300);
  expect(raisableLimit({ what: "cost_usd", data: { limit: 0.3, spent: 0.26, wanted: 0.12 } }, used)).toMatchObject({
    current: 0.3,
    suggestion: 0.6,
  });
});

test("the limit of one call is compared with the call alone", () => {
  const data = { limit: 400, spent: 0, wanted: 1000 };
  expect(raisableLimit({ what: "tokens_per_call", data }, used)).toMatchObject({ need: 1000, suggestion: 1000 });
});

test("rounds may be raised, and need not be", () => {
  expect(raisableLimit({ what: "rounds", data: { limit: 2 } }, used)).toEqual({
    name: "rounds",
    current: 2,
    need: null,
    suggestion: 4,
    isNeeded: false,
  });
  expect(raisableLimit({ what: "tool_rounds", data: { limit: 5 } }, used)).toMatchObject({ name: "rounds", suggestion: 10 });
});

test("a surge raises tokens above what is spent, a timeout the seconds", () => {
  expect(raisableLimit({ what: "token_surge", data: { tokens: 3000 } }, used)).toMatchObject({
    name: "tokens",
    current: 3500,
    suggestion: 7000,
  });
  expect(raisableLimit({ what: "timeout", data: { seconds: 601, limit: 600 } }, used)).toMatchObject({
    name: "seconds",
    current: 601,
    suggestion: 1300,
  });
});

test("nothing can be raised after a dead loop, a lock by a person or a price that is not known", () => {
  for (const what of ["dead_loop", "manual", "unpriced", "items"]) {
    expect(raisableLimit({ what, data: { limit: 1 } }, used)).toBeNull();
  }
});

test("numbers are rounded up to two digits", () => {
  expect([1110, 999, 0.37, 0.301, 7, 100, 0].map(above)).toEqual([1200, 1000, 0.37, 0.31, 7, 100, 1]);
});

test("how long a raised limit lasts", () => {
  expect(roundsFor(800, 320, 1)).toBe(1);
  expect(roundsFor(2000, 710, 2)).toBe(3);
  expect(roundsFor(800, 0, 0)).toBeNull();
});
