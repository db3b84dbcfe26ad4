// Fields of forms: a label, the control, and what is wrong with it.
import { useId, type ReactNode } from "react";
import "./field.css";

interface Common {
  label: string;
  /** Beside the label. */
  aside?: ReactNode;
  /** What is wrong; the control is marked then. */
  error?: string;
  help?: ReactNode;
  /** For screen readers only. */
  isLabelHidden?: boolean;
}

function Frame({ id, label, aside, error, help, isLabelHidden, children }: Common & { id: string; children: ReactNode }) {
  return (
    <div className="field">
      <div className={isLabelHidden ? "hidden-text" : "field-label"}>
        <label htmlFor={id}>{label}</label>
        {aside}
      </div>
      {children}
      {error ? (
        <p className="field-error" id={`${id}-error`} role="alert">
          {error}
        </p>
      ) : (
        help && <p className="field-help">{help}</p>
      )}
    </div>
  );
}

export function TextField({
  value,
  onChange,
  type = "text",
  placeholder,
  isMono = false,
  autoFocus = false,
  disabled = false,
  ...common
}: Common & {
  value: string;
  onChange: (value: string) => void;
  type?: "text" | "number" | "password" | "search" | "datetime-local";
  placeholder?: string;
  isMono?: boolean;
  autoFocus?: boolean;
  disabled?: boolean;
}) {
  const id = useId();
  return (
    <Frame id={id} {...common}>
      <input
        id={id}
        className={`input ${isMono ? "mono" : ""}`}
        type={type}
        value={value}
        placeholder={placeholder}
        autoFocus={autoFocus}
        disabled={disabled}
        spellCheck={isMono ? false : undefined}
        aria-invalid={common.error ? true : undefined}
        aria-describedby={common.error ? `${id}-error` : undefined}
        onChange={(event) => onChange(event.target.value)}
      />
    </Frame>
  );
}

export function TextArea({
  value,
  onChange,
  rows = 4,
  placeholder,
  isMono = false,
  autoFocus = false,
  onKeyDown,
  ...common
}: Common & {
  value: string;
  onChange: (value: string) => void;
  rows?: number;
  placeholder?: string;
  isMono?: boolean;
  autoFocus?: boolean;
  onKeyDown?: (event: React.KeyboardEvent<HTMLTextAreaElement>) => void;
}) {
  const id = useId();
  return (
    <Frame id={id} {...common}>
      <textarea
        id={id}
        className={`input ${isMono ? "mono" : ""}`}
        rows={rows}
        value={value}
        placeholder={placeholder}
        autoFocus={autoFocus}
        spellCheck={isMono ? false : undefined}
        aria-invalid={common.error ? true : undefined}
        aria-describedby={common.error ? `${id}-error` : undefined}
        onKeyDown={onKeyDown}
        onChange={(event) => onChange(event.target.value)}
      />
    </Frame>
  );
}

export function SelectField({
  value,
  onChange,
  choices,
  ...common
}: Common & {
  value: string;
  onChange: (value: string) => void;
  choices: readonly { value: string; text: string }[];
}) {
  const id = useId();
  return (
    <Frame id={id} {...common}>
      <select id={id} className="input" value={value} onChange={(event) => onChange(event.target.value)}>
        {choices.map((choice) => (
          <option key={choice.value} value={choice.value}>
            {choice.text}
          </option>
        ))}
      </select>
    </Frame>
  );
}

export function CheckField({
  label,
  help,
  checked,
  onChange,
}: {
  label: ReactNode;
  help?: ReactNode;
  checked: boolean;
  onChange: (checked: boolean) => void;
}) {
  const id = useId();
  return (
    <div className="check">
      <input
        id={id}
        type="checkbox"
        checked={checked}
        aria-describedby={help ? `${id}-help` : undefined}
        onChange={(event) => onChange(event.target.checked)}
      />
      <div>
        <label htmlFor={id}>{label}</label>
        {help && (
          <p className="field-help" id={`${id}-help`}>
            {help}
          </p>
        )}
      </div>
    </div>
  );
}
