// When an edge fires: always, never, by keywords, by an expression, or by a function.
import { useMemo, useState } from "react";
import { useMessages } from "../../../../i18n/messages";
import type { Path } from "../../../../document/model";
import type { FieldSpec } from "../catalogue";
import { FormContext, useForm, type Form } from "../context";
import { Group, Line } from "../fields/Line";
import { ObjectFields } from "../fields/ObjectFields";
import { RawInput } from "../fields/RawInput";
import { LongInput, TextInput } from "../fields/TextInput";
import { TryOut } from "../fields/TryOut";
import { messages } from "../messages";
import { useTry } from "../tryout";
import { isMapping, keyOf, valueOf } from "../values";
import { fieldWriter, withWrites } from "../write";
import { placeOf, readCondition, writeCondition, type Condition, type ConditionKind } from "./condition";

const KINDS: readonly ConditionKind[] = ["always", "never", "keyword", "expression", "function"];

const FIRST: Readonly<Record<ConditionKind, Condition>> = {
  always: { kind: "always", isLong: false },
  never: { kind: "never" },
  keyword: { kind: "keyword", config: {} },
  expression: { kind: "expression", expression: "", isLong: false },
  function: { kind: "function", name: "", isLong: false },
};

export function ConditionBuilder({ field, at, container }: { field: FieldSpec; at: Path; container: unknown }) {
  const texts = useMessages(messages);
  const form = useForm();
  const value = valueOf(field, container);
  const path = [...at, keyOf(field, container)];
  const written = readCondition(value);
  // A choice that needs a word, an expression or a name is written with it.
  const [pending, setPending] = useState<ConditionKind | null>(null);
  const condition = pending && pending !== written?.kind ? FIRST[pending] : written;
  const titles: Record<ConditionKind, string> = {
    always: texts.condition_always,
    never: texts.condition_never,
    keyword: texts.condition_keyword,
    expression: texts.condition_expression,
    function: texts.condition_function,
  };
  if (condition === null) {
    return (
      <Group title={field.title} help={field.description} see={field.see}>
        <RawInput label={field.title} value={value} path={path} onWrite={(next) => form.write([[path, next]])} />
      </Group>
    );
  }
  const isNew = condition !== written;
  const choose = (kind: ConditionKind) => {
    if (kind === "always" || kind === "never") {
      setPending(null);
      if (kind !== written?.kind) form.write([[path, writeCondition(FIRST[kind])]]);
    } else {
      setPending(kind);
    }
  };
  const put = (text: string) => {
    if (text.trim() === "") form.write([[path, undefined]]);
    else if (isNew) form.write([[path, writeCondition(condition.kind === "expression" ? { ...condition, expression: text } : { kind: "function", name: text, isLong: false })]]);
    else form.write([[[...path, ...placeOf(condition)], text]]);
    setPending(text.trim() === "" ? condition.kind : null);
  };
  return (
    <>
      <Line title={texts.fires} help={field.description} see={field.see} layout="row">
        {(control) => (
          <select id={control.id} className="input" value={condition.kind} onChange={(event) => choose(event.target.value as ConditionKind)}>
            {KINDS.map((kind) => (
              <option key={kind} value={kind}>
                {titles[kind]}
              </option>
            ))}
          </select>
        )}
      </Line>
      {condition.kind === "keyword" && (
        <Keywords path={path} value={isNew ? writeCondition(condition) : value} isNew={isNew} onDone={() => setPending(null)} />
      )}
      {condition.kind === "expression" && (
        <LongInput
          label={texts.expression}
          isMono
          rows={1}
          placeholder="data.score >= 90"
          value={condition.expression}
          onWrite={put}
        />
      )}
      {condition.kind === "expression" && <p className="form-help">{texts.expressionHelp}</p>}
      {condition.kind === "function" && (
        <TextInput
          label={texts.functionName}
          isMono
          placeholder="module:function"
          names={form.names.functions}
          value={condition.name}
          onWrite={put}
        />
      )}
      {(condition.kind === "keyword" || condition.kind === "expression") && (
        <TryOut nodes={isMapping(container) && typeof container.from === "string" ? [container.from] : []} placeholder={texts.aMessage}>
          {(text, round) => !isNew && <Verdict value={value} text={text} round={round} />}
        </TryOut>
      )}
    </>
  );
}

function Keywords({ path, value, isNew, onDone }: { path: Path; value: unknown; isNew: boolean; onDone: () => void }) {
  const form = useForm();
  const spec = form.catalogue.objects.keyword_condition;
  const wrapped = useMemo<Form>(() => {
    const write: Form["write"] = (values) => {
      form.write([[path, withWrites(value, path, values)]]);
      onDone();
    };
    return { ...form, write, set: fieldWriter(write, () => false) };
  }, [form, path, value, onDone]);
  if (!spec) return null;
  const fields = <ObjectFields spec={spec} at={[...path, "config"]} value={isMapping(value) ? value.config : undefined} />;
  return isNew ? <FormContext value={wrapped}>{fields}</FormContext> : fields;
}

function Verdict({ value, text, round }: { value: unknown; text: string; round: number }) {
  const texts = useMessages(messages);
  const tried = useTry("condition", value, text, round);
  if (tried.error) return <p className="field-error">{tried.error.message}</p>;
  if (!tried.data) return null;
  if (tried.data.error) return <p className="field-error">{tried.data.error}</p>;
  return (
    <div className="form-verdict">
      <span className={`form-mark form-mark-${tried.data.result ? "exit" : "continue"}`}>
        {tried.data.result ? texts.itFires : texts.itDoesNotFire}
      </span>
    </div>
  );
}
