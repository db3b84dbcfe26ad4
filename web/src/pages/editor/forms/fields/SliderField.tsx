// A whole number as a slider over the usual values, with a field for any other.
import { useId, useState, type ReactNode } from "react";
import { useMessages } from "../../../../i18n/messages";
import type { Path } from "../../../../document/model";
import { Slider } from "../../../../ui/Slider";
import type { FieldSpec } from "../catalogue";
import { useForm } from "../context";
import { messages } from "../messages";
import { keyOf, valueOf } from "../values";
import { NumberInput } from "./NumberInput";

export function SliderField({
  field,
  at,
  container,
  min,
  max,
  preset,
  title = field.title,
  help,
}: {
  field: FieldSpec;
  at: Path;
  container: unknown;
  min: number;
  max: number;
  /** What holds if nothing is written. */
  preset: number;
  title?: string;
  help?: ReactNode;
}) {
  const texts = useMessages(messages);
  const form = useForm();
  const id = useId();
  const [moved, setMoved] = useState<number | null>(null);
  const value = valueOf(field, container);
  const isMixed = form.isMixed([...at, keyOf(field, container)]);
  const write = (next: unknown) => form.set(field, at, container, next);
  const number = moved ?? (typeof value === "number" ? value : preset);
  return (
    <div className="form-slider">
      <div className="form-line form-line-row">
        <div className="form-title">
          <label htmlFor={id}>{title}</label>
        </div>
        <div className="form-control form-control-small">
          <NumberInput
            id={id}
            value={moved ?? value}
            placeholder={isMixed ? texts.mixed : String(preset)}
            isWhole
            bounds={{ minimum: min, ...field.bounds }}
            takesVariable={field.env_allowed}
            onWrite={write}
          />
        </div>
      </div>
      <Slider
        label={title}
        min={min}
        max={max}
        mark={preset}
        value={number}
        valueText={field.unit ? `${number} ${field.unit.title}` : undefined}
        onChange={setMoved}
        onDone={() => {
          if (moved !== null && moved !== value) write(moved);
          setMoved(null);
        }}
      />
      {help && <p className="form-help">{help}</p>}
    </div>
  );
}
