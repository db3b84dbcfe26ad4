// Somebody was faster, or the deadline was: what happened, and what can be done with the draft.
import { useState } from "react";
import { useStore } from "zustand";
import { useMessages } from "../../../i18n/messages";
import { roundOf } from "../../../live/address";
import type { RunModel } from "../../../live/run_model";
import { useRun } from "../../../live/useRunEvents";
import { Button } from "../../../ui/Button";
import { StatusShape } from "../../../ui/Status";
import { toast, toastError } from "../../../ui/toasts";
import { useRunContext } from "../context";
import { LazyForkDialog } from "../controls/LazyForkDialog";
import { discardDraft, useDrafts, type StoredDraft } from "./drafts";
import { messages } from "./messages";
import { askerAt, outcomeOf, type Outcome } from "./question";
import "./people.css";

function useOutcomeText() {
  const texts = useMessages(messages);
  return (outcome: Outcome): { title: string; detail: string } => {
    switch (outcome.kind) {
      case "open":
        return { title: texts.tooLate, detail: "" };
      case "answered":
        return { title: texts.wasAnswered, detail: outcome.text };
      case "approved":
        return { title: texts.wasApproved, detail: "" };
      case "rejected":
        return { title: texts.wasRejected, detail: outcome.text };
      case "deadline":
        return { title: texts.deadlineWasPassed, detail: outcome.text };
      case "ended":
        return { title: texts.runEnded, detail: "" };
    }
  };
}

/** In the place of the button: the answer was refused. */
export function TooLate({ address, isTool, reason }: { address: string; isTool: boolean; reason: string }) {
  const texts = useMessages(messages);
  const { runId, store } = useRunContext();
  // The version changes with every event, and the outcome is cheap to find.
  useRun(store, (model) => model.seq);
  const outcome = outcomeOf(store.getState().model, address);
  const { title, detail } = useOutcomeText()(outcome);
  return (
    <div className="people-late" role="alert">
      <p className="people-late-title">
        <StatusShape status="waiting" />
        {title}
      </p>
      {detail ? <blockquote>{detail}</blockquote> : <p className="people-help">{reason}</p>}
      <p className="people-help">{texts.keptAsDraft}</p>
      <ForkButton runId={runId} asker={askerAt(store.getState().model, address)} isTool={isTool} />
    </div>
  );
}

function ForkButton({ runId, asker, isTool }: { runId: string; asker: string; isTool: boolean }) {
  const texts = useMessages(messages);
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      <Button icon="fork" onClick={() => setOpen(true)}>
        {isTool ? texts.forkAtCall : texts.forkAtRound}
      </Button>
      {isOpen && (
        <LazyForkDialog runId={runId} at={isTool ? asker : roundOf(asker) || asker} onClose={() => setOpen(false)} />
      )}
    </>
  );
}

/** Whether a draft has something that a person would miss. */
function hasContent(draft: StoredDraft): boolean {
  const value = draft.value as Record<string, unknown>;
  if (draft.kind === "answer") return Boolean(String(value.text ?? "").trim() || String(value.data ?? "").trim());
  return Boolean(value.reason || value.note) || value.decision === "edited";
}

function contentOf(draft: StoredDraft): string {
  const value = draft.value as Record<string, unknown>;
  if (draft.kind === "answer") return [value.text, value.data].filter(Boolean).join("\n\n");
  return JSON.stringify(value, null, 2);
}

function findLost(model: RunModel, runId: string, drafts: Readonly<Record<string, StoredDraft>>): StoredDraft | undefined {
  const open = new Set(model.questions.map((question) => question.address));
  return Object.values(drafts).find(
    (draft) => draft.runId === runId && !draft.isSent && !open.has(draft.address) && hasContent(draft),
  );
}

/** A bar for the page of a run: a draft whose question is no longer open. It is not lost, and nothing is
 * shown while there is none. */
export function LostDraft() {
  const texts = useMessages(messages);
  const { runId, store } = useRunContext();
  const drafts = useDrafts((state) => state.drafts);
  useRun(store, (model) => model.questions);
  // Before the stored events are read, no question is known to be open.
  const isLoaded = useStore(store, (state) => state.isLoaded);
  const { model } = store.getState();
  const describe = useOutcomeText();
  const lost = isLoaded ? findLost(model, runId, drafts) : undefined;
  if (lost === undefined) return null;
  const { title, detail } = describe(outcomeOf(model, lost.address));
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(contentOf(lost));
      toast(texts.copied);
    } catch (error) {
      toastError(error);
    }
  };
  return (
    <div className="people-lost" role="status">
      <p>
        <strong>{title}</strong>
        {detail && <q>{detail}</q>}
        <span>{texts.yourDraftFor(lost.address)}</span>
      </p>
      <div className="people-lost-actions">
        <Button icon="copy" onClick={() => void copy()}>
          {texts.copyDraft}
        </Button>
        <ForkButton
          runId={runId}
          asker={askerAt(model, lost.address)}
          isTool={lost.kind === "approval"}
        />
        <Button kind="quiet" icon="close" onClick={() => discardDraft(runId, lost.address)}>
          {texts.discard}
        </Button>
      </div>
    </div>
  );
}
