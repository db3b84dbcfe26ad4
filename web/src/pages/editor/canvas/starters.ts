// What a new node of each type says, so that it is valid and does something from the beginning.
import type { NewNode } from "../../../document/model";

const STARTERS: Record<string, Record<string, unknown>> = {
  loop: { max_rounds: 3 },
  loop_counter: { max_iterations: 3 },
  loop_timer: { max_duration: 60 },
  literal: { content: "Text" },
  loop_agent: { strategy: { mode: "count", max: 3 }, body: { id: "Step", type: "agent" } },
  debate: { participants: [{ id: "Ada", type: "agent" }, { id: "Bo", type: "agent" }], max_rounds: 3 },
  vote: { participants: [{ id: "Ada", type: "agent" }, { id: "Bo", type: "agent" }], question: "Shall we go on?" },
  subgraph: { type: "config", config: { nodes: [{ id: "Step", type: "agent" }], start: "Step", end: "Step" } },
};

/** The id that a node of a type gets if it is free: `loop_counter` becomes `Loop Counter`. */
export function idFor(type: string): string {
  return type
    .split("_")
    .map((word) => word.charAt(0).toUpperCase() + word.slice(1))
    .join(" ");
}

export function starter(type: string, id: string): NewNode {
  const config = STARTERS[type];
  return { id, type, ...(config && { config: structuredClone(config) }) };
}
