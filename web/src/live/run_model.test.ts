import { describe, expect, it } from "vitest";
import { parseAddress, roundOf } from "./address";
import { nodeKey } from "./path";
import type { RunEvent } from "./events";
import { RunModel } from "./run_model";

let clock = 0;
function event(seq: number, name: string, address: string, data: Record<string, unknown> = {}): RunEvent {
  clock += 1000;
  const node = address.split("/").pop()?.replace(/\[\d+\]$/, "");
  const timestamp = new Date(clock).toISOString();
  return { seq, event: name, timestamp, run_id: "r", node_id: node, address, data } as unknown as RunEvent;
}

/** The end of a model call, the only one of the run. */
function modelCall(input: number, output: number, cost: number): Record<string, unknown> {
  const figures = { input_tokens: input, output_tokens: output, cost_usd: cost };
  const total = { model_calls: 1, tool_calls: 0, ...figures, unpriced_calls: 0, cached_calls: 0, cancelled_calls: 0 };
  return { status: "completed", call: 1, purpose: "answer", ...figures, total };
}

describe("addresses", () => {
  it("are read from the outside inwards", () => {
    const place = parseAddress("Planner[2].Coder[3]/Tester");
    expect(place.rounds.map((step) => step.address)).toEqual(["Planner[2]", "Planner[2].Coder[3]"]);
    expect(place.rounds.map((step) => step.loop)).toEqual(["Planner", "Coder"]);
    expect(place.rest).toBe("Tester");
    expect(roundOf("Final")).toBe("");
  });

  it("lead to nodes of the drawing", () => {
    const composites = new Set(["Sub", "Each", "Sub/Inner"]);
    expect(nodeKey("W[1]/Sub/In[2]/C", composites)).toBe("Sub/C");
    expect(nodeKey("W[1].Each[2]/Say", composites)).toBe("Each/Say");
    expect(nodeKey("W[1]/Sub/Inner[3]/X#2", composites)).toBe("Sub/Inner/X");
    expect(nodeKey("W[1]/Each", composites)).toBe("Each");
    expect(nodeKey("Each[1]/Each", composites)).toBe("Each");
    expect(nodeKey("Each[1].Each[2]/Say", composites)).toBe("Each/Say");
  });
});

