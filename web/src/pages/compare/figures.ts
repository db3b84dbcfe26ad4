// The figures of a run, and how two runs differ in them.
import type { RunView } from "../../api/schema";
import { tokensOf, type Execution, type LoopEntry, type RunModel } from "../../live/run_model";
import { workSeconds } from "../../live/work";
import { bestRound } from "../run/context";

export interface Figures {
  /** Why the loop was left; empty if it was not. */
  reason: string;
  rounds: number;
  best: { score: number; round: number } | null;
  modelCalls: number;
  tokens: number;
  /** Tokens that were not copied from the other run; null if nothing was. */
  newTokens: number | null;
  cost: number | null;
  /** Seconds in which nodes worked. */
  work: number;
  novelty: number | null;
}

export function bestOf(entry: LoopEntry | undefined): Figures["best"] {
  const best = entry && bestRound(entry);
  return best?.score == null ? null : { score: best.score, round: best.number };
}

/** The seconds in which at least one node worked: not those in which the run waited for people, was paused or
 * locked, and for a fork not those between the execution that it was forked from and the fork. */
export function workOf(model: RunModel, created: number, now: number): number {
  const spans: [number, number][] = [];
  for (const execution of model.executions.values()) {
    const end = execution.ended ?? (model.active.has(execution.address) ? now : model.latest);
    // The execution at which a run was forked began in the parent.
    const start = execution.started < created && end > created ? created : execution.started;
    if (end > start) spans.push([start, end]);
  }
  spans.sort((x, y) => x[0] - y[0]);
  let sum = 0;
  let [from, to] = spans[0] ?? [0, 0];
  const close = () => {
    sum += workSeconds(model.idle, from, to);
  };
  for (const [start, end] of spans.slice(1)) {
    if (start > to) {
      close();
      [from, to] = [start, end];
    } else to = Math.max(to, end);
  }
  close();
  return sum;
}

/** The tokens of executions that both runs have from the same call. */
export function copiedTokens(model: RunModel, other: RunModel): number {
  let sum = 0;
  for (const execution of model.executions.values()) {
    const tokens = tokensOf(execution.usage);
    if (tokens > 0 && isSame(execution, other.executions.get(execution.address))) sum += tokens;
  }
  return sum;
}

/** A fork with other limits decides again when a node begins, but takes over its result with its time. */
function isSame(one: Execution, other: Execution | undefined): boolean {
  return other !== undefined && one.ended !== null && one.ended === other.ended && one.output === other.output;
}

export function figuresOf(
  model: RunModel,
  view: RunView,
  entry: LoopEntry | undefined,
  novelties: readonly (number | null)[],
  copied: number | null,
  now: number,
): Figures {
  const tokens = tokensOf(model.usage);
  const known = novelties.filter((value) => value !== null);
  return {
    reason: entry?.exit?.reason ?? "",
    rounds: entry?.rounds.length ?? 0,
    best: bestOf(entry),
    modelCalls: model.usage.model_calls,
    tokens,
    newTokens: copied === null ? null : Math.max(0, tokens - copied),
    cost: model.usage.cost_usd,
    work: workOf(model, Date.parse(view.created), now),
    novelty: known.length ? known.reduce((sum, value) => sum + value, 0) / known.length : null,
  };
}

/** The difference of two figures; null if one is not known. */
export function difference(a: number | null, b: number | null): number | null {
  return a === null || b === null ? null : b - a;
}
