// A node: the form of its type, and what every node has.
import type { ComponentType } from "react";
import { useMessages } from "../../../../i18n/messages";
import { nodeType, type NodeTypeSpec } from "../catalogue";
import { useForm } from "../context";
import { FieldView } from "../fields/FieldView";
import { Fold } from "../fields/Fold";
import { ObjectFields } from "../fields/ObjectFields";
import { UnknownKeys } from "../fields/UnknownKeys";
import { partsOf } from "../layout";
import { LoopForm } from "../loop/LoopForm";
import { WaysOut } from "../loop/WaysOut";
import { portsOf } from "../graphs";
import { messages } from "../messages";
import { Section } from "../Section";
import type { Mapping } from "../values";
import { AgentForm } from "./AgentForm";
import { CounterForm, DebateForm } from "./CounterForm";
import { HumanForm } from "./HumanForm";
import { TimerForm } from "./TimerForm";

type TypeForm = ComponentType<{ spec: NodeTypeSpec; value: Mapping }>;

/** Forms that are better than the general one. */
const FORMS: Readonly<Record<string, TypeForm>> = {
  agent: AgentForm,
  debate: DebateForm,
  human: HumanForm,
  loop: LoopForm,
  loop_counter: CounterForm,
  loop_timer: TimerForm,
};

/** `type` is null for nodes of different types: they share only what every node has. */
export function NodeForm({ type, value }: { type: string | null; value: Mapping }) {
  const texts = useMessages(messages);
  const form = useForm();
  const spec = type === null ? undefined : nodeType(form.catalogue, type);
  const node = form.catalogue.objects.node;
  const isOne = form.targets.length === 1;
  // The general form can show that values differ.
  const TypeForm = spec && isOne ? FORMS[spec.name] : undefined;
  if (!node) return null;
  const { often, more } = partsOf(node, value, ["id", "type", "config"]);
  const isSet = more.filter((field) => field.key in value).map((field) => field.title);
  return (
    <>
      {type !== null && !spec && (
        <Section>
          <p className="form-help">{texts.unknownType(type)}</p>
        </Section>
      )}
      {TypeForm && spec && <TypeForm spec={spec} value={value} />}
      {spec && !TypeForm && spec.fields.length > 0 && (
        <Section>
          <ObjectFields spec={spec} at={["config"]} value={value.config} />
        </Section>
      )}
      {spec && !TypeForm && isOne && <OwnPorts />}
      <Section>
        {often.map((field) => (
          <FieldView key={field.key} field={field} at={[]} container={value} />
        ))}
        <Fold title={texts.everyNode} aside={isSet.join(", ")}>
          <div className="form-fields">
            {more.map((field) => (
              <FieldView key={field.key} field={field} at={[]} container={value} />
            ))}
          </div>
        </Fold>
        <UnknownKeys spec={node} at={[]} value={value} />
      </Section>
    </>
  );
}

/** The ways out of a vote, or of a function that chooses one. */
function OwnPorts() {
  const form = useForm();
  const target = form.targets[0];
  const node = target?.kind === "node" ? form.document.nodes.get(target.key) : undefined;
  if (!node) return null;
  const ports = portsOf(form.document, node.graph, node.id, form.catalogue);
  return <WaysOut ports={ports.filter((port) => port.name !== "error")} />;
}
