// The canvas: React Flow with our own nodes and lines. It gives the view; selecting, moving and connecting are ours.
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState, type KeyboardEvent } from "react";
import { Background, ReactFlow, ViewportPortal, type Viewport } from "@xyflow/react";
import "@xyflow/react/dist/base.css";
import type { Target } from "../../../document/model";
import { ArrowHeads } from "../../../graph/lines";
import { GraphMark, Paper } from "../../../graph/Marks";
import { neighbour, type Direction } from "../../../graph/navigation";
import { cardBox, fitWidth, LEAST_ZOOM, MOST_ZOOM, pathOf, reveal, type Scene, type SceneEdge, type SceneNode, type Size } from "../../../graph/scene";
import { useEditor } from "../store";
import { Card } from "./Card";
import { clipboardOf, onEditKey } from "./edit_keys";
import { Frame } from "./Frame";
import { nodeAt } from "./gestures";
import { Ghosts } from "./Ghosts";
import { Grips } from "./Grips";
import { Minimap } from "./Minimap";
import { curve } from "./positions";
import { useTools } from "./tools";
import { useUi } from "./ui";
import { useBand } from "./useBand";
import { anchored } from "./view";
import { Wire, WireLabel } from "./Wire";

const nodeTypes = { card: Card, region: Frame, mark: GraphMark, label: WireLabel, paper: Paper };
const edgeTypes = { line: Wire };
const ARROWS: Record<string, Direction> = { ArrowUp: "up", ArrowDown: "down", ArrowLeft: "left", ArrowRight: "right" };
/** How far the graph can be pushed out of the pane, in pixels. */
const ROAM = 800;

