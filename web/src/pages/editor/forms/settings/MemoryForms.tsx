// Memories: those of a graph with who uses them, what an agent does with one, and what runs share.
import { useFormats } from "../../../../i18n/format";
import { useMessages } from "../../../../i18n/messages";
import { useForm } from "../context";
import { Line } from "../fields/Line";
import { ObjectFields } from "../fields/ObjectFields";
import { isEmpty, isMapping, isVariable, variantOf } from "../values";
import { messages } from "./messages";
import { amountOf, Part, Says, SwitchedNumber, useFields, type SettingsProps } from "./Part";
import { usersOfMemory } from "./uses";

/** A memory of a graph. */
export function MemoryForm({ spec, at, value }: SettingsProps) {
  const texts = useMessages(messages);
  const form = useForm();
  const name = isMapping(value) ? value.name : undefined;
  const users = usersOfMemory(form.document, String(name ?? "")).map(({ id, reads, writes }) => (reads === writes ? id : reads ? texts.readsOnly(id) : texts.writesOnly(id)));
  const about = variantOf(form.catalogue, spec, value)?.description;
  return (
    <Part>
      <Says>{about}</Says>
      {/* Another name, so that the general form shows its fields. */}
      <ObjectFields spec={{ ...spec, name: "memory_fields" }} at={at} value={value} />
      {!isEmpty(name) && <Says>{users.length ? texts.memoryUsedBy(users.join(texts.comma)) : texts.memoryNotUsed}</Says>}
    </Part>
  );
}

export const USE = ["name", "read", "write", "top_k", "similarity_threshold", "retrieve_stage"];
/** The least similarity that reads everything. */
const ALL = -1;
const FIRST_SIMILARITY = 0.5;

/** A memory as an agent uses it. */
export function MemoryUseForm(props: SettingsProps) {
  const { at, value } = props;
  const texts = useMessages(messages);
  const { field, of, view } = useFields(props);
  const reads = of("read") !== false;
  const writes = of("write") !== false;
  const similarity = field("similarity_threshold");
  const entries = amountOf(of("top_k") ?? field("top_k")?.default, String);
  const said = [...(reads ? [texts.reads(entries)] : []), ...(writes ? [texts.writes] : [])];
  const isSet = (key: string) => of(key) !== undefined;
  return (
    <>
      <Part>
        <MemoryName {...props} />
        {view("read")}
        {view("write")}
        <Says>{said.join(" ") || texts.neither}</Says>
      </Part>
      {(reads || isSet("top_k") || isSet("similarity_threshold") || isSet("retrieve_stage")) && (
        <Part title={field("read")?.title}>
          {view("top_k")}
          {similarity && (
            <SwitchedNumber field={similarity} at={at} container={value} first={FIRST_SIMILARITY} off={ALL}>
              {texts.similar(amountOf(of("similarity_threshold"), String))}
            </SwitchedNumber>
          )}
          {view("retrieve_stage")}
        </Part>
      )}
    </>
  );
}

/** A choice among the memories that there are. */
function MemoryName(props: SettingsProps) {
  const { at, value } = props;
  const texts = useMessages(messages);
  const form = useForm();
  const { field, of, view } = useFields(props);
  const name = field("name");
  const chosen = of("name");
  if (!name || isVariable(chosen) || (chosen !== undefined && typeof chosen !== "string")) return view("name");
  const known = form.names.memories;
  return (
    <Line title={name.title} help={name.description} see={name.see} isRequired layout="row">
      {(control) => (
        <select id={control.id} className="input" value={chosen ?? ""} onChange={(event) => form.set(name, at, value, event.target.value)}>
          {!chosen && <option value="">{texts.choose}</option>}
          {chosen && !known.includes(chosen) && <option value={chosen}>{texts.unknownName(chosen)}</option>}
          {known.map((one) => (
            <option key={one} value={one}>
              {one}
            </option>
          ))}
        </select>
      )}
    </Line>
  );
}

export const SHARED = ["group_id", "newest", "hours", "confidence", "timeout"];

/** What the runs of a workflow share. */
export function MemorySettingsForm(props: SettingsProps) {
  const texts = useMessages(messages);
  const formats = useFormats();
  const { field, of, view } = useFields(props);
  const group = of("group_id");
  const amount = (key: string, format: (one: number) => string) => amountOf(of(key) ?? field(key)?.default, format);
  return (
    <>
      <Part>
        {view("group_id")}
        <Says>{isEmpty(group) ? texts.notSharing : texts.sharing(String(group))}</Says>
      </Part>
      <Part title={texts.working}>
        {view("newest")}
        {view("hours")}
        {view("confidence")}
        <Says>{texts.keeps(amount("newest", formats.number), amount("hours", (one) => formats.duration(one * 3600, true)), amount("confidence", formats.percent))}</Says>
      </Part>
      <Part>
        {view("timeout")}
        <Says>{texts.leftOut(amount("timeout", (one) => formats.duration(one, true)))}</Says>
      </Part>
    </>
  );
}
