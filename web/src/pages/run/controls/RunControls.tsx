// The buttons of the run bar: which there are depends on the status of the run and on the role of the reader.
import { useEffect, useRef, useState } from "react";
import { useLocation } from "wouter";
import { call } from "../../../api/client";
import { keys, queryClient, useRunView } from "../../../api/queries";
import { downloadRunScript } from "../../../api/run_script";
import type { RunView } from "../../../api/schema";
import { useKeys, type KeyAction } from "../../../app/keys";
import { useMessages } from "../../../i18n/messages";
import { isOver, type RunStatus } from "../../../api/statuses";
import { useRun } from "../../../live/useRunEvents";
import { Button } from "../../../ui/Button";
import { Later, later } from "../../../ui/later";
import { Menu, type MenuItem } from "../../../ui/Menu";
import { toast, toastError } from "../../../ui/toasts";
import { useKeptFocus } from "../../../ui/useKeptFocus";
import { newestRound, useRunContext } from "../context";
import { saveUnsavedEdits, useHasUnsavedEdit } from "../debug/unsaved";
import { LazyForkDialog } from "./LazyForkDialog";
import { messages } from "./messages";
import { useBreakpoints } from "./useBreakpoints";
import "./controls.css";

// Dialogs are loaded when somebody opens one.
const BreakpointsDialog = later(() => import("./BreakpointsDialog").then((found) => ({ default: found.BreakpointsDialog })));
const StopDialog = later(() => import("./ConfirmDialogs").then((found) => ({ default: found.StopDialog })));
const LockDialog = later(() => import("./ConfirmDialogs").then((found) => ({ default: found.LockDialog })));
const DeleteDialog = later(() => import("./ConfirmDialogs").then((found) => ({ default: found.DeleteDialog })));

type Action = "pause" | "resume" | "step" | "step-round" | "retry";
type Overlay = "fork" | "debug" | "stop" | "lock" | "delete" | null;

/** A request that is on its way, or whose effect is. */
interface Busy {
  action: Action;
  /** The status in which it was made. */
  status: RunStatus;
}

