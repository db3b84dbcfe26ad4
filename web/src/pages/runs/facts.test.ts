import { describe, expect, it } from "vitest";
import type { RunView } from "../../api/schema";
import { actionOf, callText, circlesOf, nearestGuard, outcomeOf, shownStatus, workSeconds } from "./facts";

const at = (seconds: number) => new Date(Date.UTC(2026, 10, 17, 0, 0, seconds)).toISOString();
const now = (seconds: number) => Date.parse(at(seconds));

function run(some: Partial<RunView>): RunView {
  return { status: "running", updated: at(0), is_executed: true, work_seconds: 0, usage: {}, ...some } as RunView;
}

const question = { address: "A[1]", node_id: "A", prompt: "?", tool: null };

describe("the status", () => {
  it("tells an approval from a question", () => {
    const tool = { name: "send", arguments: {} };
    expect(shownStatus(run({ status: "waiting", question }))).toBe("waiting");
    expect(shownStatus(run({ status: "waiting", question: { ...question, tool } }))).toBe("approval");
    // The question of a run that goes on again is over.
    expect(shownStatus(run({ status: "running", question: { ...question, tool } }))).toBe("running");
  });

  it("decides what can be done", () => {
    const statuses = ["waiting", "suspended_locked", "paused", "failed", "running", "completed", "stopped"] as const;
    const actions = statuses.map((status) =>
      actionOf(run({ status })),
    );
    expect(actions).toEqual(["answer", "reviewLock", "debug", "retry", null, null, null]);
  });
});

describe("the nearest guard", () => {
  const guard = { kind: "rounds", name: "Gate", used: 2, limit: 5, share: 0.4 };

  it("is the deadline of a question when it is nearer", () => {
    const waiting = run({ status: "waiting", guard, deadline: at(100) });
    expect(nearestGuard(waiting, now(10))?.kind).toBe("rounds");
    expect(nearestGuard(waiting, now(60))).toMatchObject({ kind: "deadline", share: 0.6, used: 40 });
    expect(nearestGuard(waiting, now(500))).toMatchObject({ share: 1, used: 0 });
  });

  it("is what locked the run", () => {
    const lock = { what: "dead_loop", limit: 0.1, evidence: { novelty: [0, 0.05], threshold: 0.1 } };
    expect(nearestGuard(run({ status: "suspended_locked", guard, lock }), 0)).toMatchObject({
      kind: "novelty",
      used: 0.05,
      limit: 0.1,
      share: 1,
      isLocked: true,
    });
    expect(nearestGuard(run({ guard, lock: { what: "rounds", limit: 5 } }), 0)).toMatchObject({ share: 1, isLocked: true });
    expect(nearestGuard(run({}), 0)).toBeNull();
  });
});

it("names the rounds that repeat each other", () => {
  const messages = ["P[1].W[4]/A", "P[1].W[4]/B", "P[1].W[5]/A"].map((address) => ({ address }));
  expect(circlesOf(run({ lock: { what: "dead_loop", evidence: { messages } } }))).toEqual({
    count: 3,
    rounds: ["P[1].W[4]", "P[1].W[5]"],
  });
  expect(circlesOf(run({ lock: { what: "tokens", evidence: {} } }))).toBeNull();
});

it("writes calls short, and never with a backtick", () => {
  expect(callText("send", { to: "a", n: 1 })).toBe('send(to: "a", n: 1)');
  expect(callText("now", null)).toBe("now()");
  expect(callText("f", { x: "`".repeat(500) })).toMatch(/^f\(x: "'+…$/);
});

it("sums up the loops of a run that is over", () => {
  const loop = (rounds: number, exit_reason: string) => ({ loop: "L", rounds, exit_reason, entries: 1 });
  expect(outcomeOf([loop(2, "exit_edge"), loop(3, "x")])).toEqual({ rounds: 2, inside: 3, reason: "exit_edge" });
  expect(outcomeOf([])).toBeNull();
});

it("counts the time of work only while somebody works", () => {
  expect(workSeconds(run({ work_seconds: 5 }), now(3))).toBe(8);
  expect(workSeconds(run({ work_seconds: 5, is_executed: false }), now(3))).toBe(5);
  expect(workSeconds(run({ work_seconds: 5, status: "completed" }), now(3))).toBe(5);
  // The clock of the server may be ahead.
  expect(workSeconds(run({ work_seconds: 5 }), now(-3))).toBe(5);
});
