// A list: its elements in order, with controls to add, move and remove them.
import { useRef, useState } from "react";
import { useMessages } from "../../../../i18n/messages";
import type { Path } from "../../../../document/model";
import { Button } from "../../../../ui/Button";
import type { FieldSpec } from "../catalogue";
import { useForm } from "../context";
import { messages } from "../messages";
import { isEmpty, keyOf, newObject, summaryOf, valueOf } from "../values";
import { Fold } from "./Fold";
import { Group, type LineParts } from "./Line";
import { ObjectBody } from "./ObjectInput";
import { ScalarInput } from "./ScalarInput";

export function ListInput({
  field,
  at,
  container,
  parts,
}: {
  field: FieldSpec;
  at: Path;
  container: unknown;
  parts: LineParts;
}) {
  const texts = useMessages(messages);
  const form = useForm();
  const [isAdding, setAdding] = useState(false);
  const adder = useRef<HTMLButtonElement>(null);
  const value = valueOf(field, container);
  const path = [...at, keyOf(field, container)];
  const items: readonly unknown[] = Array.isArray(value) ? (value as unknown[]) : isEmpty(value) ? [] : [value];
  const isLone = !Array.isArray(value) && items.length === 1;
  const spec = field.type === "object" ? form.catalogue.objects[field.objects[0] ?? ""] : undefined;

  const put = (index: number, next: unknown) => {
    if (isEmpty(next)) removeAt(index);
    else form.write([[isLone ? path : [...path, index], next]]);
  };
  const add = (next: unknown) => {
    if (isLone || items.length === 0) form.write([[path, [...items, next]]]);
    else form.write([[[...path, items.length], next]]);
  };
  const removeAt = (index: number) => {
    form.write([[items.length === 1 ? path : [...path, index], undefined]]);
    adder.current?.focus();
  };
  const tools = (index: number, name: string) => (
    <span className="form-tools">
      {items.length > 1 && (
        <>
          <Button
            kind="quiet"
            icon="up"
            aria-label={texts.moveUp(name)}
            disabled={index === 0}
            onClick={() => form.exchange([...path, index - 1], [...path, index])}
          />
          <Button
            kind="quiet"
            icon="down"
            aria-label={texts.moveDown(name)}
            disabled={index === items.length - 1}
            onClick={() => form.exchange([...path, index], [...path, index + 1])}
          />
        </>
      )}
      <Button kind="quiet" icon="close" aria-label={texts.removeFrom(name)} onClick={() => removeAt(index)} />
    </span>
  );
  const preset = Array.isArray(field.default) && field.default.length > 0 ? (field.default as unknown[]) : null;
  const single: FieldSpec = { ...field, shape: "single", lone: false, default: null, required: false };
  const addButton = (
    <Button
      ref={adder}
      kind="quiet"
      icon="plus"
      className="form-add"
      aria-label={texts.addTo(field.title)}
      onClick={() => (spec ? add(newObject(spec)) : setAdding(true))}
    >
      {texts.add}
    </Button>
  );
  return (
    <Group {...parts} aside={addButton}>
      {items.map((item, index) =>
        spec ? (
          <Fold
            key={index}
            title={summaryOf(spec, item) || `${spec.title} ${index + 1}`}
            actions={tools(index, `${field.title} ${index + 1}`)}
            isOpen={items.length === 1 && spec.name !== "node"}
          >
            <ObjectBody spec={spec} path={isLone ? path : [...path, index]} value={item} />
          </Fold>
        ) : (
          <div key={index} className="form-item">
            <ScalarInput
              field={single}
              label={`${field.title} ${index + 1}`}
              value={item}
              onWrite={(next) => put(index, next)}
            />
            {tools(index, `${field.title} ${index + 1}`)}
          </div>
        ),
      )}
      {isAdding && (
        <div
          className="form-item"
          onBlur={() => setAdding(false)}
          ref={(element) => {
            element?.querySelector<HTMLElement>("input, select, textarea, button")?.focus();
          }}
        >
          <ScalarInput
            isPatient
            field={single}
            label={texts.newIn(field.title)}
            value={undefined}
            onWrite={(next) => {
              setAdding(false);
              if (!isEmpty(next)) add(next);
            }}
          />
        </div>
      )}
      {items.length === 0 && preset && !isAdding && (
        <p className="form-help">
          {texts.presetOf(preset.slice(0, 4).join(", "))}
          {preset.length > 4 && texts.andMore(preset.length - 4)}
        </p>
      )}
    </Group>
  );
}
