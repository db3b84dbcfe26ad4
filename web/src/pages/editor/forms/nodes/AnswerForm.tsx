// Structured answers: the fields that the model must return, or any JSON Schema.
import { useState } from "react";
import { useMessages } from "../../../../i18n/messages";
import { Button, Segmented } from "../../../../ui/Button";
import { Switch } from "../../../../ui/Switch";
import type { FieldSpec } from "../catalogue";
import { useForm } from "../context";
import { AnyInput } from "../fields/AnyInput";
import { TextInput } from "../fields/TextInput";
import { messages } from "../messages";
import { keyOf, valueOf } from "../values";
import { ANSWER_TYPES, readSchema, writeSchema, type AnswerField } from "./schema";

export function AnswerForm({ field, config }: { field: FieldSpec; config: unknown }) {
  const texts = useMessages(messages);
  const form = useForm();
  const [isRaw, setRaw] = useState(false);
  const value = valueOf(field, config);
  const path = ["config", keyOf(field, config)];
  const fields = readSchema(value);
  const first: AnswerField = { name: "score", type: "number", isRequired: true, description: "" };
  return (
    <>
      <Switch
        label={texts.structuredAnswer}
        aside={<code>{field.key}</code>}
        checked={value !== undefined}
        onChange={(isOn) => form.set(field, ["config"], config, isOn ? writeSchema([first]) : undefined)}
      />
      {value !== undefined && (
        <>
          {fields && (
            <Segmented
              label={texts.structuredAnswer}
              choices={[
                { value: "fields", text: texts.fields },
                { value: "json", text: "JSON" },
              ]}
              value={isRaw ? "json" : "fields"}
              onChange={(next) => setRaw(next === "json")}
            />
          )}
          {fields && !isRaw ? (
            <AnswerFields fields={fields} onWrite={(next) => form.write([[path, writeSchema(next, value)]])} />
          ) : (
            <>
              {!fields && <p className="form-help">{texts.schemaIsRich}</p>}
              <AnyInput
                label={field.title}
                isLong
                isMappingOnly
                value={value}
                onWrite={(next) => form.write([[path, next]])}
              />
            </>
          )}
        </>
      )}
    </>
  );
}

function AnswerFields({ fields, onWrite }: { fields: readonly AnswerField[]; onWrite: (fields: readonly AnswerField[]) => void }) {
  const texts = useMessages(messages);
  const put = (index: number, change: Partial<AnswerField>) =>
    onWrite(fields.map((one, at) => (at === index ? { ...one, ...change } : one)));
  const isTaken = (name: string, index: number) => fields.some((one, at) => at !== index && one.name === name);
  const titles = {
    string: texts.type_string,
    number: texts.type_number,
    integer: texts.type_integer,
    boolean: texts.type_boolean,
    array: texts.type_array,
  };
  const free = () => {
    for (let number = fields.length + 1; ; number++) {
      const name = `field_${number}`;
      if (!isTaken(name, -1)) return name;
    }
  };
  return (
    <div className="form-answer">
      {fields.map((one, index) => (
        <div key={index} className="form-item">
          <TextInput
            label={texts.fieldName(index + 1)}
            isMono
            isPatient
            value={one.name}
            check={(text) => (isTaken(text.trim(), index) ? texts.isTaken : null)}
            onWrite={(text) => {
              const name = text.trim();
              if (!name || isTaken(name, index)) return false;
              put(index, { name });
            }}
          />
          <select
            className="input"
            aria-label={texts.typeOf(one.name)}
            value={one.type}
            onChange={(event) => put(index, { type: event.target.value as AnswerField["type"] })}
          >
            {ANSWER_TYPES.map((type) => (
              <option key={type} value={type}>
                {titles[type]}
              </option>
            ))}
          </select>
          <input
            type="checkbox"
            aria-label={texts.isRequired(one.name)}
            title={texts.isRequired(one.name)}
            checked={one.isRequired}
            onChange={(event) => put(index, { isRequired: event.target.checked })}
          />
          <Button
            kind="quiet"
            icon="close"
            aria-label={texts.removeFrom(one.name)}
            disabled={fields.length === 1}
            onClick={() => onWrite(fields.filter((_, at) => at !== index))}
          />
        </div>
      ))}
      <Button
        kind="quiet"
        icon="plus"
        className="form-add"
        onClick={() => onWrite([...fields, { name: free(), type: "string", isRequired: true, description: "" }])}
      >
        {texts.addField}
      </Button>
    </div>
  );
}
