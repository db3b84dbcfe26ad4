import { memo, useEffect, useRef, useState, type CSSProperties, type MouseEvent } from "react";
import type { NodeProps } from "@xyflow/react";
import type { Diagnostic, DrawnNode, Rect } from "../../../api/schema";
import { Ends } from "../../../graph/Marks";
import type { CardNode } from "../../../graph/scene";
import { useMessages } from "../../../i18n/messages";
import { Icon, nodeLook } from "../../../ui/Icon";
import { messages as runWords } from "../../run/graph/messages";
import { StateBadge } from "../../run/graph/StateBadge";
import { captionOf } from "../../run/graph/texts";
import { isInside } from "../collapsed";
import { useEditor } from "../store";
import { useTriedNode, type TriedNode } from "../try/useTried";
import { dragNode, dragWire } from "./gestures";
import type { CanvasTexts } from "./messages";
import { portsOf } from "./node_types";
import { useTools, type Tools } from "./tools";
import { useUi } from "./ui";
import "../../../graph/node_card.css";

export function useIsSelected(key: string): boolean {
  return useEditor((state) => state.selection.some((target) => target.kind === "node" && target.key === key));
}

/** What a screen reader says about a node: "Coder, agent, start, 1 problem: …". */
export function spoken(node: DrawnNode, texts: CanvasTexts): string {
  return [
    node.id,
    node.type,
    ...(node.start ? [texts.isStart] : []),
    ...(node.end ? [texts.isEnd] : []),
    ...(node.missing ? [texts.missing] : []),
    ...(node.inside ? [texts.closedWith(node.inside.nodes)] : []),
    ...(node.problems.length ? [`${texts.problemsOf(node.problems.length)}: ${node.problems.map((one) => one.message).join("; ")}`] : []),
  ].join(", ");
}

/** The same about a node that was tried: "running, 2 runs". */
export function useSpokenState({ view, ready }: TriedNode): string {
  const words = useMessages(runWords);
  const parts = [...(view.runs ? [words[view.status], words.runs(view.runs)] : []), ...(ready ? [words[ready]] : [])];
  return parts.map((part) => words.comma + part).join("");
}

/** The button of a node: takes part in the roving tab order, selects, and can be dragged. */
export function useNodeButton(key: string, tools: Tools) {
  const { ui, editor, dialogs } = tools;
  const ref = useRef<HTMLButtonElement>(null);
  const isCursor = useUi((state) => state.cursor === key);
  const isWanted = useUi((state) => state.wanted === key && state.side === "canvas" && state.overlay === null);
  useEffect(() => {
    if (!isWanted) return;
    ref.current?.focus({ preventScroll: true });
    ui.setState({ wanted: "" });
  }, [isWanted, ui]);
  return {
    ref,
    "data-key": key,
    "data-card": key,
    tabIndex: isCursor ? 0 : -1,
    onFocus: () => ui.setState({ cursor: key }),
    onClick: (event: MouseEvent) => {
      if (event.shiftKey || event.ctrlKey || event.metaKey) editor.getState().toggleSelected({ kind: "node", key });
      else editor.getState().select([{ kind: "node", key }]);
    },
    onDoubleClick: () => dialogs.rename(key),
    onPointerDown: (event: React.PointerEvent) => dragNode(event, key, tools),
  };
}

/** The worst problem as a sign; all of them as its words. */
export function ProblemSign({ problems }: { problems: readonly Diagnostic[] }) {
  if (!problems.length) return null;
  const isError = problems.some((one) => one.severity === "error");
  const text = problems.map((one) => (one.hint ? `${one.message}\n${one.hint}` : one.message)).join("\n\n");
  return (
    <span className={`canvas-problem ${isError ? "canvas-problem-error" : ""}`} title={text} aria-hidden="true">
      <Icon name="warning" size={12} />
    </span>
  );
}

