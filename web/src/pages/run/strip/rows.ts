// The loops on the way to a round, one per row of the strip: how often each was entered, and its bound.
import type { Proof, RunPlan } from "../../../api/schema";
import { parseAddress } from "../../../live/address";
import type { RunModel } from "../../../live/run_model";
import { proofOf } from "../context";

export interface Row {
  loop: string;
  /** The rounds of this entry. */
  rounds: number;
  /** The most rounds of one entry; null if there is no number. */
  bound: number | null;
  /** Whether only the cap bounds it, at which the run is locked. */
  isCap: boolean;
  isLeft: boolean;
  total: number | null;
  /** The rounds of all entries. */
  used: number;
}

/** The loop that was entered last in a round, for rows below an address that ends there. */
function lastInside(model: RunModel, round: string): { stem: string; loop: string } | undefined {
  const stem = model.rounds.get(round)?.inner.at(-1);
  return stem === undefined ? undefined : model.loops.get(stem);
}

export function rowsOf(model: RunModel, plan: RunPlan, address: string, depths: number): Row[] {
  const steps = parseAddress(address).rounds;
  const rows: Row[] = [];
  let around: Proof | undefined;
  let round = "";
  for (let depth = 0; depth < depths; depth++) {
    const step = steps[depth] ?? lastInside(model, rows.length === depth ? round : "");
    const entry = step === undefined ? undefined : model.loops.get(step.stem);
    round = steps[depth]?.address ?? entry?.rounds.at(-1)?.address ?? "";
    const outer: Proof | undefined = around;
    const proof: Proof | undefined =
      step === undefined
        ? plan.loops.find(
            (one) => one.depth === depth && (outer === undefined || one.nodes.every((node) => outer.nodes.includes(node))),
          )
        : proofOf(plan, step.loop);
    const loop = step?.loop ?? proof?.id;
    if (loop === undefined) break;
    let used = 0;
    for (const one of model.loops.values()) if (one.loop === loop) used += one.rounds.length;
    rows.push({
      loop,
      rounds: entry?.rounds.length ?? 0,
      bound: proof === undefined ? null : (proof.worst_case_rounds ?? proof.cap),
      isCap: proof !== undefined && proof.worst_case_rounds === null,
      isLeft: entry?.exit != null,
      total: proof?.worst_case_total ?? null,
      used,
    });
    around = proof;
  }
  return rows;
}

/** The innermost round around an address. Rounds of tools look like rounds of loops, and are none. */
export function knownRound(model: RunModel, address: string): string {
  return parseAddress(address).rounds.findLast((step) => model.rounds.has(step.address))?.address ?? "";
}

/** The rounds of the same depth, in the order of time. */
export function roundsAtDepth(model: RunModel, depth: number): string[] {
  const found: string[] = [];
  for (const stem of model.order) {
    const entry = model.loops.get(stem);
    if (entry?.depth === depth) for (const round of entry.rounds) found.push(round.address);
  }
  return found;
}
