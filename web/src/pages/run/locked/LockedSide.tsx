// The form that unlocks a run; or, if somebody else was faster, who did it and why.
import { useFormats } from "../../../i18n/format";
import { useMessages } from "../../../i18n/messages";
import type { Lock } from "../../../live/run_model";
import { useRun } from "../../../live/useRunEvents";
import { Button } from "../../../ui/Button";
import { Icon } from "../../../ui/Icon";
import { StatusShape } from "../../../ui/Status";
import { useNow } from "../../../ui/useNow";
import { useRunContext } from "../context";
import { draftKey, EMPTY_DRAFT, useUnlockDrafts } from "./draft";
import { messages } from "./messages";
import { UnlockForm } from "./UnlockForm";
import { useLockFacts, useRoundNow } from "./useLockFacts";
import { useShownLock } from "./useShownLock";
import "./locked.css";

/** The side of the page of a locked run. */
export function LockedSide() {
  const lock = useShownLock();
  if (lock === undefined) return null;
  return lock.unlocked === null ? <Form key={lock.seq} lock={lock} /> : <SomebodyElse lock={lock} unlocked={lock.unlocked} />;
}

function Form({ lock }: { lock: Lock }) {
  const facts = useLockFacts(lock);
  return <UnlockForm facts={facts} />;
}

function SomebodyElse({ lock, unlocked }: { lock: Lock; unlocked: NonNullable<Lock["unlocked"]> }) {
  const texts = useMessages(messages);
  const formats = useFormats();
  const { runId, select, store } = useRunContext();
  const key = draftKey(runId, lock.seq);
  const draft = useUnlockDrafts((state) => state.drafts[key]) ?? EMPTY_DRAFT;
  const discard = useUnlockDrafts((state) => state.discard);
  const isRunning = useRun(store, (model) => model.status === "running");
  const round = useRoundNow();
  const now = useNow(5000);
  const kept: [string, string | null][] = [
    [texts.reason, draft.reason],
    [texts.message, draft.message],
    [texts.note, draft.note],
  ];
  return (
    <section className="locked-side" aria-labelledby="locked-side-title">
      <header className="locked-side-head">
        <h2 id="locked-side-title">{texts.unlock}</h2>
      </header>
      <div className="locked-side-body" role="status">
        <p className="locked-faster">
          {isRunning ? <StatusShape status="running" /> : <Icon name="check" />}
          {texts.unlockedBy(unlocked.by, formats.ago(unlocked.at, now))}
        </p>
        <p className="locked-faster-why">
          {round === null ? texts.goesOnPlain(unlocked.reason) : texts.goesOn(unlocked.reason, round)}
        </p>
        <div className="locked-section">
          <h3>{texts.yourDraft}</h3>
          {kept.map(
            ([name, text]) =>
              text?.trim() && (
                <div key={name} className="locked-kept">
                  <span className="dim">{name}</span>
                  <blockquote>{text}</blockquote>
                </div>
              ),
          )}
        </div>
      </div>
      <footer className="locked-side-foot">
        <Button
          className="locked-wide"
          onClick={() => {
            discard(key);
            select("");
          }}
        >
          {round === null ? texts.goToRun : texts.goToRound(round)}
        </Button>
      </footer>
    </section>
  );
}

/** One line about the last unlock, for the page of a run that goes on. */
export function UnlockedLine() {
  const texts = useMessages(messages);
  const formats = useFormats();
  const { store } = useRunContext();
  const isLocked = useRun(store, (model) => model.status === "suspended_locked");
  const lock = useRun(store, (model) => model.locks.at(-1));
  if (isLocked || lock?.unlocked == null) return null;
  const { at, by, reason } = lock.unlocked;
  return (
    <p className="locked-line" title={formats.full(at)}>
      <Icon name="check" size={14} />
      <span className="ellipsis">{texts.unlockedLine(by, reason)}</span>
      <time className="dim">{formats.clock(at)}</time>
    </p>
  );
}
