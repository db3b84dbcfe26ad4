// Regions: a loop with its bound and its proof, or what is missing for one; and nodes with graphs inside.
import { memo, useState, type CSSProperties } from "react";
import type { NodeProps } from "@xyflow/react";
import type { DrawnNode } from "../../../api/schema";
import { Ends } from "../../../graph/Marks";
import { messages as shapes } from "../../../graph/messages";
import type { Loop, RegionNode } from "../../../graph/scene";
import { proofText } from "../../../graph/texts";
import { useMessages } from "../../../i18n/messages";
import { Icon, nodeLook } from "../../../ui/Icon";
import { messages as runWords } from "../../run/graph/messages";
import { Rounds } from "../../run/graph/Rounds";
import { StateBadge } from "../../run/graph/StateBadge";
import { roundText } from "../../run/graph/texts";
import { useTriedLoop, useTriedNode } from "../try/useTried";
import { Handles, ProblemSign, spoken, Toggle, useIsSelected, useNodeButton, useSpokenState } from "./Card";
import { isOnlyCapped } from "./fix";
import { useTools } from "./tools";
import { useUi } from "./ui";
import "../../../graph/region_frame.css";

export const Frame = memo(function Frame({ data }: NodeProps<RegionNode>) {
  const { region, owner, loop } = data;
  const tint = region.depth < 2 ? `graph-region-${region.depth}` : "";
  const kind = region.repeats ? "graph-region-loop" : "graph-region-plain";
  const isOpen = owner === null && isOnlyCapped(region);
  return (
    <div className={`graph-region ${kind} ${tint} ${isOpen ? "canvas-region-open" : ""} ${owner ? "canvas-region-owner" : ""}`}>
      <div className="graph-region-head" style={{ left: region.title_x - region.box.x }}>
        {owner !== null ? <OwnerTitle node={owner} loop={loop} /> : loop && (isOpen ? <OpenTitle loop={loop} /> : <LoopTitle loop={loop} />)}
      </div>
      {owner !== null && <Toggle node={owner} />}
      {owner !== null && <OwnerState node={owner} />}
      {!isOpen && owner === null && <ProblemSign problems={region.problems} />}
      <Ends />
    </div>
  );
});

const nameOf = (loop: Loop) => loop.region.title.replace(/^loop /, "");

function LoopTitle({ loop }: { loop: Loop }) {
  const { texts } = useTools();
  const shape = useMessages(shapes);
  const proof = loop.proof === undefined ? { text: texts.noProofYet, isProved: false } : proofText(loop, shape);
  return (
    <>
      <div className="graph-region-title">
        <span className="graph-region-name ellipsis">{nameOf(loop)}</span>
        <Round loop={loop} otherwise={loop.most === null ? "" : loop.region.depth ? texts.eachTime(loop.most) : shape.upTo(loop.most)} />
      </div>
      <div className={`graph-region-line ${proof.isProved ? "graph-proved" : ""}`}>
        {loop.proof && <Icon name={proof.isProved ? "shield" : "warning"} size={12} />}
        <span className="ellipsis">{proof.text}</span>
      </div>
      <TriedRounds loop={loop} />
    </>
  );
}

/** The round in which the run is that tries the text, or what is known without one. */
function Round({ loop, otherwise }: { loop: Loop; otherwise: string }) {
  const words = useMessages(runWords);
  const view = useTriedLoop(loop.region.key);
  const text = view.round > 0 ? roundText(loop, view, words) : otherwise;
  return text && <span className="graph-region-round">{text}</span>;
}

function TriedRounds({ loop }: { loop: Loop }) {
  const view = useTriedLoop(loop.region.key);
  return view.round > 0 && <Rounds loop={loop} view={view} />;
}

/** A loop that only its cap ends: what is wrong, and one click that mends it. */
function OpenTitle({ loop }: { loop: Loop }) {
  const { ui, texts, commands, dialogs } = useTools();
  const { region, proof } = loop;
  const message = region.problems.find((one) => one.code === "only-capped");
  const preview = (key: string) => ui.setState({ previewed: key });
  return (
    <>
      <div className="graph-region-title canvas-open-title" title={message ? `${message.message}\n${message.hint}` : undefined}>
        <Icon name="warning" size={14} />
        <span className="graph-region-name ellipsis">{nameOf(loop)}</span>
        <Round loop={loop} otherwise={proof ? texts.onlyCap(proof.cap) : ""} />
      </div>
      <span className="hidden-text">{message?.message}</span>
      {commands.mayEdit && (
        <div className="canvas-open-actions nopan">
          {/* `F` does the same on any node of the loop; Tab goes straight to the nodes. */}
          <button
            type="button"
            className="button button-primary"
            tabIndex={-1}
            onClick={() => commands.fix(region.key)}
            onPointerEnter={() => preview(region.key)}
            onPointerLeave={() => preview("")}
          >
            {texts.addCounter}
            <kbd className="key" aria-hidden="true">
              F
            </kbd>
          </button>
          <button type="button" className="button button-quiet" tabIndex={-1} onClick={(event) => dialogs.cap(region.key, { x: event.clientX - 20, y: event.clientY + 12 })}>
            {texts.setCap}
          </button>
        </div>
      )}
    </>
  );
}

function OwnerTitle({ node, loop }: { node: DrawnNode; loop: Loop | null }) {
  const tools = useTools();
  const { texts } = tools;
  const shape = useMessages(shapes);
  const isSelected = useIsSelected(node.key);
  const tried = useTriedNode(node.key);
  const spokenState = useSpokenState(tried);
  const button = useNodeButton(node.key, tools);
  const look = nodeLook(node.type);
  return (
    <>
      <div className="graph-region-title">
        <button {...button} type="button" className="graph-owner nopan" style={{ "--kind": look.color } as CSSProperties} aria-pressed={isSelected}>
          <span className="hidden-text">{spoken(node, texts) + spokenState}</span>
          <span className="graph-tile graph-tile-small">
            <Icon name={look.icon} size={12} />
          </span>
          <span className="graph-name ellipsis" aria-hidden="true">
            {node.id}
          </span>
        </button>
        {tried.view.runs > 1 && <span className="graph-runs">×{tried.view.runs}</span>}
        {loop && <Round loop={loop} otherwise={loop.most === null ? "" : shape.upTo(loop.most)} />}
      </div>
      <div className="graph-region-line ellipsis">{node.type}</div>
      {loop && <TriedRounds loop={loop} />}
    </>
  );
}

/** The ring, the marks and the ports of a node with graphs inside. Its frame is its card while an edge is dragged. */
function OwnerState({ node }: { node: DrawnNode }) {
  const { texts } = useTools();
  const isSelected = useIsSelected(node.key);
  const { view, state, ready } = useTriedNode(node.key);
  const isOver = useUi((state) => state.wire?.over === node.key);
  const isWiring = useUi((state) => state.wire !== null);
  const [isNear, setNear] = useState(false);
  return (
    <>
      <div className={`graph-region-ring graph-ring-${view.status} ${isWiring ? "canvas-ring-wiring" : ""}`} data-card={node.key} data-selected={isSelected || undefined} data-over={isOver || undefined} />
      <ProblemSign problems={node.problems} />
      <StateBadge state={state} isHeld={ready === "next"} />
      {node.end && <span className="graph-end-badge">{texts.end}</span>}
      <div className="canvas-owner-foot" onPointerEnter={() => setNear(true)} onPointerLeave={() => setNear(false)}>
        {(isNear || isSelected) && <Handles node={node} box={{ ...node.box, y: node.box.y + node.box.height - 14, height: 14 }} />}
      </div>
    </>
  );
}
