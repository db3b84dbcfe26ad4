// Which lock a run shows. The page of every run asks; what a lock needs besides is loaded with its panes.
import { useMemo } from "react";
import { useRunView } from "../../../api/queries";
import type { Lock } from "../../../live/run_model";
import { useRun } from "../../../live/useRunEvents";
import { useRunContext } from "../context";
import { draftKey, hasText, useUnlockDrafts } from "./draft";
import { currentLock } from "./place";

/** The lock to show: the one that holds the run, or one that somebody else opened while a draft was written. */
export function useShownLock(): Lock | undefined {
  const { runId, store } = useRunContext();
  const locks = useRun(store, (model) => model.locks);
  const isLocked = useRun(store, (model) => model.status === "suspended_locked");
  const view = useRunView(runId);
  const drafts = useUnlockDrafts((state) => state.drafts);
  const sending = useUnlockDrafts((state) => state.sending);
  return useMemo(() => {
    if (isLocked) return currentLock(locks, view.data?.lock);
    return locks.findLast((lock) => {
      const key = draftKey(runId, lock.seq);
      return lock.unlocked !== null && key !== sending && hasText(drafts[key]);
    });
  }, [drafts, isLocked, locks, runId, sending, view.data?.lock]);
}
