// Several names out of a known set, such as the tools of an agent.
import { useMessages } from "../../../../i18n/messages";
import type { Path } from "../../../../document/model";
import { Icon } from "../../../../ui/Icon";
import type { FieldSpec } from "../catalogue";
import { useForm } from "../context";
import { Group } from "../fields/Line";
import { namesFor } from "../fields/ScalarInput";
import { FieldView } from "../fields/FieldView";
import { messages } from "../messages";
import { fitOf, isEmpty, keyOf, valueOf } from "../values";

export function NamePicker({ field, at, container }: { field: FieldSpec; at: Path; container: unknown }) {
  const texts = useMessages(messages);
  const form = useForm();
  const value = valueOf(field, container);
  const path = [...at, keyOf(field, container)];
  if (fitOf(field, value) !== "plain" || form.isMixed(path)) return <FieldView field={field} at={at} container={container} />;
  const chosen = (Array.isArray(value) ? (value as unknown[]) : isEmpty(value) ? [] : [value]).map(String);
  const names = namesFor(field.widget, form.names) ?? [];
  const free = names.filter((name) => !chosen.includes(name));
  const add = (name: string) => form.write([Array.isArray(value) && value.length ? [[...path, value.length], name] : [path, [...chosen, name]]]);
  const removeAt = (index: number) =>
    form.write([Array.isArray(value) && value.length > 1 ? [[...path, index], undefined] : [path, undefined]]);
  return (
    <Group title={field.title} help={field.description} see={field.see}>
      <div className="form-chips">
        {chosen.map((name, index) => (
          <span key={`${index} ${name}`} className={`form-chip ${names.includes(name) ? "" : "form-chip-unknown"}`}>
            <code>{name}</code>
            <button type="button" aria-label={texts.removeFrom(name)} onClick={() => removeAt(index)}>
              <Icon name="close" size={11} />
            </button>
          </span>
        ))}
        {free.length > 0 && (
          <select className="form-chip-add" aria-label={texts.addTo(field.title)} value="" onChange={(event) => add(event.target.value)}>
            <option value="">{texts.addOne}</option>
            {free.map((name) => (
              <option key={name} value={name}>
                {name}
              </option>
            ))}
          </select>
        )}
      </div>
    </Group>
  );
}
