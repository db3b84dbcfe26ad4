// Addresses say where something happened: `Planner[2].Coder[3]/Coder`, `Draft/Writer[2]/Critic`, `Fan#2`.
import { lastPart, nameOf } from "./address_parts";

export { lastPart, nameOf, partsOf, roundOf, SEPARATOR } from "./address_parts";

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

/** Several parts of the page ask for the same address one after the other: the last one is kept. */
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

/** Whether something is this round, or happened inside it. */
export function isInside(address: string, round: string): boolean {
  return address === round || address.startsWith(`${round}/`) || address.startsWith(`${round}.`);
}

/** The node or the loop of an address: `Editor` of `Writer[2]/Editor`. */
export function nodeOf(address: string): string {
  return nameOf(lastPart(address));
}

/** Everything before the number of its last round: `Planner[2].Coder` of `Planner[2].Coder[3]`. */
export function loopOf(round: string): string {
  return round.slice(0, round.lastIndexOf("["));
}

/** The name of a loop, by its address: `Coder` of `Planner[2].Coder`. */
export function loopName(stem: string): string {
  return stem.slice(stem.lastIndexOf(".") + 1);
}

/** An address without the number of its last round. */
export function withoutLastRound(address: string): string {
  return address.replace(/\[\d+\](?=[^[]*$)/, "");
}

/** Whether a text is the address of a round. */
export function isRound(text: string): boolean {
  return /\[\d+\]$/.test(text);
}

/** Whether a text can only be an address, and not the id of a node. */
export function isPlace(text: string): boolean {
  return text.includes("[") || text.includes("/");
}

/** The number of the tool round of a call: `Analyst[2].Analyst[6]/send_mail` is in the sixth. */
export function toolRoundOf(call: string): number {
  return Number(/\[(\d+)\]\/[^/]*$/.exec(call)?.[1] ?? 1);
}
