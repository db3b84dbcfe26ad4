// The limits of a run as rows: how much is used, how near each one is, and where it is likely to end.
import type { GuardState, LoopPosition, RunPlan } from "../../../api/schema";
import { loopOf, roundOf, withoutLastRound } from "../../../live/address";
import { costOf, tokensOf, type LoopEntry, type Round, type RunModel } from "../../../live/run_model";
import { workSeconds } from "../../../live/work";
import { decisionOf, proofOf } from "../context";
import { scoresUntil, withoutGain } from "../round/decision";

export interface Likely {
  value: number;
  /** Extrapolated from the rounds so far, or as forecast before the start. */
  basis: "rounds" | "forecast";
}

export interface GuardRow {
  /** Stays the same from round to round. */
  key: string;
  kind: string;
  /** The loop, node or graph; empty for the whole run. */
  name: string;
  /** The guard that the limit follows from. */
  by: string;
  used: number;
  limit: number;
  /** How near it is: 1 if it is reached. */
  share: number;
  likely: Likely | null;
}

/** 1 if the limit is reached. Novelty must not fall below its limit: it is near if it is small. */
export function shareOf(kind: string, used: number, limit: number): number {
  if (kind === "novelty") return used > 0 ? Math.min(1, limit / used) : 1;
  return limit > 0 ? used / limit : 1;
}

function row(kind: string, name: string, used: number, limit: number, at: string, by = ""): GuardRow {
  return { key: `${kind} ${name} ${by} ${withoutLastRound(at)}`, kind, name, by, used, limit, share: shareOf(kind, used, limit), likely: null };
}

/** The rows of a run that is not over. A loop has one row for its rounds: its round and its bound, which says
 * more than the count of its guard and its cap. */
export function liveRows(guards: readonly GuardState[], loops: readonly LoopPosition[], model: RunModel, plan: RunPlan): GuardRow[] {
  const rows: GuardRow[] = [];
  const bounded = new Map<string, LoopPosition>();
  for (const loop of loops) {
    if (loop.limit === null) continue;
    bounded.set(loop.address, loop);
    rows.push(row("rounds", loop.loop, loop.round, loop.limit, loop.address, loop.by));
  }
  for (const guard of guards) {
    const { address = "" } = guard;
    const loop = guard.kind === "rounds" ? bounded.get(roundOf(address)) : undefined;
    if (loop !== undefined && (address === loop.address || guard.name === loop.by)) continue;
    const name = guard.name === plan.workflow && !address ? "" : guard.name;
    rows.push(row(guard.kind, name, guard.used, guard.limit, address));
  }
  for (const loop of loops) {
    const decision = decisionOf(plan, loop.loop);
    const entry = model.loops.get(loopOf(loop.address));
    if (!decision?.patience || entry === undefined) continue;
    // The round that runs has no score yet, and is no round without a gain.
    const { count } = withoutGain(scoresUntil(entry, loop.round - 1), decision.min_delta);
    rows.push(row("plateau", loop.loop, count, decision.patience, loop.address, decision.node));
  }
  return rows;
}

/** The rows of a run that is over: what it has used in the end. */
export function finalRows(model: RunModel, plan: RunPlan): GuardRow[] {
  const { usage } = model;
  const seconds = workSeconds(model.idle, model.started, model.latest);
  const used: Record<string, number> = {
    tokens: tokensOf(usage),
    input_tokens: usage.input_tokens,
    output_tokens: usage.output_tokens,
    model_calls: usage.model_calls,
    tool_calls: usage.tool_calls,
    cost_usd: usage.cost_usd ?? 0,
    seconds,
  };
  const rows: GuardRow[] = [];
  for (const [kind, limit] of Object.entries(plan.limits)) {
    const amount = used[kind];
    if (typeof limit === "number" && amount !== undefined) rows.push(row(kind, "", amount, limit, ""));
  }
  if (plan.time_limit !== null) rows.push(row("seconds", "breaker", seconds, plan.time_limit, ""));
  for (const proof of plan.loops) {
    if (proof.worst_case_rounds === null) continue;
    let most = 0;
    for (const entry of model.loops.values()) if (entry.loop === proof.id) most = Math.max(most, entry.rounds.length);
    const by = proof.bounded_by.find((limit) => limit.limit === proof.worst_case_rounds)?.guard ?? "";
    if (most) rows.push(row("rounds", proof.id, most, proof.worst_case_rounds, proof.id, by));
  }
  return rows;
}

/** The order of rows: by `before`, with new ones last; without it, the nearest first. */
export function orderRows(rows: readonly GuardRow[], before: readonly string[] | null): string[] {
  if (before === null) {
    return [...rows].sort((a, b) => b.share - a.share || a.key.localeCompare(b.key)).map((one) => one.key);
  }
  const here = new Set(rows.map((one) => one.key));
  const kept = before.filter((key) => here.has(key));
  const known = new Set(kept);
  return [...kept, ...rows.map((one) => one.key).filter((key) => !known.has(key))];
}

// Forecasts.

