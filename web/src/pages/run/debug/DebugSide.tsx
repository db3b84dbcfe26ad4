// What is ready and why, what is not, the breakpoints, and what each step would run.
import type { BlockedNode, ReadyNode, RunState } from "../../../api/schema";
import { useMessages } from "../../../i18n/messages";
import { Icon, nodeLook } from "../../../ui/Icon";
import { useRunContext } from "../context";
import { Breakpoints } from "./Breakpoints";
import { messages } from "./messages";
import { readyReason, roundStep, waitingAt } from "./paused";
import { chooseNode, usePaused, useShownNode } from "./usePaused";
import "./debug.css";

/** The side of the page of a paused run. */
export function DebugSide() {
  const texts = useMessages(messages);
  const { state, isPaused } = usePaused();
  const shown = useShownNode(state);
  if (state === undefined) return <div className="debug-side" />;
  return (
    <div className="debug-side" aria-busy={!isPaused || undefined}>
      <section aria-labelledby="debug-ready">
        <header className="debug-side-head">
          <h2 id="debug-ready">{texts.ready}</h2>
          <span className="dim">{texts.readyOrder}</span>
        </header>
        <ul className="debug-nodes">
          {!state.ready.length && <li className="dim">{texts.nothingReady}</li>}
          {state.ready.map((ready, index) => (
            <Ready key={ready.address} ready={ready} isNext={index === 0} isShown={shown?.address === ready.address} />
          ))}
        </ul>
        {state.blocked.length > 0 && (
          <ul className="debug-nodes debug-blocked">
            {state.blocked.map((node) => (
              <Blocked key={node.address} node={node} state={state} isShown={shown?.address === node.address} />
            ))}
          </ul>
        )}
      </section>
      <Breakpoints state={state} />
      <Steps state={state} />
    </div>
  );
}

function NodeIcon({ type }: { type: string }) {
  const look = nodeLook(type);
  return (
    <span className="debug-node-icon" style={{ color: look.color }}>
      <Icon name={look.icon} size={14} />
    </span>
  );
}

function Ready({ ready, isNext, isShown }: { ready: ReadyNode; isNext: boolean; isShown: boolean }) {
  const texts = useMessages(messages);
  const { runId } = useRunContext();
  const reason = readyReason(ready);
  const why =
    reason.kind === "messages"
      ? texts.why(reason.count, reason.sources)
      : reason.kind === "round"
        ? texts.whyRound(reason.round, reason.loop, reason.sources)
        : reason.kind === "tools"
          ? texts.whyTools(reason.calls)
          : reason.text;
  return (
    <li>
      <NodeIcon type={ready.type} />
      <div>
        <button type="button" className="debug-node" aria-pressed={isShown} title={ready.address} onClick={() => chooseNode(runId, ready.address)}>
          {ready.node_id}
        </button>
        {isNext && <span className="debug-tag">{texts.next}</span>}
        <p>
          {why} {!isNext && texts.held}
        </p>
      </div>
    </li>
  );
}

function Blocked({ node, state, isShown }: { node: BlockedNode; state: RunState; isShown: boolean }) {
  const texts = useMessages(messages);
  const { runId } = useRunContext();
  const waiting = waitingAt(state, node);
  const reasons = [
    node.waits_for.length ? texts.waitsFor(node.waits_for) : "",
    node.is_triggered ? texts.wouldRun : waiting ? texts.waitsNoTrigger(waiting) : texts.noMessage,
  ].filter(Boolean);
  return (
    <li>
      <NodeIcon type={node.type} />
      <div>
        <button type="button" className="debug-node" aria-pressed={isShown} title={node.address} onClick={() => chooseNode(runId, node.address)}>
          {node.node_id}
        </button>
        <p>
          <span className="strong">{texts.notReady}</span>: {reasons.join("; ")}
        </p>
      </div>
    </li>
  );
}

function Steps({ state }: { state: RunState }) {
  const texts = useMessages(messages);
  const first = state.ready[0];
  const round = roundStep(state);
  const rows: [string, string][] = [
    [
      texts.step,
      first === undefined ? texts.stepNothing : first.calls.length ? texts.stepTools(first.node_id) : texts.stepRuns(first.node_id),
    ],
    [
      texts.stepRound,
      round.kind === "round"
        ? texts.toRound(round.loop, round.address)
        : round.kind === "after"
          ? texts.afterLoop(round.loop)
          : round.kind === "next-loop"
            ? texts.nextLoop
            : texts.stepNothing,
    ],
    [texts.go, state.breakpoints.length ? texts.toBreakpoint(state.breakpoints.length) : texts.toEnd],
  ];
  return (
    <dl className="debug-steps" aria-label={texts.steps}>
      {rows.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
