// A model profile: the model, how it is reached, what it answers with, and what happens if it does not.
import { useQuery } from "@tanstack/react-query";
import { call } from "../../../../api/client";
import type { ModelList } from "../../../../api/schema";
import { useMessages } from "../../../../i18n/messages";
import { FormContext, useForm } from "../context";
import { Fold } from "../fields/Fold";
import { Line } from "../fields/Line";
import { TextInput } from "../fields/TextInput";
import { messages as general } from "../messages";
import { NamePicker } from "../nodes/NamePicker";
import { isEmpty, isVariable } from "../values";
import { messages } from "./messages";
import { isPlain, Part, Says, useFields, type SettingsProps } from "./Part";
import { DEFAULT_PROFILE, modelsIn, usersOfProfile } from "./uses";

const APART = ["provider", "name"];
export const PROFILE = ["model", ...APART, "base_url", "api_key", "headers", "timeout", "params", "cache", "fallback", "price"];

export function ModelProfileForm(props: SettingsProps) {
  const { at, value } = props;
  const texts = useMessages(messages);
  const words = useMessages(general);
  const form = useForm();
  const { field, of, view } = useFields(props);
  const own = String(at.at(-1) ?? "");
  const [model, fallback] = [field("model"), field("fallback")];
  const apart = APART.filter((key) => of(key) !== undefined);
  const chosen = of("model");
  const provider = String(of("provider") ?? (typeof chosen === "string" ? chosen.split(":")[0] : "") ?? "");
  const others = Array.isArray(of("fallback")) ? (of("fallback") as unknown[]).map(String) : isEmpty(of("fallback")) ? [] : [String(of("fallback"))];
  return (
    <>
      <Part>
        {model && isPlain(model, chosen) ? (
          <Line title={model.title} help={model.description} see={model.see}>
            {(control) => (
              <TextInput
                {...control}
                isMono
                placeholder="provider:name"
                names={[...modelsIn(form.document), ...form.names.providers.map((name) => `${name}:`)]}
                value={chosen === undefined || chosen === null ? "" : String(chosen)}
                onWrite={(text) => form.set(model, at, value, text.trim())}
              />
            )}
          </Line>
        ) : (
          view("model")
        )}
        {apart.map(view)}
        <Users name={own} />
      </Part>
      <Part title={texts.connection}>
        {view("api_key")}
        <KeyHint apiKey={of("api_key")} provider={provider} />
        {view("base_url")}
        {view("timeout")}
        {view("headers")}
      </Part>
      <Part title={texts.answers}>
        {view("params")}
        {view("cache")}
        {of("cache") === true && <Says>{texts.cached}</Says>}
        {view("price")}
      </Part>
      <Part title={texts.failures}>
        {fallback && (
          // A profile is no fallback of its own.
          <FormContext value={{ ...form, names: { ...form.names, models: form.names.models.filter((name) => name !== own) } }}>
            <NamePicker field={fallback} at={at} container={value} />
          </FormContext>
        )}
        <Says>{others.length ? texts.thenTries(others.join(texts.comma)) : texts.noFallback}</Says>
      </Part>
      {apart.length < APART.length && (
        <Fold title={words.more}>
          <div className="form-fields">{APART.filter((key) => !apart.includes(key)).map(view)}</div>
        </Fold>
      )}
    </>
  );
}

function Users({ name }: { name: string }) {
  const texts = useMessages(messages);
  const form = useForm();
  const users = usersOfProfile(form.document, name).join(texts.comma);
  if (name === DEFAULT_PROFILE) return <Says>{users ? texts.usedByRestAnd(users) : texts.usedByRest}</Says>;
  return <Says>{users ? texts.usedBy(users) : texts.notUsed}</Says>;
}

function KeyHint({ apiKey, provider }: { apiKey: unknown; provider: string }) {
  const texts = useMessages(messages);
  // The form around it asks for the same, so the answer is there already.
  const models = useQuery({ queryKey: ["models"], queryFn: () => call<ModelList>("/models"), staleTime: 60_000, retry: false });
  if (!isEmpty(apiKey)) return isVariable(apiKey) ? null : <p className="field-error">{texts.keyInText}</p>;
  const hasKey = models.data?.models.some((one) => one.provider === provider && one.has_key) ?? false;
  return <Says>{hasKey && texts.keyOfServer(provider)}</Says>;
}