export const Card = memo(function Card({ data }: NodeProps<CardNode>) {
  const { drawn } = data;
  const tools = useTools();
  const { texts } = tools;
  const words = useMessages(runWords);
  const tried = useTriedNode(drawn.key);
  const { view, doing, state, ready } = tried;
  const spokenState = useSpokenState(tried);
  const isSelected = useIsSelected(drawn.key);
  const isOver = useUi((canvas) => canvas.wire?.over === drawn.key);
  const button = useNodeButton(drawn.key, tools);
  const holdsSelected = useEditor((editor) => drawn.inside !== null && editor.selection.some((one) => one.kind === "node" && isInside(one.key, drawn.key)));
  const [isNear, setNear] = useState(false);
  const look = nodeLook(drawn.type);
  return (
    <div
      className={`graph-card canvas-card nopan graph-is-${state} ${drawn.end ? "graph-card-end" : ""} ${drawn.missing ? "canvas-card-missing" : ""} ${drawn.inside ? "canvas-card-closed" : ""}`}
      data-selected={isSelected || undefined}
      data-holds={holdsSelected || undefined}
      data-over={isOver || undefined}
      data-ready={ready}
      data-card={drawn.key}
      style={{ "--kind": look.color } as CSSProperties}
      onPointerEnter={() => setNear(true)}
      onPointerLeave={() => setNear(false)}
    >
      <button {...button} type="button" className="graph-card-body" aria-pressed={isSelected} title={drawn.label === drawn.id ? undefined : drawn.id}>
        <span className="hidden-text">{spoken(drawn, texts) + spokenState}</span>
        <span className="graph-card-inside" aria-hidden="true">
          <span className="graph-tile">
            <Icon name={look.icon} size={14} />
          </span>
          <span className="graph-name ellipsis">{drawn.id}</span>
          {view.runs > 0 && <span className="graph-runs">×{view.runs}</span>}
          <span className="graph-caption ellipsis">{captionOf(drawn, view.status, doing, ready, words)}</span>
        </span>
      </button>
      {drawn.inside && <Toggle node={drawn} />}
      <ProblemSign problems={drawn.problems} />
      <StateBadge state={state} isHeld={ready === "next"} />
      {drawn.end && <span className="graph-end-badge">{texts.end}</span>}
      {(isNear || isSelected) && !drawn.missing && <Handles node={drawn} box={drawn.box} />}
      <Ends />
    </div>
  );
});

/** Collapses a node with graphs inside, or opens it. `.` does the same, so it is no stop of Tab. */
export function Toggle({ node }: { node: DrawnNode }) {
  const { commands, texts } = useTools();
  const label = node.inside ? texts.openNode(node.id) : texts.closeNode(node.id);
  return (
    <button
      type="button"
      className="canvas-toggle nopan"
      tabIndex={-1}
      aria-label={label}
      title={`${label} (.)`}
      onClick={(event) => {
        event.stopPropagation();
        commands.toggle(node.key);
      }}
    >
      <Icon name={node.inside ? "right" : "down"} size={12} />
    </button>
  );
}

/** The ports of a node, from which edges are dragged. Keys do the same (`C`), so they are no stops of Tab. */
export function Handles({ node, box }: { node: DrawnNode; box: Rect }) {
  const tools = useTools();
  const { commands, dialogs, types, texts } = tools;
  const item = commands.node(node.key);
  if (item === undefined || !commands.mayEdit) return null;
  const ports = portsOf(types, item, texts.plainPort);
  const below = ports.filter((port) => port.name !== "continue" && port.name !== "error" && port.name !== "timeout");
  return ports.map((port) => {
    const side = port.name === "continue" ? "right" : port.name === "error" || port.name === "timeout" ? port.name : "bottom";
    const share = side === "bottom" ? (below.indexOf(port) + 1) / (below.length + 1) : 0;
    const place = placeOf(side, share, box);
    const label = port.name ? texts.handle(port.name) : texts.plainHandle;
    return (
      <span
        key={port.name}
        className={`canvas-port canvas-port-${port.name || "plain"}`}
        data-port={port.name}
        title={port.name ? `${port.name}: ${label}` : label}
        style={{ left: place.x - box.x, top: place.y - box.y }}
        onPointerDown={(event) =>
          dragWire(event, place, tools, (key, at) => {
            if (key) commands.connect(node.key, key, port.name);
            else dialogs.chooseType(texts.addHere, { from: node.key, port: port.name }, at);
          })
        }
      />
    );
  });
}

function placeOf(side: string, share: number, box: Rect) {
  if (side === "right") return { x: box.x + box.width, y: box.y + box.height / 2 };
  if (side === "error") return { x: box.x + box.width - 12, y: box.y + box.height };
  if (side === "timeout") return { x: box.x + 12, y: box.y + box.height };
  return { x: box.x + box.width * share, y: box.y + box.height };
}
