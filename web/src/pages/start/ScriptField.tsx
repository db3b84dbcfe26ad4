// A script answers for models and people, so that a run costs nothing and always goes the same way.
import { useFormats } from "../../i18n/format";
import { useMessages } from "../../i18n/messages";
import { Segmented, type Choice } from "../../ui/Button";
import { SelectField, TextArea } from "../../ui/Field";
import { Failure } from "../../ui/State";
import type { Draft } from "./draft";
import { messages } from "./messages";
import { useEarlierRuns, useRunScript, type Source } from "./sources";

export interface ScriptRead {
  /** The text of the script, which the server reads; null for none. */
  value: string | null;
  error: string;
  isLoading: boolean;
}

/** The script that was chosen. */
export function useScript(draft: Draft, source: Source | undefined): ScriptRead {
  const earlier = useRunScript(draft.scriptRun, draft.script === "run");
  const value = {
    none: null,
    template: source?.type === "template" ? source.template.script : null,
    text: draft.scriptText.trim() ? draft.scriptText : null,
    run: earlier.data ?? null,
  }[draft.script];
  const isMissing = draft.script === "run" && draft.scriptRun !== "" && value === null;
  return { value, error: isMissing ? (earlier.error?.message ?? "") : "", isLoading: isMissing && earlier.error === null };
}

export function ScriptField({
  draft,
  source,
  workflow,
  error,
  onChange,
}: {
  draft: Draft;
  source: Source | undefined;
  /** The name that runs of the workflow have. */
  workflow: string;
  error: string;
  onChange: (some: Partial<Draft>) => void;
}) {
  const texts = useMessages(messages);
  const formats = useFormats();
  const runs = useEarlierRuns(workflow, draft.script === "run");
  const choices: Choice<Draft["script"]>[] = [
    { value: "none", text: texts.scriptNone },
    ...(source?.type === "template" ? [{ value: "template" as const, text: texts.scriptTemplate }] : []),
    { value: "text", text: texts.scriptText },
    { value: "run", text: texts.scriptRun },
  ];
  const found = runs.data?.runs ?? [];
  return (
    <section className="start-part">
      <div className="start-head">
        <h3>
          {texts.script} <span className="dim small">{texts.scriptAside}</span>
        </h3>
        <Segmented label={texts.script} choices={choices} value={draft.script} onChange={(script) => onChange({ script })} />
      </div>
      {draft.script === "text" && (
        <TextArea
          label={texts.scriptTextLabel}
          isLabelHidden
          isMono
          rows={5}
          placeholder={'Writer: ["…", "…"]'}
          value={draft.scriptText}
          onChange={(scriptText) => onChange({ scriptText })}
          error={error}
        />
      )}
      {draft.script === "run" && runs.error && <Failure error={runs.error} />}
      {draft.script === "run" && runs.data && found.length === 0 && <p className="dim small">{texts.scriptRunNone}</p>}
      {draft.script === "run" && found.length > 0 && (
        <SelectField
          label={texts.scriptRunLabel}
          isLabelHidden
          value={draft.scriptRun}
          error={error}
          choices={[
            { value: "", text: texts.chooseRun },
            ...found.map((run) => ({ value: run.id, text: `${run.id} · ${formats.short(run.created)} · ${run.input.slice(0, 60)}` })),
          ]}
          onChange={(scriptRun) => onChange({ scriptRun })}
        />
      )}
      {draft.script === "template" && error && (
        <p className="field-error" role="alert">
          {error}
        </p>
      )}
    </section>
  );
}
