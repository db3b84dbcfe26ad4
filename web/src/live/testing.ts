// Streams of events for tests.
import { isInside, parseAddress } from "./address";
import type { RunUsage } from "../api/events";
import type { RunEvent } from "./events";

export const NOTHING_USED: RunUsage = { model_calls: 0, tool_calls: 0, input_tokens: 0, output_tokens: 0, cost_usd: 0, unpriced_calls: 0 };

/** The same events with an end for each round that the next one of its loop follows, or the exit of its loop, as
 * the engine tells it for rounds one after the other: with the last score, the best round and the tokens. */
export function withRoundEnds(events: readonly RunEvent[]): RunEvent[] {
  const found: RunEvent[] = [];
  const open = new Map<string, RunEvent[]>();
  const best = new Map<string, { round: number; score: number }>();
  const add = (event: RunEvent) => found.push({ ...event, seq: found.length + 1 });
  for (const event of events) {
    const step = parseAddress(event.address ?? "").rounds.at(-1);
    if (step !== undefined && (event.event === "loop_round" || event.event === "loop_exit")) {
      for (const [address, inside] of open) {
        if (parseAddress(address).rounds.at(-1)?.stem !== step.stem) continue;
        const ended = roundEnd(address, inside, best);
        add({ ...event, ...ended } as RunEvent);
        open.delete(address);
      }
      if (event.event === "loop_round") open.set(event.address ?? "", []);
    }
    for (const [address, inside] of open) if (isInside(event.address ?? "", address)) inside.push(event);
    if (event.event === "loop_exit") add({ ...event, data: { best: best.get(step?.stem ?? "")?.round, ...event.data } });
    else add(event);
  }
  return found;
}

function roundEnd(address: string, inside: readonly RunEvent[], best: Map<string, { round: number; score: number }>) {
  const step = parseAddress(address).rounds.at(-1);
  const usage: RunUsage = { ...NOTHING_USED, cost_usd: null };
  let score: number | null = null;
  for (const event of inside) {
    if (event.event === "model_call" && event.data.status === "completed") {
      usage.model_calls++;
      usage.input_tokens += event.data.input_tokens ?? 0;
      usage.output_tokens += event.data.output_tokens ?? 0;
      if (event.data.cost_usd != null) usage.cost_usd = (usage.cost_usd ?? 0) + event.data.cost_usd;
    }
    if (event.event !== "node_state_change" || event.data.status !== "completed") continue;
    const given = event.data.score;
    if (typeof given === "number") score = given;
  }
  const round = step?.round ?? 0;
  const before = best.get(step?.stem ?? "");
  if (score !== null && (before === undefined || score > before.score)) best.set(step?.stem ?? "", { round, score });
  const data = { loop: step?.loop ?? "", round, status: "completed", score, best: best.get(step?.stem ?? "")?.round, usage };
  return { event: "round_finished", address, data };
}
