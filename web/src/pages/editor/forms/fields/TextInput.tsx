import { useId, type RefObject } from "react";
import { useDraft, type Draft } from "../draft";

export interface InputProps {
  id?: string;
  label?: string;
  describedBy?: string;
  isWrong?: boolean;
  placeholder?: string;
  /** What is wrong with a text; null if nothing is. */
  check?: (text: string) => string | null;
  /** A pause in typing does not write. */
  isPatient?: boolean;
}

/** While a text is typed, it may be wrong for a while: it is judged when it was to be written. */
function problemOf(draft: Draft, check: InputProps["check"]): string | null {
  return check && (!draft.isOpen || draft.isRefused) ? check(draft.text) : null;
}

/** One line of text. `names` are suggestions. */
export function TextInput({
  id,
  label,
  describedBy,
  isWrong,
  placeholder,
  check,
  isPatient,
  value,
  onWrite,
  isMono = false,
  names,
  className = "",
  autoFocus = false,
  inputRef,
}: InputProps & {
  value: string;
  /** False if the text cannot be written: the field keeps it. */
  onWrite: (text: string) => boolean | void;
  isMono?: boolean;
  names?: readonly string[];
  className?: string;
  autoFocus?: boolean;
  inputRef?: RefObject<HTMLInputElement | null>;
}) {
  const draft = useDraft(value, (text) => onWrite(text) !== false, { isPatient });
  const list = useId();
  const problem = problemOf(draft, check);
  const hasNames = names !== undefined && names.length > 0;
  return (
    <>
      <input
        ref={inputRef}
        id={id}
        className={`input ${isMono ? "mono" : ""} ${className}`}
        aria-label={label}
        aria-describedby={problem ? `${list}-problem` : describedBy}
        aria-invalid={isWrong || problem !== null || undefined}
        list={hasNames ? list : undefined}
        placeholder={placeholder}
        value={draft.text}
        autoFocus={autoFocus}
        autoComplete="off"
        spellCheck={isMono ? false : undefined}
        onChange={(event) => draft.change(event.target.value)}
        onBlur={draft.finish}
        onKeyDown={draft.onKeyDown}
      />
      {hasNames && (
        <datalist id={list}>
          {names.map((name) => (
            <option key={name} value={name} />
          ))}
        </datalist>
      )}
      {problem && <Problem id={`${list}-problem`} text={problem} />}
    </>
  );
}

const WIDTH = 46;

function rowsFor(text: string, least: number): number {
  const rows = text.split("\n").reduce((sum, line) => sum + Math.max(1, Math.ceil(line.length / WIDTH)), 0);
  return Math.min(14, Math.max(least, rows));
}

/** Several lines of text; Ctrl Enter writes them at once. */
export function LongInput({
  id,
  label,
  describedBy,
  isWrong,
  placeholder,
  check,
  isPatient,
  value,
  onWrite,
  isMono = false,
  rows = 2,
}: InputProps & { value: string; onWrite: (text: string) => boolean | void; isMono?: boolean; rows?: number }) {
  const draft = useDraft(value, (text) => onWrite(text) !== false, { isLong: true, isPatient });
  const own = useId();
  const problem = problemOf(draft, check);
  return (
    <>
      <textarea
        id={id}
        className={`input ${isMono ? "mono" : ""}`}
        aria-label={label}
        aria-describedby={problem ? `${own}-problem` : describedBy}
        aria-invalid={isWrong || problem !== null || undefined}
        placeholder={placeholder}
        rows={rowsFor(draft.text, rows)}
        value={draft.text}
        spellCheck={isMono ? false : undefined}
        onChange={(event) => draft.change(event.target.value)}
        onBlur={draft.finish}
        onKeyDown={draft.onKeyDown}
      />
      {problem && <Problem id={`${own}-problem`} text={problem} />}
    </>
  );
}

function Problem({ id, text }: { id: string; text: string }) {
  return (
    <p className="field-error" id={id}>
      {text}
    </p>
  );
}
