// The control for one value: by its widget, its type and its choices.
import { useMessages } from "../../../../i18n/messages";
import { Switch } from "../../../../ui/Switch";
import type { FieldSpec } from "../catalogue";
import { useForm, type Names } from "../context";
import { messages } from "../messages";
import { anyText, readDuration, takesDurationText } from "../values";
import { AnyInput } from "./AnyInput";
import { ChoiceInput } from "./ChoiceInput";
import { NumberInput } from "./NumberInput";
import { LongInput, TextInput, type InputProps } from "./TextInput";

const MONO = new Set(["expression", "pattern", "function", "file", "secret", "url", "json"]);

/** What a field may name, by its widget. */
export function namesFor(widget: string, names: Names): readonly string[] | undefined {
  switch (widget) {
    case "node":
      return names.nodes;
    case "model":
      return names.models;
    case "tool":
      return names.tools;
    case "memory":
      return names.memories;
    case "function":
      return names.functions;
    case "port":
      return names.ports.map((port) => port.name);
    default:
      return undefined;
  }
}

/** Whether the control stands below its title, and not beside it. */
export function isTall(field: Pick<FieldSpec, "type" | "widget" | "shape" | "choices">): boolean {
  if (field.shape !== "single") return true;
  if (field.type === "number" || field.type === "integer" || field.type === "boolean" || field.choices) return false;
  return !["text", "node", "port", "model", "memory"].includes(field.widget);
}

export function ScalarInput({
  field,
  value,
  onWrite,
  isMixed = false,
  ...input
}: InputProps & {
  field: Pick<FieldSpec, "type" | "widget" | "choices" | "default" | "bounds" | "unit" | "env_allowed" | "required" | "shape" | "key"> &
    Partial<FieldSpec>;
  value: unknown;
  onWrite: (value: unknown) => void;
  /** Several items have different values. */
  isMixed?: boolean;
}) {
  const texts = useMessages(messages);
  const form = useForm();
  const placeholder = isMixed ? texts.mixed : (input.placeholder ?? presetText(field.default));
  if (field.type === "boolean") {
    if (typeof field.default === "boolean" && !isMixed) {
      return (
        <Switch label={input.label ?? ""} isLabelHidden checked={Boolean(value ?? field.default)} onChange={onWrite} />
      );
    }
    return (
      <ChoiceInput
        {...input}
        choices={[
          { value: "true", title: texts.yes },
          { value: "false", title: texts.no },
        ]}
        value={value}
        fallback={undefined}
        isMixed={isMixed}
        onWrite={(chosen) => onWrite(chosen === undefined ? undefined : chosen === "true")}
      />
    );
  }
  if (field.choices) {
    return <ChoiceInput {...input} choices={field.choices} value={value} fallback={field.default} isMixed={isMixed} onWrite={onWrite} />;
  }
  if (field.type === "number" || field.type === "integer") {
    const isDeadline = takesDurationText(field as FieldSpec);
    return (
      <NumberInput
        {...input}
        placeholder={placeholder}
        value={value}
        isWhole={field.type === "integer"}
        bounds={field.bounds}
        prefix={field.widget === "money" ? "$" : undefined}
        unit={unitText(field)}
        takesVariable={field.env_allowed}
        also={isDeadline ? (text) => (readDuration(text) ? text : null) : undefined}
        onWrite={onWrite}
      />
    );
  }
  if (field.type === "any") {
    return <AnyInput {...input} placeholder={placeholder} value={value} isLong={field.widget === "json" && field.shape !== "map"} onWrite={onWrite} />;
  }
  const isMono = MONO.has(field.widget);
  const text = typeof value === "string" ? value : anyText(value);
  // YAML has read a number here; it stays one while it is one.
  const write = (typed: string) =>
    onWrite(typeof value === "number" && String(Number(typed)) === typed ? Number(typed) : typed);
  if (field.widget === "textarea" || field.widget === "expression" || text.includes("\n")) {
    return (
      <LongInput {...input} placeholder={placeholder} isMono={isMono} rows={field.widget === "textarea" ? 2 : 1} value={text} onWrite={write} />
    );
  }
  return (
    <TextInput
      {...input}
      placeholder={placeholder}
      isMono={isMono}
      names={namesFor(field.widget, form.names)}
      value={text}
      onWrite={write}
    />
  );
}

function presetText(preset: unknown): string | undefined {
  return preset === null || preset === undefined || typeof preset === "object" ? undefined : String(preset);
}

function unitText(field: { unit?: FieldSpec["unit"]; widget: string }): string | undefined {
  const title = field.unit?.title;
  // The sign of the currency stands before the number.
  return field.widget === "money" ? title?.replace(/^(USD|US dollars?|美元)\s*/i, "") || undefined : title;
}
