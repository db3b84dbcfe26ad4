import { memo, type CSSProperties } from "react";
import type { NodeProps } from "@xyflow/react";
import type { DrawnNode } from "../../../api/schema";
import { Ends } from "../../../graph/Marks";
import type { Loop, RegionNode } from "../../../graph/scene";
import { proofText } from "../../../graph/texts";
import { useMessages } from "../../../i18n/messages";
import { Icon, nodeLook } from "../../../ui/Icon";
import { StatusShape } from "../../../ui/Status";
import { useShown } from "./graph_context";
import { messages } from "./messages";
import { StopDot, useNodeButton } from "./NodeCard";
import { Rounds } from "./Rounds";
import { roundText, spokenOf } from "./texts";
import { useLoopView, useNodeView } from "./useViews";
import "../../../graph/region_frame.css";

/** A loop, or a node with graphs inside: a frame with a header. */
export const RegionFrame = memo(function RegionFrame({ data }: NodeProps<RegionNode>) {
  const { region, owner, loop } = data;
  // A third level of tint would be too dark to read on.
  const tint = region.depth < 2 ? `graph-region-${region.depth}` : "";
  const kind = region.repeats ? "graph-region-loop" : "graph-region-plain";
  return (
    <div className={`graph-region ${kind} ${tint}`}>
      <div className="graph-region-head" style={{ left: region.title_x - region.box.x }}>
        {owner !== null ? <OwnerTitle node={owner} loop={loop} /> : loop !== null && <LoopTitle loop={loop} />}
      </div>
      {owner !== null && <OwnerState node={owner} />}
      <Ends />
    </div>
  );
});

function LoopTitle({ loop }: { loop: Loop }) {
  const texts = useMessages(messages);
  const view = useLoopView(loop.region.key);
  const name = loop.region.title.replace(/^loop /, "");
  return (
    <>
      <div className="graph-region-title">
        <span className="graph-region-name ellipsis">{name}</span>
        <span className="graph-region-round">{roundText(loop, view, texts)}</span>
      </div>
      <ProofLine {...proofText(loop, texts)} />
      <Rounds loop={loop} view={view} />
    </>
  );
}

function OwnerTitle({ node, loop }: { node: DrawnNode; loop: Loop | null }) {
  const texts = useMessages(messages);
  const view = useNodeView(node.key);
  const stop = useShown((shown) => shown.stops.get(node.key));
  const isSelected = useShown((shown) => shown.selected === node.key);
  const button = useNodeButton(node.key);
  const look = nodeLook(node.type);
  return (
    <>
      <div className="graph-region-title">
        <button
          {...button}
          type="button"
          className="graph-owner"
          style={{ "--kind": look.color } as CSSProperties}
          aria-pressed={isSelected}
        >
          <span className="hidden-text">{spokenOf(node, view, stop, undefined, 0, texts)}</span>
          <span className="graph-tile graph-tile-small">
            <Icon name={look.icon} size={12} />
          </span>
          <span className="graph-name ellipsis" aria-hidden="true">
            {node.id}
          </span>
        </button>
        {view.runs > 1 && <span className="graph-runs">×{view.runs}</span>}
        {loop !== null && <OwnerRound loop={loop} />}
      </div>
      {loop === null ? <div className="graph-region-line ellipsis">{node.type}</div> : <OwnerRounds node={node} loop={loop} />}
    </>
  );
}

function OwnerRound({ loop }: { loop: Loop }) {
  const texts = useMessages(messages);
  return <span className="graph-region-round">{roundText(loop, useLoopView(loop.region.key), texts)}</span>;
}

function OwnerRounds({ node, loop }: { node: DrawnNode; loop: Loop }) {
  const texts = useMessages(messages);
  const view = useLoopView(loop.region.key);
  // It is bounded by itself: its name would only repeat the title.
  const { isProved } = proofText(loop, texts);
  return (
    <>
      <ProofLine text={isProved ? texts.ownProof(node.type) : texts.ownNoProof(node.type)} isProved={isProved} />
      <Rounds loop={loop} view={view} />
    </>
  );
}

/** The ring and the marks of a node with graphs inside, around its whole frame. */
function OwnerState({ node }: { node: DrawnNode }) {
  const texts = useMessages(messages);
  const view = useNodeView(node.key);
  const isSelected = useShown((shown) => shown.selected === node.key);
  return (
    <>
      <div className={`graph-region-ring graph-ring-${view.status}`} data-selected={isSelected || undefined} />
      {(view.status === "completed" || view.status === "failed") && view.isCurrent && (
        <span className="graph-badge">
          <StatusShape status={view.status} size={14} />
        </span>
      )}
      {node.end && <span className="graph-end-badge">{texts.end}</span>}
      <StopDot node={node} />
    </>
  );
}

function ProofLine({ text, isProved }: { text: string; isProved: boolean }) {
  return (
    <div className={`graph-region-line ${isProved ? "graph-proved" : "graph-unproved"}`}>
      <Icon name={isProved ? "shield" : "warning"} size={12} />
      <span className="ellipsis">{text}</span>
    </div>
  );
}
