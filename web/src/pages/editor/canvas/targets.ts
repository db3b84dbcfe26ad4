// Which line of the drawing is which edge of the text.
import type { Drawing } from "../../../api/schema";
import type { EdgeItem, Target, WorkflowDocument } from "../../../document/model";
import type { Line } from "../../../graph/scene";

export type EdgeTarget = Extract<Target, { kind: "edge" }>;

/** The key of a node by its graph and its id; undefined if only edges name it. */
export function keyIn(document: WorkflowDocument, graph: string, id: string): string | undefined {
  return document.graphs.get(graph)?.nodes.find((node) => node.id === id)?.key;
}

/** The edges of the text, by the places of their lines in the drawing. Several edges between two nodes keep their order. */
export function edgeTargets(document: WorkflowDocument, drawing: Drawing): Map<number, EdgeTarget> {
  const waiting = new Map<string, EdgeItem[]>();
  for (const graph of document.graphs.values()) {
    const keys = new Map(graph.nodes.map((node) => [node.id, node.key]));
    const prefix = graph.key ? `${graph.key}/` : "";
    for (const edge of graph.edges) {
      const [from, to] = [edge.from, edge.to].map((id) => keys.get(id) ?? prefix + id);
      const name = JSON.stringify([from, to, edge.port]);
      const list = waiting.get(name);
      if (list === undefined) waiting.set(name, [edge]);
      else list.push(edge);
    }
  }
  const targets = new Map<number, EdgeTarget>();
  drawing.edges.forEach((drawn, place) => {
    if (drawn.kind !== "edge") return;
    const edge = waiting.get(JSON.stringify([drawn.source, drawn.target, drawn.port]))?.shift();
    if (edge !== undefined) targets.set(place, { kind: "edge", graph: edge.graph, index: edge.index });
  });
  return targets;
}

/** The line of an edge. */
export function lineOf(lines: readonly Line[], targets: ReadonlyMap<number, EdgeTarget>, target: EdgeTarget): Line | undefined {
  for (const [place, one] of targets) if (one.graph === target.graph && one.index === target.index) return lines[place];
  return undefined;
}
