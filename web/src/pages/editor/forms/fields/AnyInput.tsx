// A value of any type: a text as it is, everything else as JSON.
import { useMessages } from "../../../../i18n/messages";
import { messages } from "../messages";
import { anyText, isMapping, readAny } from "../values";
import { LongInput, TextInput, type InputProps } from "./TextInput";

export function AnyInput({
  value,
  onWrite,
  isMappingOnly = false,
  isLong = false,
  ...input
}: InputProps & {
  value: unknown;
  onWrite: (value: unknown) => void;
  isMappingOnly?: boolean;
  isLong?: boolean;
}) {
  const texts = useMessages(messages);
  const problemOf = (text: string): string | null => {
    try {
      const read = readAny(text);
      return isMappingOnly && read !== undefined && !isMapping(read) ? texts.noMapping : null;
    } catch {
      return texts.noJson;
    }
  };
  const shown = anyText(value);
  const Input = isLong || shown.includes("\n") ? LongInput : TextInput;
  return (
    <Input
      {...input}
      isMono
      value={shown}
      check={problemOf}
      onWrite={(text) => {
        if (problemOf(text)) return false;
        onWrite(readAny(text));
      }}
    />
  );
}
