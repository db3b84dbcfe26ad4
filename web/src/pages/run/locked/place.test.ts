import { expect, test } from "vitest";
import type { Drawing, RunState } from "../../../api/schema";
import type { Lock } from "../../../live/run_model";
import { currentLock, exitNodes, lockedRound, nextMessage, triggers } from "./place";

const region = (key: string, kind: string, entry: string, parent = "") => ({ key, kind, entry, parent });
const node = (key: string, parent = "", id = key) => ({ key, id, parent });
const edge = (source: string, target: string, leaves = false, isTrigger = true) => ({ source, target, leaves, triggers: isTrigger });

const drawing = {
  regions: [
    region("Planner[]", "loop", "Planner"),
    region("Coder[]", "loop", "Coder", "Planner[]"),
    region("Each", "node", ""),
    region("Each/Say[]", "loop", "Each/Say", "Each"),
  ],
  nodes: [
    node("Planner", "Planner[]"),
    node("Coder", "Coder[]"),
    node("Gate", "Coder[]"),
    node("Reviewer", "Planner[]"),
    node("Each"),
    node("Each/Say", "Each/Say[]", "Say"),
    node("Each/Out", "Each", "Out"),
    node("Final"),
  ],
  edges: [
    edge("Planner", "Coder"),
    edge("Coder", "Gate"),
    edge("Gate", "Coder"),
    edge("Gate", "Reviewer", true),
    edge("Gate", "Final", true),
    edge("Coder", "Final", true, false),
    edge("Reviewer", "Final", true),
    edge("Each/Say", "Each/Out", true),
  ],
} as unknown as Drawing;
const composites = new Set(["Each"]);

test("the exits of the innermost loop, each once", () => {
  expect(exitNodes(drawing, composites, "Planner[2].Coder[3]").map((exit) => exit.id)).toEqual(["Reviewer", "Final"]);
  expect(exitNodes(drawing, composites, "Planner[2]").map((exit) => exit.id)).toEqual(["Final"]);
});

test("the exits of a loop in another node", () => {
  expect(exitNodes(drawing, composites, "Each[1]/Say[2]").map((exit) => exit.id)).toEqual(["Out"]);
});

test("there is no way out of a loop agent, or outside of loops", () => {
  expect(exitNodes(drawing, composites, "Each[1]")).toEqual([]);
  expect(exitNodes(drawing, composites, "")).toEqual([]);
});

const lock = (seq: number, what: string, address: string, unlocked: Lock["unlocked"] = null): Lock => ({
  seq,
  at: 0,
  address,
  what,
  data: {},
  unlocked,
});
const unlocked = { at: 1, by: "ana", reason: "fine", data: {} };

test("the lock that holds is the one that the server names", () => {
  const locks = [lock(5, "tokens", "A", unlocked), lock(9, "rounds", "A[2]"), lock(10, "tokens", "B")];
  expect(currentLock(locks, { what: "rounds", address: "A[2]" })?.seq).toBe(9);
  expect(currentLock(locks, null)?.seq).toBe(10);
  expect(currentLock(locks.slice(0, 1), { what: "tokens", address: "A" })).toBeUndefined();
});

test("a lock by a person is where the run is", () => {
  const state = { loops: [{ address: "A[2]" }, { address: "A[2].B[4]" }] } as unknown as RunState;
  expect(lockedRound(lock(1, "manual", ""), state)?.address).toBe("A[2].B[4]");
  expect(lockedRound(lock(1, "tokens", "A[3]/C"), state)?.address).toBe("A[3]");
  expect(lockedRound(lock(1, "tokens", "C"), state)).toBeUndefined();
});

test("the message that waits for the next node, also between two rounds", () => {
  const message = (text: string) => ({ text, position: 0 });
  const ready = { address: "A[2]/B", node_id: "B", messages: [message("one"), message("two")] };
  expect(nextMessage({ ready: [ready], queues: [] } as unknown as RunState)).toMatchObject({ node: "B", message: { text: "two" } });
  const between = {
    ready: [{ address: "A[6]", node_id: "A", messages: [] }],
    queues: [
      { address: "B", node_id: "B", messages: [message("no")] },
      { address: "A[5]/A", node_id: "A", messages: [message("yes")] },
    ],
  } as unknown as RunState;
  expect(nextMessage(between)).toMatchObject({ node: "A", message: { text: "yes" } });
  expect(nextMessage({ ready: [], queues: [] } as unknown as RunState)).toBeNull();
});

test("an edge without a trigger does not make its target run", () => {
  expect(triggers(drawing, "Coder", "Final")).toBe(false);
  expect(triggers(drawing, "Gate", "Final")).toBe(true);
  expect(triggers(drawing, "elsewhere", "Final")).toBe(true);
});
