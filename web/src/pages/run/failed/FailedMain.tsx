// A run has failed: where, why, what it cost, who could have handled it, and what is kept.
import { useState } from "react";
import { useFormats } from "../../../i18n/format";
import { useMessages } from "../../../i18n/messages";
import { costOf, tokensOf, type Execution } from "../../../live/run_model";
import { useRun } from "../../../live/useRunEvents";
import { Button } from "../../../ui/Button";
import { Icon, nodeLook } from "../../../ui/Icon";
import { StatusShape } from "../../../ui/Status";
import { proofOf, useRunContext } from "../context";
import { CallHead, CallResult } from "../people/ApprovalMain";
import { roundStepOf } from "../people/question";
import { errorEdges, failuresOf, mainFailure } from "./failure";
import { messages } from "./messages";
import "./failed.css";

export function FailedMain() {
  const texts = useMessages(messages);
  const { store } = useRunContext();
  // A failed run changes only by a retry, which has events.
  useRun(store, (model) => model.seq);
  const { model } = store.getState();
  const failure = mainFailure(model);
  if (failure === undefined) {
    return (
      <article className="failed" aria-label={texts.failure}>
        <header className="failed-head">
          <h2>{texts.runFailed}</h2>
          <Verbatim text={model.error} />
        </header>
      </article>
    );
  }
  return (
    <article className="failed" aria-label={texts.failure}>
      <Head failure={failure} />
      <Facts failure={failure} />
      <Attempts failure={failure} />
      <Handlers failure={failure} />
      <Before failure={failure} />
      <Others failure={failure} />
    </article>
  );
}

function Verbatim({ text, type = "" }: { text: string; type?: string }) {
  return (
    <pre className="failed-verbatim" tabIndex={0}>
      {type && `${type}: `}
      {text}
    </pre>
  );
}

function Head({ failure }: { failure: Execution }) {
  const texts = useMessages(messages);
  const { plan } = useRunContext();
  const step = roundStepOf(failure.address);
  const limit = step === undefined ? null : (proofOf(plan, step.loop)?.worst_case_rounds ?? null);
  const toolRounds = Math.max(0, ...failure.tools.map((call) => call.round));
  return (
    <header className="failed-head">
      <p className="failed-who">
        <StatusShape status="failed" />
        <span>
          <strong>{failure.node_id}</strong> {step === undefined ? texts.failed : texts.failedInRound(step.round, limit)}
          {toolRounds > 0 && texts.comma + texts.afterToolRounds(toolRounds)}
        </span>
      </p>
      <h2>{failure.output !== undefined ? texts.edgeFailed : texts.words(failure.error_type ?? "NodeError")}</h2>
      <Verbatim text={failure.error ?? ""} type={failure.error_type} />
    </header>
  );
}

function Facts({ failure }: { failure: Execution }) {
  const texts = useMessages(messages);
  const { number, cost } = useFormats();
  const { plan, store } = useRunContext();
  const round = useRun(store, (model) => model.rounds.get(failure.round));
  const tokens = tokensOf((round ?? failure).usage);
  const edges = errorEdges(plan.drawing, failure.key);
  return (
    <dl className="failed-facts">
      <div>
        <dt>{texts.type}</dt>
        <dd className="failed-type mono">{failure.error_type ?? texts.unknown}</dd>
      </div>
      <div>
        <dt>{texts.handled}</dt>
        <dd>{edges.length ? texts.notTaken : texts.noErrorEdge}</dd>
      </div>
      <div>
        <dt>{texts.effect}</dt>
        <dd>{texts.runEnded}</dd>
      </div>
      <div>
        <dt>{texts.paid}</dt>
        <dd>
          {tokens === 0 ? texts.nothing : texts.paidTokens(number(tokens), cost(round === undefined ? failure.usage.cost_usd : costOf(round)))}
        </dd>
      </div>
    </dl>
  );
}

function Attempts({ failure }: { failure: Execution }) {
  const texts = useMessages(messages);
  const { clock, duration } = useFormats();
  const { store } = useRunContext();
  const warnings = useRun(store, (model) => model.warnings).filter((one) => one.address === failure.address);
  const starts = Math.max(1, failure.starts);
  return (
    <section className="failed-section" aria-label={texts.attempts}>
      <div className="failed-section-head">
        <h3>{texts.attempts}</h3>
        <span className="dim">{texts.startedTimes(starts)}</span>
      </div>
      <ol className="failed-attempts">
        {warnings.map((warning, index) => (
          <li key={index}>
            <span className="dim">{clock(warning.at)}</span>
            <span>{warning.text}</span>
          </li>
        ))}
        {failure.ended !== null && (
          <li>
            <span className="dim">{clock(failure.ended)}</span>
            <span>{failure.error}</span>
          </li>
        )}
      </ol>
      <p className="failed-help">
        {starts > 1
          ? `${texts.retriedTimes(starts - 1)}.`
          : failure.ended !== null && texts.lastStarted(clock(failure.started), duration((failure.ended - failure.started) / 1000))}{" "}
        {warnings.length === 0 && texts.noWarnings}
      </p>
    </section>
  );
}

