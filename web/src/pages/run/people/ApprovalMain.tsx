// A tool call waits for approval: what the agent did before, and the arguments, which can be changed.
import { useId, useMemo } from "react";
import { useFormats } from "../../../i18n/format";
import { useMessages } from "../../../i18n/messages";
import type { Execution, Question, RunModel, ToolCall } from "../../../live/run_model";
import { useRun } from "../../../live/useRunEvents";
import { Button, Segmented } from "../../../ui/Button";
import { WordDiff } from "../../../ui/diff/WordDiff";
import { Icon } from "../../../ui/Icon";
import { useRunContext } from "../context";
import {
  argumentsOf,
  callText,
  draftOf,
  fieldText,
  inMode,
  readArguments,
  toolRoundOf,
  type ApprovalDraft,
  type ArgumentField,
  type Arguments,
  type FieldProblem,
} from "./approval";
import { useDraft } from "./drafts";
import { messages } from "./messages";
import { askerOf } from "./question";
import { Facts, QuestionHead } from "./QuestionMain";
import "./people.css";

/** The draft of a decision, which the arguments and the buttons share. */
export function useApprovalDraft(question: Question) {
  const { runId } = useRunContext();
  const before = useMemo(() => argumentsOf(question.tool), [question.tool]);
  const initial = useMemo(() => draftOf(before), [before]);
  const draft = useDraft<ApprovalDraft>("approval", runId, question.address, initial);
  const read = useMemo(() => readArguments(draft.value, before), [draft.value, before]);
  return { before, initial, read, ...draft };
}

export function ApprovalMain({ question }: { question: Question }) {
  const texts = useMessages(messages);
  const { store } = useRunContext();
  const execution = useRun(store, (model) => model.executions.get(askerOf(question)));
  const tool = question.tool?.name ?? "";
  const toolRound = toolRoundOf(question.address);
  return (
    <article className="people" aria-label={texts.question}>
      <div className="people-columns">
        <div className="people-context">
          <QuestionHead
            question={question}
            icon="agent"
            nodeId={execution?.nodeId ?? askerOf(question)}
            title={texts.callTool(tool)}
          >
            {texts.wantsToCall(toolRound)}
          </QuestionHead>
          {execution?.streamed && <blockquote className="people-section people-model">{execution.streamed}</blockquote>}
          <Facts question={question} then={question.deadline === null ? texts.thenWaits : texts.thenRejected} />
        </div>
        <ArgumentEditor question={question} tool={tool} />
        <div className="people-history">
          {execution !== undefined && <Calls execution={execution} question={question} toolRound={toolRound} />}
          <EarlierCalls question={question} tool={tool} />
        </div>
      </div>
    </article>
  );
}

function Calls({ execution, question, toolRound }: { execution: Execution; question: Question; toolRound: number }) {
  const texts = useMessages(messages);
  const before = execution.tools.filter((call) => call.round < toolRound);
  const same = execution.tools.filter((call) => call.round === toolRound && call.address !== question.address);
  return (
    <>
      <section className="people-section" aria-label={texts.beforeThisCall}>
        <div className="people-section-head">
          <h3>{texts.beforeThisCall}</h3>
          <span className="dim">{texts.inThisRound}</span>
        </div>
        {before.length === 0 && <p className="people-help">{texts.nothingBefore}</p>}
        <ul className="people-calls">
          {before.map((call) => (
            <li key={call.address}>
              <CallHead call={call} />
              <CallResult call={call} />
            </li>
          ))}
        </ul>
      </section>
      {same.length > 0 && (
        <section className="people-section" aria-label={texts.inSameReply}>
          <div className="people-section-head">
            <h3>{texts.inSameReply}</h3>
            <span className="dim">{texts.decidedOneByOne(same.length)}</span>
          </div>
          <ul className="people-same">
            <li className="people-same-open">
              <Icon name="right" />
              <code>{callText(question.tool?.name ?? "", question.tool?.arguments, 60)}</code>
              <span>{texts.open}</span>
            </li>
            {same.map((call) => (
              <li key={call.address}>
                <Icon name={call.status === "completed" ? "check" : "tool"} />
                <code>{callText(call.name, call.arguments, 60)}</code>
                <span className="dim">{texts.callStatus(call.status)}</span>
              </li>
            ))}
          </ul>
        </section>
      )}
    </>
  );
}

