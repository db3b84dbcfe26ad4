// A value that its own control cannot show: a variable, or something of another type.
import { useMessages } from "../../../../i18n/messages";
import type { Path } from "../../../../document/model";
import { useForm } from "../context";
import { messages } from "../messages";
import { isVariable } from "../values";
import { AnyInput } from "./AnyInput";
import { TextInput, type InputProps } from "./TextInput";

export function RawInput({
  value,
  path,
  onWrite,
  ...input
}: InputProps & { value: unknown; path: Path; onWrite: (value: unknown) => void }) {
  const texts = useMessages(messages);
  const form = useForm();
  return (
    <div className="form-raw">
      {isVariable(value) ? (
        <TextInput {...input} isMono value={value} onWrite={(text) => onWrite(text)} />
      ) : (
        <AnyInput {...input} value={value} onWrite={onWrite} />
      )}
      <p className="form-help">
        {isVariable(value) ? texts.isVariable : texts.isOdd}{" "}
        <button type="button" className="form-link" onClick={() => form.reveal(path)}>
          {texts.editAsYaml}
        </button>
      </p>
    </div>
  );
}
