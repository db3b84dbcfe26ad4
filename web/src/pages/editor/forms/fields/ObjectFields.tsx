// The fields of an object, with those of the choice that was made among its variants.
import { useMessages } from "../../../../i18n/messages";
import type { Path } from "../../../../document/model";
import { Later, later } from "../../../../ui/later";
import type { FieldSpec, ObjectSpec } from "../catalogue";
import { useForm } from "../context";
import { partsOf } from "../layout";
import { messages } from "../messages";
import { carriedOver, isMapping, variantOf, variantPlace } from "../values";
import { ChoiceInput } from "./ChoiceInput";
import { FieldView } from "./FieldView";
import { Fold } from "./Fold";
import { GraphLink } from "./GraphLink";
import { Group, Line } from "./Line";
import { UnknownKeys } from "./UnknownKeys";

/** Settings with a form of their own. Most visits open none of them. */
const SPECIAL = new Set(["limits", "breaker", "model_profile", "memory", "memory_use", "memory_settings"]);
const SettingsForm = later(() => import("../settings/SettingsForm"));

export function ObjectFields({
  spec,
  at,
  value,
  skip = [],
  known = [],
  hidesUnknown = false,
}: {
  spec: ObjectSpec;
  at: Path;
  value: unknown;
  /** Fields that a form of its own shows. */
  skip?: readonly string[];
  /** Fields of the same mapping that another description has. */
  known?: readonly FieldSpec[];
  /** The form around it tells of keys that are not known. */
  hidesUnknown?: boolean;
}) {
  const texts = useMessages(messages);
  const form = useForm();
  if (spec.name === "graph" && at.length > 0) return <GraphLink at={at} value={value} />;
  if (SPECIAL.has(spec.name)) {
    return (
      <Later>
        <SettingsForm spec={spec} at={at} value={value} />
      </Later>
    );
  }
  const choice = spec.name === "node" ? "type" : spec.variants?.key;
  const config = variantPlace(spec);
  const variant = variantOf(form.catalogue, spec, value);
  const hidden = [...skip, ...(choice ? [choice] : []), ...(config ? [config] : [])];
  const { often, more } = partsOf(spec, value, hidden);
  const beside = config === null && variant ? variant.fields : [];
  return (
    <div className="form-fields">
      {choice && !skip.includes(choice) && <VariantChoice spec={spec} at={at} value={value} variant={variant} />}
      {often.map((field) => (
        <FieldView key={field.key} field={field} at={at} container={value} />
      ))}
      {variant && !(config && skip.includes(config)) && (
        <ObjectFields
          key={variant.name}
          spec={variant}
          at={config === null ? at : [...at, config]}
          value={config === null ? value : isMapping(value) ? value[config] : undefined}
          known={config === null ? spec.fields : []}
          skip={config === null && choice ? [choice] : []}
          hidesUnknown={config === null}
        />
      )}
      {more.length > 0 && (
        <Fold title={texts.more} aside={setNames(more, value)}>
          <div className="form-fields">
            {more.map((field) => (
              <FieldView key={field.key} field={field} at={at} container={value} />
            ))}
          </div>
        </Fold>
      )}
      {!hidesUnknown && <UnknownKeys spec={spec} more={[...known, ...beside]} at={at} value={value} />}
    </div>
  );
}

/** The titles of what is set among fields that are not shown. */
function setNames(fields: readonly FieldSpec[], value: unknown): string {
  if (!isMapping(value)) return "";
  return fields
    .filter((field) => field.key in value || field.aliases.some((alias) => alias in value))
    .map((field) => field.title)
    .join(", ");
}

function VariantChoice({ spec, at, value, variant }: { spec: ObjectSpec; at: Path; value: unknown; variant: ObjectSpec | null }) {
  const form = useForm();
  const key = spec.name === "node" ? "type" : (spec.variants?.key ?? "");
  const field = spec.fields.find((one) => one.key === key);
  if (!field?.choices) return null;
  const config = variantPlace(spec);
  const chosen = isMapping(value) ? value[key] : undefined;
  const choose = (next: string | undefined) => {
    if (next === undefined || next === chosen) return;
    const after = variantOf(form.catalogue, spec, { [key]: next });
    const before = isMapping(value) ? value : {};
    if (config === null) {
      const gone = (variant?.fields ?? []).filter((one) => one.key in before && !(one.key in carriedOver(variant, after, before)));
      form.write([[[...at, key], next], ...gone.map((one) => [[...at, one.key], undefined] as const)]);
      return;
    }
    const kept = carriedOver(variant, after, before[config]);
    const writes: [Path, unknown][] = [[[...at, key], next]];
    if (Object.keys(kept).length) writes.push([[...at, config], kept]);
    else if (config in before) writes.push([[...at, config], undefined]);
    form.write(writes);
  };
  const input = (control: { id?: string }) => (
    <ChoiceInput {...control} label={field.title} choices={field.choices ?? []} value={chosen} fallback={chosen} onWrite={choose} />
  );
  const parts = { title: field.title, help: field.description, see: field.see, layout: "row" as const };
  return field.choices.length > 3 ? <Line {...parts}>{input}</Line> : <Group {...parts}>{input({})}</Group>;
}