function Handlers({ failure }: { failure: Execution }) {
  const texts = useMessages(messages);
  const { plan } = useRunContext();
  const edges = errorEdges(plan.drawing, failure.key);
  const idOf = (key: string) => plan.drawing.nodes.find((node) => node.key === key)?.id ?? key;
  return (
    <section className="failed-section" aria-label={texts.couldHandle}>
      <div className="failed-section-head">
        <h3>{texts.couldHandle}</h3>
      </div>
      <ul className="failed-handlers">
        {edges.length === 0 && (
          <li>
            <Icon name="close" />
            <span>
              <code>{texts.portError}</code> {texts.onEdgeOf(failure.node_id)}: <strong>{texts.thereIsNone}</strong>
            </span>
          </li>
        )}
        {edges.map(({ edge, isOwn }) => (
          <li key={`${edge.source} ${edge.target}`}>
            <Icon name="close" />
            <span>
              <code>{edge.text || texts.portError}</code> {texts.onEdgeOf(idOf(edge.source))} {texts.edgeTo(idOf(edge.target))}:{" "}
              <strong>{texts.didNotTake}</strong>
              {!isOwn && <span className="dim"> ({texts.around})</span>}
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}

const FIRST_KEPT = 4;

function Before({ failure }: { failure: Execution }) {
  const texts = useMessages(messages);
  const { store, plan, select } = useRunContext();
  const { duration } = useFormats();
  const [isOpen, setOpen] = useState(false);
  const round = useRun(store, (model) => model.rounds.get(failure.round));
  const { model } = store.getState();
  const addresses = round?.executions ?? model.sequence;
  const executions = addresses
    .map((address) => model.executions.get(address))
    .filter((one): one is Execution => one?.status === "completed");
  const calls = failure.tools;
  const total = calls.length || executions.length;
  const from = isOpen ? 0 : Math.max(0, total - FIRST_KEPT);
  return (
    <section className="failed-section" aria-label={texts.before}>
      <div className="failed-section-head">
        <h3>{texts.before}</h3>
        {total > 0 && (
          <span className="dim">{calls.length ? texts.callsKept(calls.length) : texts.executionsKept(executions.length)}</span>
        )}
        {from > 0 && (
          <Button kind="quiet" className="failed-end" onClick={() => setOpen(true)}>
            {texts.showAll(total)}
          </Button>
        )}
      </div>
      {total === 0 && <p className="failed-help">{texts.nothingBefore}</p>}
      <ul className="failed-kept">
        {calls.slice(from).map((call) => (
          <li key={call.address}>
            <CallHead call={call} />
            {isOpen && <CallResult call={call} />}
          </li>
        ))}
        {calls.length === 0 &&
          executions.slice(from).map((execution) => {
            const type = plan.drawing.nodes.find((node) => node.key === execution.key)?.type ?? "";
            return (
              <li key={execution.address}>
                <button type="button" className="failed-execution" onClick={() => select(execution.address)}>
                  <Icon name={nodeLook(type).icon} />
                  <strong>{execution.node_id}</strong>
                  <span>{execution.output ?? ""}</span>
                  <span className="dim">{duration(((execution.ended ?? execution.started) - execution.started) / 1000)}</span>
                </button>
              </li>
            );
          })}
      </ul>
    </section>
  );
}

function Others({ failure }: { failure: Execution }) {
  const texts = useMessages(messages);
  const { store, select } = useRunContext();
  const others = failuresOf(store.getState().model).filter((one) => one.address !== failure.address);
  if (others.length === 0) return null;
  return (
    <section className="failed-section" aria-label={texts.otherFailures(others.length)}>
      <div className="failed-section-head">
        <h3>{texts.otherFailures(others.length)}</h3>
      </div>
      <ul className="failed-kept">
        {others.slice(0, 20).map((one) => (
          <li key={one.address}>
            <button type="button" className="failed-execution" onClick={() => select(one.address)}>
              <StatusShape status="failed" />
              <strong className="mono">{one.address}</strong>
              <span>{one.error}</span>
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}
