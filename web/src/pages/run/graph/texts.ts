// The words on nodes and loops.
import type { DrawnNode } from "../../../api/schema";
import type { Loop } from "../../../graph/scene";
import { limitText } from "../../../graph/texts";
import type { Execution } from "../../../live/run_model";
import type { Stop } from "./debugging";
import type { GraphTexts } from "./messages";
import type { LoopView, NodeView } from "./states";

/** What the caption of a node tells about its newest execution; a part of it, so that few events change it. */
export interface Doing {
  /** The tool that it calls now. */
  tool: string;
  /** The tool that waits for an approval; empty if it is a question. */
  approval: string;
  /** How often a guard has counted, and up to where. */
  count: number;
  most: number;
}

export const NOTHING: Doing = { tool: "", approval: "", count: 0, most: 0 };

export function doingOf(execution: Execution | undefined): Doing {
  if (execution === undefined) return NOTHING;
  const tool = execution.status === "running" ? execution.tools.findLast((one) => one.ended === null) : undefined;
  const { count, max_iterations } = execution.report ?? {};
  return {
    tool: tool?.name ?? "",
    approval: execution.question?.tool?.name ?? "",
    count: typeof count === "number" ? count : 0,
    most: typeof max_iterations === "number" ? max_iterations : 0,
  };
}

/** The second line of a node. */
export function captionOf(node: DrawnNode, status: string, doing: Doing, ready: string | undefined, texts: GraphTexts): string {
  if (ready === "next") return texts.next;
  if (ready === "held") return texts.held;
  if (status === "waiting") return doing.approval ? texts.approval(doing.approval) : texts.question;
  if (doing.tool) return texts.tool(doing.tool);
  if (doing.most) return texts.counted(node.type, doing.count, doing.most);
  return limitText(node.caption, texts);
}

/** What a screen reader says about a node: "Coder, agent, running, 12 runs". */
export function spokenOf(
  node: DrawnNode,
  view: NodeView,
  stop: Stop | undefined,
  ready: string | undefined,
  waiting: number,
  texts: GraphTexts,
): string {
  return [
    node.id,
    node.type,
    texts[view.status],
    ...(view.runs ? [texts.runs(view.runs)] : []),
    ...(ready === "next" ? [texts.next] : ready === "held" ? [texts.held] : []),
    ...(waiting ? [texts.waitsHere(waiting)] : []),
    ...(stop === "node" ? [texts.hasStop] : stop === "some" ? [texts.hasSomeStop] : []),
  ].join(texts.comma);
}

/** "round 4 of ≤ 10" */
export function roundText(loop: Loop, view: LoopView, texts: GraphTexts): string {
  const { most } = loop;
  if (!view.round) return most === null ? "" : texts.upTo(most);
  return most === null ? texts.round(view.round) : texts.roundOf(view.round, most);
}

/** How many dots a loop has at most; beyond that it gets a bar. */
export const MOST_DOTS = 12;

export type Dot = "done" | "current" | "possible";

export function dotsOf(most: number, view: LoopView): Dot[] {
  return Array.from({ length: Math.max(most, view.round) }, (_, at): Dot => {
    if (at + 1 === view.round && view.isOpen) return "current";
    return at < view.round ? "done" : "possible";
  });
}
