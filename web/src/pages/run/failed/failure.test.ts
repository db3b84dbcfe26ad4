import { describe, expect, it } from "vitest";
import type { Drawing, DrawnEdge } from "../../../api/schema";
import type { RunEvent } from "../../../live/events";
import { RunModel } from "../../../live/run_model";
import { errorEdges, failuresOf, mainFailure, readLimits, retryPlan } from "./failure";

let seq = 0;
function event(name: string, address: string, data: Record<string, unknown> = {}): RunEvent {
  seq += 1;
  const node_id = address.split("/").pop()?.replace(/\[\d+\]$/, "");
  return { seq, event: name, timestamp: new Date(seq * 1000).toISOString(), run_id: "r", node_id, address, data } as unknown as RunEvent;
}

function run(events: () => RunEvent[], composites: string[] = []): RunModel {
  seq = 0;
  const model = new RunModel(new Set(composites));
  expect(model.apply(events())).toBe(true);
  return model;
}

function edge(source: string, target: string, more: Partial<DrawnEdge> = {}): DrawnEdge {
  const flags = { back: false, leaves: false, triggers: true, explicit: false };
  return { source, target, kind: "edge", port: "", text: "", label: null, route: [], problems: [], ...flags, ...more };
}

const drawing = {
  nodes: [],
  edges: [
    edge("W", "Critic"),
    edge("Critic", "Gate"),
    edge("Gate", "W", { back: true }),
    edge("Gate", "Final", { leaves: true }),
    edge("W", "Fallback", { port: "error", explicit: true }),
    edge("Sub", "Rescue", { port: "error", explicit: true }),
    edge("Critic", "Note", { triggers: false }),
  ],
} as unknown as Drawing;

describe("a failed run", () => {
  const failed = () => [
    event("loop_round", "W[1]", { loop: "W", round: 1 }),
    event("node_state_change", "W[1]/W", { status: "running" }),
    event("node_state_change", "W[1]/W", { status: "completed", output: "a" }),
    event("node_state_change", "W[1]/Other", { status: "failed", error: "x", handled: true }),
    event("loop_round", "W[2]", { loop: "W", round: 2 }),
    event("node_state_change", "W[2]/W", { status: "running" }),
    event("tool_call", "W[2].W[1]/sales", { name: "sales", status: "completed", round: 1, result: "7", caller: "W[2]/W" }),
    event("node_state_change", "W[2]/W", { status: "failed", error: "429", type: "RateLimited" }),
    event("node_state_change", "W[2]/Ask", { status: "skipped", reason: "the run has failed" }),
    event("run_finished", "", { status: "failed", error: "W[2]/W: 429" }),
  ];

  it("names the failure that nothing handled", () => {
    const model = run(failed);
    expect(failuresOf(model).map((one) => one.address)).toEqual(["W[2]/W"]);
    expect(mainFailure(model)?.error_type).toBe("RateLimited");
  });

  it("names the innermost node", () => {
    const model = run(
      () => [
        event("node_state_change", "Sub", { status: "running" }),
        event("node_state_change", "Sub/Inner", { status: "failed", error: "no" }),
        event("node_state_change", "Sub", { status: "failed", error: "no" }),
        event("run_finished", "", { status: "failed", error: "Sub/Inner: no" }),
      ],
      ["Sub"],
    );
    expect(failuresOf(model).map((one) => one.address)).toEqual(["Sub/Inner"]);
  });

  it("is retried where it failed, and keeps the rest", () => {
    expect(retryPlan(run(failed), drawing)).toEqual({
      again: [
        { address: "W[2]/W", nodeId: "W", toolRound: 2, isEdge: false },
        { address: "W[2]/Ask", nodeId: "Ask", toolRound: null, isEdge: false },
      ],
      then: ["Critic", "Gate", "Final"],
      kept: 1,
      keptRounds: 1,
      keptCalls: 1,
    });
  });

  it("could have been handled by edges of the node, and of those around it", () => {
    expect(errorEdges(drawing, "W").map((one) => one.edge.target)).toEqual(["Fallback"]);
    expect(errorEdges(drawing, "Sub/Inner")).toMatchObject([{ edge: { target: "Rescue" }, isOwn: false }]);
    expect(errorEdges(drawing, "Critic")).toEqual([]);
  });
});

describe("limits of a retry", () => {
  it("are numbers above zero", () => {
    expect(readLimits({ tokens: "8,000", seconds: "", cost_usd: "0.5" })).toEqual({ tokens: 8000, cost_usd: 0.5 });
    expect(readLimits({ tokens: "many" })).toBeUndefined();
    expect(readLimits({ tokens: "0" })).toBeUndefined();
  });
});
