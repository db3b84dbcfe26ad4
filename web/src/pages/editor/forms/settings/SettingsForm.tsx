// The special form of an object of settings. It is loaded when the first of them is opened.
import type { ComponentType } from "react";
import { FieldView } from "../fields/FieldView";
import { UnknownKeys } from "../fields/UnknownKeys";
import { hasNoEffect, valueOf } from "../values";
import { BREAKER, BreakerForm } from "./BreakerForm";
import { LIMITS, LimitsForm } from "./LimitsForm";
import { MemoryForm, MemorySettingsForm, MemoryUseForm, SHARED, USE } from "./MemoryForms";
import { PROFILE, ModelProfileForm } from "./ModelProfileForm";
import type { SettingsProps } from "./Part";

/** Each form, with the keys that it knows; null if it leaves them to the general form. */
const FORMS: Readonly<Record<string, { Form: ComponentType<SettingsProps>; keys: readonly string[] | null }>> = {
  limits: { Form: LimitsForm, keys: LIMITS },
  breaker: { Form: BreakerForm, keys: BREAKER },
  model_profile: { Form: ModelProfileForm, keys: PROFILE },
  memory: { Form: MemoryForm, keys: null },
  memory_use: { Form: MemoryUseForm, keys: USE },
  memory_settings: { Form: MemorySettingsForm, keys: SHARED },
};

export default function SettingsForm(props: SettingsProps) {
  const { spec, at, value } = props;
  const found = FORMS[spec.name];
  if (!found) return null;
  const { Form, keys } = found;
  // A newer server may describe fields that the form does not know yet.
  const rest = keys === null ? [] : spec.fields.filter((field) => !keys.includes(field.key) && (!hasNoEffect(field) || valueOf(field, value) !== undefined));
  return (
    <div className="form-fields">
      <Form {...props} />
      {rest.map((field) => (
        <FieldView key={field.key} field={field} at={at} container={value} />
      ))}
      {keys !== null && <UnknownKeys spec={spec} at={at} value={value} />}
    </div>
  );
}
