// What a person has begun to write, by run and address. It survives a reload of the page, and it survives when
// somebody else answers first.
import { useCallback } from "react";
import { create } from "zustand";
import { keep, keptDrafts } from "../../../ui/kept";

export type DraftKind = "answer" | "approval";

export interface StoredDraft {
  runId: string;
  address: string;
  kind: DraftKind;
  value: unknown;
  /** When it was last changed. */
  at: number;
  /** Whether it is being sent, or was. */
  isSent: boolean;
}

const PREFIX = "roundel.draft.";

function keyOf(runId: string, address: string): string {
  return `${runId}.${address}`;
}

export const useDrafts = create<{ drafts: Readonly<Record<string, StoredDraft>> }>(() => ({
  drafts: keptDrafts<StoredDraft>(PREFIX) as Record<string, StoredDraft>,
}));

function write(key: string, draft: StoredDraft): void {
  // What was sent is not offered again after a reload.
  keep("tab", PREFIX + key, draft.isSent ? null : JSON.stringify(draft));
  useDrafts.setState(({ drafts }) => ({ drafts: { ...drafts, [key]: draft } }));
}

export function discardDraft(runId: string, address: string): void {
  const key = keyOf(runId, address);
  keep("tab", PREFIX + key, null);
  useDrafts.setState(({ drafts }) => {
    const { [key]: _discarded, ...rest } = drafts;
    return { drafts: rest };
  });
}

/** While an answer is on its way, its question may disappear: nobody else was faster then. */
export function markSent(runId: string, address: string, isSent: boolean): void {
  const key = keyOf(runId, address);
  const draft = useDrafts.getState().drafts[key];
  if (draft !== undefined) write(key, { ...draft, isSent });
}

/** The draft of an answer, shared by all panes that show the question. */
export function useDraft<T extends object>(
  kind: DraftKind,
  runId: string,
  address: string,
  initial: T,
): { value: T; at: number | null; change: (next: Partial<T>) => void } {
  const key = keyOf(runId, address);
  const draft = useDrafts((state) => state.drafts[key]);
  const value = draft?.kind === kind ? (draft.value as T) : initial;
  const change = useCallback(
    (next: Partial<T>) => {
      const now = useDrafts.getState().drafts[key];
      const current = now?.kind === kind ? (now.value as T) : initial;
      const changed = { ...current, ...next };
      write(key, { runId, address, kind, value: changed, at: Date.now(), isSent: false });
    },
    [key, kind, runId, address, initial],
  );
  return { value, at: draft === undefined || draft.isSent ? null : draft.at, change };
}