/** In which round the scores reach a threshold, if they go on as in the last rounds; null if they do not rise. */
export function roundOfScore(rounds: readonly Pick<Round, "number" | "score">[], threshold: number): number | null {
  const points = rounds.filter((one): one is { number: number; score: number } => one.score !== null).slice(-4);
  const last = points.at(-1);
  if (last === undefined || points.length < 2) return null;
  const mean = (values: number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const x = mean(points.map((one) => one.number));
  const y = mean(points.map((one) => one.score));
  let above = 0;
  let below = 0;
  for (const point of points) {
    above += (point.number - x) * (point.score - y);
    below += (point.number - x) ** 2;
  }
  const slope = above / below;
  if (!(slope > 0)) return null;
  return last.number + Math.max(0, Math.ceil((threshold - last.score) / slope - 1e-9));
}

/** How many rounds an entry of a loop is likely to have: by its scores, or as many as earlier entries had. Null
 * without either. */
export function likelyRounds(entry: LoopEntry, model: RunModel, plan: RunPlan): number | null {
  const current = entry.rounds.length;
  const most = proofOf(plan, entry.loop)?.worst_case_rounds ?? Infinity;
  const threshold = decisionOf(plan, entry.loop)?.exit_on_score ?? null;
  let expected = threshold ? roundOfScore(entry.rounds, threshold) : null;
  if (expected === null) {
    const finished = [...model.loops.values()].filter((one) => one.loop === entry.loop && one.exit !== null);
    if (!finished.length) return null;
    expected = Math.round(finished.reduce((sum, one) => sum + one.rounds.length, 0) / finished.length);
  }
  return Math.min(most, Math.max(current, expected));
}

/** What the forecast takes as usual for a loop of which nothing else is known: half of its rounds. */
function usualRounds(entry: LoopEntry, plan: RunPlan): number | null {
  const most = proofOf(plan, entry.loop)?.worst_case_rounds ?? null;
  return most === null ? null : Math.max(entry.rounds.length, Math.ceil(most / 2));
}

/** What is likely to be used at the end of the run, if further rounds take as much as those so far. Null if a
 * loop has no basis for it: no round of it is complete, and it would have more. */
export function likelyTotal(
  model: RunModel,
  plan: RunPlan,
  used: number,
  per: (round: Round) => number | null,
): number | null {
  const open = [...model.loops.values()].filter((entry) => entry.exit === null && entry.rounds.at(-1)?.isOpen);
  if (!open.length) return null;
  const innermost = open.reduce((deepest, entry) => (entry.depth > deepest.depth ? entry : deepest));
  let total = used;
  for (const entry of open) {
    const expected = likelyRounds(entry, model, plan) ?? usualRounds(entry, plan);
    if (expected === null) return null;
    const amounts: number[] = [];
    for (const one of model.loops.values()) {
      if (one.loop !== entry.loop) continue;
      for (const round of one.rounds) {
        const amount = round.isOpen ? null : per(round);
        if (amount !== null) amounts.push(amount);
      }
    }
    const left = expected - entry.rounds.length;
    const current = entry === innermost ? entry.rounds.at(-1) : undefined;
    if (!amounts.length) {
      if (left > 0 || current !== undefined) return null;
      continue;
    }
    const mean = amounts.reduce((sum, amount) => sum + amount, 0) / amounts.length;
    total += left * mean;
    if (current !== undefined) total += Math.max(0, mean - (per(current) ?? 0));
  }
  return total;
}

/** The rows with where they are likely to end. */
export function withForecast(rows: readonly GuardRow[], model: RunModel, plan: RunPlan): GuardRow[] {
  const rounds = (value: number | null): Likely | null => (value === null ? null : { value, basis: "rounds" });
  // What differs by less than half a percent of the limit says nothing new.
  const more = (value: number | null, one: GuardRow): Likely | null =>
    value !== null && value - one.used >= one.limit * 0.005 ? { value, basis: "rounds" } : null;
  const forecast = (value: number | null, used: number): Likely | null =>
    value !== null && value > used ? { value, basis: "forecast" } : null;
  return rows.map((one) => {
    if (one.kind === "rounds" && one.name) {
      const entry = [...model.loops.values()].findLast((loop) => loop.loop === one.name && loop.exit === null);
      return { ...one, likely: entry === undefined ? null : rounds(likelyRounds(entry, model, plan)) };
    }
    if (one.kind === "seconds" && one.name === "breaker") {
      const per = (round: Round) => workSeconds(model.idle, round.started, round.ended);
      return { ...one, likely: more(likelyTotal(model, plan, one.used, per), one) };
    }
    if (one.name) return one;
    if (one.kind === "tokens") {
      const value = likelyTotal(model, plan, one.used, (round) => tokensOf(round.usage));
      return { ...one, likely: more(value, one) ?? forecast(plan.forecast.tokens.typical, one.used) };
    }
    if (one.kind === "cost_usd") {
      const value = model.usage.cost_usd === null ? null : likelyTotal(model, plan, one.used, costOf);
      return { ...one, likely: more(value, one) ?? forecast(plan.forecast.cost_usd, one.used) };
    }
    return one;
  });
}
