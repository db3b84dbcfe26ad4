// The decision about a tool call while it is made: what was edited, whether it can be sent, and what was refused.
import { useMemo } from "react";
import { useMessages } from "../../../i18n/messages";
import type { Question } from "../../../live/run_model";
import { approvalBody, argumentsOf, draftOf, fieldOfError, readArguments, type ApprovalDraft, type Decision } from "./approval";
import { useDraft } from "./drafts";
import { messages } from "./messages";
import { useSendAnswer } from "./useSendAnswer";

/** The draft of a decision, which the arguments and the buttons share. */
export function useApprovalDraft(question: Question, runId: string) {
  const before = useMemo(() => argumentsOf(question.tool), [question.tool]);
  const initial = useMemo(() => draftOf(before), [before]);
  const draft = useDraft<ApprovalDraft>("approval", runId, question.address, initial);
  const read = useMemo(() => readArguments(draft.value, before), [draft.value, before]);
  return { before, initial, read, ...draft };
}

export type DecisionState = ReturnType<typeof useDecision>;

export function useDecision(question: Question, runId: string, mayDecide: boolean) {
  const texts = useMessages(messages);
  const { value: draft, before, read, at, change } = useApprovalDraft(question, runId);
  const sending = useSendAnswer(runId, question.address);
  const count = read.changed.length;
  const isReject = draft.decision === "reject";
  const isBroken = draft.decision === "edited" && Object.keys(read.problems).length > 0;
  const canSend = mayDecide && sending.status === "idle" && !isBroken && (!isReject || draft.reason.trim() !== "");
  const refused = sending.error === null || sending.isConflict ? "" : sending.error.message;
  return {
    draft,
    change,
    sending,
    /** When the draft was last changed; null if it was not. */
    at,
    /** The names of the arguments that were changed. */
    changed: read.changed,
    isReject,
    isBroken,
    canSend,
    /** What the button says. */
    button: isReject ? texts.rejectCall : draft.decision === "edited" && count > 0 ? texts.approveWith(count) : texts.approve,
    refused,
    /** The argument that the server refused. */
    refusedField: refused ? fieldOfError(refused, Object.keys(before)) : null,
    submit: () => {
      if (canSend) void sending.send(approvalBody(draft, read, question.address));
    },
    choose: (decision: Decision) => {
      if (sending.error !== null) sending.forget();
      change({ decision });
    },
  };
}
