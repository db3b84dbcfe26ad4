// Why a run failed, and what a retry would do.
import type { Drawing, DrawnEdge } from "../../../api/schema";
import { parseAddress } from "../../../live/address";
import type { Execution, RunModel } from "../../../live/run_model";

/** The executions whose failure ended the run, the last one first. A node fails with the node inside it: only
 * the innermost ones count. */
export function failuresOf(model: RunModel): Execution[] {
  const failed: Execution[] = [];
  for (const address of model.sequence) {
    const execution = model.executions.get(address);
    if (execution?.status === "failed" && execution.handled !== true) failed.push(execution);
  }
  const inner = failed.filter((one) => !failed.some((other) => other.key.startsWith(`${one.key}/`)));
  return inner.sort((a, b) => (b.ended ?? 0) - (a.ended ?? 0));
}

/** The failure that the run reports: its error begins with the address. */
export function mainFailure(model: RunModel): Execution | undefined {
  const failures = failuresOf(model);
  return failures.find((one) => model.error.startsWith(`${one.address}: `)) ?? failures[0];
}

export interface ErrorEdge {
  edge: DrawnEdge;
  /** Whether it leaves the node itself, and not a node around it. */
  isOwn: boolean;
}

/** The edges that could take a failure: those of the node, and of the nodes that contain it. */
export function errorEdges(drawing: Drawing, key: string): ErrorEdge[] {
  const isAround = (source: string) => source === key || key.startsWith(`${source}/`);
  return drawing.edges
    .filter((edge) => edge.port === "error" && edge.triggers && isAround(edge.source))
    .map((edge) => ({ edge, isOwn: edge.source === key }));
}

export interface RetryPlan {
  /** What runs again. */
  again: { address: string; nodeId: string; toolRound: number | null; isEdge: boolean }[];
  /** The ids of nodes after it, in the order of the edges. */
  then: string[];
  /** Executions that finished and are not repeated. */
  kept: number;
  /** Complete rounds before the failure, of the loop that it is in. */
  keptRounds: number;
  /** Tool calls of the failed executions that are not repeated. */
  keptCalls: number;
}

const CANCELLED = "the run has failed";

export function retryPlan(model: RunModel, drawing: Drawing): RetryPlan {
  const failures = failuresOf(model);
  const again: RetryPlan["again"] = failures.map((one) => ({
    address: one.address,
    nodeId: one.node_id,
    toolRound: one.tools.length ? Math.max(...one.tools.map((call) => call.round)) + 1 : null,
    // A node whose edge failed had completed: only the edge is tried again.
    isEdge: one.output !== undefined,
  }));
  let kept = 0;
  for (const execution of model.executions.values()) {
    if (execution.status === "completed") kept++;
    else if (execution.status === "skipped" && execution.reason === CANCELLED) {
      again.push({ address: execution.address, nodeId: execution.node_id, toolRound: null, isEdge: false });
    }
  }
  const keptCalls = failures.reduce((sum, one) => sum + one.tools.filter((call) => call.ended !== null).length, 0);
  const step = parseAddress(failures[0]?.address ?? "").rounds.at(-1);
  const keptRounds = step === undefined ? 0 : step.round - 1;
  return { again, then: nodesAfter(drawing, failures.map((one) => one.key)), kept, keptRounds, keptCalls };
}

/** The ids of the nodes that follow, without going back to the entry of a loop. */
function nodesAfter(drawing: Drawing, keys: readonly string[]): string[] {
  const found: string[] = [];
  const seen = new Set(keys);
  let queue = [...keys];
  while (queue.length) {
    const next: string[] = [];
    for (const edge of drawing.edges) {
      if (edge.kind !== "edge" || edge.back || edge.explicit || !edge.triggers) continue;
      if (!queue.includes(edge.source) || seen.has(edge.target)) continue;
      seen.add(edge.target);
      next.push(edge.target);
      found.push(drawing.nodes.find((node) => node.key === edge.target)?.id ?? edge.target);
    }
    queue = next;
  }
  return found;
}

/** Limits from the fields of a form; those that are empty stay as they are. Undefined if a value is no
 * positive number. */
export function readLimits(given: Readonly<Record<string, string>>): Record<string, number> | undefined {
  const limits: Record<string, number> = {};
  for (const [name, text] of Object.entries(given)) {
    if (text.trim() === "") continue;
    const value = Number(text.replaceAll(",", ""));
    if (!Number.isFinite(value) || value <= 0) return undefined;
    limits[name] = value;
  }
  return limits;
}
