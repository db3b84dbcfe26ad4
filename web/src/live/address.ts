// Addresses say where something happened: `Planner[2].Coder[3]/Coder`, `Draft/Writer[2]/Critic`, `Fan#2`.

/** A round of a loop on the way to an address. */
export interface RoundStep {
  /** The address of the round, such as `Planner[2].Coder[3]`. */
  address: string;
  /** The loop: everything before the number, such as `Planner[2].Coder`. It identifies one entry of it. */
  stem: string;
  /** The name of the loop, such as `Coder`. */
  loop: string;
  round: number;
}

export interface Place {
  /** The rounds around it, the outermost first. */
  rounds: readonly RoundStep[];
  /** What comes after the last round; empty for the round itself. */
  rest: string;
}

const ROUND = /\[(\d+)\]/g;

let last: { address: string; place: Place } = { address: "", place: { rounds: [], rest: "" } };

/** One event asks for its address several times, and the next one often has the same: the last one is kept. */
export function parseAddress(address: string): Place {
  if (last.address !== address) last = { address, place: parse(address) };
  return last.place;
}

function parse(address: string): Place {
  const rounds: RoundStep[] = [];
  let end = 0;
  for (const match of address.matchAll(ROUND)) {
    const stem = address.slice(0, match.index);
    const name = stem.slice(Math.max(stem.lastIndexOf("."), stem.lastIndexOf("/")) + 1);
    end = match.index + match[0].length;
    rounds.push({ address: address.slice(0, end), stem, loop: name, round: Number(match[1]) });
  }
  return { rounds, rest: address.slice(end).replace(/^[/.]/, "") };
}

/** The address of the innermost round that contains an address, or is it; empty outside of all loops. */
export function roundOf(address: string): string {
  return address.slice(0, address.lastIndexOf("]") + 1);
}

/** Whether something is this round, or happened inside it. */
export function isInside(address: string, round: string): boolean {
  return address === round || address.startsWith(`${round}/`) || address.startsWith(`${round}.`);
}
