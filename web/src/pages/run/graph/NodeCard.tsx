import { memo, useEffect, useRef, type CSSProperties } from "react";
import type { NodeProps } from "@xyflow/react";
import type { DrawnNode } from "../../../api/schema";
import { Ends } from "../../../graph/Marks";
import type { CardNode } from "../../../graph/scene";
import { useMessages } from "../../../i18n/messages";
import { Icon, nodeLook } from "../../../ui/Icon";
import { useGraph, useShown } from "./graph_context";
import { messages } from "./messages";
import { StateBadge } from "./StateBadge";
import { captionOf, spokenOf } from "./texts";
import { useDoing, useNodeView } from "./useViews";
import "../../../graph/node_card.css";

/** The button of a node: takes part in the roving tab order, and selects. */
export function useNodeButton(key: string) {
  const { shown, choose } = useGraph();
  const ref = useRef<HTMLButtonElement>(null);
  const isCursor = useShown((state) => state.cursor === key);
  const isWanted = useShown((state) => state.wanted === key);
  useEffect(() => {
    if (!isWanted) return;
    ref.current?.focus({ preventScroll: true });
    shown.setState({ wanted: "" });
  }, [isWanted, shown]);
  return {
    ref,
    "data-key": key,
    tabIndex: isCursor ? 0 : -1,
    onFocus: () => shown.setState({ cursor: key }),
    onClick: () => choose(key),
  };
}

/** A red dot at the left; an empty place for one while the pointer is on the node. */
export function StopDot({ node }: { node: DrawnNode }) {
  const texts = useMessages(messages);
  const { mayControl, toggleStop } = useGraph();
  const stop = useShown((shown) => shown.stops.get(node.key));
  const look = `graph-stop ${stop ? `graph-stop-${stop}` : ""}`;
  if (!mayControl) return stop ? <span className={look} /> : null;
  const label = stop === "node" ? texts.removeStop(node.id) : texts.setStop(node.id);
  // The key B does the same on the node itself, so the dot is no stop of its own on the way of Tab.
  return (
    <button type="button" className={look} tabIndex={-1} title={label} aria-label={label} onClick={() => toggleStop(node.key)} />
  );
}

export const NodeCard = memo(function NodeCard({ data }: NodeProps<CardNode>) {
  const { drawn } = data;
  const texts = useMessages(messages);
  const view = useNodeView(drawn.key);
  const doing = useDoing(view);
  const stop = useShown((shown) => shown.stops.get(drawn.key));
  const ready = useShown((shown) => (shown.past ? undefined : shown.ready.get(drawn.key)));
  const waiting = useShown((shown) => (shown.past ? 0 : (shown.waiting.nodes.get(drawn.key) ?? 0)));
  const isSelected = useShown((shown) => shown.selected === drawn.key);
  const button = useNodeButton(drawn.key);
  const look = nodeLook(drawn.type);
  const caption = captionOf(drawn, view.status, doing, ready, texts);
  const state = view.status === "running" || view.status === "waiting" || view.isCurrent ? view.status : "idle";
  return (
    <div
      className={`graph-card graph-is-${state} ${drawn.end ? "graph-card-end" : ""}`}
      data-selected={isSelected || undefined}
      data-ready={ready}
      style={{ "--kind": look.color } as CSSProperties}
    >
      <button
        {...button}
        type="button"
        className="graph-card-body"
        aria-pressed={isSelected}
        title={drawn.label === drawn.id ? undefined : drawn.id}
      >
        {/* No `aria-label`: speech input takes the visible words, and a label would have to repeat them. */}
        <span className="hidden-text">{spokenOf(drawn, view, stop, ready, waiting, texts)}</span>
        <span className="graph-card-inside" aria-hidden="true">
          <span className="graph-tile">
            <Icon name={look.icon} size={14} />
          </span>
          <span className="graph-name ellipsis">{drawn.id}</span>
          {view.runs > 0 && <span className="graph-runs">×{view.runs}</span>}
          <span className="graph-caption ellipsis">{caption}</span>
        </span>
      </button>
      <StateBadge state={state} isHeld={ready === "next"} />
      {drawn.end && <span className="graph-end-badge">{texts.end}</span>}
      {waiting > 0 && <span className="graph-count">{waiting}</span>}
      <StopDot node={drawn} />
      <Ends />
    </div>
  );
});
