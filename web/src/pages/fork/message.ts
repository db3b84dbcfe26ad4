// The message that a node received: events do not have it, but it is what the node before it returned.
import { isInside } from "../../live/address";
import type { Drawing } from "../../api/schema";
import type { Execution, RunModel } from "../../live/run_model";

export interface Received {
  text: string;
  /** The node that wrote it; empty for the input of the run. */
  from: string;
}

/** The execution at which a fork begins: the one at this address, or the first of this round. */
export function executionAt(model: RunModel, at: string): Execution | undefined {
  const own = model.executions.get(at);
  if (own !== undefined) return own;
  for (const address of model.sequence) {
    if (isInside(address, at)) return model.executions.get(address);
  }
  return undefined;
}

/** The newest message that was on its way to an execution when it began: the last output of the nodes whose
 * edges lead to it; the input for the first node. Undefined if nothing is known. */
export function messageBefore(model: RunModel, drawing: Drawing, at: string): Received | undefined {
  const execution = executionAt(model, at);
  if (execution === undefined) return undefined;
  const sources = new Set(
    drawing.edges.filter((edge) => edge.target === execution.key && edge.kind === "edge").map((edge) => edge.source),
  );
  let newest: Execution | undefined;
  for (const address of model.sequence) {
    if (address === execution.address) break;
    const one = model.executions.get(address);
    if (one === undefined || !sources.has(one.key) || one.output === undefined || one.ended === null) continue;
    if (one.ended <= execution.started && (newest === undefined || one.ended >= newest.ended!)) newest = one;
  }
  if (newest?.output !== undefined) return { text: newest.output, from: newest.node_id };
  const isFirst = drawing.nodes.some((node) => node.key === execution.key && node.start && node.parent === "");
  const isStart = isFirst || drawing.edges.some((edge) => edge.kind === "start" && edge.target === execution.key);
  return isStart && model.input ? { text: model.input, from: "" } : undefined;
}
