// Starts a new run from a point of this one, with another message or other limits.
import { useQuery } from "@tanstack/react-query";
import { useEffect, useId, useMemo, useState } from "react";
import { useLocation } from "wouter";
import { isInside } from "../../live/address";
import { call } from "../../api/client";
import { keys, queryClient, useRunState } from "../../api/queries";
import type { ForkBody, RunPlan, RunState, StartedRun } from "../../api/schema";
import { useMessages } from "../../i18n/messages";
import type { RunModel } from "../../live/run_model";
import { useRun, useRunEvents } from "../../live/useRunEvents";
import { Button, Segmented } from "../../ui/Button";
import { Dialog } from "../../ui/Dialog";
import { CheckField, TextArea, TextField } from "../../ui/Field";
import { Failure, Loading } from "../../ui/State";
import { toast } from "../../ui/toasts";
import { changedLimits, currentLimit, limitNames, limitProblem } from "./limits";
import { executionAt, messageBefore } from "./message";
import { repeatingNodes } from "../run/context";
import { messages } from "./messages";
import "./fork.css";

interface Props {
  runId: string;
  /** Where the fork begins; empty for where the run is now. */
  at: string;
  onClose: () => void;
}

export default function ForkDialog(props: Props) {
  const texts = useMessages(messages);
  const plan = useQuery({
    queryKey: keys.plan(props.runId),
    queryFn: () => call<RunPlan>(`/runs/${props.runId}/plan`),
    staleTime: Infinity,
  });
  if (plan.data !== undefined) return <ForkForm {...props} plan={plan.data} />;
  return (
    <Dialog title={texts.title} onClose={props.onClose}>
      {plan.error ? <Failure error={plan.error} onRetry={() => void plan.refetch()} /> : <Loading />}
    </Dialog>
  );
}

interface Known {
  text: string;
  from: string;
  kind: "waiting" | "output" | "input";
}

/** The message that the fork would receive, if it is known: it waits there now, or it was the last output of
 * a node before. */
function knownMessage(model: RunModel, plan: RunPlan, state: RunState | undefined, at: string): Known | undefined {
  const ready = state?.ready.find((node) => at === "" || isInside(node.address, at));
  const waiting = ready?.messages.at(-1);
  if (waiting !== undefined) return { text: waiting.text, from: waiting.source, kind: "waiting" };
  const before = at === "" ? undefined : messageBefore(model, plan.drawing, at);
  return before && { ...before, kind: before.from === "" ? "input" : "output" };
}

