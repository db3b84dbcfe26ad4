// What a row says about its run, without the words: pages put them into the language of the reader.
import { roundOf } from "../../live/address_parts";
import type { LoopOutcome, RunView } from "../../api/schema";
import type { ShownStatus } from "../../ui/Status";

export function shownStatus(run: RunView): ShownStatus {
  if (run.status === "waiting" && run.question?.tool) return "approval";
  return run.status;
}

export type Action = "reviewLock" | "answer" | "reviewCall" | "debug" | "retry";

export function actionOf(run: RunView): Action | null {
  switch (shownStatus(run)) {
    case "suspended_locked":
      return "reviewLock";
    case "waiting":
      return "answer";
    case "approval":
      return "reviewCall";
    case "paused":
      return "debug";
    case "failed":
      return "retry";
    default:
      return null;
  }
}

export interface GuardFact {
  /** The name of a limit; or `deadline`, or `novelty`, which must not fall below its limit. */
  kind: string;
  used: number;
  limit: number;
  share: number;
  isLocked: boolean;
}

/** What will end the run, or its question, first. */
export function nearestGuard(run: RunView, now: number): GuardFact | null {
  if (run.lock) {
    const { what, limit } = run.lock;
    const evidence = evidenceOf(run);
    if (what === "dead_loop") {
      const novelty = (evidence["novelty"] ?? []) as number[];
      const least = Number(evidence["threshold"] ?? limit);
      return { kind: "novelty", used: novelty.length ? Math.max(...novelty) : 0, limit: least, share: 1, isLocked: true };
    }
    if (run.guard && run.guard.kind === what) return { ...run.guard, share: 1, isLocked: true };
  }
  const guard: GuardFact | null = run.guard ? { ...run.guard, isLocked: false } : null;
  if (run.status !== "waiting" || !run.deadline) return guard;
  const [asked, until] = [Date.parse(run.updated), Date.parse(run.deadline)];
  const share = until > asked ? Math.max(0, Math.min(1, (now - asked) / (until - asked))) : 1;
  if (guard !== null && guard.share > share) return guard;
  return { kind: "deadline", used: Math.max(0, until - now) / 1000, limit: (until - asked) / 1000, share, isLocked: false };
}

export function evidenceOf(run: RunView): Record<string, unknown> {
  return (run.lock?.["evidence"] ?? {}) as Record<string, unknown>;
}

/** Why a loop is said to go in circles: how many messages, in which rounds. */
export function circlesOf(run: RunView): { count: number; rounds: string[] } | null {
  if (run.lock?.["what"] !== "dead_loop") return null;
  const messages = (evidenceOf(run)["messages"] ?? []) as { address: string }[];
  return { count: messages.length, rounds: [...new Set(messages.map((one) => roundOf(one.address)))] };
}

const LONGEST = 120;

/** send_mail(to: "sales@example.com", subject: "Offer 1183") */
export function callText(name: string, given: unknown): string {
  const isObject = typeof given === "object" && given !== null && !Array.isArray(given);
  const inside = isObject
    ? Object.entries(given)
        .map(([key, value]) => `${key}: ${JSON.stringify(value)}`)
        .join(", ")
    : JSON.stringify(given ?? undefined) ?? "";
  // A backtick would end the part of a text that is set as code.
  const text = `${name}(${inside})`.replaceAll("`", "'");
  return text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text;
}

export interface Outcome {
  rounds: number;
  /** Rounds of loops inside of this one. */
  inside: number;
  reason: string;
}

/** What became of the loops of a run that is over: its first loop, and how much the others did. */
export function outcomeOf(results: readonly LoopOutcome[]): Outcome | null {
  const [first, ...others] = results;
  if (first === undefined) return null;
  return {
    rounds: first.rounds,
    inside: others.reduce((sum, one) => sum + one.rounds, 0),
    reason: first.exit_reason,
  };
}

/** The seconds of work; while it runs, those since the last event, too. */
export function workSeconds(run: RunView, now: number): number {
  const going = run.status === "running" && run.is_executed ? (now - Date.parse(run.updated)) / 1000 : 0;
  return run.work_seconds + Math.max(0, going);
}

export function costOf(run: RunView): number | null {
  const cost = run.usage["cost_usd"];
  return typeof cost === "number" ? cost : null;
}
