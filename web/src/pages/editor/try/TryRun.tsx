// What becomes of the run: its status, what ran in which round, what it asks, and its result.
import { useEffect, useRef } from "react";
import { Link } from "wouter";
import { useStore } from "zustand";
import { useFormats } from "../../../i18n/format";
import { useMessages } from "../../../i18n/messages";
import type { Execution, RunModel } from "../../../live/run_model";
import type { RunStore } from "../../../live/useRunEvents";
import { Button } from "../../../ui/Button";
import { Failure } from "../../../ui/State";
import { Status, StatusShape } from "../../../ui/Status";
import { messages as locks } from "../../run/locked/messages";
import { explain, titleOf } from "../../run/locked/words";
import { useEditor, useEditorStore } from "../store";
import { start, type Given } from "./actions";
import { messages } from "./messages";
import { Questions } from "./Questions";
import { rowsOf } from "./rows";
import { useTrying, useTryStore } from "./store";

export function TryRun({ given }: { given: Given }) {
  const texts = useMessages(messages);
  const attempt = useTrying((state) => state.attempt);
  const live = useTrying((state) => state.live);
  const refusal = useTrying((state) => state.refusal);
  const general = refusal?.field === "" || refusal?.field === "workflow" ? refusal.notes : [];
  return (
    <div className="try-run">
      {general.length > 0 && (
        <ul className="start-errors" role="alert">
          {general.map(({ line, text }) => (
            <li key={`${line} ${text}`}>{line ? texts.line(line, text) : text}</li>
          ))}
        </ul>
      )}
      {attempt === null && general.length === 0 && <p className="dim">{texts.nothing}</p>}
      {attempt !== null && <Older text={attempt.text} given={given} />}
      {attempt !== null && live !== null && <Events run={attempt.id} live={live.store} />}
    </div>
  );
}

/** The text was changed since the run began. */
function Older({ text, given }: { text: string; given: Given }) {
  const texts = useMessages(messages);
  const editor = useEditorStore();
  const trying = useTryStore();
  const isOlder = useEditor((values) => values.text !== text);
  const isBusy = useTrying((state) => state.busy === "run");
  return (
    <div role="status">
      {isOlder && (
        <p className="try-older">
          <span>{texts.older}</span>
          <Button icon="retry" isBusy={isBusy} onClick={() => void start(editor, trying, given, false)}>
            {texts.runAgain}
          </Button>
        </p>
      )}
    </div>
  );
}

function Events({ run, live }: { run: string; live: RunStore }) {
  // The model is one object; its version says that something in it has changed.
  const { model, error } = useStore(live);
  if (error !== null) return <Failure error={error} />;
  return (
    <>
      <Head model={model} />
      <Executions model={model} />
      <Questions run={run} model={model} />
      <Lock run={run} model={model} />
      <Outcome run={run} model={model} />
    </>
  );
}

function Head({ model }: { model: RunModel }) {
  const texts = useMessages(messages);
  const ready = useTrying((state) => state.ready);
  const next = [...ready].find(([, when]) => when === "next")?.[0];
  return (
    <p className="try-status" role="status">
      <Status status={model.status} />
      {next !== undefined && <span className="dim">{texts.nextIs(next)}</span>}
    </p>
  );
}

function Executions({ model }: { model: RunModel }) {
  const texts = useMessages(messages);
  const { rows, left } = rowsOf(model);
  const list = useRef<HTMLOListElement>(null);
  const count = rows.length;
  // The newest is in sight, as in a terminal.
  useEffect(() => {
    if (list.current) list.current.scrollTop = list.current.scrollHeight;
  }, [count]);
  return (
    <ol ref={list} className="try-rows" aria-label={texts.executions} tabIndex={count > 0 ? 0 : undefined}>
      {left > 0 && <li className="dim">{texts.earlierRows(left)}</li>}
      {rows.map((row, index) =>
        row.kind === "round" ? (
          <li key={`${index} ${row.address}`} className="try-round" style={{ paddingLeft: row.depth * 14 }}>
            {texts.round(row.loop, row.number)}
          </li>
        ) : (
          <li key={row.execution.address} className="try-row" style={{ paddingLeft: row.depth * 14 }}>
            <Execution execution={row.execution} text={row.text} />
          </li>
        ),
      )}
    </ol>
  );
}

function Execution({ execution, text }: { execution: Execution; text: string }) {
  const texts = useMessages(messages);
  const editor = useEditorStore();
  const { status, node_id: nodeId, key } = execution;
  const shape = status === "running" || status === "waiting" || status === "completed" || status === "failed" ? status : "stopped";
  return (
    <>
      <StatusShape status={shape} size={12} />
      <button
        type="button"
        className="try-node"
        title={texts.showNode(nodeId)}
        onClick={() => editor.getState().select([{ kind: "node", key }])}
      >
        {nodeId}
      </button>
      <span className={`try-output ellipsis ${status === "failed" ? "try-failed" : ""}`} title={text}>
        {text}
      </span>
    </>
  );
}

function Lock({ run, model }: { run: string; model: RunModel }) {
  const texts = useMessages(messages);
  const words = useMessages(locks);
  const formats = useFormats();
  const lock = model.locks.at(-1);
  if (model.status !== "suspended_locked" || lock === undefined) return null;
  return (
    <div className="try-lock" role="alert">
      <strong>{titleOf(words, lock.what)}</strong>
      <p>{explain(words, formats, lock)}</p>
      <Link href={`/runs/${run}`}>{texts.unlock}</Link>
    </div>
  );
}

function Outcome({ run, model }: { run: string; model: RunModel }) {
  const texts = useMessages(messages);
  if (model.status === "failed") {
    return (
      <div className="try-failure" role="alert">
        <strong>{texts.failed}</strong>
        <p>{model.error}</p>
        <Link href={`/runs/${run}`}>{texts.openRun}</Link>
      </div>
    );
  }
  if (model.status !== "completed") return null;
  return (
    <section className="try-result" aria-label={texts.result}>
      <h3>{texts.result}</h3>
      {model.output ? <pre>{model.output}</pre> : <p className="dim">{texts.emptyResult}</p>}
    </section>
  );
}
