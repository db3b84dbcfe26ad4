import { useId } from "react";
import type { VariableView } from "../../api/schema";
import { useMessages } from "../../i18n/messages";
import { messages } from "./messages";
import { isEditable, readValue } from "./start";

export function VariableFields({
  variables,
  values,
  error,
  onChange,
}: {
  variables: readonly VariableView[];
  /** Those that were changed. */
  values: Record<string, string>;
  error: string;
  onChange: (values: Record<string, string>) => void;
}) {
  const texts = useMessages(messages);
  const id = useId();
  return (
    <section className="start-part">
      <h3>
        {texts.variables} <span className="dim small">{texts.ofTheFile}</span>
      </h3>
      {variables.map(({ name, value, secret }, index) => {
        const before = typeof value === "string" ? value : JSON.stringify(value);
        const isFixed = secret || !isEditable(value);
        const typed = values[name];
        const isChanged = !isFixed && typed !== undefined && readValue(typed, value) !== value;
        return (
          <div key={name} className="start-variable">
            <label htmlFor={`${id}-${index}`} className="mono ellipsis" title={name}>
              {name}
            </label>
            <input
              id={`${id}-${index}`}
              className="input"
              value={isFixed ? "" : (typed ?? before)}
              placeholder={secret ? texts.fromServer : isFixed ? before : undefined}
              disabled={isFixed}
              onChange={(event) => onChange({ ...values, [name]: event.target.value })}
            />
            {secret && <span className="start-tag">{texts.secret}</span>}
            {!secret && isFixed && <span className="start-tag">{texts.notEditable}</span>}
            {isChanged && <span className="start-tag start-tag-changed">{texts.was(before)}</span>}
          </div>
        );
      })}
      {error && (
        <p className="field-error" role="alert">
          {error}
        </p>
      )}
    </section>
  );
}
