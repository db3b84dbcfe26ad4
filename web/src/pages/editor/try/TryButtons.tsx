// Starts and controls the run. Which buttons there are depends on its status.
import { useRef } from "react";
import { Link } from "wouter";
import { downloadRunScript } from "../../../api/run_script";
import { useKeys } from "../../../app/keys";
import { useMessages } from "../../../i18n/messages";
import { isOver } from "../../../api/statuses";
import { Button } from "../../../ui/Button";
import { toast, toastError } from "../../../ui/toasts";
import { useKeptFocus } from "../../../ui/useKeptFocus";
import { unlessDialog } from "../../run/people/useSendAnswer";
import { useEditor, useEditorStore } from "../store";
import { control, recordScript, start, type Given } from "./actions";
import { messages } from "./messages";
import { useTrying, useTryStore, type Action } from "./store";
import { useStatus } from "./useTried";

export function TryButtons({ given }: { given: Given }) {
  const texts = useMessages(messages);
  const editor = useEditorStore();
  const trying = useTryStore();
  const busy = useTrying((state) => state.busy);
  const attempt = useTrying((state) => state.attempt);
  const name = useEditor(({ saved, check }) => saved?.name ?? check?.workflow ?? "");
  const status = useStatus();
  const frame = useRef<HTMLDivElement>(null);
  useKeptFocus(frame);
  const isFree = status === null || isOver(status);
  const isPaused = status === "paused";
  const shared = (action: Action) => ({ isBusy: busy === action, disabled: busy !== null && busy !== action });
  const run = () => void start(editor, trying, given, false);
  const step = () => void (isPaused ? control(trying, "step") : start(editor, trying, given, true));
  useKeys(isFree ? [{ keys: "Ctrl Enter", text: texts.run, action: unlessDialog(run) }] : []);
  return (
    <div ref={frame} className="try-buttons" role="group" aria-label={texts.title} tabIndex={-1}>
      {isFree && (
        <Button kind="primary" icon="play" hint="Ctrl Enter" {...shared("run")} onClick={run}>
          {attempt === null ? texts.run : texts.runAgain}
        </Button>
      )}
      {isPaused && (
        <Button kind="primary" icon="play" {...shared("resume")} onClick={() => void control(trying, "resume")}>
          {texts.continue}
        </Button>
      )}
      {(isFree || isPaused) && (
        <Button icon="step" title={texts.stepHelp} {...shared(isPaused ? "step" : "paused")} onClick={step}>
          {texts.step}
        </Button>
      )}
      {isPaused && (
        <Button icon="loop" {...shared("step-round")} onClick={() => void control(trying, "step-round")}>
          {texts.stepRound}
        </Button>
      )}
      {(status === "running" || status === "waiting") && (
        <Button icon="pause" {...shared("pause")} onClick={() => void control(trying, "pause")}>
          {texts.pause}
        </Button>
      )}
      {!isFree && (
        <Button kind="danger" icon="stop" {...shared("stop")} onClick={() => void control(trying, "stop")}>
          {texts.stop}
        </Button>
      )}
      {attempt !== null && isFree && (
        <>
          <Button
            icon="replay"
            {...shared("script")}
            onClick={() => void recordScript(trying, attempt.id).then((isDone) => isDone && toast(texts.scriptTaken))}
          >
            {texts.useAsScript}
          </Button>
          <Button
            kind="quiet"
            icon="download"
            aria-label={texts.downloadScript}
            title={texts.downloadScript}
            onClick={() => void downloadRunScript(attempt.id, name).catch(toastError)}
          />
        </>
      )}
      {attempt !== null && (
        <Link href={`/runs/${attempt.id}`} className="button button-plain">
          {texts.openRun}
        </Link>
      )}
    </div>
  );
}
