// What a guard decided, as one sentence.
import type { LoopRule } from "../../../api/schema";
import type { Formats } from "../../../i18n/format";
import { parseAddress } from "../../../live/address";
import type { Execution, LoopEntry, RunModel } from "../../../live/run_model";

/** The texts that the sentences are made of; both catalogues have them. */
export interface DecisionTexts {
  below: (score: string, wanted: string) => string;
  reached: (score: string, wanted: string) => string;
  scored: (score: string) => string;
  noScore: string;
  more: (by: string, round: number) => string;
  less: (by: string, round: number) => string;
  same: (round: number) => string;
  join: (a: string, b: string) => string;
  best: (round: number) => string;
  plateau: (count: number, patience: number) => string;
  counted: (count: number, limit: number) => string;
  timed: (elapsed: string, limit: string) => string;
  reason: (reason: string) => string;
  held: (reasons: string) => string;
}

export interface Decision {
  /** Whether the loop goes on; null if the node does not say. */
  port: "continue" | "exit" | null;
  sentence: string;
  /** More about it, at the end of the line. */
  aside: string;
}

/** Whether the execution is that of a guard: a `loop`, a counter or a timer. */
export function isDecision(execution: Execution): boolean {
  const { should_exit, max_iterations, elapsed } = execution.report ?? {};
  return typeof should_exit === "boolean" || typeof max_iterations === "number" || typeof elapsed === "number";
}

/** Rounds in a row without a gain, as the engine counts them: from the first score on, and a round without a
 * score is a round without a gain. */
export function withoutGain(scores: readonly (number | null)[], minDelta: number): { count: number; since: number } {
  let gained: number | null = null;
  let count = 0;
  let since = 0;
  scores.forEach((score, index) => {
    // Decimal steps such as 0.1 are inexact in binary: 0.3 - 0.2 must count as a gain of 0.1.
    const isGain = score !== null && (gained === null || (score > gained && score - gained >= minDelta * (1 - 1e-9)));
    if (isGain) {
      gained = score;
      count = 0;
      since = index;
    } else if (gained !== null) count++;
  });
  return { count, since };
}

function number(value: unknown): number | null {
  return typeof value === "number" && Number.isFinite(value) ? value : null;
}

/** The scores of the rounds up to this one. */
export function scoresUntil(entry: LoopEntry | undefined, round: number): (number | null)[] {
  return (entry?.rounds ?? []).filter((one) => one.number <= round).map((one) => one.score);
}

export function describeDecision(
  model: RunModel,
  execution: Execution,
  config: LoopRule | undefined,
  texts: DecisionTexts,
  formats: Pick<Formats, "decimal" | "duration">,
): Decision {
  const { should_exit, exit_reason, held, score_error, count, max_iterations, elapsed, limit } = execution.report ?? {};
  if (typeof max_iterations === "number") {
    const used = number(count) ?? 0;
    const port = used >= max_iterations ? "exit" : "continue";
    return { port, sentence: texts.counted(used, max_iterations), aside: "" };
  }
  if (typeof elapsed === "number") {
    const most = number(limit) ?? 0;
    const port = elapsed >= most ? "exit" : "continue";
    return { port, sentence: texts.timed(formats.duration(elapsed), formats.duration(most)), aside: "" };
  }
  const step = parseAddress(execution.round).rounds.at(-1);
  const entry = model.loops.get(step?.stem ?? "");
  const score = number(execution.report?.score);
  const wanted = config?.exit_on_score ?? null;
  const parts: string[] = [];
  if (score !== null && wanted) {
    const compared = score >= wanted ? texts.reached : texts.below;
    parts.push(compared(formats.decimal(score), formats.decimal(wanted)));
  } else if (score !== null) parts.push(texts.scored(formats.decimal(score)));
  else if (wanted) parts.push(texts.noScore);
  const before = entry?.rounds.findLast((one) => one.number < (step?.round ?? 0) && one.score !== null);
  if (score !== null && before !== undefined && before.score !== null) {
    const by = score - before.score;
    const amount = formats.decimal(Math.abs(by));
    parts.push(by > 0 ? texts.more(amount, before.number) : by < 0 ? texts.less(amount, before.number) : texts.same(before.number));
  }
  let sentence = parts.length > 1 ? texts.join(parts[0] ?? "", parts[1] ?? "") : (parts[0] ?? "");
  if (should_exit === true) {
    const reason = texts.reason(String(exit_reason ?? ""));
    // The score says the reason itself; the others do not follow from it.
    if (exit_reason !== "score_threshold_reached" || !sentence) sentence = sentence ? `${reason} · ${sentence}` : reason;
    const others = Array.isArray(held) ? held.map(String).filter((one) => one !== exit_reason) : [];
    if (others.length) sentence += ` · ${texts.held(others.map(texts.reason).join(", "))}`;
  }
  if (typeof score_error === "string" && score_error) sentence = sentence ? `${sentence} · ${score_error}` : score_error;
  const aside: string[] = [];
  const best = number(execution.report?.best_round);
  if (best !== null) aside.push(texts.best(best));
  if (config?.patience) {
    const { count: rounds } = withoutGain(scoresUntil(entry, step?.round ?? 0), config.min_delta);
    aside.push(texts.plateau(rounds, config.patience));
  }
  return { port: should_exit === true ? "exit" : "continue", sentence, aside: aside.join(" · ") };
}
