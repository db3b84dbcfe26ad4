// A number with its unit. It is checked while it is typed; what is no number is not written.
import { useMessages } from "../../../../i18n/messages";
import type { Bounds } from "../catalogue";
import { messages } from "../messages";
import { isVariable, numberProblem, readNumber, type NumberProblem } from "../values";
import { TextInput, type InputProps } from "./TextInput";

type Texts = ReturnType<typeof useMessages<(typeof messages)["en"]>>;

export function problemText(problem: NumberProblem, texts: Texts): string {
  switch (problem.kind) {
    case "number":
      return texts.noNumber;
    case "whole":
      return texts.noWholeNumber;
    case "minimum":
      return texts.atLeast(problem.limit);
    case "maximum":
      return texts.atMost(problem.limit);
    case "exclusive_minimum":
      return texts.above(problem.limit);
    case "exclusive_maximum":
      return texts.below(problem.limit);
  }
}

export function NumberInput({
  value,
  onWrite,
  isWhole = false,
  bounds = {},
  unit,
  prefix,
  takesVariable = false,
  also,
  ...input
}: InputProps & {
  value: unknown;
  onWrite: (value: number | string | undefined) => void;
  isWhole?: boolean;
  bounds?: Bounds;
  unit?: string;
  prefix?: string;
  takesVariable?: boolean;
  /** Reads texts that are no numbers, such as `30m`. */
  also?: (text: string) => string | null;
}) {
  const texts = useMessages(messages);
  const shown = value === undefined || value === null ? "" : String(value);
  const read = (text: string): { value: number | string | undefined; problem: NumberProblem | null } => {
    const trimmed = text.trim();
    if (trimmed === "") return { value: undefined, problem: null };
    if (takesVariable && isVariable(trimmed)) return { value: trimmed, problem: null };
    const other = also?.(trimmed);
    if (other) return { value: other, problem: null };
    const number = readNumber(trimmed);
    return { value: number, problem: numberProblem(number, isWhole, bounds) };
  };
  return (
    <div className="form-number">
      {prefix && <span className="form-unit">{prefix}</span>}
      <TextInput
        {...input}
        isMono={isVariable(shown)}
        className={isVariable(shown) ? "" : "form-figure"}
        value={shown}
        check={(text) => {
          const { problem } = read(text);
          return problem && problemText(problem, texts);
        }}
        onWrite={(text) => {
          const found = read(text);
          if (found.problem) return false;
          onWrite(found.value);
        }}
      />
      {unit && <span className="form-unit">{unit}</span>}
    </div>
  );
}
