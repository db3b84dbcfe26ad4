// Keys that no description knows. They stay as they are, and can be edited as text.
import { useMessages } from "../../../../i18n/messages";
import type { Path } from "../../../../document/model";
import type { FieldSpec, ObjectSpec } from "../catalogue";
import { useForm } from "../context";
import { messages } from "../messages";
import { unknownKeys } from "../values";

export function UnknownKeys({
  spec,
  more = [],
  at,
  value,
}: {
  spec: ObjectSpec;
  more?: readonly FieldSpec[];
  at: Path;
  value: unknown;
}) {
  const texts = useMessages(messages);
  const form = useForm();
  const names = unknownKeys(spec, more, value);
  if (names.length === 0) return null;
  return (
    <p className="form-help form-unknown">
      {texts.unknownKeys}{" "}
      {names.map((name) => (
        <button key={name} type="button" className="form-link mono" onClick={() => form.reveal([...at, name])}>
          {name}
        </button>
      ))}
    </p>
  );
}
