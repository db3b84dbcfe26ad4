import { forwardRef, type ButtonHTMLAttributes, type ReactNode } from "react";
import { Icon, type IconName } from "./Icon";
import "./button.css";

export interface ButtonProps extends ButtonHTMLAttributes<HTMLButtonElement> {
  kind?: "plain" | "primary" | "danger" | "locked" | "quiet";
  icon?: IconName;
  /** The key that does the same, shown beside the text. */
  hint?: string;
  isBusy?: boolean;
  children?: ReactNode;
}

export const Button = forwardRef<HTMLButtonElement, ButtonProps>(function Button(
  { kind = "plain", icon, hint, isBusy = false, children, className = "", onClick, ...rest },
  ref,
) {
  return (
    <button
      ref={ref}
      type="button"
      className={`button button-${kind} ${children === undefined ? "button-icon" : ""} ${className}`}
      aria-busy={isBusy || undefined}
      // A button that is disabled loses the focus, and this one is enabled again soon.
      aria-disabled={isBusy || undefined}
      aria-keyshortcuts={hint}
      onClick={isBusy ? (event) => event.preventDefault() : onClick}
      {...rest}
    >
      {icon && <Icon name={icon} />}
      {children !== undefined && <span>{children}</span>}
      {hint && (
        <kbd className="key" aria-hidden="true">
          {hint}
        </kbd>
      )}
    </button>
  );
});

export interface Choice<T extends string> {
  value: T;
  text: string;
}

const STEPS: Record<string, 1 | -1> = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };

/** A few choices of which one holds. */
export function Segmented<T extends string>({
  label,
  choices,
  value,
  onChange,
}: {
  label: string;
  choices: readonly Choice<T>[];
  value: T;
  onChange: (value: T) => void;
}) {
  return (
    <div className="segmented" role="radiogroup" aria-label={label}>
      {choices.map((choice, index) => (
        <button
          key={choice.value}
          type="button"
          role="radio"
          aria-checked={choice.value === value}
          tabIndex={choice.value === value ? 0 : -1}
          onClick={() => onChange(choice.value)}
          onKeyDown={(event) => {
            const step = STEPS[event.key];
            if (step === undefined) return;
            event.preventDefault();
            const next = choices[index + step];
            if (next === undefined) return;
            onChange(next.value);
            const sibling = step > 0 ? event.currentTarget.nextSibling : event.currentTarget.previousSibling;
            (sibling as HTMLElement | null)?.focus();
          }}
        >
          {choice.text}
        </button>
      ))}
    </div>
  );
}
