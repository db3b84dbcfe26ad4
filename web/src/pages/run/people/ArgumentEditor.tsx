// The arguments of a tool call that waits for approval, as fields or as JSON, which can be changed.
import { useId } from "react";
import { useMessages } from "../../../i18n/messages";
import type { Question } from "../../../live/run_model";
import { Button, Segmented } from "../../../ui/Button";
import { WordDiff } from "../../../ui/diff/WordDiff";
import { fieldText, inMode, type ApprovalDraft, type ArgumentField, type Arguments, type FieldProblem } from "./approval";
import { messages } from "./messages";
import { useApprovalDraft } from "./useDecision";
import "./people.css";

export function ArgumentEditor({ question, runId, isReadOnly }: { question: Question; runId: string; isReadOnly: boolean }) {
  const texts = useMessages(messages);
  const { value: draft, before, initial, read, change } = useApprovalDraft(question, runId);
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
          <code>{question.tool?.name}</code> <span className="dim">{texts.arguments(count)}</span>
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
          isReadOnly={isReadOnly}
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
              isReadOnly={isReadOnly}
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
