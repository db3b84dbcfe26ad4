// A person: the question, how long there is for an answer, and what holds without one.
import { useMessages } from "../../../../i18n/messages";
import type { NodeTypeSpec } from "../catalogue";
import { FieldView } from "../fields/FieldView";
import { ObjectFields } from "../fields/ObjectFields";
import { messages } from "../messages";
import { Section } from "../Section";
import { useForm } from "../context";
import { edgesFrom } from "../graphs";
import { valueOf, type Mapping } from "../values";
import { DeadlineField } from "./TimerForm";

const AT = ["config"] as const;

export function HumanForm({ spec, value }: { spec: NodeTypeSpec; value: Mapping }) {
  const texts = useMessages(messages);
  const form = useForm();
  const config = value.config;
  const field = (key: string) => spec.fields.find((one) => one.key === key);
  const [question, timeout, answer] = [field("description"), field("timeout"), field("default")];
  if (!question || !timeout || !answer) return <ObjectFields spec={spec} at={AT} value={config} />;
  const hasDeadline = valueOf(timeout, config) !== undefined;
  const hasAnswer = valueOf(answer, config) !== undefined;
  const target = form.targets[0];
  const node = target?.kind === "node" ? form.document.nodes.get(target.key) : undefined;
  const way = node && edgesFrom(form.document, node.graph, node.id).find((edge) => edge.port === "timeout");
  return (
    <Section>
      <FieldView field={question} at={AT} container={config} />
      <DeadlineField field={timeout} at={AT} container={config} />
      {(hasDeadline || hasAnswer) && <FieldView field={answer} at={AT} container={config} />}
      {hasDeadline && !hasAnswer && <p className="form-help">{way ? texts.takesTimeout(way.to) : texts.failsInTime}</p>}
      <ObjectFields spec={spec} at={AT} value={config} skip={["description", "timeout", "default"]} />
    </Section>
  );
}
