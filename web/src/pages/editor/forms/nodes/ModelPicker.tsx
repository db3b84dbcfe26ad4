// The model of an agent: a profile of the file, or a model of its own.
import { useState } from "react";
import { useMessages } from "../../../../i18n/messages";
import type { NodeTypeSpec } from "../catalogue";
import { useForm, type Writes } from "../context";
import { Line } from "../fields/Line";
import { TextInput } from "../fields/TextInput";
import { messages } from "../messages";
import { isMapping, keyOf, valueOf } from "../values";

const OWN = "\u0000own";
const PRESET = "default";

export function ModelPicker({ spec, config }: { spec: NodeTypeSpec; config: unknown }) {
  const texts = useMessages(messages);
  const form = useForm();
  const [isOwn, setOwn] = useState(false);
  const profile = spec.fields.find((one) => one.key === "profile_id");
  const model = spec.fields.find((one) => one.key === "model");
  if (!profile || !model) return null;
  const named = valueOf(profile, config);
  const own = valueOf(model, config);
  const hasOwn = isMapping(config) && (own !== undefined || config.provider !== undefined || config.name !== undefined);
  const profiles = form.names.models.filter((name) => name !== PRESET);
  const shown = hasOwn || isOwn ? OWN : named === undefined ? "" : String(named);
  const isKnown = shown === "" || shown === OWN || shown === PRESET || profiles.includes(shown);
  const profileKey = ["config", keyOf(profile, config)] as const;
  const choose = (next: string) => {
    setOwn(next === OWN);
    if (next === OWN) return;
    const gone = ["model", "provider", "name"].filter((key) => isMapping(config) && key in config);
    const writes: Writes = [
      ...(next === "" && named === undefined ? [] : [[profileKey, next || undefined] as const]),
      ...gone.map((key) => [["config", key], undefined] as const),
    ];
    if (writes.length) form.write(writes);
  };
  return (
    <>
      <Line title={texts.model} help={profile.description} see={profile.see} layout="row">
        {(control) => (
          <select id={control.id} className="input" value={shown} onChange={(event) => choose(event.target.value)}>
            <option value="">{texts.presetProfile}</option>
            {shown === PRESET && <option value={PRESET}>{PRESET}</option>}
            {!isKnown && <option value={shown}>{texts.unknownProfile(shown)}</option>}
            {profiles.map((name) => (
              <option key={name} value={name}>
                {name}
              </option>
            ))}
            <option value={OWN}>{texts.ownModel}</option>
          </select>
        )}
      </Line>
      {shown === OWN && (
        <TextInput
          label={model.title}
          isMono
          isPatient
          placeholder="provider:name"
          names={form.names.providers.map((name) => `${name}:`)}
          value={own === undefined ? "" : String(own)}
          onWrite={(text) => {
            const writes: Writes = [
              [["config", "model"], text.trim() || undefined],
              ...(named === undefined ? [] : [[profileKey, undefined] as const]),
            ];
            form.write(writes);
          }}
        />
      )}
    </>
  );
}