export function EditorFlow({ scene }: { scene: Scene }) {
  const tools = useTools();
  const { editor, ui, texts, commands, dialogs, flow } = tools;
  const frame = useRef<HTMLDivElement>(null);
  const [size, setSize] = useState<Size | null>(null);
  const [settled, setSettled] = useState<Viewport | null>(null);

  useLayoutEffect(() => {
    const box = frame.current;
    if (box === null) return;
    const observer = new ResizeObserver(() => {
      if (box.clientWidth && box.clientHeight) setSize({ width: box.clientWidth, height: box.clientHeight });
    });
    observer.observe(box);
    if (box.clientWidth && box.clientHeight) setSize({ width: box.clientWidth, height: box.clientHeight });
    return () => observer.disconnect();
  }, []);
  const hasSize = size !== null;
  // The first view needs the size of the pane; later ones are the reader's.
  const first = useMemo(() => (size ? fitWidth(scene, size) : undefined), [hasSize]);
  const extent = useMemo((): [[number, number], [number, number]] => {
    const { x, y, width, height } = scene.bounds;
    return [
      [x - ROAM, y - ROAM],
      [x + width + ROAM, y + height + ROAM],
    ];
  }, [scene]);
  const labels = useMemo(
    () => ({ "node.a11yDescription.default": texts.canvasHelp, "node.a11yDescription.keyboardDisabled": texts.canvasHelp, "edge.a11yDescription.default": "" }),
    [texts],
  );

  const show = useCallback(
    (key: string) => {
      const node = ui.getState().scene?.byKey.get(key);
      const box = frame.current;
      if (node === undefined || box === null || flow.current === null) return;
      const before = flow.current.getViewport();
      const after = reveal(before, cardBox(node), { width: box.clientWidth, height: box.clientHeight });
      if (after.x !== before.x || after.y !== before.y) void flow.current.setViewport(after);
    },
    [ui, flow],
  );

  // A new drawing of the server leaves what one looks at where it is. Moving nodes by hand does not come here.
  const drawing = useEditor((state) => state.shown);
  const shown = useRef({ drawing, scene });
  useLayoutEffect(() => {
    const before = shown.current;
    shown.current = { drawing, scene };
    const box = frame.current;
    if (before.drawing === drawing || flow.current === null || box === null) return;
    const view = flow.current.getViewport();
    const pane = { width: box.clientWidth, height: box.clientHeight };
    const next = anchored(before.scene, scene, [ui.getState().toggled, ...commands.selectedNodes()], view, pane);
    if (next.x !== view.x || next.y !== view.y) void flow.current.setViewport(next);
    const { cursor, wanted } = ui.getState();
    const isNew = !before.scene.byKey.has(cursor) && scene.byKey.has(cursor);
    if (wanted || isNew) requestAnimationFrame(() => show(wanted || cursor));
  }, [drawing, scene, flow, ui, commands, show]);

  // What is selected elsewhere comes into sight here.
  const selection = useEditor((state) => state.selection);
  useEffect(() => {
    const [only] = selection;
    if (only?.kind !== "node" || selection.length > 1) return;
    ui.setState({ cursor: only.key });
    if (!frame.current?.contains(document.activeElement)) show(only.key);
  }, [selection, ui, show]);

  const goTo = useCallback(
    (key: string, isAdded = false) => {
      show(key);
      const target: Target = { kind: "node", key };
      const { selection: before, select } = editor.getState();
      select(isAdded ? [...before.filter((one) => one.kind !== "node" || one.key !== key), target] : [target]);
      ui.setState({ cursor: key, wanted: key });
    },
    [editor, ui, show],
  );

  const onKeyDown = (event: KeyboardEvent) => {
    const isPlain = !event.ctrlKey && !event.metaKey && !event.altKey;
    const direction = ARROWS[event.key];
    const { cursor } = ui.getState();
    const next = direction ? neighbour(scene, cursor, direction) : { Home: scene.first, End: scene.last }[event.key];
    if (!isPlain || next === undefined) {
      onEditKey(event, tools, goTo);
      return;
    }
    event.preventDefault();
    goTo(next, event.shiftKey);
  };
  const onContextMenu = (event: React.MouseEvent) => {
    event.preventDefault();
    const at = { x: event.clientX, y: event.clientY };
    const line = (event.target as Element).closest<HTMLElement | SVGElement>("[data-line]")?.dataset.line;
    const edge = line === undefined ? undefined : ui.getState().targets.get(Number(line));
    const key = nodeAt(at);
    if (edge) editor.getState().select([edge]);
    else if (key && !commands.selectedNodes().includes(key)) editor.getState().select([{ kind: "node", key }]);
    else if (!key) editor.getState().select([]);
    dialogs.menu(at);
  };

  const band = useBand(frame, scene);
  /** Nodes out of sight are not drawn. Keeps the tab order alive when the node that takes part in it leaves. */
  const onMoveEnd = (_: unknown, after: Viewport) => {
    setSettled(after);
    const box = frame.current;
    if (box === null || box.contains(document.activeElement)) return;
    const keys = [...box.querySelectorAll<HTMLElement>("button[data-key]")].map((button) => button.dataset.key ?? "");
    const [nearest] = keys;
    if (nearest !== undefined && !keys.includes(ui.getState().cursor)) ui.setState({ cursor: nearest });
  };

  return (
    <div
      ref={frame}
      className="editor-canvas"
      role="group"
      aria-label={texts.canvasLabel}
      tabIndex={-1}
      onKeyDown={onKeyDown}
      onContextMenu={onContextMenu}
      onFocus={() => ui.setState({ side: "canvas" })}
      {...clipboardOf(tools)}
      onPointerDownCapture={band.onPointerDown}
    >
      <ArrowHeads />
      {size && (
        <ReactFlow<SceneNode, SceneEdge>
          nodes={scene.nodes}
          edges={scene.edges}
          nodeTypes={nodeTypes}
          edgeTypes={edgeTypes}
          defaultViewport={first}
          width={size.width}
          height={size.height}
          minZoom={LEAST_ZOOM}
          maxZoom={MOST_ZOOM}
          translateExtent={extent}
          onInit={(made) => {
            flow.current = made;
            setSettled(made.getViewport());
          }}
          onMoveEnd={onMoveEnd}
          onPaneClick={() => {
            editor.getState().select([]);
            frame.current?.focus({ preventScroll: true });
          }}
          ariaLabelConfig={labels}
          onlyRenderVisibleElements
          nodesDraggable={false}
          nodesConnectable={false}
          nodesFocusable={false}
          edgesFocusable={false}
          elementsSelectable={false}
          disableKeyboardA11y
          deleteKeyCode={null}
          panOnScroll
          zoomOnDoubleClick={false}
          zIndexMode="manual"
          proOptions={{ hideAttribution: true }}
        >
          <Background gap={20} size={1.5} color="var(--graph-dots)" />
          <Ghosts />
          <Grips />
          <NewWire />
        </ReactFlow>
      )}
      {band.box && <div className="canvas-band" style={band.box} />}
      {size && settled && <Minimap scene={scene} view={settled} pane={size} />}
    </div>
  );
}

/** The edge that is being dragged. */
function NewWire() {
  const wire = useUi((state) => state.wire);
  if (wire === null) return null;
  const dot = ({ x, y }: { x: number; y: number }) => ({ x, y, width: 0, height: 0 });
  return (
    <ViewportPortal>
      <svg className="canvas-overlay" aria-hidden="true">
        <path className="canvas-new-wire" d={pathOf(curve(dot(wire.from), dot(wire.to)))} markerEnd="url(#graph-head-lit)" />
      </svg>
    </ViewportPortal>
  );
}
