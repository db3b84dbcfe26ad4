// What the run gets: input, variables, and a script in the place of models and people.
import { useId } from "react";
import { useFormats } from "../../../i18n/format";
import { useMessages } from "../../../i18n/messages";
import { Button } from "../../../ui/Button";
import { TextArea } from "../../../ui/Field";
import { Switch } from "../../../ui/Switch";
import { useEarlierRuns } from "../../start/sources";
import type { Field } from "../../start/start";
import { VariableFields } from "../../start/VariableFields";
import { useEditor } from "../store";
import { recordScript, type Given } from "./actions";
import { messages } from "./messages";
import { useTrying, useTryStore } from "./store";
import "../../start/start.css";

export function TryFields({ given }: { given: Given }) {
  const texts = useMessages(messages);
  const trying = useTryStore();
  const usesModels = useTrying((state) => state.usesModels);
  const values = useTrying((state) => state.variables);
  const refusal = useTrying((state) => state.refusal);
  const variables = useEditor((editor) => editor.check?.variables);
  const errorOf = (field: Field) => (refusal?.field === field ? refusal.notes.map((note) => note.text).join(" ") : "");
  return (
    <div className="try-fields">
      <TextArea
        label={texts.input}
        rows={2}
        value={given.input}
        onChange={(input) => trying.setState({ input })}
        error={errorOf("input")}
      />
      {variables !== undefined && variables.length > 0 && (
        <VariableFields
          variables={variables}
          values={values}
          error={errorOf("variables")}
          onChange={(changed) => trying.setState({ variables: changed })}
        />
      )}
      <Switch label={texts.realModels} checked={usesModels} onChange={(checked) => trying.setState({ usesModels: checked })} />
      {usesModels ? <p className="field-help">{texts.realModelsHelp}</p> : <ScriptArea script={given.script} error={errorOf("script")} />}
    </div>
  );
}

function ScriptArea({ script, error }: { script: string; error: string }) {
  const texts = useMessages(messages);
  const trying = useTryStore();
  const isTyped = useTrying((state) => state.script !== null);
  return (
    <TextArea
      label={texts.script}
      isMono
      rows={7}
      value={script}
      onChange={(typed) => trying.setState({ script: typed })}
      error={error}
      help={texts.scriptHelp}
      aside={
        <span className="try-script-tools">
          {isTyped && (
            <Button kind="quiet" onClick={() => trying.setState({ script: null })}>
              {texts.suggest}
            </Button>
          )}
          <EarlierRuns />
        </span>
      }
    />
  );
}

/** The answers of a run of this workflow, whoever started it. */
function EarlierRuns() {
  const texts = useMessages(messages);
  const formats = useFormats();
  const trying = useTryStore();
  const id = useId();
  const workflow = useEditor(({ check }) => check?.workflow ?? "");
  const runs = useEarlierRuns(workflow, true).data?.runs ?? [];
  if (runs.length === 0) return null;
  return (
    <>
      <label htmlFor={id} className="hidden-text">
        {texts.earlier}
      </label>
      <select id={id} className="input" value="" onChange={(event) => void recordScript(trying, event.target.value)}>
        <option value="">{texts.chooseRun}</option>
        {runs.map((run) => (
          <option key={run.id} value={run.id}>
            {`${run.id} · ${formats.short(run.created)} · ${run.input.slice(0, 60)}`}
          </option>
        ))}
      </select>
    </>
  );
}
