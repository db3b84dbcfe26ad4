import { expect, test } from "vitest";
import type { ReadyNode, RunState } from "../../../api/schema";
import type { RunEvent } from "../../../live/events";
import { RunModel } from "../../../live/run_model";
import { breakpointKind, breakpointText, changedLines, lateEdits, readyReason, receivedBefore, roundStep, waitingAt } from "./paused";

let seq = 0;
const event = (name: string, address: string, data: Record<string, unknown>): RunEvent => ({
  seq: ++seq,
  event: name,
  timestamp: "2026-11-17T09:00:00.000Z",
  run_id: "r",
  node_id: address.replace(/^.*\//, ""),
  address,
  data,
}) as unknown as RunEvent;
const ran = (address: string, output: string): RunEvent[] => [
  event("node_state_change", address, { status: "running" }),
  event("node_state_change", address, { status: "completed", output }),
];

test("what a node received in earlier rounds is what its source returned before it", () => {
  seq = 0;
  const model = new RunModel();
  model.apply([
    event("run_started", "", { workflow: "w", input: "the input" }),
    ...ran("A[1]/A", "one"),
    ...ran("A[1]/B", "x"),
    ...ran("A[2]/A", "two"),
    event("message_edited", "A[2]/B", { text: "two, edited", position: 0 }),
    ...ran("A[2]/B", "y"),
    ...ran("A[3]/A", "three"),
  ]);
  expect(receivedBefore(model, "A[3]/B", "A")).toEqual([
    { address: "A[2]/B", text: "two, edited" },
    { address: "A[1]/B", text: "one" },
  ]);
  expect(receivedBefore(model, "A[4]/A", "")).toEqual([
    { address: "A[3]/A", text: "the input" },
    { address: "A[2]/A", text: "the input" },
    { address: "A[1]/A", text: "the input" },
  ]);
  expect(receivedBefore(model, "A[3]/B", "nobody")).toEqual([{ address: "A[2]/B", text: "two, edited" }]);
});

const ready = (address: string, more: Partial<ReadyNode> = {}) =>
  ({ address, node_id: "B", type: "agent", why: "", breakpoints: [], messages: [], calls: [], ...more }) as ReadyNode;
const message = (source: string) => ({ source, text: "", position: 0 }) as ReadyNode["messages"][number];

test("why a node is ready", () => {
  expect(readyReason(ready("A[3]/B", { messages: [message("A"), message("A"), message("C")] }))).toEqual({
    kind: "messages",
    count: 3,
    sources: ["A", "C"],
  });
  expect(readyReason(ready("A[2]/A", { why: "round 2 of 'A' begins, with messages from 'Gate'", messages: [message("Gate")] }))).toEqual({
    kind: "round",
    round: 2,
    loop: "A",
    sources: ["Gate"],
  });
  expect(readyReason(ready("A", { calls: ["order"], why: "the model of 'A' requested tools" }))).toEqual({ kind: "tools", calls: ["order"] });
  expect(readyReason(ready("A", { why: "an edge without a message triggered it" }))).toMatchObject({ kind: "other" });
});

test("where a step to the next round pauses", () => {
  const state = (address: string, loops: unknown[]) => ({ ready: [ready(address)], loops }) as unknown as RunState;
  expect(roundStep(state("A[3]/B", [{ address: "A[3]", limit: 6 }]))).toEqual({ kind: "round", loop: "A", address: "A[4]" });
  expect(roundStep(state("A[6]/B", [{ address: "A[6]", limit: 6 }]))).toEqual({ kind: "after", loop: "A" });
  expect(roundStep(state("A[6]/B", [{ address: "A[6]", limit: null }]))).toMatchObject({ kind: "round" });
  expect(roundStep(state("B", []))).toEqual({ kind: "next-loop" });
  expect(roundStep({ ready: [], loops: [] } as unknown as RunState)).toEqual({ kind: "nothing" });
});

test("kinds of breakpoints", () => {
  expect(["Author[4]", "Author[4]/Security", "Sub/Writer", "Gate", "cel: round > 3"].map(breakpointKind)).toEqual([
    "round",
    "place",
    "place",
    "node",
    "condition",
  ]);
  expect(breakpointText('cel: node == "A"')).toBe('node == "A"');
});

test("messages that wait at a node that is not ready", () => {
  const state = { queues: [{ address: "Final", node_id: "Final", messages: [1, 2] }] } as unknown as RunState;
  const node = { address: "Final", node_id: "Final", type: "", waits_for: [], is_triggered: false };
  expect(waitingAt(state, node)).toBe(2);
  expect(waitingAt(state, { ...node, address: "X", node_id: "X" })).toBe(0);
});

test("an edit is late when its message does not wait any more", () => {
  const edit = { runId: "r", address: "A[3]/B", nodeId: "B", position: 0, version: "v", text: "mine" };
  const state = { queues: [{ address: "A[3]/B", messages: [{ position: 0 }] }] } as unknown as RunState;
  expect(lateEdits([edit], state, true)).toEqual([]);
  expect(lateEdits([{ ...edit, position: 1 }], state, true)).toHaveLength(1);
  expect(lateEdits([edit], { queues: [] } as unknown as RunState, true)).toHaveLength(1);
  expect(lateEdits([edit], undefined, true)).toEqual([]);
  expect(lateEdits([edit], state, false)).toHaveLength(1);
});

test("the lines that an edit has changed or removed, by their old numbers", () => {
  const before = "def load(path):\n    check(path)\n    raise ValueError(path)\n    return path";
  const after = "def load(path):\n    log(path, 1)\n    check(path)\n    raise PermissionError(path)";
  expect(changedLines(before, after)).toEqual([
    { number: 3, text: "raise ValueError(path)" },
    { number: 4, text: "return path" },
  ]);
  expect(changedLines("a", "a\nb")).toEqual([]);
});
