// One execution of a node in the panel of a round.
import { memo, useState, type ReactNode } from "react";
import { useShallow } from "zustand/react/shallow";
import { useStore } from "zustand";
import { useFormats } from "../../../i18n/format";
import { useMessages } from "../../../i18n/messages";
import type { Execution } from "../../../live/run_model";
import { useRun } from "../../../live/useRunEvents";
import { workSeconds } from "../../../live/work";
import { looksLikeCode } from "../../../ui/diff/WordDiff";
import { Icon, nodeLook } from "../../../ui/Icon";
import { StatusShape } from "../../../ui/Status";
import { decisionOf, useRunContext } from "../context";
import { describeDecision, isDecision } from "./decision";
import { asText } from "./json";
import { messages } from "./messages";
import { OutputView, RawPart, type Mode } from "./OutputView";
import { ToolBox } from "./ToolBox";

interface CardProps {
  address: string;
  /** The selected address: this execution, one of its tool calls, or something else. */
  selected: string;
  mode: Mode | undefined;
  onMode: (key: string, mode: Mode) => void;
}

export const ExecutionCard = memo(function ExecutionCard({ address, selected, mode, onMode }: CardProps) {
  const { store, plan } = useRunContext();
  const execution = useRun(store, (model) => model.executions.get(address));
  const [wasLive] = useState(execution?.ended === null);
  if (execution === undefined) return null;
  const type = plan.drawing.nodes.find((node) => node.key === execution.key)?.type ?? "";
  const isSelected = selected === address;
  if (execution.status === "skipped") return <SkippedLine execution={execution} type={type} isSelected={isSelected} />;
  if (isDecision(execution)) return <DecisionLine execution={execution} type={type} isSelected={isSelected} />;
  return (
    <section
      className={`round-card ${isSelected ? "round-selected" : ""}`}
      data-address={address}
      aria-label={execution.node_id}
    >
      <Head execution={execution} type={type} />
      <Notes execution={execution} />
      {execution.tools.map((tool) => (
        <ToolBox key={tool.address} tool={tool} isSelected={selected === tool.address} />
      ))}
      <Result execution={execution} type={type} mode={mode} wasLive={wasLive} onMode={onMode} />
    </section>
  );
});

function NodeIcon({ type }: { type: string }) {
  const look = nodeLook(type);
  return (
    <span className="round-icon" style={{ color: look.color }}>
      <Icon name={look.icon} />
    </span>
  );
}

function Head({ execution, type }: { execution: Execution; type: string }) {
  return (
    <header className="round-head">
      <NodeIcon type={type} />
      <h3 className="round-name">{execution.node_id}</h3>
      <code className="round-address">{execution.address}</code>
      <Meta execution={execution} />
    </header>
  );
}

function Meta({ execution }: { execution: Execution }) {
  const texts = useMessages(messages);
  const formats = useFormats();
  const { store } = useRunContext();
  const idle = useRun(store, (model) => model.idle);
  const parts: string[] = [];
  if (execution.starts > 1) parts.push(texts.starts(execution.starts));
  if (execution.ended !== null) {
    // Waiting for a person is no work; how long the person took is worth knowing all the same.
    const time =
      execution.answer === undefined
        ? formats.duration(workSeconds(idle, execution.started, execution.ended))
        : texts.answeredAfter(formats.duration((execution.ended - execution.started) / 1000));
    parts.push(time);
  }
  if (execution.usage.input_tokens) parts.push(texts.input(formats.number(execution.usage.input_tokens)));
  if (execution.usage.output_tokens) parts.push(texts.output(formats.number(execution.usage.output_tokens)));
  if (execution.models.length && execution.usage.cost_usd !== null) parts.push(formats.cost(execution.usage.cost_usd));
  parts.push(...execution.models);
  return (
    <span className="round-meta">
      {parts.join(" · ")}
      {(execution.status === "running" || execution.status === "waiting") && <StatusShape status={execution.status} size={14} />}
    </span>
  );
}

/** Failures, warnings and edits. */
function Notes({ execution }: { execution: Execution }) {
  const texts = useMessages(messages);
  const { store } = useRunContext();
  const edits = useStore(
    store,
    useShallow(({ model }) => model.edits.filter((edit) => edit.address === execution.address)),
  );
  const { attempts = 1 } = execution;
  return (
    <>
      {edits.map((edit) => (
        <Note key={edit.at} icon={<Icon name="edit" size={14} />} kind="edit">
          {texts.edited} <span className="mono">{edit.text}</span>
        </Note>
      ))}
      {execution.warnings.map((warning, index) => (
        <Note key={index} icon={<Icon name="warning" size={14} />} kind="warning">
          <span className="hidden-text">{texts.warning}: </span>
          {warning}
        </Note>
      ))}
      {execution.status === "failed" && (
        <div className="round-failure">
          <div className="round-failure-head">
            <StatusShape status="failed" size={14} />
            <strong>{execution.error_type || texts.failed}</strong>
            <span className={execution.handled ? "round-handled" : "round-unhandled"}>
              {execution.handled ? texts.handled : texts.unhandled}
            </span>
            {attempts > 1 && <span className="dim">{texts.attempts(attempts)}</span>}
          </div>
          {execution.error && <pre className="round-failure-text">{execution.error}</pre>}
        </div>
      )}
    </>
  );
}

