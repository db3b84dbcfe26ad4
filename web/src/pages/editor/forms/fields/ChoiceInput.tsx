import { useMessages } from "../../../../i18n/messages";
import { Segmented } from "../../../../ui/Button";
import type { FieldChoice } from "../catalogue";
import { messages } from "../messages";
import type { InputProps } from "./TextInput";

/** So much text fits beside a title. */
const ROOM = 30;

/** Few short choices stand side by side; one of them must hold then. */
export function isSegmented(choices: readonly FieldChoice[], fallback: unknown): boolean {
  if (typeof fallback !== "string" || choices.length > 3) return false;
  const width = choices.reduce((sum, choice) => sum + [...choice.title].reduce((w, c) => w + (c > "⺀" ? 2 : 1), 2), 0);
  return width <= ROOM;
}

export function ChoiceInput({
  id,
  label,
  describedBy,
  choices,
  value,
  fallback,
  isMixed = false,
  onWrite,
}: InputProps & {
  choices: readonly FieldChoice[];
  value: unknown;
  /** What holds if nothing is written. */
  fallback: unknown;
  isMixed?: boolean;
  onWrite: (value: string | undefined) => void;
}) {
  const texts = useMessages(messages);
  if (isSegmented(choices, fallback) && !isMixed) {
    return (
      <Segmented
        label={label ?? ""}
        choices={choices.map((choice) => ({ value: choice.value, text: choice.title }))}
        value={String(value ?? fallback)}
        onChange={onWrite}
      />
    );
  }
  const preset = isMixed ? undefined : choices.find((choice) => choice.value === fallback);
  const chosen = value === undefined || value === null ? (preset?.value ?? "") : String(value);
  const isKnown = chosen === "" || choices.some((choice) => choice.value === chosen);
  return (
    <select
      id={id}
      className="input"
      aria-label={id ? undefined : label}
      aria-describedby={describedBy}
      value={chosen}
      onChange={(event) => onWrite(event.target.value || undefined)}
    >
      {!preset && <option value="">{isMixed ? texts.mixed : texts.notSet}</option>}
      {!isKnown && <option value={chosen}>{chosen}</option>}
      {choices.map((choice) => (
        <option key={choice.value} value={choice.value}>
          {choice.title}
        </option>
      ))}
    </select>
  );
}