function ForkForm({ runId, at: initial, onClose, plan }: Props & { plan: RunPlan }) {
  const texts = useMessages(messages);
  const [, navigate] = useLocation();
  const formId = useId();
  const composites = useMemo(() => repeatingNodes(plan), [plan]);
  const { store } = useRunEvents(runId, composites);
  const seq = useRun(store, (model) => model.seq);
  const state = useRunState(runId);
  const [at, setAt] = useState(initial);
  const [hasMessage, setHasMessage] = useState(false);
  const [message, setMessage] = useState("");
  const [limits, setLimits] = useState<Record<string, string>>({});
  const [begin, setBegin] = useState<"now" | "later">("now");
  const [isBusy, setBusy] = useState(false);
  const [isTried, setTried] = useState(false);
  const [problem, setProblem] = useState<Error | null>(null);

  const place = at.trim();
  const model = store.getState().model;
  const isKnown = useMemo(
    () => place === "" || model.rounds.has(place) || executionAt(model, place) !== undefined,
    // The model is changed in place.
    [model, place, seq],
  );
  const known = useMemo(
    () => knownMessage(model, plan, state.data, place),
    [model, plan, state.data, place, seq],
  );
  const node = place === "" ? "" : (executionAt(model, place)?.node_id ?? "");
  // A person who has not written anything edits the message of the address that is chosen now.
  const [isTouched, setTouched] = useState(false);
  useEffect(() => {
    if (!isTouched) setMessage(known?.text ?? "");
  }, [known?.text, isTouched]);

  const names = limitNames(plan.limits);
  const problems = Object.fromEntries(names.map((name) => [name, limitProblem(name, limits[name] ?? "")]));
  const isMessageEmpty = hasMessage && message.trim() === "";
  const isValid = isKnown && !isMessageEmpty && Object.values(problems).every((one) => one === null);

  const send = async (target: "open" | "compare") => {
    setTried(true);
    if (!isValid) return;
    setBusy(true);
    setProblem(null);
    const changed = changedLimits(limits, plan.limits);
    const body: ForkBody = {
      at: place,
      run: begin === "now",
      ...(hasMessage ? { message } : {}),
      ...(Object.keys(changed).length ? { limits: changed } : {}),
    };
    try {
      const { id } = await call<StartedRun>(`/runs/${runId}/fork`, { body });
      void queryClient.invalidateQueries({ queryKey: keys.runs });
      toast(texts.done(id));
      onClose();
      navigate(target === "open" ? `/runs/${id}` : `/runs/${runId}/compare/${id}`);
    } catch (error) {
      setProblem(error as Error);
      setBusy(false);
    }
  };

  return (
    <Dialog
      title={texts.title}
      onClose={onClose}
      footer={
        <>
          <Button className="fork-cancel" onClick={onClose}>
            {texts.cancel}
          </Button>
          <Button isBusy={isBusy} onClick={() => void send("compare")}>
            {texts.forkAndCompare}
          </Button>
          <Button kind="primary" icon="fork" type="submit" form={formId} isBusy={isBusy}>
            {texts.forkAndOpen}
          </Button>
        </>
      }
    >
      <form
        id={formId}
        className="fork"
        noValidate
        onSubmit={(event) => {
          event.preventDefault();
          void send("open");
        }}
      >
        <p className="dim">{texts.help}</p>
        <TextField
          label={texts.at}
          isMono
          autoFocus
          value={at}
          placeholder={texts.current}
          onChange={setAt}
          help={texts.atHelp}
          error={isKnown ? undefined : texts.unknownAddress}
        />
        <CheckField
          label={texts.changeMessage}
          help={texts.changeMessageHelp(node || texts.thisNode)}
          checked={hasMessage}
          onChange={setHasMessage}
        />
        {hasMessage && (
          <>
            <div className="fork-was">
              {known === undefined ? (
                <p className="dim small">{texts.unknownMessage}</p>
              ) : (
                <>
                  <p className="dim small">
                    {known.kind === "input"
                      ? texts.wasInput
                      : known.kind === "waiting"
                        ? texts.wasWaiting(known.from)
                        : texts.wasOutput(known.from)}
                  </p>
                  <blockquote>{known.text}</blockquote>
                </>
              )}
            </div>
            <TextArea
              label={texts.message}
              rows={4}
              value={message}
              onChange={(text) => {
                setTouched(true);
                setMessage(text);
              }}
              error={isTried && isMessageEmpty ? texts.emptyMessage : undefined}
            />
          </>
        )}
        <fieldset className="fork-limits">
          <legend>{texts.limits}</legend>
          <p className="field-help">{texts.limitsHelp}</p>
          <div>
            {names.map((name) => (
              <TextField
                key={name}
                label={name}
                type="number"
                value={limits[name] ?? ""}
                placeholder={currentLimit(name, plan) ?? texts.noLimit}
                onChange={(text) => setLimits({ ...limits, [name]: text })}
                error={
                  problems[name] === "whole" ? texts.wholeError : problems[name] === "number" ? texts.limitError : undefined
                }
              />
            ))}
          </div>
        </fieldset>
        <div className="fork-begin">
          <span>{texts.begin}</span>
          <Segmented
            label={texts.begin}
            value={begin}
            onChange={setBegin}
            choices={[
              { value: "now", text: texts.now },
              { value: "later", text: texts.later },
            ]}
          />
        </div>
        {problem && <Failure error={problem} />}
      </form>
    </Dialog>
  );
}
