import { useId } from "react";
import { useMessages } from "../../i18n/messages";
import { Button } from "../../ui/Button";
import { messages } from "./messages";
import { FIRST_LIMITS, LIMITS } from "./start";

type Limit = (typeof LIMITS)[number];

export function LimitFields({
  values,
  wrong,
  error,
  onChange,
}: {
  values: Record<string, string>;
  /** The names of those that are no numbers. */
  wrong: readonly string[];
  error: string;
  onChange: (values: Record<string, string>) => void;
}) {
  const texts = useMessages(messages);
  const id = useId();
  const shown = LIMITS.filter((name) => FIRST_LIMITS.includes(name) || values[name] !== undefined);
  const others = LIMITS.filter((name) => !shown.includes(name));
  const without = (name: Limit) => Object.fromEntries(Object.entries(values).filter(([key]) => key !== name));
  return (
    <section className="start-part">
      <div className="start-head">
        <h3>
          {texts.limits} <span className="dim small">{texts.ofThisRun}</span>
        </h3>
        {others.length > 0 && (
          <select
            className="start-more"
            aria-label={texts.addLimit}
            value=""
            onChange={(event) => onChange({ ...values, [event.target.value]: "" })}
          >
            <option value="">{texts.addLimit}</option>
            {others.map((name) => (
              <option key={name} value={name}>
                {texts[`limit_${name}`]}
              </option>
            ))}
          </select>
        )}
      </div>
      <div className="start-limits">
        {shown.map((name) => {
          const isWrong = wrong.includes(name);
          const label = texts[`limit_${name}`];
          return (
            <div key={name} className="start-limit">
              <div className="start-limit-label">
                <label htmlFor={`${id}-${name}`} className="dim small">
                  {label}
                </label>
                {!FIRST_LIMITS.includes(name) && (
                  <Button kind="quiet" icon="close" aria-label={texts.removeLimit(label)} onClick={() => onChange(without(name))} />
                )}
              </div>
              <input
                id={`${id}-${name}`}
                className="input"
                inputMode="decimal"
                value={values[name] ?? ""}
                placeholder={texts.asInFile}
                aria-invalid={isWrong || undefined}
                aria-describedby={isWrong ? `${id}-${name}-error` : undefined}
                onChange={(event) =>
                  onChange(
                    event.target.value === "" && FIRST_LIMITS.includes(name)
                      ? without(name)
                      : { ...values, [name]: event.target.value },
                  )
                }
              />
              {isWrong && (
                <p className="field-error" id={`${id}-${name}-error`}>
                  {texts.limitWrong}
                </p>
              )}
            </div>
          );
        })}
      </div>
      {error && (
        <p className="field-error" role="alert">
          {error}
        </p>
      )}
    </section>
  );
}
