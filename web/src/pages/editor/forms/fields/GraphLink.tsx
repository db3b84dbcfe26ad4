// A graph inside an item: it is drawn on the canvas, and has a form of its own.
import { useMessages } from "../../../../i18n/messages";
import type { Path } from "../../../../document/model";
import { Button } from "../../../../ui/Button";
import { useForm } from "../context";
import { messages } from "../messages";
import { isMapping, isSameValue } from "../values";

export function GraphLink({ at, value }: { at: Path; value: unknown }) {
  const texts = useMessages(messages);
  const form = useForm();
  const path = [...form.path, ...at];
  const graph = [...form.document.graphs.values()].find((one) => isSameValue(one.path, path));
  if (!isMapping(value) || Object.keys(value).length === 0) {
    return (
      <Button
        icon="plus"
        onClick={() => form.write([[at, { nodes: [{ id: "Step", type: "passthrough" }], edges: [], start: "Step", end: "Step" }]])}
      >
        {texts.createGraph}
      </Button>
    );
  }
  return (
    <div className="form-link-line">
      <span className="form-dim">{graph ? texts.graphSize(graph.nodes.length, graph.edges.length) : texts.notDrawn}</span>
      {graph ? (
        <Button icon="subgraph" onClick={() => form.select({ kind: "graph", graph: graph.key })}>
          {texts.openGraph}
        </Button>
      ) : (
        <button type="button" className="form-link" onClick={() => form.reveal(at)}>
          {texts.editAsYaml}
        </button>
      )}
    </div>
  );
}
