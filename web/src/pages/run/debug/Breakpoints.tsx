// The breakpoints of a run: they belong to the run, so everybody sees and removes those of the others.
import { useState } from "react";
import { call } from "../../../api/client";
import { keys, queryClient } from "../../../api/queries";
import type { BreakpointsBody, BreakpointState, RunState } from "../../../api/schema";
import { useMessages } from "../../../i18n/messages";
import { Button, Segmented } from "../../../ui/Button";
import { TextField } from "../../../ui/Field";
import { toastError } from "../../../ui/toasts";
import { useRunContext } from "../context";
import { messages } from "./messages";
import { breakpointKind, breakpointText } from "./paused";

async function change(runId: string, body: BreakpointsBody): Promise<void> {
  const breakpoints = await call<BreakpointState[]>(`/runs/${runId}/breakpoints`, { body });
  queryClient.setQueryData<RunState>(keys.state(runId), (state) => state && { ...state, breakpoints });
}

export function Breakpoints({ state }: { state: RunState }) {
  const texts = useMessages(messages);
  const { mayControl } = useRunContext();
  const [isAdding, setAdding] = useState(false);
  const here = new Set([state.breakpoint, ...state.ready.flatMap((ready) => ready.breakpoints)].filter(Boolean));
  return (
    <section aria-labelledby="debug-breakpoints">
      <header className="debug-side-head">
        <h2 id="debug-breakpoints">{texts.breakpoints}</h2>
        <span className="dim">{state.breakpoints.length}</span>
        {mayControl && !isAdding && (
          <Button icon="plus" onClick={() => setAdding(true)}>
            {texts.add}
          </Button>
        )}
      </header>
      {isAdding && <NewBreakpoint onClose={() => setAdding(false)} />}
      <ul className="debug-breakpoints">
        {!state.breakpoints.length && <li className="dim">{texts.noBreakpoints}</li>}
        {state.breakpoints.map((breakpoint) => (
          <Row key={breakpoint.text} breakpoint={breakpoint} isHere={here.has(breakpoint.text)} />
        ))}
      </ul>
    </section>
  );
}

function Row({ breakpoint, isHere }: { breakpoint: BreakpointState; isHere: boolean }) {
  const texts = useMessages(messages);
  const { runId, mayControl } = useRunContext();
  const [isBusy, setBusy] = useState(false);
  const kind = breakpointKind(breakpoint.text);
  const text = breakpointText(breakpoint.text);
  const remove = async () => {
    setBusy(true);
    try {
      await change(runId, { remove: [breakpoint.text] });
    } catch (error) {
      toastError(error);
      setBusy(false);
    }
  };
  return (
    <li>
      <span className="debug-dot" aria-hidden="true" />
      <div>
        <div className="debug-breakpoint">
          {kind === "condition" ? <span className="strong">{texts.condition}</span> : <code>{text}</code>}
          {isHere && <span className="debug-tag debug-tag-here">{texts.here}</span>}
          <span className="dim">{texts.met(breakpoint.hits)}</span>
        </div>
        {kind === "condition" ? <code className="debug-condition">{text}</code> : <p>{texts[`kind.${kind}`]}</p>}
        {breakpoint.problem && <p className="field-error">{breakpoint.problem}</p>}
      </div>
      {mayControl && (
        <Button kind="quiet" icon="close" isBusy={isBusy} aria-label={texts.remove(text)} onClick={() => void remove()} />
      )}
    </li>
  );
}

function NewBreakpoint({ onClose }: { onClose: () => void }) {
  const texts = useMessages(messages);
  const { runId } = useRunContext();
  const [kind, setKind] = useState<"place" | "condition">("place");
  const [values, setValues] = useState({ place: "", condition: "" });
  const [error, setError] = useState("");
  const [isBusy, setBusy] = useState(false);
  const value = values[kind];
  const add = async () => {
    const text = value.trim();
    if (!text || isBusy) return;
    setBusy(true);
    try {
      await change(runId, { add: [kind === "place" ? { at: text } : { cel: text }] });
      onClose();
    } catch (problem) {
      setError(problem instanceof Error ? problem.message : String(problem));
      setBusy(false);
    }
  };
  return (
    <form
      className="debug-new"
      onSubmit={(event) => {
        event.preventDefault();
        void add();
      }}
    >
      <Segmented
        label={texts.kind}
        value={kind}
        onChange={(now) => {
          setKind(now);
          setError("");
        }}
        choices={[
          { value: "place", text: texts.place },
          { value: "condition", text: texts.condition },
        ]}
      />
      <TextField
        key={kind}
        label={kind === "place" ? texts.placeLabel : texts.conditionLabel}
        help={kind === "place" ? texts.placeHelp : texts.conditionHelp}
        isMono
        autoFocus
        value={value}
        error={error || undefined}
        onChange={(now) => {
          setValues({ ...values, [kind]: now });
          setError("");
        }}
      />
      <div className="debug-save">
        <Button kind={value.trim() ? "primary" : "plain"} type="submit" disabled={!value.trim()} isBusy={isBusy}>
          {texts.set}
        </Button>
        <Button kind="quiet" onClick={onClose}>
          {texts.cancel}
        </Button>
      </div>
    </form>
  );
}
