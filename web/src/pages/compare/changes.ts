// What a fork changed: a message, limits, the graph.
import type { RunPlan } from "../../api/schema";
import type { RunModel } from "../../live/run_model";

export interface LimitChange {
  name: string;
  a: unknown;
  b: unknown;
}

export function limitChanges(a: RunPlan, b: RunPlan): LimitChange[] {
  const names = [...new Set([...Object.keys(a.limits), ...Object.keys(b.limits)])];
  return names
    .map((name) => ({ name, a: a.limits[name] ?? null, b: b.limits[name] ?? null }))
    .filter((change) => JSON.stringify(change.a) !== JSON.stringify(change.b));
}

export interface GraphChanges {
  /** Nodes, edges, bounds and decisions are the same. */
  isSame: boolean;
  /** Different names: these are different workflows. */
  isOtherWorkflow: boolean;
  added: string[];
  removed: string[];
  /** Nodes whose type, limit or decision differs. */
  changed: string[];
  /** Whether edges differ. */
  edges: boolean;
}

export function graphChanges(a: RunPlan, b: RunPlan): GraphChanges {
  const nodesA = describedNodes(a);
  const nodesB = describedNodes(b);
  const added = [...nodesB.keys()].filter((key) => !nodesA.has(key));
  const removed = [...nodesA.keys()].filter((key) => !nodesB.has(key));
  const changed = [...nodesB.keys()].filter((key) => nodesA.has(key) && nodesA.get(key) !== nodesB.get(key));
  const edges = describedEdges(a) !== describedEdges(b);
  const isOtherWorkflow = a.workflow !== b.workflow;
  const isSame = !isOtherWorkflow && !edges && added.length + removed.length + changed.length === 0;
  return { isSame, isOtherWorkflow, added, removed, changed, edges };
}

function describedNodes(plan: RunPlan): Map<string, string> {
  return new Map(
    plan.drawing.nodes.map((node) => {
      const decision = plan.decisions.find((one) => one.node === node.id);
      const proofs = plan.loops.filter((proof) => proof.id === node.id);
      return [node.key, JSON.stringify([node.type, node.caption, node.start, node.end, decision, proofs])];
    }),
  );
}

function describedEdges(plan: RunPlan): string {
  const texts = plan.drawing.edges.map((edge) =>
    JSON.stringify([edge.source, edge.target, edge.port, edge.text, edge.triggers]),
  );
  return texts.sort().join("\n");
}

export interface Edit {
  at: number;
  address: string;
  text: string;
}

/** The messages that were changed in one run and not in the other. */
export function editsOnlyIn(model: RunModel, other: RunModel): Edit[] {
  const known = new Set(other.edits.map((edit) => `${edit.at} ${edit.address} ${edit.text}`));
  return model.edits.filter((edit) => !known.has(`${edit.at} ${edit.address} ${edit.text}`));
}
