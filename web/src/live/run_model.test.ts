import { describe, expect, it } from "vitest";
import { callerOf, parseAddress, roundOf } from "./address";
import type { RunEvent } from "./events";
import { nodeKey, RunModel } from "./run_model";

let clock = 0;
function event(seq: number, name: string, address: string, data: Record<string, unknown> = {}): RunEvent {
  clock += 1000;
  const node = address.split("/").pop()?.replace(/\[\d+\]$/, "");
  const timestamp = new Date(clock).toISOString();
  return { seq, event: name, timestamp, run_id: "r", node_id: node, address, data } as unknown as RunEvent;
}

describe("addresses", () => {
  it("are read from the outside inwards", () => {
    const place = parseAddress("Planner[2].Coder[3]/Tester");
    expect(place.rounds.map((step) => step.address)).toEqual(["Planner[2]", "Planner[2].Coder[3]"]);
    expect(place.rounds.map((step) => step.loop)).toEqual(["Planner", "Coder"]);
    expect(place.rest).toBe("Tester");
    expect(roundOf("Final")).toBe("");
  });

  it("of tool calls lead to the agent", () => {
    expect(callerOf("Analyst[2]/sales#2")).toBe("Analyst");
    expect(callerOf("Writer[3].Analyst[2]/sales")).toBe("Writer[3]/Analyst");
    expect(callerOf("Sub/Writer[3].Analyst[2]/sales")).toBe("Sub/Writer[3]/Analyst");
    expect(callerOf("W[1]/Sub/Analyst[2]/sales")).toBe("W[1]/Sub/Analyst");
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
    event(4, "token_usage", "W[1]/W", { input_tokens: 3, output_tokens: 4, cost_usd: 0.5 }),
    event(5, "node_state_change", "W[1]/W", { status: "completed", output: "a", data: { score: 7 } }),
    event(6, "loop_round", "W[2]", { loop: "W", round: 2 }),
    event(7, "node_state_change", "W[2]/W", { status: "running" }),
  ];

  it("has rounds with figures", () => {
    const model = new RunModel();
    expect(model.apply(events)).toBe(true);
    const [first, second] = model.loops.get("W")?.rounds ?? [];
    expect(first).toMatchObject({ score: 7, tokens: 7, cost: 0.5, isOpen: false, executions: ["W[1]/W"] });
    expect(second).toMatchObject({ number: 2, isOpen: true });
    expect(model.nodes.get("W")).toMatchObject({ runs: 2, status: "running", address: "W[2]/W" });
    expect([...model.active]).toEqual(["W[2]/W"]);
  });

  it("passes over what it knows, and notices what is missing", () => {
    const model = new RunModel();
    model.apply(events.slice(0, 4));
    expect(model.apply(events.slice(0, 5))).toBe(true);
    expect(model.usage.modelCalls).toBe(1);
    expect(model.apply([events[6] as RunEvent])).toBe(false);
    expect(model.seq).toBe(5);
  });

  it("replaces only what changes", () => {
    const model = new RunModel();
    model.apply(events.slice(0, 6));
    const first = model.rounds.get("W[1]");
    model.apply(events.slice(6));
    expect(model.rounds.get("W[1]")).toBe(first);
  });

  it("is left at the address of a loop agent", () => {
    const model = new RunModel(new Set(["Each"]));
    model.apply([
      event(1, "run_started", ""),
      event(2, "loop_round", "W[1].Each[1]", { loop: "Each", round: 1 }),
      event(3, "loop_exit", "W[1]/Each", { loop: "Each", rounds: 1, reason: "count_reached" }),
    ]);
    expect(model.loops.get("W[1].Each")?.exit).toMatchObject({ reason: "count_reached", rounds: 1 });
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
