// A small plan for tests: a loop in a loop, and a node with a graph inside.
import type { DrawnEdge, DrawnNode, Proof, Region, RunPlan } from "../api/schema";
import type { RunEvent } from "../live/events";

export function node(key: string, x: number, y: number, more: Partial<DrawnNode> = {}): DrawnNode {
  const id = key.split("/").at(-1) ?? key;
  return {
    key,
    id,
    type: "agent",
    guard: false,
    label: id,
    caption: "agent",
    box: { x, y, width: 136, height: 40 },
    start: false,
    end: false,
    parent: "",
    region: "",
    inside: null,
    missing: false,
    problems: [],
    ...more,
  };
}

export function edge(source: string, target: string, more: Partial<DrawnEdge> = {}): DrawnEdge {
  return {
    source,
    target,
    kind: "edge",
    back: false,
    leaves: false,
    triggers: true,
    port: "",
    explicit: false,
    text: "",
    label: null,
    route: [[[68, 40]], [[68, 60]]],
    problems: [],
    ...more,
  };
}

export function region(key: string, entry: string, more: Partial<Region> = {}): Region {
  return {
    key,
    kind: "loop",
    repeats: true,
    title: `loop ${entry}`,
    captions: [],
    title_x: 10,
    entry,
    box: { x: -20, y: -60, width: 400, height: 600 },
    parent: "",
    depth: 0,
    problems: [],
    ...more,
  };
}

export function proof(id: string, most: number | null, more: Partial<Proof> = {}): Proof {
  return { id, nodes: [], bounded_by: [], worst_case_rounds: most, cap: 50, depth: 0, worst_case_total: most, ...more };
}

/** Planner → [Coder → Gate] → Review → Final, with a loop agent Each beside them. */
export function plan(): RunPlan {
  const drawing = {
    density: "compact" as const,
    width: 400,
    height: 700,
    title: "w",
    captions: [],
    regions: [
      region("Planner[]", "Planner"),
      region("Coder[]", "Coder", { parent: "Planner[]", depth: 1, box: { x: -10, y: 40, width: 300, height: 200 } }),
      region("Each/", "", { kind: "node", title: "Each", captions: ["loop_agent", "at most 6 rounds, by Each"], box: { x: 500, y: 0, width: 200, height: 200 } }),
    ],
    nodes: [
      node("Planner", 0, 0, { parent: "Planner[]", start: true }),
      node("Coder", 0, 100, { parent: "Coder[]" }),
      node("Gate", 0, 160, { parent: "Coder[]", type: "loop", caption: "loop, 10 rounds" }),
      node("Review", 0, 300, { parent: "Planner[]", type: "human" }),
      node("Final", 0, 600, { end: true }),
      node("Each", 500, 0, { type: "loop_agent", region: "Each/", box: { x: 500, y: 0, width: 200, height: 200 } }),
      node("Each/Say", 520, 100, { parent: "Each/" }),
    ],
    marks: [],
    edges: [
      edge("Planner", "Coder"),
      edge("Coder", "Gate"),
      edge("Gate", "Coder", { back: true, port: "continue", route: [[[136, 180]], [[260, 180]], [[260, 120]], [[136, 120]]] }),
      edge("Gate", "Review", { leaves: true }),
      edge("Review", "Planner", { back: true, route: [[[136, 320]], [[340, 320]], [[340, 20]], [[136, 20]]] }),
      edge("Review", "Final", { leaves: true }),
      edge("Planner", "Final", { triggers: false, leaves: true }),
    ],
    problems: [],
  };
  const loops = [
    proof("Planner", 3, { bounded_by: [{ guard: "Review", limit: 3 }] }),
    proof("Coder", 10, { depth: 1, bounded_by: [{ guard: "Gate", limit: 10 }], worst_case_total: 30 }),
  ];
  return { workflow: "w", drawing, loops, decisions: [], speakers: [], limits: {} } as unknown as RunPlan;
}

let seq = 0;
/** Numbers events from here on. */
export function began(after = 0): void {
  seq = after;
}

/** An event, at a time in milliseconds. */
export function event(at: number, name: string, address: string, data: Record<string, unknown> = {}): RunEvent {
  const node_id = address.split("/").at(-1)?.replace(/\[\d+\]$/, "");
  return { seq: ++seq, event: name, timestamp: new Date(at).toISOString(), run_id: "r", node_id, address, data } as unknown as RunEvent;
}

export const round = (at: number, address: string) => event(at, "loop_round", address, { loop: address.replace(/^.*[./]|\[\d+\]$/g, ""), round: Number(/(\d+)\]$/.exec(address)?.[1]) });
export const roundEnd = (at: number, address: string) => event(at, "round_finished", address, { status: "completed" });
export const runs = (at: number, address: string) => event(at, "node_state_change", address, { status: "running" });
export const done = (at: number, address: string, status = "completed") => event(at, "node_state_change", address, { status });
