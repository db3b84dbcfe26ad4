// The executions of a run as a short list: what ran, in which round, and what it returned.
import { parseAddress } from "../../../live/address";
import type { Execution, RunModel } from "../../../live/run_model";

export type Row =
  | { kind: "round"; address: string; loop: string; number: number; depth: number }
  | { kind: "execution"; execution: Execution; text: string; depth: number };

/** Earlier executions are on the page of the run. */
export const MOST_ROWS = 200;

export interface Rows {
  rows: Row[];
  /** How many executions are left out at the beginning. */
  left: number;
}

/** Rounds as headings above what ran in them, in the order in which it began. */
export function rowsOf(model: RunModel): Rows {
  const rows: Row[] = [];
  const left = Math.max(0, model.sequence.length - MOST_ROWS);
  let before: readonly string[] = [];
  for (const address of model.sequence.slice(left)) {
    const execution = model.executions.get(address);
    if (execution === undefined) continue;
    const rounds = parseAddress(address).rounds;
    rounds.forEach((step, depth) => {
      if (before[depth] !== step.address) {
        rows.push({ kind: "round", address: step.address, loop: step.loop, number: step.round, depth });
      }
    });
    before = rounds.map((step) => step.address);
    rows.push({ kind: "execution", execution, text: textOf(execution), depth: rounds.length });
  }
  return { rows, left };
}

/** What is said of an execution in one line. */
export function textOf({ error, output, streamed, data, reason }: Execution): string {
  const text = error ?? output ?? streamed;
  if (text) return text;
  return data !== undefined ? JSON.stringify(data) : (reason ?? "");
}
