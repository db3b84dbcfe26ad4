// A paused run: where it stopped and why, and what waits for the node that runs next.
import { useState } from "react";
import type { RunState } from "../../../api/schema";
import { useMessages } from "../../../i18n/messages";
import { parseAddress } from "../../../live/address";
import { useRun } from "../../../live/useRunEvents";
import { Segmented } from "../../../ui/Button";
import { Failure, Loading } from "../../../ui/State";
import { useRunContext } from "../context";
import { LateEdits } from "./LateEdits";
import { messages } from "./messages";
import { breakpointText } from "./paused";
import { Queue } from "./Queue";
import { usePaused, useShownNode } from "./usePaused";
import "./debug.css";

/** The middle of the page of a paused run. */
export function DebugMain() {
  const texts = useMessages(messages);
  const { state, error, retry, isPaused } = usePaused();
  const node = useShownNode(state);
  const [view, setView] = useState<"queue" | "state">("queue");
  return (
    <article className="debug-main" aria-labelledby={isPaused ? "debug-title" : undefined}>
      <LateEdits />
      {error && <Failure error={error} onRetry={retry} />}
      {isPaused && state === undefined && !error && <Loading />}
      {isPaused && state !== undefined && (
        <>
          <Head state={state} />
          <section className="debug-section" aria-labelledby="debug-queue">
            <header className="debug-section-head">
              <h3 id="debug-queue">{view === "queue" && node !== undefined ? texts.queueOf(node.nodeId) : texts[view]}</h3>
              {view === "queue" && node !== undefined && (
                <span className="dim">
                  {texts.waiting(
                    node.messages.filter((message) => !message.keep).length,
                    node.messages.filter((message) => message.keep).length,
                  )}
                </span>
              )}
              <Segmented
                label={texts.view}
                value={view}
                onChange={setView}
                choices={[
                  { value: "queue", text: texts.queue },
                  { value: "state", text: texts.state },
                ]}
              />
            </header>
            {view === "state" ? (
              <Values state={state} />
            ) : node === undefined ? (
              <p className="dim">{texts.nothingReady}</p>
            ) : (
              <Queue key={node.address} node={node} />
            )}
          </section>
        </>
      )}
    </article>
  );
}

function Head({ state }: { state: RunState }) {
  const texts = useMessages(messages);
  const { store } = useRunContext();
  const pause = useRun(store, (model) => model.pause);
  const address = pause?.address || state.stopped_at || (state.ready[0]?.address ?? "");
  const ready = state.ready.find((one) => one.address === address) ?? state.ready[0];
  const node = ready?.node_id ?? "";
  const met = pause?.breakpoint ?? "";
  const number = state.breakpoints.findIndex((breakpoint) => breakpoint.text === met) + 1;
  const isInLoop = parseAddress(ready?.address ?? "").rounds.length > 0;
  return (
    <header className="debug-head">
      <h2 id="debug-title">
        {ready === undefined ? texts.paused : ready.calls.length ? texts.pausedBeforeTools(node) : texts.pausedBefore(node)}
      </h2>
      <p>
        {met ? (
          <>
            {texts.metBreakpoint(number)} <code>{breakpointText(met)}</code>.{" "}
          </>
        ) : (
          `${pause?.reason === "step" ? texts.afterStep : texts.byPerson(pause?.reason ?? "")} `
        )}
        {ready === undefined
          ? texts.nothingReady
          : ready.calls.length
            ? texts.toolsNotYet(ready.calls)
            : isInLoop
              ? texts.nothingYet(node)
              : texts.nothingYetPlain(node)}
        {state.in_flight.length > 0 && ` ${texts.inFlight(state.in_flight)}`}
        {state.questions.length > 0 && ` ${texts.questions(state.questions.length)}`}
      </p>
    </header>
  );
}

/** Variables, and the values that nodes share. */
function Values({ state }: { state: RunState }) {
  const texts = useMessages(messages);
  const groups: [string, string, Record<string, unknown>][] = [
    [texts.variables, texts.noVariables, state.variables],
    [texts.shared, texts.noState, state.state],
  ];
  return groups.map(([title, none, values]) => (
    <div key={title} className="debug-values">
      <h4>{title}</h4>
      {Object.keys(values).length ? (
        <dl>
          {Object.entries(values).map(([name, value]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{typeof value === "string" ? value : JSON.stringify(value, null, 2)}</dd>
            </div>
          ))}
        </dl>
      ) : (
        <p className="dim">{none}</p>
      )}
    </div>
  ));
}
