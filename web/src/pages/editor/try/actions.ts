// What the buttons of the pane do.
import { ApiError, call } from "../../../api/client";
import { keys, queryClient } from "../../../api/queries";
import { planRequest } from "../../../api/requests";
import { readRunScript } from "../../../api/run_script";
import type { RunPlan, RunView, StartedRun } from "../../../api/schema";
import { isOver } from "../../../api/statuses";
import { toastError } from "../../../ui/toasts";
import { repeatingNodes } from "../../run/context";
import { EMPTY_DRAFT } from "../../start/draft";
import { bodyOf, newKey, refusalOf } from "../../start/start";
import type { EditorStore } from "../store";
import { scriptToSend } from "./script";
import type { Action, TryStore } from "./store";

/** What the fields show, with what the page suggests. */
export interface Given {
  input: string;
  script: string;
}

/** Does something, one thing at a time; the button that did it is busy meanwhile. False if it was not done. */
async function busyWith(trying: TryStore, action: Action, work: () => Promise<void>): Promise<boolean> {
  if (trying.getState().busy !== null) return false;
  trying.setState({ busy: action });
  try {
    await work();
    return true;
  } catch (error) {
    toastError(error);
    return false;
  } finally {
    trying.setState({ busy: null });
  }
}

/** Starts a run of the text as it is now, saved or not. */
export function start(editor: EditorStore, trying: TryStore, given: Given, isPaused: boolean): Promise<boolean> {
  return busyWith(trying, isPaused ? "paused" : "run", async () => {
    const { text, check, saved } = editor.getState();
    const { variables, usesModels } = trying.getState();
    const draft = { ...EMPTY_DRAFT, input: given.input, variables };
    const script = usesModels ? null : scriptToSend(given.script);
    const body = bodyOf(draft, { text }, saved?.group || undefined, check?.variables ?? [], script, isPaused);
    trying.setState({ refusal: null });
    try {
      await stopLast(trying);
      // The same text may be tried again, so each click has a key of its own.
      const { id } = await call<StartedRun>("/runs", { body, headers: { "idempotency-key": newKey() } });
      const plan = await queryClient.fetchQuery({ queryKey: keys.plan(id), queryFn: () => call<RunPlan>(...planRequest(id)) });
      trying.setState({ attempt: { id, text, composites: repeatingNodes(plan) } });
      void queryClient.invalidateQueries({ queryKey: keys.runs });
      void queryClient.invalidateQueries({ queryKey: ["start-runs"] });
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      trying.setState({ refusal: refusalOf(error.problem, error.message) });
    }
  });
}

/** Stops the run that is shown, so that none is left behind that waits for an answer. */
async function stopLast(trying: TryStore): Promise<void> {
  const { attempt, live } = trying.getState();
  if (attempt === null || live === null || isOver(live.store.getState().model.status)) return;
  try {
    await call<RunView>(`/runs/${attempt.id}/stop`, { method: "POST", body: {} });
  } catch (error) {
    // It has ended by itself meanwhile.
    if (!(error instanceof ApiError && error.status === 409)) throw error;
  }
}

/** Controls the run. */
export function control(trying: TryStore, action: "step" | "step-round" | "resume" | "pause" | "stop"): Promise<boolean> {
  return busyWith(trying, action, async () => {
    const { attempt } = trying.getState();
    if (attempt === null) return;
    const body = action === "step-round" ? { round: true } : {};
    await call<RunView>(`/runs/${attempt.id}/${action === "step-round" ? "step" : action}`, { method: "POST", body });
  });
}

/** Makes the answers of a run the script of the next one. */
export function recordScript(trying: TryStore, run: string): Promise<boolean> {
  return busyWith(trying, "script", async () => trying.setState({ script: await readRunScript(run), usesModels: false }));
}
