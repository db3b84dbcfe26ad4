// One field of an object, whatever it is.
import { useMessages } from "../../../../i18n/messages";
import type { Path } from "../../../../document/model";
import type { FieldSpec } from "../catalogue";
import { useForm } from "../context";
import { ConditionBuilder } from "../edge/ConditionBuilder";
import { messages } from "../messages";
import { fitOf, isEmpty, isMapping, isVariable, keyOf, valueOf } from "../values";
import { Group, Line } from "./Line";
import { ListInput } from "./ListInput";
import { MapInput } from "./MapInput";
import { ObjectInput } from "./ObjectInput";
import { RawInput } from "./RawInput";
import { isTall, ScalarInput } from "./ScalarInput";

export function FieldView({ field, at, container }: { field: FieldSpec; at: Path; container: unknown }) {
  const texts = useMessages(messages);
  const form = useForm();
  const value = valueOf(field, container);
  const path = [...at, keyOf(field, container)];
  const isMixed = form.isMixed(path);
  const write = (next: unknown) => form.set(field, at, container, next);
  const parts = {
    title: field.title,
    help: field.description,
    see: field.see,
    isRequired: field.required,
    // An object of which nothing is written is not there, so nothing of it is missing.
    error: field.required && isEmpty(value) && !isMixed && !isBlank(container) ? texts.isMissing : null,
  };

  if (isMixed && (field.shape !== "single" || field.type === "object")) {
    return (
      <Group {...parts} error={null}>
        <p className="form-help">{texts.mixed}</p>
      </Group>
    );
  }
  const fit = fitOf(field, value);
  // Controls for numbers and texts show a variable themselves.
  const isShown = fit === "plain" || (fit === "variable" && isVariable(value) && isTyped(field));
  if (!isShown) {
    return (
      <Line {...parts}>{(control) => <RawInput {...control} value={value} path={path} onWrite={write} />}</Line>
    );
  }
  if (field.widget === "condition") return <ConditionBuilder field={field} at={at} container={container} />;
  if (field.shape === "list") return <ListInput field={field} at={at} container={container} parts={parts} />;
  if (field.shape === "map") return <MapInput field={field} path={path} value={value} parts={parts} />;
  if (field.type === "object") return <ObjectInput field={field} path={path} value={value} />;

  const isGrouped = field.type === "boolean" ? typeof field.default === "boolean" && !isMixed : field.choices !== null;
  const input = (control: { id?: string; describedBy?: string; isWrong?: boolean }) => (
    <ScalarInput {...control} field={field} value={value} isMixed={isMixed} onWrite={write} />
  );
  if (isGrouped) {
    return (
      <Group {...parts} layout="row">
        <ScalarInput field={field} label={field.title} value={value} isMixed={isMixed} onWrite={write} />
      </Group>
    );
  }
  return (
    <Line {...parts} layout={isTall(field) || String(value ?? "").length > 20 ? "stack" : "row"}>
      {input}
    </Line>
  );
}

function isBlank(container: unknown): boolean {
  return isMapping(container) && Object.keys(container).length === 0;
}

function isTyped(field: FieldSpec): boolean {
  return field.shape === "single" && !field.choices && field.type !== "boolean" && field.type !== "object";
}
