// The same graph as a list: what is inside what, the state of each node, the round of each loop.
import { memo, useEffect, useMemo, useRef, type CSSProperties, type KeyboardEvent } from "react";
import type { DrawnNode } from "../../../api/schema";
import { outlineOf, type Row } from "../../../graph/outline_rows";
import type { Loop } from "../../../graph/scene";
import { proofText } from "../../../graph/texts";
import { useMessages } from "../../../i18n/messages";
import { Icon, nodeLook } from "../../../ui/Icon";
import { StatusShape } from "../../../ui/Status";
import { useGraph, useShown } from "./graph_context";
import { messages } from "./messages";
import { useNodeButton } from "./NodeCard";
import { captionOf, roundText, spokenOf } from "./texts";
import { useDoing, useLoopView, useNodeView } from "./useViews";
import "./outline.css";

export function Outline() {
  const texts = useMessages(messages);
  const { scene, shown, toggleStop } = useGraph();
  const rows = useMemo(() => outlineOf(scene), [scene]);
  const list = useRef<HTMLDivElement>(null);
  const keys = useMemo(() => rows.flatMap((row) => (row.node ? [row.node.key] : [])), [rows]);

  useEffect(() => {
    list.current?.querySelector(`[tabindex="0"]`)?.scrollIntoView({ block: "nearest" });
  }, []);

  const onKeyDown = (event: KeyboardEvent) => {
    const { cursor } = shown.getState();
    const at = keys.indexOf(cursor);
    const steps: Record<string, number> = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: keys.length - 1 };
    const target = steps[event.key];
    if (target !== undefined) {
      event.preventDefault();
      const key = keys[Math.min(keys.length - 1, Math.max(0, target))];
      if (key !== undefined) shown.setState({ cursor: key, wanted: key });
    } else if (event.key.toLowerCase() === "b" && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      toggleStop(cursor);
    }
  };
  return (
    <div ref={list} className="graph-outline" role="tree" aria-label={texts.outline} onKeyDown={onKeyDown}>
      {rows.map((row) => (
        <OutlineRow key={row.key} row={row} />
      ))}
    </div>
  );
}

const OutlineRow = memo(function OutlineRow({ row }: { row: Row }) {
  const indent = { "--level": row.level } as CSSProperties;
  return (
    <div role="none" className="graph-outline-row" style={indent}>
      {row.node === null ? (
        row.loop && <LoopRow loop={row.loop} level={row.level} />
      ) : (
        <NodeRow node={row.node} loop={row.loop} level={row.level} />
      )}
    </div>
  );
});

function LoopRow({ loop, level }: { loop: Loop; level: number }) {
  const texts = useMessages(messages);
  const view = useLoopView(loop.region.key);
  const proof = proofText(loop, texts);
  return (
    <div role="treeitem" aria-level={level + 1} className="graph-outline-loop">
      <Icon name="loop" size={14} />
      <span className="graph-region-name ellipsis">{loop.region.title.replace(/^loop /, "")}</span>
      <span className="graph-region-round">{roundText(loop, view, texts)}</span>
      <span className="graph-outline-proof ellipsis">{proof.text}</span>
    </div>
  );
}

function NodeRow({ node, loop, level }: { node: DrawnNode; loop: Loop | null; level: number }) {
  const texts = useMessages(messages);
  const view = useNodeView(node.key);
  const doing = useDoing(view);
  const stop = useShown((shown) => shown.stops.get(node.key));
  const ready = useShown((shown) => (shown.past ? undefined : shown.ready.get(node.key)));
  const isSelected = useShown((shown) => shown.selected === node.key);
  const button = useNodeButton(node.key);
  const look = nodeLook(node.type);
  const { status } = view;
  return (
    <button
      {...button}
      type="button"
      role="treeitem"
      aria-level={level + 1}
      aria-selected={isSelected}
      className="graph-outline-node"
      style={{ "--kind": look.color } as CSSProperties}
    >
      <span className="hidden-text">{spokenOf(node, view, stop, ready, 0, texts)}</span>
      <span className="graph-outline-inside" aria-hidden="true">
        <span className="graph-tile graph-tile-small">
          <Icon name={look.icon} size={12} />
        </span>
        <span className="graph-name ellipsis">{node.id}</span>
        {stop && <span className={`graph-stop graph-stop-${stop}`} />}
        <span className="graph-outline-caption ellipsis">{captionOf(node, status, doing, ready, texts)}</span>
        {loop !== null && <OwnRound loop={loop} />}
        {view.runs > 0 && <span className="graph-runs">×{view.runs}</span>}
        <span className={`graph-outline-state graph-says-${status}`}>
          {status !== "idle" && status !== "skipped" && <StatusShape status={status} size={12} />}
          {texts[status]}
        </span>
      </span>
    </button>
  );
}

function OwnRound({ loop }: { loop: Loop }) {
  const texts = useMessages(messages);
  return <span className="graph-region-round">{roundText(loop, useLoopView(loop.region.key), texts)}</span>;
}
