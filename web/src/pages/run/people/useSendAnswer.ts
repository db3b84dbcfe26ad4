// Sends an answer, and says what the server thinks of it.
import { useState } from "react";
import { ApiError, call } from "../../../api/client";
import type { AnswerBody } from "../../../api/schema";
import { discardDraft, markSent } from "./drafts";

export interface Sending {
  status: "idle" | "busy" | "sent";
  /** Why it was refused. */
  error: Error | null;
  /** Whether it came too late: somebody else answered, or the deadline passed. */
  isConflict: boolean;
}

const IDLE: Sending = { status: "idle", error: null, isConflict: false };

export function useSendAnswer(runId: string, address: string) {
  const [state, setState] = useState(IDLE);
  const send = async (body: AnswerBody) => {
    setState({ ...IDLE, status: "busy" });
    // The event that closes the question may arrive before the answer to the request.
    markSent(runId, address, true);
    try {
      await call(`/runs/${runId}/answer`, { body });
      setState({ ...IDLE, status: "sent" });
      discardDraft(runId, address);
    } catch (error) {
      markSent(runId, address, false);
      const isConflict = error instanceof ApiError && error.status === 409;
      setState({ status: "idle", error: error as Error, isConflict });
    }
  };
  return { ...state, send, forget: () => setState(IDLE) };
}

/** Ctrl Enter in a dialog is for the dialog: it must not send what is behind it. */
export function unlessDialog(action: () => void): () => void {
  return () => {
    if (document.querySelector("dialog[open]") === null) action();
  };
}
