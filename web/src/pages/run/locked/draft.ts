// What a person has entered in the form that unlocks a run. It is kept for as long as the tab is open: somebody
// else may unlock the run first, and then the text would be lost.
import { create } from "zustand";
import { nodeOf } from "../../../live/address";
import type { UnlockBody } from "../../../api/schema";
import type { Lock } from "../../../live/run_model";
import { keep, keptDrafts } from "../../../ui/kept";
import type { RaisableLimit } from "./limits";
import type { NextMessage } from "./place";

export const CHECKS = ["cause_understood", "cost_accepted", "workflow_reviewed"] as const;
export type Check = (typeof CHECKS)[number];

export interface UnlockDraft {
  mode: "on" | "leave";
  /** Null while the message is not edited. */
  message: string | null;
  /** Null while no note is added. */
  note: string | null;
  /** Null for the suggestion; empty to raise nothing. */
  limit: string | null;
  exit: string;
  reason: string;
  checks: readonly Check[];
}

export const EMPTY_DRAFT: UnlockDraft = {
  mode: "on",
  message: null,
  note: null,
  limit: null,
  exit: "",
  reason: "",
  checks: [],
};

/** Whether something would be lost with it. */
export function hasText(draft: UnlockDraft | undefined): boolean {
  return draft !== undefined && Boolean(draft.reason.trim() || draft.message !== null || draft.note?.trim());
}

/** What a form needs to know of its run. */
export interface UnlockFacts {
  next: NextMessage | null;
  limit: RaisableLimit | null;
  exits: readonly string[];
  /** The same cause has locked the run twice in a row, so a reason is not enough. */
  needsChange: boolean;
}

export type MissingField = "exit" | "message" | "limit" | "change" | "reason" | "checks";

/** What a draft lacks, in the order of the form. */
export function missing(draft: UnlockDraft, facts: UnlockFacts): MissingField[] {
  const result: MissingField[] = [];
  const isLeaving = draft.mode === "leave";
  if (isLeaving && !facts.exits.includes(draft.exit)) result.push("exit");
  if (!isLeaving && editedMessage(draft, facts) !== null && !draft.message?.trim()) result.push("message");
  const limit = raisedLimit(draft, facts);
  if (facts.limit !== null && !isLeaving) {
    const isTooLow = limit !== null && !(limit > facts.limit.current);
    if (isTooLow || (limit === null && facts.limit.isNeeded)) result.push("limit");
  }
  if (facts.needsChange && !isLeaving && limit === null && editedMessage(draft, facts) === null) result.push("change");
  if (!draft.reason.trim()) result.push("reason");
  if (CHECKS.some((check) => !draft.checks.includes(check))) result.push("checks");
  return result;
}

/** The text that replaces the message; null if it stays as it is. */
export function editedMessage(draft: UnlockDraft, facts: Pick<UnlockFacts, "next">): string | null {
  if (facts.next === null || draft.message === null || draft.message === facts.next.message.text) return null;
  return draft.message;
}

/** Null if nothing is raised; NaN if it is no number. */
export function raisedLimit(draft: UnlockDraft, facts: Pick<UnlockFacts, "limit">): number | null {
  if (facts.limit === null) return null;
  if (draft.limit === null) return facts.limit.suggestion;
  const text = draft.limit.replaceAll(",", "").trim();
  return text ? Number(text) : null;
}

export function unlockBody(draft: UnlockDraft, facts: UnlockFacts): UnlockBody {
  const body: UnlockBody = { reason: draft.reason.trim(), checks: [...CHECKS].filter((check) => draft.checks.includes(check)) };
  if (draft.note?.trim()) body.note = draft.note.trim();
  if (draft.mode === "leave") return { ...body, exit: draft.exit };
  const message = editedMessage(draft, facts);
  if (message !== null) body.message = message;
  const limit = raisedLimit(draft, facts);
  if (limit !== null && facts.limit !== null) body.limits = { [facts.limit.name]: limit };
  return body;
}

/** Whether the last lock had the same cause, and was unlocked without a change. The server refuses another unlock
 * without one. */
export function needsChange(locks: readonly Lock[], lock: Lock): boolean {
  const before = locks.findLast((one) => one.seq < lock.seq && one.unlocked !== null);
  if (before?.unlocked == null || before.what === "manual" || before.what === "crashes") return false;
  const { changes, exit } = before.unlocked.data;
  return !changes && !exit && scope(before) === scope(lock);
}

function scope(lock: Lock): string {
  const place = lock.data.model ?? lock.data.scope ?? nodeOf(lock.address);
  return `${lock.what} ${String(place)}`;
}

// The store.

const PREFIX = "roundel.unlock.";

export function draftKey(runId: string, seq: number): string {
  return `${runId}.${seq}`;
}

function readDrafts(): Record<string, UnlockDraft> {
  const kept = Object.entries(keptDrafts<UnlockDraft>(PREFIX));
  return Object.fromEntries(kept.map(([key, draft]) => [key, { ...EMPTY_DRAFT, ...draft }]));
}

interface DraftStore {
  drafts: Readonly<Record<string, UnlockDraft>>;
  /** The draft that is being sent. Its own unlock may be seen in the events before the answer comes, and is no
   * conflict. */
  sending: string;
  send: (key: string) => void;
  change: (key: string, change: Partial<UnlockDraft>) => void;
  discard: (key: string) => void;
}

export const useUnlockDrafts = create<DraftStore>((set, get) => ({
  drafts: readDrafts(),
  sending: "",
  send: (sending) => set({ sending }),
  change: (key, change) => {
    const draft = { ...(get().drafts[key] ?? EMPTY_DRAFT), ...change };
    keep("tab", PREFIX + key, JSON.stringify(draft));
    set({ drafts: { ...get().drafts, [key]: draft } });
  },
  discard: (key) => {
    keep("tab", PREFIX + key, null);
    const { [key]: _, ...drafts } = get().drafts;
    set({ drafts });
  },
}));
