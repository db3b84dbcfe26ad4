// The comparison in sentences. Each one follows from figures; none says why.
import type { Formats } from "../../i18n/format";
import type { Figures } from "./figures";
import type { CompareTexts } from "./messages";

export interface Facts {
  a: Figures;
  b: Figures;
  /** The score that ends the loop; null if none does, or they differ. */
  threshold: number | null;
  /** The first round that reached it, in each run. */
  passed: { a: number | null; b: number | null };
  shared: number;
  isRelated: boolean;
  isOtherWorkflow: boolean;
  /** Whether the run may still change. */
  isOpen: { a: boolean; b: boolean };
}

/** The number of the first round whose score reaches a threshold. */
export function firstPassing(
  rounds: readonly { number: number; score: number | null }[],
  threshold: number | null,
): number | null {
  if (threshold === null) return null;
  return rounds.find((round) => round.score !== null && round.score >= threshold)?.number ?? null;
}

export function inWords(facts: Facts, texts: CompareTexts, formats: Formats): string[] {
  const sentences: string[] = [];
  if (facts.isOtherWorkflow) sentences.push(texts.notComparable);
  sentences.push(...aboutScores(facts, texts, formats));
  const { a, b } = facts;
  if (facts.isRelated) sentences.push(facts.shared > 0 ? texts.shared(facts.shared) : texts.noneShared);
  const areOver = !facts.isOpen.a && !facts.isOpen.b;
  // What an unfinished run has used so far says nothing about which one takes less.
  if (areOver && !facts.isOtherWorkflow) {
    const rounds = b.rounds - a.rounds;
    if (rounds !== 0 && a.rounds > 0 && b.rounds > 0) {
      sentences.push(texts.roundsDiffer(rounds < 0 ? "B" : "A", Math.abs(rounds)));
    }
    if (a.cost !== null && b.cost !== null && a.cost !== b.cost) {
      sentences.push(texts.cheaper(b.cost < a.cost ? "B" : "A", formats.cost(Math.abs(b.cost - a.cost))));
    } else if (a.cost === null && b.cost === null && a.tokens !== b.tokens && a.tokens > 0 && b.tokens > 0) {
      const fewer = b.tokens < a.tokens ? "B" : "A";
      sentences.push(texts.fewerTokens(fewer, formats.number(Math.abs(b.tokens - a.tokens))));
    }
  }
  if (facts.isOpen.a && facts.isOpen.b) sentences.push(texts.bothOpen);
  else if (!areOver) sentences.push(texts.stillOpen(facts.isOpen.a ? "A" : "B"));
  return sentences;
}

function aboutScores({ a, b, threshold, passed, isOpen }: Facts, texts: CompareTexts, formats: Formats): string[] {
  if (a.best === null && b.best === null) return [texts.withoutScore];
  const show = (score: number) => formats.decimal(score);
  const compared = (): string => {
    if (a.best === null || b.best === null) {
      const only = a.best ?? b.best;
      return texts.onlyScore(a.best === null ? "B" : "A", show(only?.score ?? 0));
    }
    if (a.best.score === b.best.score) return texts.tie(show(a.best.score));
    return b.best.score > a.best.score
      ? texts.better("B", show(b.best.score), b.best.round, "A", show(a.best.score), a.best.round)
      : texts.better("A", show(a.best.score), a.best.round, "B", show(b.best.score), b.best.round);
  };
  if (threshold === null) return [compared()];
  const goal = show(threshold);
  if (passed.a !== null && passed.b !== null) return [texts.bothPassed(goal, passed.a, passed.b), compared()];
  if (passed.a === null && passed.b === null) return [texts.nonePassed(goal), compared()];
  const [winner, loser, round, isLoserOpen] =
    passed.b !== null ? ["B", "A", passed.b, isOpen.a] : ["A", "B", passed.a ?? 0, isOpen.b];
  const sentence = isLoserOpen ? texts.oneNotYet : texts.onePassed;
  return [sentence(winner as string, goal, round as number, loser as string), compared()];
}
