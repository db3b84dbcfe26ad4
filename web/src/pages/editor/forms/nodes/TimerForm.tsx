// Time with its unit: of a timer in two keys, of a deadline in one.
import { useMessages } from "../../../../i18n/messages";
import type { Path } from "../../../../document/model";
import type { FieldSpec, NodeTypeSpec } from "../catalogue";
import { useForm } from "../context";
import { FieldView } from "../fields/FieldView";
import { Group } from "../fields/Line";
import { NumberInput } from "../fields/NumberInput";
import { ObjectFields } from "../fields/ObjectFields";
import { messages } from "../messages";
import { Section } from "../Section";
import { DURATION_SECONDS, readDuration, valueOf, type DurationUnit, type Mapping } from "../values";

const AT = ["config"] as const;

export function TimerForm({ spec, value }: { spec: NodeTypeSpec; value: Mapping }) {
  const form = useForm();
  const config = value.config;
  const duration = spec.fields.find((one) => one.key === "max_duration");
  const unit = spec.fields.find((one) => one.key === "duration_unit");
  if (!duration || !unit) return <ObjectFields spec={spec} at={AT} value={config} />;
  return (
    <Section>
      <Group title={duration.title} help={duration.description} layout="row">
        <div className="form-amount">
          <NumberInput
            label={duration.title}
            value={valueOf(duration, config)}
            placeholder={String(duration.default)}
            bounds={duration.bounds}
            takesVariable
            onWrite={(next) => form.set(duration, AT, config, next)}
          />
          <select
            className="input"
            aria-label={unit.title}
            value={String(valueOf(unit, config) ?? unit.default)}
            onChange={(event) => form.set(unit, AT, config, event.target.value)}
          >
            {unit.choices?.map((choice) => (
              <option key={choice.value} value={choice.value}>
                {choice.title}
              </option>
            ))}
          </select>
        </div>
      </Group>
      <ObjectFields spec={spec} at={AT} value={config} skip={["max_duration", "duration_unit"]} />
    </Section>
  );
}

/** A deadline such as `2h`. Seconds stay a number. */
export function DeadlineField({ field, at, container }: { field: FieldSpec; at: Path; container: unknown }) {
  const texts = useMessages(messages);
  const form = useForm();
  const value = valueOf(field, container);
  const read = value === undefined ? { amount: undefined, unit: "m" as DurationUnit } : readDuration(value);
  if (!read) return <FieldView field={field} at={at} container={container} />;
  const write = (amount: number | string | undefined, unit: DurationUnit) => {
    const next = typeof amount !== "number" ? amount : unit === "s" && typeof value !== "string" ? amount : `${amount}${unit}`;
    form.set(field, at, container, next);
  };
  const titles: Record<DurationUnit, string> = { s: texts.seconds, m: texts.minutes, h: texts.hours, d: texts.days };
  return (
    <Group title={field.title} help={field.description} see={field.see} layout="row">
      <div className="form-amount">
        <NumberInput
          label={field.title}
          value={read.amount}
          placeholder={texts.none}
          bounds={{ exclusive_minimum: 0, maximum: (field.bounds.maximum ?? Infinity) / DURATION_SECONDS[read.unit] }}
          takesVariable
          onWrite={(amount) => write(amount, read.unit)}
        />
        <select
          className="input"
          aria-label={texts.unit}
          value={read.unit}
          disabled={read.amount === undefined}
          onChange={(event) => write(read.amount, event.target.value as DurationUnit)}
        >
          {(Object.keys(DURATION_SECONDS) as DurationUnit[]).map((unit) => (
            <option key={unit} value={unit}>
              {titles[unit]}
            </option>
          ))}
        </select>
      </div>
    </Group>
  );
}
