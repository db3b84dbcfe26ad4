// Nodes that have a number of rounds before everything else: the counter and the debate.
import { useMessages } from "../../../../i18n/messages";
import { Switch } from "../../../../ui/Switch";
import type { NodeTypeSpec } from "../catalogue";
import { useForm } from "../context";
import { FieldView } from "../fields/FieldView";
import { ObjectFields } from "../fields/ObjectFields";
import { SliderField } from "../fields/SliderField";
import { messages } from "../messages";
import { Section } from "../Section";
import { valueOf, type Mapping } from "../values";

const AT = ["config"] as const;

export function CounterForm({ spec, value }: { spec: NodeTypeSpec; value: Mapping }) {
  const texts = useMessages(messages);
  const most = spec.fields.find((one) => one.key === "max_iterations");
  if (!most) return <ObjectFields spec={spec} at={AT} value={value.config} />;
  return (
    <Section>
      <SliderField field={most} at={AT} container={value.config} min={1} max={10} preset={Number(most.default)} help={texts.counterHelp} />
      <ObjectFields spec={spec} at={AT} value={value.config} skip={["max_iterations"]} />
    </Section>
  );
}

export function DebateForm({ spec, value }: { spec: NodeTypeSpec; value: Mapping }) {
  const texts = useMessages(messages);
  const form = useForm();
  const config = value.config;
  const field = (key: string) => spec.fields.find((one) => one.key === key);
  const [rounds, condition, consensus] = [field("max_rounds"), field("exit_condition"), field("consensus")];
  if (!rounds || !condition || !consensus) return <ObjectFields spec={spec} at={AT} value={config} />;
  const byConsensus = valueOf(condition, config) === "consensus";
  return (
    <>
      <Section>
        <SliderField field={rounds} title={texts.maxRounds} at={AT} container={config} min={1} max={10} preset={Number(rounds.default)} help={texts.roundsHelp} />
      </Section>
      <Section title={texts.endsWhen}>
        <div className="form-switches">
          <Switch label={texts.roundsReached} aside={texts.always} checked disabled onChange={() => undefined} />
          <Switch
            label={texts.allAgree}
            aside={texts.consensus}
            checked={byConsensus}
            onChange={(isOn) => form.set(condition, AT, config, isOn ? "consensus" : condition.default)}
          />
          {(byConsensus || valueOf(consensus, config) !== undefined) && <FieldView field={consensus} at={AT} container={config} />}
        </div>
      </Section>
      <Section>
        <ObjectFields spec={spec} at={AT} value={config} skip={["max_rounds", "exit_condition", "consensus"]} />
      </Section>
    </>
  );
}
