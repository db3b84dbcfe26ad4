// Where the ports of a node lead; choosing another node rewires the edge.
import { useMessages } from "../../../../i18n/messages";
import { addEdge, reconnect, remove } from "../../../../document/edits";
import { useEditorStore } from "../../store";
import { useForm } from "../context";
import { edgesFrom } from "../graphs";
import { messages } from "../messages";
import { Section } from "../Section";

export function WaysOut({ ports }: { ports: readonly { name: string; title: string }[] }) {
  const texts = useMessages(messages);
  const form = useForm();
  const store = useEditorStore();
  const target = form.targets[0];
  const node = target?.kind === "node" && form.targets.length === 1 ? form.document.nodes.get(target.key) : undefined;
  if (!node || ports.length === 0) return null;
  const edges = edgesFrom(form.document, node.graph, node.id);
  const others = form.names.nodes;
  return (
    <Section title={texts.waysOut}>
      {ports.map((port) => {
        const found = edges.filter((edge) => edge.port === port.name);
        const rows = found.length > 0 ? found : [null];
        return rows.map((edge, row) => (
          <div key={`${port.name} ${row}`} className="form-way">
            <span className={`form-port form-port-${port.name}`} aria-hidden="true" />
            <span title={port.title}>{port.name}</span>
            <select
              className="input"
              aria-label={texts.wayTo(port.name)}
              value={edge?.to ?? ""}
              onChange={(event) => {
                const to = event.target.value;
                const { lastGood } = store.getState();
                const at = { graph: node.graph, index: edge?.index ?? 0 };
                const edit =
                  edge === null
                    ? addEdge(lastGood, node.graph, { from: node.id, to, port: port.name })
                    : to === ""
                      ? remove(lastGood, [{ kind: "edge", ...at }])
                      : reconnect(lastGood, node.graph, edge.index, { to });
                // The node stays selected: its form goes on.
                store.getState().edit({ changes: edit.changes });
              }}
            >
              <option value="">{texts.nowhere}</option>
              {edge && !others.includes(edge.to) && <option value={edge.to}>{edge.to}</option>}
              {others.map((id) => (
                <option key={id} value={id}>
                  {id}
                </option>
              ))}
            </select>
          </div>
        ));
      })}
    </Section>
  );
}
