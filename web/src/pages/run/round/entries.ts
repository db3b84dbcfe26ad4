// What the panel lists: the executions of a round in order, and the loops inside it as one line each.
import { parseAddress, roundOf } from "../../../live/address";
import type { Execution, LoopEntry, RunModel } from "../../../live/run_model";
import { bestRound } from "../context";

export type Entry =
  | { kind: "execution"; address: string }
  /** Executions in the graph of a node, such as a subgraph; `path` is the node within the round. */
  | { kind: "group"; path: string; addresses: readonly string[] }
  | { kind: "loop"; stem: string };

/** The round that contains an address: the innermost one that the run knows. Empty outside of all loops. The
 * address may be that of a round, a node, or a tool call, whose tool rounds are no rounds of a loop. */
export function placeOf(model: RunModel, address: string): string {
  const execution = model.executions.get(address);
  if (execution !== undefined) return execution.round;
  const steps = parseAddress(address).rounds;
  return steps.findLast((step) => model.rounds.has(step.address))?.address ?? "";
}

/** The execution that an address names, or belongs to: of a tool call, the one that made it. */
export function executionAt(model: RunModel, address: string): string {
  if (model.executions.has(address)) return address;
  if (!address || model.rounds.has(address)) return "";
  for (const execution of model.executions.values()) {
    if (execution.tools.some((tool) => tool.address === address)) return execution.address;
  }
  return "";
}

/** What happened in a round, or outside of all loops if `place` is empty, in the order in which it began. */
export function entriesOf(model: RunModel, place: string): Entry[] {
  const own = new Set(
    place ? (model.rounds.get(place)?.executions ?? []) : model.sequence.filter((address) => roundOf(address) === ""),
  );
  const stems = new Set<string>();
  for (const loop of model.loops.values()) if (loop.parent === place) stems.add(loop.stem);
  const entries: Entry[] = [];
  const groups = new Map<string, string[]>();
  let last = "";
  for (const address of model.sequence) {
    if (own.has(address)) {
      const path = groupOf(address, place);
      const group = path === last ? groups.get(path) : undefined;
      if (path && group !== undefined) group.push(address);
      else if (path) {
        const addresses = [address];
        groups.set(path, addresses);
        entries.push({ kind: "group", path, addresses });
      } else entries.push({ kind: "execution", address });
      last = path;
      continue;
    }
    const stem = stems.size ? stemOf(address, stems) : "";
    if (!stem) continue;
    stems.delete(stem);
    entries.push({ kind: "loop", stem });
    last = "";
  }
  // A loop whose first node has not begun yet.
  for (const stem of stems) entries.push({ kind: "loop", stem });
  return entries;
}

/** The nodes around an execution within its round: `Draft` for `Writer[2]/Draft/Say`. */
function groupOf(address: string, place: string): string {
  const rest = place ? address.slice(place.length + 1) : address;
  const end = rest.lastIndexOf("/");
  return end < 0 ? "" : rest.slice(0, end);
}

function stemOf(address: string, stems: ReadonlySet<string>): string {
  return parseAddress(address).rounds.find((step) => stems.has(step.stem))?.stem ?? "";
}

/** The addresses of the executions that are listed, in order. */
export function listed(entries: readonly Entry[]): string[] {
  return entries.flatMap((entry) =>
    entry.kind === "execution" ? [entry.address] : entry.kind === "group" ? [...entry.addresses] : [],
  );
}

/** The same node in another round of the loop. */
export function counterpart(execution: Execution, round: string): string {
  return round + execution.address.slice(execution.round.length);
}

/** The other rounds of the loop in which the node returned something, by number. */
export function comparable(model: RunModel, execution: Execution): { round: string; number: number }[] {
  const stem = parseAddress(execution.round).rounds.at(-1)?.stem ?? "";
  const found: { round: string; number: number }[] = [];
  for (const round of model.loops.get(stem)?.rounds ?? []) {
    if (round.address === execution.round) continue;
    if (model.executions.get(counterpart(execution, round.address))?.output === undefined) continue;
    found.push({ round: round.address, number: round.number });
  }
  return found;
}

/** The round to compare with: the chosen one, else the nearest one before, else the next one. */
export function comparedRound(
  choices: readonly { round: string; number: number }[],
  own: number,
  chosen: string,
): string {
  const found = choices.find((choice) => choice.round === chosen);
  if (found !== undefined) return found.round;
  return (choices.findLast((choice) => choice.number < own) ?? choices[0])?.round ?? "";
}

/** Rounds of a loop and the best of them, in short. */
export function loopSummary(entry: LoopEntry): { rounds: number; best: number | null; score: number | null } {
  const best = bestRound(entry);
  return { rounds: entry.rounds.length, best: best?.number ?? null, score: best?.score ?? null };
}

/** The executions whose output began the next round. */
export function sentOn(model: RunModel, place: string): { source: string; target: string }[] {
  const round = model.rounds.get(place);
  const rounds = model.loops.get(round?.stem ?? "")?.rounds ?? [];
  const next = rounds.find((one) => one.number === (round?.number ?? 0) + 1);
  return (next?.triggered_by ?? []).map((source) => ({ source, target: next?.loop ?? "" }));
}
