// An edge: its ends, when it fires, and what becomes of the message on its way.
import { useMessages } from "../../../../i18n/messages";
import { reconnect } from "../../../../document/edits";
import type { EdgeItem } from "../../../../document/model";
import { useEditorStore } from "../../store";
import type { FieldSpec } from "../catalogue";
import { useForm } from "../context";
import { FieldView } from "../fields/FieldView";
import { Line } from "../fields/Line";
import { ObjectFields } from "../fields/ObjectFields";
import { Section } from "../Section";
import { messages } from "../messages";
import { Processor } from "./Processor";

const SWITCHES = ["trigger", "carry_data", "keep_message", "clear_context", "clear_kept_context"];
const SHOWN = ["from", "to", "port", "condition", "process", "dynamic", ...SWITCHES];

export function EdgeForm({ edge }: { edge: EdgeItem }) {
  const texts = useMessages(messages);
  const form = useForm();
  const spec = form.catalogue.objects.edge;
  if (!spec) return null;
  const field = (key: string): FieldSpec | undefined => spec.fields.find((one) => one.key === key);
  const view = (key: string) => {
    const found = field(key);
    return found && <FieldView key={key} field={found} at={[]} container={edge.value} />;
  };
  return (
    <>
      <Section>
        <End edge={edge} end="from" field={field("from")} />
        <End edge={edge} end="to" field={field("to")} />
        <Port edge={edge} field={field("port")} />
      </Section>
      <Section title={texts.condition}>{view("condition")}</Section>
      <Section title={texts.onItsWay}>
        <Processor field={field("process")} edge={edge} />
        {view("dynamic")}
      </Section>
      <Section title={texts.delivery}>{SWITCHES.map(view)}</Section>
      <Section>
        <ObjectFields spec={spec} at={[]} value={edge.value} skip={SHOWN} />
      </Section>
    </>
  );
}

function useReconnect(edge: EdgeItem) {
  const store = useEditorStore();
  return (ends: { from?: string; to?: string; port?: string }) => {
    const { changes } = reconnect(store.getState().lastGood, edge.graph, edge.index, ends);
    store.getState().edit({ changes });
  };
}

function End({ edge, end, field }: { edge: EdgeItem; end: "from" | "to"; field: FieldSpec | undefined }) {
  const form = useForm();
  const connect = useReconnect(edge);
  if (!field) return null;
  const isKnown = form.names.nodes.includes(edge[end]);
  return (
    <Line title={field.title} help={field.description} see={field.see} layout="row">
      {(control) => (
        <select id={control.id} className="input" value={edge[end]} onChange={(event) => connect({ [end]: event.target.value })}>
          {!isKnown && <option value={edge[end]}>{edge[end]}</option>}
          {form.names.nodes.map((id) => (
            <option key={id} value={id}>
              {id}
            </option>
          ))}
        </select>
      )}
    </Line>
  );
}

function Port({ edge, field }: { edge: EdgeItem; field: FieldSpec | undefined }) {
  const texts = useMessages(messages);
  const form = useForm();
  const connect = useReconnect(edge);
  if (!field) return null;
  const { ports } = form.names;
  const isKnown = edge.port === "" || ports.some((port) => port.name === edge.port);
  return (
    <Line title={field.title} help={field.description} see={field.see} layout="row">
      {(control) => (
        <select id={control.id} className="input" value={edge.port} onChange={(event) => connect({ port: event.target.value })}>
          <option value="">{texts.anyPort}</option>
          {!isKnown && <option value={edge.port}>{edge.port}</option>}
          {ports.map((port) => (
            <option key={port.name} value={port.name}>
              {port.name}
            </option>
          ))}
        </select>
      )}
    </Line>
  );
}
