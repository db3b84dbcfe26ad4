// Which limit an unlock may raise, and how far it has to.
import type { Lock } from "../../../live/run_model";

export interface RaisableLimit {
  /** As the API takes it. */
  name: string;
  /** The new value has to be above this. */
  current: number;
  /** What the next step needs; null if nothing says so. */
  need: number | null;
  suggestion: number;
  /** Whether the run would be locked again at once without it. */
  isNeeded: boolean;
}

const BUDGETS = new Set([
  "steps",
  "model_calls",
  "tool_calls",
  "tokens",
  "input_tokens",
  "output_tokens",
  "cost_usd",
  "seconds",
]);

export function isBudget(what: string): boolean {
  return BUDGETS.has(what) || what === "tokens_per_call";
}

export function figure(value: unknown): number {
  return typeof value === "number" ? value : 0;
}

export interface Used {
  /** Tokens of the whole run. */
  tokens: number;
  /** Seconds for which it has worked. */
  seconds: number;
}

export function raisableLimit(lock: Pick<Lock, "what" | "data">, used: Used): RaisableLimit | null {
  const { what, data } = lock;
  const limit = figure(data.limit);
  if (BUDGETS.has(what)) {
    const need = figure(data.spent) + figure(data.reserved) + figure(data.wanted);
    return { name: what, current: limit, need, suggestion: above(Math.max(need, 2 * limit)), isNeeded: true };
  }
  if (what === "tokens_per_call") {
    // It is compared with each call, and not used up.
    const need = Math.max(figure(data.wanted), figure(data.spent));
    return { name: what, current: limit, need, suggestion: above(Math.max(need, 1.5 * limit)), isNeeded: true };
  }
  if (what === "rounds" || what === "tool_rounds") {
    return { name: "rounds", current: limit, need: null, suggestion: 2 * limit, isNeeded: false };
  }
  if (what === "token_surge") {
    return { name: "tokens", current: used.tokens, need: null, suggestion: above(2 * used.tokens), isNeeded: false };
  }
  if (what === "timeout") {
    const current = Math.max(used.seconds, figure(data.seconds));
    return { name: "seconds", current, need: null, suggestion: above(2 * Math.max(current, limit)), isNeeded: false };
  }
  return null;
}

/** The next number with two digits that is not below: 1,110 becomes 1,200, 0.37 stays. */
export function above(value: number): number {
  if (!(value > 0)) return 1;
  const step = 10 ** (Math.floor(Math.log10(value)) - 1);
  // Without the rounding, 0.37 / 0.01 is a little more than 37.
  const steps = Math.ceil(Number((value / step).toFixed(6)));
  return Number((steps * step).toPrecision(12));
}

/** How many more rounds a higher limit lasts for; null if what a round takes is not known. */
export function roundsFor(raised: number, spent: number, roundsSoFar: number): number | null {
  if (roundsSoFar < 1 || spent <= 0) return null;
  return Math.max(0, Math.floor((raised - spent) / (spent / roundsSoFar)));
}
