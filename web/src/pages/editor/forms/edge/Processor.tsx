// What changes a message on its way, with a text to try it on.
import { useMessages } from "../../../../i18n/messages";
import type { EdgeItem } from "../../../../document/model";
import type { FieldSpec } from "../catalogue";
import { FieldView } from "../fields/FieldView";
import { TryOut } from "../fields/TryOut";
import { messages } from "../messages";
import { useTry } from "../tryout";
import { isMapping, valueOf } from "../values";

export function Processor({ field, edge }: { field: FieldSpec | undefined; edge: EdgeItem }) {
  const texts = useMessages(messages);
  if (!field) return null;
  const value = valueOf(field, edge.value);
  const canTry = isMapping(value) && value.type === "regex_extract" && isMapping(value.config) && Boolean(value.config.pattern);
  return (
    <>
      <FieldView field={field} at={[]} container={edge.value} />
      {canTry && (
        <TryOut nodes={[edge.from]} placeholder={texts.aMessage}>
          {(text, round) => <Processed value={value} text={text} round={round} />}
        </TryOut>
      )}
    </>
  );
}

function Processed({ value, text, round }: { value: unknown; text: string; round: number }) {
  const texts = useMessages(messages);
  const tried = useTry("processor", value, text, round);
  if (tried.error) return <p className="field-error">{tried.error.message}</p>;
  if (!tried.data) return null;
  if (tried.data.error) return <p className="field-error">{tried.data.error}</p>;
  const result = tried.data.result as { text: string } | null;
  return result === null ? <p className="form-dim">{texts.dropped}</p> : <pre className="form-result">{result.text}</pre>;
}
