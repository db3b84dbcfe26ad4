// The limits that a fork may change.

/** Those that most runs have; others appear if the run has them. */
export const USUAL = ["rounds", "model_calls", "tokens", "cost_usd", "seconds"] as const;
const FROM_ONE = new Set(["rounds", "steps", "tokens_per_call"]);
const FRACTIONS = new Set(["cost_usd", "seconds"]);

export function limitNames(limits: Record<string, unknown>): string[] {
  const others = Object.entries(limits).filter(([, value]) => typeof value === "number").map(([name]) => name);
  return [...new Set([...USUAL, ...others])];
}

/** The limit that the run has now; undefined if it has none. Rounds always have one: the cap of its loops. */
export function currentLimit(name: string, plan: { limits: Record<string, unknown>; loops: readonly { cap: number }[] }): string | undefined {
  const own = plan.limits[name];
  if (own !== undefined && own !== null) return String(own);
  if (name !== "rounds" || plan.loops.length === 0) return undefined;
  return String(Math.max(...plan.loops.map((loop) => loop.cap)));
}

export type LimitProblem = "number" | "whole" | null;

/** What is wrong with the text of a field; null if nothing is. An empty one changes nothing. */
export function limitProblem(name: string, text: string): LimitProblem {
  if (text.trim() === "") return null;
  const value = Number(text);
  if (FROM_ONE.has(name)) return Number.isInteger(value) && value >= 1 ? null : "whole";
  if (!Number.isFinite(value) || value < 0 || (name === "seconds" && value === 0)) return "number";
  return FRACTIONS.has(name) || Number.isInteger(value) ? null : "whole";
}

/** The limits that differ from those of the run. */
export function changedLimits(texts: Record<string, string>, current: Record<string, unknown>): Record<string, number> {
  const changed: Record<string, number> = {};
  for (const [name, text] of Object.entries(texts)) {
    if (text.trim() !== "" && Number(text) !== current[name]) changed[name] = Number(text);
  }
  return changed;
}
