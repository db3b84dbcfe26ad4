// @vitest-environment happy-dom
import { beforeEach, expect, test } from "vitest";
import type { WaitingMessage } from "../../../api/schema";
import type { Lock } from "../../../live/run_model";
import { EMPTY_DRAFT, missing, needsChange, unlockBody, useUnlockDrafts, type UnlockDraft, type UnlockFacts } from "./draft";

const facts: UnlockFacts = {
  next: { node: "Writer", message: { text: "Say when." } as WaitingMessage },
  limit: null,
  exits: ["Final"],
  needsChange: false,
};
const limit = { name: "tokens", current: 1000, need: 1110, suggestion: 2000, isNeeded: true };
const ready: UnlockDraft = {
  ...EMPTY_DRAFT,
  reason: " late ",
  checks: ["workflow_reviewed", "cause_understood", "cost_accepted"],
};

beforeEach(() => sessionStorage.clear());

test("an empty form lacks a reason and the checks", () => {
  expect(missing(EMPTY_DRAFT, facts)).toEqual(["reason", "checks"]);
  expect(missing({ ...ready, reason: "  " }, facts)).toEqual(["reason"]);
  expect(missing({ ...ready, checks: ["cost_accepted"] }, facts)).toEqual(["checks"]);
  expect(missing(ready, facts)).toEqual([]);
});

test("to leave takes one of the exits", () => {
  expect(missing({ ...ready, mode: "leave" }, facts)).toEqual(["exit"]);
  expect(missing({ ...ready, mode: "leave", exit: "Writer" }, facts)).toEqual(["exit"]);
  expect(missing({ ...ready, mode: "leave", exit: "Final" }, facts)).toEqual([]);
});

test("a limit has to be higher, and may be left alone only if it is not needed", () => {
  expect(missing(ready, { ...facts, limit })).toEqual([]);
  for (const text of ["1,000", "", "many"]) expect(missing({ ...ready, limit: text }, { ...facts, limit })).toEqual(["limit"]);
  expect(missing({ ...ready, limit: "1,001" }, { ...facts, limit })).toEqual([]);
  expect(missing({ ...ready, limit: "" }, { ...facts, limit: { ...limit, isNeeded: false } })).toEqual([]);
});

test("a message cannot be edited to nothing", () => {
  expect(missing({ ...ready, message: " " }, facts)).toEqual(["message"]);
});

test("after the same lock twice a reason is not enough", () => {
  const again = { ...facts, needsChange: true };
  expect(missing(ready, again)).toEqual(["change"]);
  expect(missing({ ...ready, message: "Say when." }, again)).toEqual(["change"]);
  expect(missing({ ...ready, message: "On Sunday." }, again)).toEqual([]);
  expect(missing({ ...ready, mode: "leave", exit: "Final" }, again)).toEqual([]);
  expect(missing(ready, { ...again, limit })).toEqual([]);
});

test("only what was changed is sent", () => {
  const checks = ["cause_understood", "cost_accepted", "workflow_reviewed"];
  expect(unlockBody({ ...ready, message: "Say when." }, facts)).toEqual({ reason: "late", checks });
  expect(unlockBody({ ...ready, message: "On Sunday.", note: " be brief " }, { ...facts, limit })).toEqual({
    reason: "late",
    checks,
    note: "be brief",
    message: "On Sunday.",
    limits: { tokens: 2000 },
  });
  expect(unlockBody({ ...ready, mode: "leave", exit: "Final", message: "x" }, { ...facts, limit })).toEqual({
    reason: "late",
    checks,
    exit: "Final",
  });
});

test("two locks in a row have the same cause", () => {
  const lock = (seq: number, address: string, data: Record<string, unknown> | null): Lock => ({
    seq,
    at: 0,
    address,
    what: "dead_loop",
    data: {},
    unlocked: data === null ? null : { at: 1, by: "ana", reason: "", data },
  });
  const now = lock(9, "Writer[7]", null);
  expect(needsChange([lock(5, "Writer[5]", {}), now], now)).toBe(true);
  expect(needsChange([lock(5, "Writer[5]", { changes: [{ path: "/message", before: "a", after: "" }] }), now], now)).toBe(false);
  expect(needsChange([lock(5, "Coder[5]", {}), now], now)).toBe(false);
  expect(needsChange([now], now)).toBe(false);
});

test("drafts are kept in the tab", () => {
  const { change, discard } = useUnlockDrafts.getState();
  change("run.9", { reason: "because" });
  expect(JSON.parse(sessionStorage.getItem("roundel.unlock.run.9") ?? "")).toMatchObject({ reason: "because" });
  discard("run.9");
  expect(useUnlockDrafts.getState().drafts).toEqual({});
  expect(sessionStorage.length).toBe(0);
});
