// The same workflow as a tree of graphs, loops, nodes and edges, with the same commands: no part of it needs the canvas.
import { memo, useCallback, useEffect, useMemo, useRef, useState, type CSSProperties, type KeyboardEvent } from "react";
import type { Diagnostic } from "../../../api/schema";
import { isSame, type Target } from "../../../document/model";
import { messages as shapes } from "../../../graph/messages";
import { limitText, proofText } from "../../../graph/texts";
import { useMessages } from "../../../i18n/messages";
import { Button } from "../../../ui/Button";
import { Icon, nodeLook } from "../../../ui/Icon";
import { useEditor } from "../store";
import { ProblemSign, spoken, Toggle } from "./Card";
import { clipboardOf, onEditKey } from "./edit_keys";
import { isOnlyCapped } from "./fix";
import { isExpanded, rowsOf, step, type OutlineRow } from "./outline";
import { Overlays } from "./Overlays";
import { ToolsContext, useNewTools, useTools } from "./tools";
import { useUi } from "./ui";
import { useCanvasKeys } from "./useCanvasKeys";
import { useScene } from "./useScene";
import "../../../graph/node_card.css";
import "../../../graph/region_frame.css";
import "./canvas.css";
import "./outline.css";

export function OutlinePane() {
  const tools = useNewTools();
  return (
    <ToolsContext value={tools}>
      <Tree />
      <Overlays />
    </ToolsContext>
  );
}

function targetOf(row: OutlineRow): Target | null {
  if (row.kind === "node") return { kind: "node", key: row.node.key };
  if (row.kind === "edge") return row.target;
  return row.kind === "graph" ? { kind: "graph", graph: row.graph } : null;
}

function Tree() {
  const tools = useTools();
  const { editor, ui, texts } = tools;
  const scene = useScene();
  const targets = useUi((state) => state.targets);
  const document = useEditor((state) => state.lastGood);
  const rows = useMemo(() => rowsOf(scene, document, targets), [scene, document, targets]);
  const [cursor, setCursor] = useState("");
  const tree = useRef<HTMLDivElement>(null);
  const current = rows.some((row) => row.id === cursor) ? cursor : (rows[0]?.id ?? "");

  const focus = useCallback((id: string) => {
    setCursor(id);
    tree.current?.querySelector<HTMLElement>(`[data-row="${CSS.escape(id)}"]`)?.focus();
  }, []);
  const choose = useCallback(
    (row: OutlineRow, isAdded = false) => {
      const target = targetOf(row);
      if (target && isAdded) editor.getState().toggleSelected(target);
      else editor.getState().select(target ? [target] : []);
    },
    [editor],
  );
  const goTo = useCallback((key: string) => ui.setState({ wanted: key, side: "outline" }), [ui]);
  useCanvasKeys(goTo);

  // What was selected elsewhere, or made here, is where the keyboard goes on.
  const selection = useEditor((state) => state.selection);
  useEffect(() => {
    const [only] = selection;
    const row = only && rows.find((one) => isTarget(one, only));
    if (row) setCursor(row.id);
  }, [selection, rows]);
  const wanted = useUi((state) => (state.side === "outline" && state.overlay === null ? state.wanted : ""));
  useEffect(() => {
    if (!wanted || !rows.some((row) => row.id === wanted)) return;
    focus(wanted);
    ui.setState({ wanted: "" });
  }, [wanted, rows, focus, ui]);

  const onKeyDown = (event: KeyboardEvent) => {
    const isPlain = !event.ctrlKey && !event.metaKey && !event.altKey;
    const now = rows.find((row) => row.id === current);
    if (isPlain && event.key === { true: "ArrowLeft", false: "ArrowRight" }[String(isExpanded(now))] && now?.kind === "node") {
      event.preventDefault();
      tools.commands.toggle(now.node.key);
      return;
    }
    const next = isPlain ? step(rows, rows.findIndex((row) => row.id === current), event.key) : undefined;
    const row = next === undefined ? undefined : rows[next];
    if (row === undefined) {
      onEditKey(event, tools, goTo);
      return;
    }
    event.preventDefault();
    choose(row, false);
    focus(row.id);
  };
  return (
    <div className="outline-pane">
      <header className="canvas-header">
        <h2>{texts.outline}</h2>
      </header>
      <div
        ref={tree}
        className="outline-tree"
        role="tree"
        aria-multiselectable="true"
        aria-label={texts.outline}
        title={texts.outlineHelp}
        onKeyDown={onKeyDown}
        onFocus={() => ui.setState({ side: "outline" })}
        {...clipboardOf(tools)}
      >
        {rows.map((row) => (
          <Row key={row.id} row={row} isCursor={row.id === current} onChoose={choose} />
        ))}
      </div>
    </div>
  );
}

