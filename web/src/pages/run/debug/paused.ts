// What can be said about a run that is paused: why nodes are ready or not, and what the next step runs.
import type { BlockedNode, ReadyNode, RunState } from "../../../api/schema";
import { isPlace, isRound, parseAddress } from "../../../live/address";
import { nodeKey } from "../../../live/path";
import type { RunModel } from "../../../live/run_model";
import { lineDiff } from "../../../ui/diff/WordDiff";
import type { UnsavedEdit } from "./unsaved";

export interface Received {
  /** The execution that received it. */
  address: string;
  text: string;
}

/** What earlier executions of a node received from another one, the newest first. An agent's inputs are no part
 * of its events: they are what its source returned last before it began, or what a person made of that. */
export function receivedBefore(model: RunModel, address: string, source: string): Received[] {
  const key = nodeKey(address, model.composites);
  const sourceKey = key.slice(0, key.lastIndexOf("/") + 1) + source;
  const result: Received[] = [];
  let last: string | undefined;
  for (const one of model.sequence) {
    const execution = model.executions.get(one);
    if (execution === undefined) continue;
    if (execution.key === key && one !== address) {
      const edited = model.edits.findLast((edit) => edit.address === one)?.text;
      const text = edited ?? (source ? last : model.input);
      if (text !== undefined) result.push({ address: one, text });
    }
    if (execution.key === sourceKey && execution.output !== undefined) last = execution.output;
  }
  return result.reverse();
}

export type ReadyReason =
  | { kind: "round"; round: number; loop: string; sources: string[] }
  | { kind: "messages"; count: number; sources: string[] }
  | { kind: "tools"; calls: string[] }
  | { kind: "other"; text: string };

export function readyReason(ready: ReadyNode): ReadyReason {
  if (ready.calls.length) return { kind: "tools", calls: ready.calls };
  const sources = [...new Set(ready.messages.map((message) => message.source).filter(Boolean))];
  const begins = /^round (\d+) of '(.+)' begins/.exec(ready.why);
  if (begins !== null) return { kind: "round", round: Number(begins[1]), loop: begins[2] ?? "", sources };
  if (sources.length) return { kind: "messages", count: ready.messages.length, sources };
  return { kind: "other", text: ready.why };
}

/** How many messages wait at a node that is not ready. */
export function waitingAt(state: RunState, node: BlockedNode): number {
  const queue = state.queues.find((one) => one.address === node.address) ?? state.queues.find((one) => one.node_id === node.node_id);
  return queue?.messages.length ?? 0;
}

export type RoundStep =
  | { kind: "round"; loop: string; address: string }
  | { kind: "after"; loop: string }
  | { kind: "next-loop" }
  | { kind: "nothing" };

/** Where a step to the next round pauses, as far as that is known. */
export function roundStep(state: RunState): RoundStep {
  const first = state.ready[0];
  if (first === undefined) return { kind: "nothing" };
  const step = parseAddress(first.address).rounds.at(-1);
  if (step === undefined) return { kind: "next-loop" };
  const limit = state.loops.find((loop) => loop.address === step.address)?.limit;
  if (limit != null && step.round >= limit) return { kind: "after", loop: step.loop };
  return { kind: "round", loop: step.loop, address: `${step.stem}[${step.round + 1}]` };
}

export type BreakpointKind = "condition" | "round" | "place" | "node";

export function breakpointKind(text: string): BreakpointKind {
  if (text.startsWith("cel:")) return "condition";
  if (isRound(text)) return "round";
  return isPlace(text) ? "place" : "node";
}

/** The condition of a breakpoint, or its place. */
export function breakpointText(text: string): string {
  return text.replace(/^cel:\s*/, "");
}

/** The edits whose messages do not wait any more: the run went on before they were saved. */
export function lateEdits(edits: readonly UnsavedEdit[], state: RunState | undefined, isPaused: boolean): UnsavedEdit[] {
  if (!isPaused) return [...edits];
  if (state === undefined) return [];
  return edits.filter((edit) => {
    const queue = state.queues.find((one) => one.address === edit.address);
    return !queue?.messages.some((message) => message.position === edit.position);
  });
}

export interface OldLine {
  /** The number of the line in the old text, from 1. */
  number: number;
  text: string;
}

/** The lines of a text that an edit has changed or removed. */
export function changedLines(before: string, after: string): OldLine[] {
  const result: OldLine[] = [];
  let number = 0;
  for (const line of lineDiff(before, after)) {
    if (line.kind === "added") continue;
    number++;
    if (line.kind === "equal") continue;
    const text = line.parts.map((part) => (part.kind === "added" ? "" : part.text)).join("");
    result.push({ number, text: text.trim() });
  }
  return result;
}
