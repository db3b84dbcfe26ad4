// A setting that is on or off, and holds at once.
import { useId, type ReactNode } from "react";
import "./switch.css";

export function Switch({
  label,
  checked,
  onChange,
  disabled = false,
  aside,
  isLabelHidden = false,
}: {
  label: string;
  checked: boolean;
  onChange: (checked: boolean) => void;
  disabled?: boolean;
  /** At the end of the line, such as the key that it writes. */
  aside?: ReactNode;
  /** For screen readers only; `aside` then says what the switch is for. */
  isLabelHidden?: boolean;
}) {
  const id = useId();
  return (
    <div className="switch">
      <button
        id={id}
        type="button"
        role="switch"
        className="switch-track"
        aria-checked={checked}
        aria-label={isLabelHidden ? label : undefined}
        aria-labelledby={isLabelHidden ? undefined : `${id}-label`}
        disabled={disabled}
        onClick={() => onChange(!checked)}
      >
        <span className="switch-thumb" />
      </button>
      {!isLabelHidden && (
        <label id={`${id}-label`} htmlFor={id}>
          {label}
        </label>
      )}
      {aside && <span className="switch-aside">{aside}</span>}
    </div>
  );
}
