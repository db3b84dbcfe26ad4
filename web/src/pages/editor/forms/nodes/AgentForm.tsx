// An agent: its model, what it is told, its tools, and the form of its answer.
import { useMessages } from "../../../../i18n/messages";
import type { NodeTypeSpec } from "../catalogue";
import { FieldView } from "../fields/FieldView";
import { Fold } from "../fields/Fold";
import { ObjectFields } from "../fields/ObjectFields";
import { SliderField } from "../fields/SliderField";
import { UnknownKeys } from "../fields/UnknownKeys";
import { partsOf } from "../layout";
import { messages } from "../messages";
import { Section } from "../Section";
import { isEmpty, isMapping, valueOf, type Mapping } from "../values";
import { AnswerForm } from "./AnswerForm";
import { ModelPicker } from "./ModelPicker";
import { NamePicker } from "./NamePicker";

const AT = ["config"] as const;
/** What the engine takes if the key is not there. */
const TOOL_ROUNDS = 10;
const MODEL = ["profile_id", "model"];
const TOOLS = ["tools", "max_tool_calls", "on_limit", "max_calls_per_round", "approval", "approval_timeout", "dynamic_tools", "tooling"];
const SHOWN = ["role", "prompt", ...MODEL, ...TOOLS, "output_schema", "max_repairs", "memories"];

export function AgentForm({ spec, value }: { spec: NodeTypeSpec; value: Mapping }) {
  const texts = useMessages(messages);
  const config = value.config;
  const field = (key: string) => spec.fields.find((one) => one.key === key);
  const view = (key: string) => {
    const found = field(key);
    return found && <FieldView key={key} field={found} at={AT} container={config} />;
  };
  const [tools, rounds, schema] = [field("tools"), field("max_tool_calls"), field("output_schema")];
  const hasTools = ["tools", "dynamic_tools", "tooling"].some((key) => {
    const found = field(key);
    return found && !isEmpty(valueOf(found, config));
  });
  const rest = partsOf({ ...spec, name: "agent_rest" }, config, SHOWN).often;
  const isSet = rest.some((one) => isMapping(config) && one.key in config);
  return (
    <>
      <Section>
        <ModelPicker spec={spec} config={config} />
        {view("role")}
        {view("prompt")}
      </Section>
      <Section>
        {tools && <NamePicker field={tools} at={AT} container={config} />}
        {(hasTools || (rounds && valueOf(rounds, config) !== undefined)) && rounds && (
          <>
            <SliderField
              field={rounds}
              at={AT}
              container={config}
              min={0}
              max={TOOL_ROUNDS}
              preset={TOOL_ROUNDS}
              help={texts.toolRoundsHelp}
            />
            {view("on_limit")}
            {view("max_calls_per_round")}
            {view("approval")}
            {view("approval_timeout")}
          </>
        )}
      </Section>
      {schema && (
        <Section>
          <AnswerForm field={schema} config={config} />
          {valueOf(schema, config) !== undefined && view("max_repairs")}
        </Section>
      )}
      <Section>
        {view("memories")}
        <Fold title={texts.more} aside={isSet ? texts.isSet : undefined}>
          <div className="form-fields">
            <ObjectFields
              spec={{ ...spec, name: "agent_rest" }}
              at={AT}
              value={config}
              skip={SHOWN.filter((key) => key !== "dynamic_tools" && key !== "tooling")}
              hidesUnknown
            />
          </div>
        </Fold>
        <UnknownKeys spec={spec} at={AT} value={config} />
      </Section>
    </>
  );
}