describe("a run", () => {
  const events = [
    event(1, "run_started", "", { workflow: "w", input: "tea" }),
    event(2, "loop_round", "W[1]", { loop: "W", round: 1 }),
    event(3, "node_state_change", "W[1]/W", { status: "running" }),
    event(4, "model_call", "W[1]/W", modelCall(3, 4, 0.5)),
    event(5, "node_state_change", "W[1]/W", { status: "completed", output: "a", score: 7 }),
    event(6, "round_finished", "W[1]", {
      loop: "W",
      round: 1,
      status: "completed",
      score: 7,
      best: 1,
      usage: { input_tokens: 3, output_tokens: 4, cost_usd: 0.5 },
    }),
    event(7, "loop_round", "W[2]", { loop: "W", round: 2, triggered_by: ["W[1]/W"] }),
    event(8, "node_state_change", "W[2]/W", { status: "running" }),
  ];

  it("has rounds with figures", () => {
    const model = new RunModel();
    expect(model.apply(events)).toBe(true);
    const [first, second] = model.loops.get("W")?.rounds ?? [];
    expect(first).toMatchObject({ score: 7, usage: { input_tokens: 3, output_tokens: 4, cost_usd: 0.5 }, isOpen: false, executions: ["W[1]/W"] });
    expect(second).toMatchObject({ number: 2, isOpen: true, triggered_by: ["W[1]/W"] });
    expect(model.loops.get("W")?.best).toBe(1);
    expect(model.nodes.get("W")).toMatchObject({ runs: 2, status: "running", address: "W[2]/W" });
    expect([...model.active]).toEqual(["W[2]/W"]);
  });

  it("passes over what it knows, and notices what is missing", () => {
    const model = new RunModel();
    model.apply(events.slice(0, 4));
    expect(model.apply(events.slice(0, 5))).toBe(true);
    expect(model.usage.model_calls).toBe(1);
    expect(model.apply([events[6] as RunEvent])).toBe(false);
    expect(model.seq).toBe(5);
  });

  it("replaces only what changes", () => {
    const model = new RunModel();
    model.apply(events.slice(0, 7));
    const first = model.rounds.get("W[1]");
    model.apply(events.slice(7));
    expect(model.rounds.get("W[1]")).toBe(first);
  });

  it("cuts rounds off when it ends, and opens them again for a retry", () => {
    const model = new RunModel();
    model.apply(events);
    model.apply([event(9, "node_state_change", "W[2]/W", { status: "failed", error: "no", type: "Timeout" })]);
    model.apply([event(10, "run_finished", "", { status: "failed" })]);
    expect(model.rounds.get("W[2]")).toMatchObject({ isOpen: false, status: "failed" });
    model.apply([event(11, "run_state_change", "", { status: "running", reason: "retried" })]);
    expect(model.rounds.get("W[2]")).toMatchObject({ isOpen: true, status: "running" });
    model.apply([event(12, "run_finished", "", { status: "stopped" })]);
    model.apply([event(13, "run_state_change", "", { status: "running", reason: "retried" })]);
    model.apply([event(14, "round_finished", "W[2]", { loop: "W", round: 2, status: "completed" })]);
    expect(model.rounds.get("W[2]")).toMatchObject({ isOpen: false, status: "completed", cut_off: false });
  });

  it("is left at the last round", () => {
    const model = new RunModel(new Set(["Each"]));
    model.apply([
      event(1, "run_started", ""),
      event(2, "loop_round", "W[1].Each[1]", { loop: "Each", round: 1 }),
      event(3, "round_finished", "W[1].Each[1]", { loop: "Each", round: 1, status: "cancelled" }),
      event(4, "loop_exit", "W[1].Each[1]", { loop: "Each", rounds: 1, round: 1, reason: "count_reached" }),
    ]);
    expect(model.loops.get("W[1].Each")?.exit).toMatchObject({ reason: "count_reached", rounds: 1, kept: 0 });
    expect(model.rounds.get("W[1].Each[1]")).toMatchObject({ isOpen: false, status: "cancelled" });
  });

  it("takes what it has used from its events", () => {
    const model = new RunModel();
    const total = { model_calls: 3, tool_calls: 1, input_tokens: 9, output_tokens: 1, cost_usd: null };
    const called = { name: "mean", arguments: {}, round: 1, id: "a", caller: "A", call: { round: 1, label: "mean" } };
    model.apply([
      event(1, "run_started", ""),
      event(2, "node_state_change", "A", { status: "running", type: "agent", speaks: true }),
      event(3, "tool_call", "A[1]/mean", { ...called, status: "running" }),
      event(4, "tool_call", "A[1]/mean", { ...called, status: "completed", result: "2", called: true, total }),
      event(5, "model_call", "A", { status: "cancelled", call: 2, purpose: "answer", total: { ...total, cost_usd: 0.5 } }),
    ]);
    expect(model.usage).toEqual({ ...total, cost_usd: 0.5 });
    expect(model.executions.get("A")).toMatchObject({ usage: { input_tokens: 0, tool_calls: 1, cancelled_calls: 1 }, tools: [{ status: "completed", result: "2" }] });
  });

  it("is locked only by limits that lock it", () => {
    const model = new RunModel();
    model.apply([
      event(1, "run_started", ""),
      event(2, "limit_reached", "A", { what: "tool_rounds", limit: 1, address: "A" }),
      event(3, "limit_reached", "A", { what: "tokens", limit: 9, address: "A", locks: true }),
    ]);
    expect(model.locks.map((lock) => lock.what)).toEqual(["tokens"]);
  });

  it("waits at the agent that asks about a tool", () => {
    const model = new RunModel();
    const tool = { name: "order", arguments: {} };
    model.apply([
      event(1, "run_started", ""),
      event(2, "node_state_change", "W[1]/A", { status: "running", type: "agent", speaks: true }),
      event(3, "human_input_required", "W[1].A[1]/order", { prompt: "May it?", tool, caller: "W[1]/A" }),
    ]);
    expect(model.executions.get("W[1]/A")?.status).toBe("waiting");
    model.apply([event(4, "human_input_received", "W[1].A[1]/order", { text: "yes", decision: "approved" })]);
    expect(model.executions.get("W[1]/A")).toMatchObject({ status: "running", question: null, answer: "yes" });
    expect(model.questions).toEqual([]);
  });

  it("has streamed text until the answer is complete", () => {
    const model = new RunModel();
    model.apply(events.slice(0, 3));
    const part = (text: string, offset: number, attempt = 1): RunEvent => {
      const { seq: _seq, ...rest } = event(0, "token_stream", "W[1]/W", { text, offset, attempt });
      return rest;
    };
    model.apply([part("Hel", 0), part("lo", 3)]);
    expect(model.executions.get("W[1]/W")?.streamed).toBe("Hello");
    model.apply([part("Bye", 0, 2)]);
    expect(model.executions.get("W[1]/W")?.streamed).toBe("Bye");
    model.apply(events.slice(3, 5));
    expect(model.executions.get("W[1]/W")).toMatchObject({ streamed: "", output: "a" });
  });
});
