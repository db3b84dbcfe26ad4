// What all panes of the page of a run share: the run itself, what it executes, and what is selected.
import { createContext, useContext } from "react";
import type { RunPlan } from "../../api/schema";
import { isInside, parseAddress, roundOf } from "../../live/address";
import type { LoopEntry, Round, RunModel } from "../../live/run_model";
import type { RunStore } from "../../live/useRunEvents";

export interface RunContextValue {
  runId: string;
  store: RunStore;
  plan: RunPlan;
  /** The address in the URL: a round, or a node in it; empty while the page follows the run. */
  selected: string;
  /** Selects an address; empty to follow the run again. */
  select: (address: string) => void;
  /** The round that the selected one is compared with; empty for the one before it. */
  other: string;
  compareWith: (round: string) => void;
  /** What the reader may do. */
  mayControl: boolean;
}

export const RunContext = createContext<RunContextValue | null>(null);

export function useRunContext(): RunContextValue {
  const found = useContext(RunContext);
  if (found === null) throw new Error("it is outside of the page of a run");
  return found;
}

/** The round that is shown: the selected one, or the newest of the innermost loop. */
export function shownRound(model: RunModel, selected: string): string {
  if (selected) return roundOf(selected) || selected;
  return newestRound(model);
}

/** The round in which the run is, or was last. */
export function newestRound(model: RunModel): string {
  const last = model.sequence.at(-1) ?? "";
  for (const address of model.active) {
    const round = roundOf(address);
    if (model.rounds.has(round)) return round;
  }
  for (let at = model.sequence.length - 1; at >= 0; at--) {
    const round = roundOf(model.sequence[at] ?? "");
    if (model.rounds.has(round)) return round;
  }
  return roundOf(last);
}

/** The rounds of the loop that a round belongs to. */
export function siblings(model: RunModel, round: string): readonly Round[] {
  const step = parseAddress(round).rounds.at(-1);
  return (step && model.loops.get(step.stem)?.rounds) ?? [];
}

/** The round before this one in the same loop. */
export function previousRound(model: RunModel, round: string): Round | undefined {
  const rounds = siblings(model, round);
  return rounds[rounds.findIndex((one) => one.address === round) - 1];
}

/** The round with the highest score; the first of several. */
export function bestRound(entry: LoopEntry): Round | undefined {
  return entry.best ? entry.rounds.find((round) => round.number === entry.best) : undefined;
}

/** The keys of nodes that repeat what is inside them: loop agents and debates. */
export function repeatingNodes(plan: Pick<RunPlan, "drawing">): ReadonlySet<string> {
  const regions = new Set(plan.drawing.regions.filter((region) => region.repeats).map((region) => region.key));
  return new Set(plan.drawing.nodes.filter((node) => regions.has(node.region)).map((node) => node.key));
}

/** What is proved about the loop with this name. */
export function proofOf(plan: RunPlan, loop: string) {
  return plan.loops.find((proof) => proof.id === loop);
}

/** How the `loop` node of a loop decides, if it has one: of its own nodes, and not of loops inside it. */
export function decisionOf(plan: RunPlan, loop: string) {
  const proof = proofOf(plan, loop);
  if (proof === undefined) return undefined;
  const inner = plan.loops.filter((one) => one.depth > proof.depth && one.nodes.every((node) => proof.nodes.includes(node)));
  return plan.decisions.find(
    (decision) =>
      proof.nodes.includes(decision.node) && !inner.some((one) => one.nodes.includes(decision.node)),
  );
}

/** When the canvas shows a past round: the end of that round; null while it shows the present. */
export function momentOf(model: RunModel, selected: string): number | null {
  const round = selected ? model.rounds.get(roundOf(selected)) : undefined;
  return round === undefined ? null : round.ended;
}

export { isInside };