const isTarget = (row: OutlineRow, target: Target) => {
  const own = targetOf(row);
  return own !== null && isSame(own, target);
};

const Row = memo(function Row({ row, isCursor, onChoose }: { row: OutlineRow; isCursor: boolean; onChoose: (row: OutlineRow, isAdded: boolean) => void }) {
  const { dialogs } = useTools();
  const isSelected = useEditor((state) => state.selection.some((target) => isTarget(row, target)));
  const key = row.kind === "node" ? row.node.key : undefined;
  return (
    <div
      role="treeitem"
      className={`outline-row outline-${row.kind}`}
      data-row={row.id}
      data-key={key}
      aria-level={row.level + 1}
      aria-selected={isSelected}
      aria-expanded={isExpanded(row)}
      tabIndex={isCursor ? 0 : -1}
      style={{ "--level": row.level } as CSSProperties}
      onClick={(event) => onChoose(row, event.shiftKey || event.ctrlKey || event.metaKey)}
      onDoubleClick={() => key !== undefined && dialogs.rename(key)}
      onContextMenu={(event) => {
        event.preventDefault();
        if (!isSelected) onChoose(row, false);
        dialogs.menu({ x: event.clientX, y: event.clientY });
      }}
    >
      <Inside row={row} />
    </div>
  );
});

function Inside({ row }: { row: OutlineRow }) {
  const { texts, commands } = useTools();
  const shape = useMessages(shapes);
  if (row.kind === "graph") {
    return (
      <>
        <Icon name="subgraph" size={14} />
        <span className="graph-name ellipsis">{row.name ? texts.graphRow(row.name) : texts.mainGraph}</span>
      </>
    );
  }
  if (row.kind === "loop") {
    const { region, proof } = row.loop;
    const isOpen = isOnlyCapped(region);
    const bound = proof ? proofText(row.loop, shape) : { text: texts.noProofYet, isProved: false };
    return (
      <>
        <Icon name="loop" size={14} />
        <span className="graph-region-name ellipsis">{texts.loopRow(region.title.replace(/^loop /, ""))}</span>
        {row.loop.most !== null && <span className="graph-region-round">{shape.upTo(row.loop.most)}</span>}
        <span className={`outline-note ellipsis ${bound.isProved ? "" : "graph-unproved"}`}>{isOpen && proof ? texts.onlyCap(proof.cap) : bound.text}</span>
        {isOpen && commands.mayEdit && (
          <Button
            className="outline-fix"
            icon="plus"
            tabIndex={-1}
            aria-keyshortcuts="F"
            aria-label={texts.addCounter}
            title={`${texts.addCounter} (F)`}
            onClick={(event) => {
              event.stopPropagation();
              commands.fix(region.key);
            }}
          />
        )}
      </>
    );
  }
  if (row.kind === "edge") {
    return (
      <>
        <Icon name={row.isBack ? "retry" : "flow"} size={12} />
        <span className="ellipsis">{texts.to(row.to)}</span>
        <span className="outline-note ellipsis">{row.text}</span>
        <Problems problems={row.problems} />
      </>
    );
  }
  const { node } = row;
  const look = nodeLook(node.type);
  return (
    <>
      {isExpanded(row) !== undefined && <Toggle node={node} />}
      <span className="hidden-text">{spoken(node, texts)}</span>
      <span className="graph-tile graph-tile-small" style={{ "--kind": look.color } as CSSProperties}>
        <Icon name={look.icon} size={12} />
      </span>
      <span className="graph-name ellipsis" aria-hidden="true">
        {node.id}
      </span>
      <span className="outline-note ellipsis" aria-hidden="true">
        {[limitText(node.caption, shape), ...(node.start ? [texts.isStart] : []), ...(node.end ? [texts.isEnd] : [])].join(shape.comma)}
      </span>
      <Problems problems={node.problems} />
    </>
  );
}

function Problems({ problems }: { problems: readonly Diagnostic[] }) {
  if (!problems.length) return null;
  return (
    <>
      <ProblemSign problems={problems} />
      <span className="hidden-text">{problems.map((one) => one.message).join("; ")}</span>
    </>
  );
}