function Note({ icon, kind, children }: { icon: ReactNode; kind: string; children: ReactNode }) {
  return (
    <p className={`round-note round-note-${kind}`}>
      {icon}
      <span>{children}</span>
    </p>
  );
}

function Result({
  execution,
  type,
  mode,
  wasLive,
  onMode,
}: {
  execution: Execution;
  type: string;
  mode: Mode | undefined;
  wasLive: boolean;
  onMode: (key: string, mode: Mode) => void;
}) {
  const texts = useMessages(messages);
  if (execution.output !== undefined && execution.ended !== null) {
    return (
      <OutputView
        execution={execution}
        mode={mode}
        wasLive={wasLive}
        onMode={(chosen) => onMode(execution.key, chosen)}
      />
    );
  }
  if (execution.question !== null) {
    return (
      <Note icon={<StatusShape status="waiting" size={14} />} kind="question">
        <span className="hidden-text">{texts.waits}: </span>
        {execution.question.prompt}
      </Note>
    );
  }
  if (execution.status === "running") return <Running execution={execution} />;
  if (execution.status === "completed" && type !== "passthrough") return <p className="dim">{texts.noOutput}</p>;
  return null;
}

/** Text gets the font that it will have at the end, so that it does not change then. */
function isCode(text: string): boolean {
  return /^\s*[[{]/.test(text) || looksLikeCode(text);
}

function Running({ execution }: { execution: Execution }) {
  const texts = useMessages(messages);
  const { progress, streamed } = execution;
  return (
    <>
      {progress !== null && (
        <div className="round-progress">
          <progress max={1} value={progress.fraction ?? undefined} aria-label={progress.text || execution.node_id} />
          <span>{progress.text}</span>
        </div>
      )}
      {streamed && (
        <>
          <div className="round-controls dim small">{texts.streaming}</div>
          <div className={`round-text ${isCode(streamed) ? "mono" : ""}`}>
            {streamed}
            <span className="round-caret" aria-hidden="true" />
          </div>
        </>
      )}
    </>
  );
}

function SkippedLine({ execution, type, isSelected }: { execution: Execution; type: string; isSelected: boolean }) {
  const texts = useMessages(messages);
  return (
    <section
      className={`round-line round-skipped ${isSelected ? "round-selected" : ""}`}
      data-address={execution.address}
      aria-label={execution.node_id}
    >
      <NodeIcon type={type} />
      <h3 className="round-name">{execution.node_id}</h3>
      <span className="round-badge">{texts.skipped}</span>
      <span className="ellipsis dim">{execution.reason}</span>
    </section>
  );
}

function DecisionLine({ execution, type, isSelected }: { execution: Execution; type: string; isSelected: boolean }) {
  const texts = useMessages(messages);
  const formats = useFormats();
  const { store, plan } = useRunContext();
  const [isOpen, setOpen] = useState(false);
  const config =
    plan.decisions.find((decision) => decision.node === execution.node_id) ?? decisionOf(plan, execution.node_id);
  const decision = describeDecision(store.getState().model, execution, config, texts, formats);
  return (
    <section
      className={`round-decision ${isSelected ? "round-selected" : ""}`}
      data-address={execution.address}
      aria-label={execution.node_id}
    >
      <div className="round-line">
        <NodeIcon type={type} />
        <h3 className="round-name">{execution.node_id}</h3>
        {decision.port && (
          <span className={`round-badge round-${decision.port}`}>
            {decision.port === "exit" ? texts.portExit : texts.portContinue}
          </span>
        )}
        <span className="round-sentence">{decision.sentence}</span>
        <span className="round-aside">{decision.aside}</span>
        <button
          type="button"
          className="round-open"
          aria-expanded={isOpen}
          aria-label={texts.decisionData}
          onClick={() => setOpen(!isOpen)}
        >
          <Icon name={isOpen ? "up" : "down"} size={14} />
        </button>
      </div>
      {isOpen && (
        <div className="round-raw round-inset">
          {execution.output !== undefined && <RawPart title={texts.rawText} text={execution.output} />}
          <RawPart title={texts.rawData} text={asText(execution.report ?? {})} />
        </div>
      )}
      {execution.warnings.length > 0 && (
        <div className="round-inset">
          <Notes execution={execution} />
        </div>
      )}
    </section>
  );
}