export function RunControls() {
  const texts = useMessages(messages);
  const { runId, store, selected, mayControl } = useRunContext();
  const [, navigate] = useLocation();
  const status = useRun(store, (model) => model.status);
  const view = useRunView(runId);
  const [busy, setBusy] = useState<Busy | null>(null);
  const [overlay, setOverlay] = useState<Overlay>(null);
  const frame = useRef<HTMLDivElement>(null);
  // Each status has other buttons.
  useKeptFocus(frame);
  const over = isOver(status);
  const hasEdit = useHasUnsavedEdit(runId);
  const breakpoints = useBreakpoints(runId, !over);
  const count = breakpoints.data?.length ?? 0;
  useEffect(() => {
    // A run that pauses finishes its calls first: the button stays busy until the status has changed.
    setBusy((now) => (now !== null && now.status !== status ? null : now));
    // What the run executes stays as it was started, however large it is.
    const isPlan = (key: readonly unknown[]) => key[2] === keys.plan(runId)[2];
    void queryClient.invalidateQueries({ queryKey: keys.run(runId), predicate: (query) => !isPlan(query.queryKey) });
  }, [status, runId]);

  const act = async (action: Action) => {
    if (busy !== null) return;
    setBusy({ action, status });
    try {
      // A step must not run the message as it was while its edit stands on the page.
      if (action === "step" || action === "step-round" || action === "resume") await saveUnsavedEdits(runId);
      const path = action === "step-round" ? "step" : action;
      const body = action === "step-round" ? { round: true } : {};
      const answer = await call<RunView>(`/runs/${runId}/${path}`, { method: "POST", body });
      if (action === "retry" && answer.status === "failed") toast(texts.failedAgain, "failed");
      const isPending = action === "pause" && answer.status === status;
      setBusy((now) => (isPending ? now : null));
    } catch (error) {
      setBusy(null);
      toastError(error);
    }
  };

  const isPaused = status === "paused";
  const mayPause = status === "running" || status === "waiting";
  const actions: KeyAction[] = [];
  if (mayControl && mayPause) actions.push({ keys: "P", text: texts.pause, action: () => void act("pause") });
  if (mayControl && isPaused) {
    actions.push(
      { keys: "P", text: texts.continue, action: () => void act("resume") },
      { keys: "S", text: texts.step, action: () => void act("step") },
      { keys: "Shift S", text: texts.stepRound, action: () => void act("step-round") },
    );
  }
  useKeys(actions);

  // No process executes it: it was interrupted, and whoever resumes it executes it.
  const isInterrupted = status === "running" && view.data?.status === "running" && !view.data.is_executed;
  const parent = view.data?.parent ?? "";
  const close = () => setOverlay(null);
  const items: MenuItem[] = [
    { text: texts.copyId, icon: "copy", action: () => void copyText(runId, texts.copied) },
    { text: texts.downloadScript, icon: "download", action: () => void downloadRunScript(runId, store.getState().model.workflow).catch(toastError) },
  ];
  const compareWith = (other: string) => () => navigate(`/runs/${runId}/compare/${other}`);
  if (parent) items.push({ text: texts.compareWithParent, icon: "fork", action: compareWith(parent) });
  items.push({ text: texts.compare, icon: "compare", action: compareWith("choose") });
  if (mayControl) {
    items.unshift({ text: texts.fork, icon: "fork", action: () => setOverlay("fork"), isForPhones: true });
    if (mayPause) {
      items.unshift({ text: texts.debug, icon: "bug", action: () => setOverlay("debug"), isForPhones: true });
    }
    if (!over) {
      if (status !== "suspended_locked") items.push({ text: texts.lock, icon: "lock", action: () => setOverlay("lock") });
    } else {
      items.push({ text: texts.delete, icon: "trash", action: () => setOverlay("delete"), isDanger: true });
    }
  }
  const shared = (action: Action) => ({
    isBusy: busy?.action === action,
    disabled: busy !== null && busy.action !== action,
    onClick: () => void act(action),
  });
  return (
    <div ref={frame} className="controls" role="group" aria-label={texts.controls} tabIndex={-1}>
      {mayControl && isPaused && (
        <>
          <Button icon="step" hint="S" {...shared("step")}>
            {hasEdit ? texts.saveAndStep : texts.step}
          </Button>
          <Button icon="loop" hint="Shift S" className="controls-wide" {...shared("step-round")}>
            {texts.stepRound}
          </Button>
          <Button kind="primary" icon="play" hint="P" {...shared("resume")}>
            {hasEdit ? texts.saveAndContinue : texts.continue}
          </Button>
        </>
      )}
      {mayControl && isInterrupted && (
        <Button kind="primary" icon="play" {...shared("resume")}>
          {texts.resume}
        </Button>
      )}
      {mayControl && mayPause && !isInterrupted && (
        <Button icon="pause" {...shared("pause")}>
          {busy?.action === "pause" ? texts.pausing : texts.pause}
        </Button>
      )}
      {mayControl && status === "failed" && (
        <Button kind="primary" icon="retry" {...shared("retry")}>
          {texts.retry}
        </Button>
      )}
      {mayControl && (
        <Button icon="fork" className="controls-wide" onClick={() => setOverlay("fork")}>
          {texts.fork}
        </Button>
      )}
      {mayControl && mayPause && (
        <Button
          icon="bug"
          className="controls-wide"
          aria-label={count > 0 ? texts.debugWith(count) : undefined}
          onClick={() => setOverlay("debug")}
        >
          {texts.debug}
          {count > 0 && <span className="controls-count">{count}</span>}
        </Button>
      )}
      {mayControl && !over && (
        <Button kind="danger" icon="stop" onClick={() => setOverlay("stop")}>
          {texts.stop}
        </Button>
      )}
      <Menu label={texts.more} items={items} />
      {overlay === "fork" && (
        <LazyForkDialog runId={runId} at={selected || newestRound(store.getState().model)} onClose={close} />
      )}
      <Later>
        {overlay === "debug" && <BreakpointsDialog runId={runId} onClose={close} />}
        {overlay === "stop" && <StopDialog runId={runId} onClose={close} />}
        {overlay === "lock" && <LockDialog runId={runId} onClose={close} />}
        {overlay === "delete" && (
          <DeleteDialog
            runId={runId}
            onClose={close}
            onDeleted={() => {
              void queryClient.invalidateQueries({ queryKey: keys.runs });
              navigate("/");
            }}
          />
        )}
      </Later>
    </div>
  );
}

async function copyText(text: string, done: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    toast(done);
  } catch (error) {
    toastError(error);
  }
}