/** A call with its status and how long it took. */
export function CallHead({ call }: { call: ToolCall }) {
  const texts = useMessages(messages);
  const { duration } = useFormats();
  return (
    <div className="people-call-head">
      <Icon name="tool" />
      <code title={callText(call.name, call.arguments, 2000)}>{callText(call.name, call.arguments)}</code>
      <span className={`people-chip people-chip-${call.status}`}>{texts.callStatus(call.status)}</span>
      {call.ended !== null && <span className="dim">{duration((call.ended - call.started) / 1000)}</span>}
    </div>
  );
}

export function CallResult({ call }: { call: ToolCall }) {
  if (call.result === undefined || call.result === null || call.result === "") return null;
  const text = typeof call.result === "string" ? call.result : JSON.stringify(call.result, null, 2);
  return (
    <pre className="people-call-result" tabIndex={0}>
      {text}
    </pre>
  );
}

function earlierCalls(model: RunModel, tool: string, question: Question): ToolCall[] {
  const calls: ToolCall[] = [];
  for (const address of model.sequence) {
    if (address === askerOf(question)) continue;
    for (const call of model.executions.get(address)?.tools ?? []) if (call.name === tool) calls.push(call);
  }
  return calls;
}

const MOST_EARLIER = 5;

function EarlierCalls({ question, tool }: { question: Question; tool: string }) {
  const texts = useMessages(messages);
  const { store } = useRunContext();
  const { clock } = useFormats();
  useRun(store, (model) => model.sequence.length);
  const calls = earlierCalls(store.getState().model, tool, question).slice(-MOST_EARLIER);
  if (calls.length === 0) return null;
  return (
    <section className="people-section" aria-label={texts.earlierCalls(tool)}>
      <div className="people-section-head">
        <h3>{texts.earlierCalls(tool)}</h3>
        <span className="dim">{texts.inThisRun}</span>
      </div>
      <ul className="people-said">
        {calls.map((call) => (
          <li key={call.address}>
            <span className="dim">{clock(call.started)}</span>
            <span className="people-said-text">
              {texts.callStatus(call.status)}: {String(call.result ?? "")}
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}

function ArgumentEditor({ question, tool }: { question: Question; tool: string }) {
  const texts = useMessages(messages);
  const { mayControl } = useRunContext();
  const { value: draft, before, initial, read, change } = useApprovalDraft(question);
  const edit = (next: Partial<ApprovalDraft>) => {
    // Whoever edits an argument wants the edited call, unless the call is to be rejected.
    change({ ...next, decision: draft.decision === "reject" ? "reject" : "edited" });
  };
  const count = Object.keys(before).length;
  const removed = Object.keys(before).filter((name) => !(name in read.arguments));
  const other = inMode(draft, draft.mode === "json" ? "fields" : "json", before);
  return (
    <section className="people-arguments" aria-label={texts.arguments(count)}>
      <div className="people-arguments-head">
        <h3>
          <code>{tool}</code> <span className="dim">{texts.arguments(count)}</span>
        </h3>
        {read.changed.length > 0 && (
          <Button
            kind="quiet"
            onClick={() => change({ ...initial, mode: draft.mode, reason: draft.reason, note: draft.note })}
          >
            {texts.takeBack}
          </Button>
        )}
        <Segmented
          label={texts.argumentsView}
          choices={[
            { value: "fields", text: texts.fields },
            { value: "json", text: texts.json },
          ]}
          value={draft.mode}
          // A text that does not parse cannot be shown in the other view: it stays where the error is.
          onChange={(mode) => mode !== draft.mode && other !== null && change(other)}
        />
      </div>
      {draft.mode === "json" ? (
        <JsonArguments
          text={draft.json}
          before={before}
          problem={read.problems[""]}
          isChanged={read.changed.length > 0}
          isReadOnly={!mayControl}
          onChange={(json) => edit({ json })}
        />
      ) : (
        <>
          {draft.fields.length === 0 && <p className="people-argument people-help">{texts.noArguments}</p>}
          {draft.fields.map((field) => (
            <ArgumentInput
              key={field.name}
              field={field}
              before={before}
              isChanged={read.changed.includes(field.name)}
              problem={read.problems[field.name]}
              isReadOnly={!mayControl}
              onChange={(text) =>
                edit({ fields: draft.fields.map((one) => (one.name === field.name ? { ...one, text } : one)) })
              }
            />
          ))}
        </>
      )}
      {removed.length > 0 && <p className="people-argument people-help">{texts.removed(removed.join(", "))}</p>}
    </section>
  );
}

function useProblemText() {
  const texts = useMessages(messages);
  return (problem: FieldProblem | undefined): string => {
    switch (problem) {
      case undefined:
        return "";
      case "number":
        return texts.notANumber;
      case "json":
        return texts.notJson;
      case "object":
        return texts.notAnObject;
    }
  };
}

function useTypeText() {
  const texts = useMessages(messages);
  return (field: ArgumentField, value: unknown): string => {
    if (field.kind === "line" || field.kind === "text") return texts.typeText([...field.text].length);
    if (field.kind === "number") return texts.typeNumber;
    if (field.kind === "boolean") return texts.typeBoolean;
    if (value === null) return texts.typeNull;
    return Array.isArray(value) ? texts.typeList : texts.typeObject;
  };
}

function ArgumentInput({
  field,
  before,
  isChanged,
  problem,
  isReadOnly,
  onChange,
}: {
  field: ArgumentField;
  before: Arguments;
  isChanged: boolean;
  problem: FieldProblem | undefined;
  isReadOnly: boolean;
  onChange: (text: string) => void;
}) {
  const texts = useMessages(messages);
  const id = useId();
  const error = useProblemText()(problem);
  const type = useTypeText()(field, before[field.name]);
  const isNew = !(field.name in before);
  const common = {
    id,
    "aria-invalid": error ? true : undefined,
    "aria-describedby": error ? `${id}-error` : `${id}-type`,
  } as const;
  return (
    <div className="people-argument">
      <div className="people-argument-label">
        <label htmlFor={id}>
          <code>{field.name}</code>
        </label>
        <span className="dim" id={`${id}-type`}>
          {type}
        </span>
        {isChanged && <span className="people-chip people-chip-edited">{isNew ? texts.added : texts.edited}</span>}
      </div>
      {field.kind === "boolean" ? (
        <select
          {...common}
          className="input people-boolean"
          value={field.text}
          disabled={isReadOnly}
          onChange={(event) => onChange(event.target.value)}
        >
          <option value="true">{texts.yes}</option>
          <option value="false">{texts.no}</option>
        </select>
      ) : field.kind === "line" || field.kind === "number" ? (
        <input
          {...common}
          className="input mono"
          inputMode={field.kind === "number" ? "decimal" : undefined}
          spellCheck={field.kind === "line"}
          value={field.text}
          readOnly={isReadOnly}
          onChange={(event) => onChange(event.target.value)}
        />
      ) : (
        <textarea
          {...common}
          className={`input ${field.kind === "json" ? "mono" : ""}`}
          rows={Math.min(12, Math.max(field.kind === "json" ? 1 : 3, field.text.split("\n").length))}
          spellCheck={field.kind === "text"}
          value={field.text}
          readOnly={isReadOnly}
          onChange={(event) => onChange(event.target.value)}
        />
      )}
      {error ? (
        <p className="field-error" id={`${id}-error`} role="alert">
          {error}
        </p>
      ) : (
        isChanged &&
        !isNew && (
          <div className="people-was">
            <span>{texts.was}</span>
            <WordDiff before={fieldText(before[field.name])} after={field.text} />
          </div>
        )
      )}
    </div>
  );
}

function JsonArguments({
  text,
  before,
  problem,
  isChanged,
  isReadOnly,
  onChange,
}: {
  text: string;
  before: Arguments;
  problem: FieldProblem | undefined;
  isChanged: boolean;
  isReadOnly: boolean;
  onChange: (text: string) => void;
}) {
  const texts = useMessages(messages);
  const id = useId();
  const error = useProblemText()(problem);
  return (
    <div className="people-argument">
      <label htmlFor={id} className="hidden-text">
        {texts.argumentsAsJson}
      </label>
      <textarea
        id={id}
        className="input mono"
        rows={Math.min(24, Math.max(6, text.split("\n").length + 1))}
        spellCheck={false}
        value={text}
        readOnly={isReadOnly}
        aria-invalid={error ? true : undefined}
        aria-describedby={error ? `${id}-error` : undefined}
        onChange={(event) => onChange(event.target.value)}
      />
      {error ? (
        <p className="field-error" id={`${id}-error`} role="alert">
          {error}
        </p>
      ) : (
        isChanged && (
          <div className="people-was">
            <span>{texts.was}</span>
            <WordDiff before={JSON.stringify(before, null, 2)} after={text} kind="lines" />
          </div>
        )
      )}
    </div>
  );
}
