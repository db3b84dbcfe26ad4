// The canvas: React Flow with our own nodes and lines, moved by pointer, wheel and keys.
import { startTransition, useCallback, useLayoutEffect, useMemo, useRef, useState, type KeyboardEvent } from "react";
import { Background, ReactFlow, type ReactFlowInstance, type Viewport } from "@xyflow/react";
import "@xyflow/react/dist/base.css";
import { ArrowHeads, EdgeLabel } from "../../../graph/lines";
import { GraphMark, Paper } from "../../../graph/Marks";
import { neighbour, type Direction } from "../../../graph/navigation";
import { cardBox, fitWidth, LEAST_ZOOM, MOST_ZOOM, reveal, type SceneEdge, type SceneNode } from "../../../graph/scene";
import { useMessages } from "../../../i18n/messages";
import { EdgeLine } from "./EdgeLine";
import { useGraph } from "./graph_context";
import { messages } from "./messages";
import { NodeCard } from "./NodeCard";
import { RegionFrame } from "./RegionFrame";

const nodeTypes = { card: NodeCard, region: RegionFrame, mark: GraphMark, label: EdgeLabel, paper: Paper };
const edgeTypes = { line: EdgeLine };
const ARROWS: Record<string, Direction> = { ArrowUp: "up", ArrowDown: "down", ArrowLeft: "left", ArrowRight: "right" };
/** How far the graph can be pushed out of the pane, in pixels. */
const ROAM = 240;

export type Flow = ReactFlowInstance<SceneNode, SceneEdge>;

export function Canvas({
  view,
  onReady,
}: {
  /** Where the reader left the canvas, while the outline was shown. */
  view: { current: Viewport | null };
  onReady: (flow: Flow | null) => void;
}) {
  const texts = useMessages(messages);
  const { scene, shown, toggleStop } = useGraph();
  const frame = useRef<HTMLDivElement>(null);
  const flow = useRef<Flow | null>(null);
  const hadFocus = useRef(false);
  const [size, setSize] = useState<{ width: number; height: number } | null>(null);

  // The first view needs the size of the pane, which a hidden tab does not have yet.
  useLayoutEffect(() => {
    const box = frame.current;
    if (box === null) return;
    const measure = () => {
      if (!box.clientWidth || !box.clientHeight) return;
      const found = { width: box.clientWidth, height: box.clientHeight };
      // A large graph takes long to draw the first time, so it is drawn in slices.
      startTransition(() => setSize(found));
      observer.disconnect();
    };
    const observer = new ResizeObserver(measure);
    observer.observe(box);
    measure();
    return () => observer.disconnect();
  }, []);
  const first = useMemo(() => (size ? (view.current ?? fitWidth(scene, size)) : undefined), [size, scene, view]);
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

  const goTo = useCallback(
    (key: string) => {
      const node = scene.byKey.get(key);
      const box = frame.current;
      if (node === undefined || box === null || flow.current === null) return;
      const pane = { width: box.clientWidth, height: box.clientHeight };
      const before = flow.current.getViewport();
      const after = reveal(before, cardBox(node), pane);
      if (after.x !== before.x || after.y !== before.y) void flow.current.setViewport(after);
      // The node may be drawn only after the view has moved; it takes the focus then.
      shown.setState({ cursor: key, wanted: key });
    },
    [scene, shown],
  );

  const onKeyDown = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    const { cursor } = shown.getState();
    const direction = ARROWS[event.key];
    if (direction !== undefined) {
      event.preventDefault();
      goTo(neighbour(scene, cursor, direction));
    } else if (event.key === "Home" || event.key === "End") {
      event.preventDefault();
      goTo(event.key === "Home" ? scene.first : scene.last);
    } else if (event.key.toLowerCase() === "b") {
      event.preventDefault();
      toggleStop(cursor);
    }
  };

  /** While the graph is only moved, it is a layer that the browser moves, and draws no more than what comes into
   * sight. Zooming draws it anew: a layer would be blurred. */
  const moving = useRef(0);
  const onMoveStart = (_: unknown, { zoom }: Viewport) => {
    moving.current = zoom;
    frame.current?.classList.add("graph-moving");
  };
  const onMove = (_: unknown, { zoom }: Viewport) => {
    if (zoom !== moving.current) frame.current?.classList.remove("graph-moving");
  };

  /** Nodes out of sight are not drawn. Keeps the tab order and the focus alive when their node leaves. */
  const onMoveEnd = (_: unknown, after: Viewport) => {
    view.current = after;
    const box = frame.current;
    if (box === null) return;
    box.classList.remove("graph-moving");
    if (hadFocus.current && document.activeElement === document.body) box.focus({ preventScroll: true });
    if (box.contains(document.activeElement)) return;
    const { cursor } = shown.getState();
    const buttons = box.querySelectorAll<HTMLElement>("button[data-key]");
    const keys = [...buttons].map((button) => button.dataset.key ?? "");
    const nearest = keys[0];
    if (nearest !== undefined && !keys.includes(cursor)) shown.setState({ cursor: nearest });
  };

  return (
    <div
      ref={frame}
      className="graph-canvas"
      role="group"
      aria-label={texts.canvas}
      tabIndex={-1}
      onKeyDown={onKeyDown}
      onFocus={() => (hadFocus.current = true)}
      onBlur={(event) => {
        if (event.relatedTarget !== null) hadFocus.current = event.currentTarget.contains(event.relatedTarget);
      }}
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
            onReady(made);
          }}
          onMoveStart={onMoveStart}
          onMove={onMove}
          onMoveEnd={onMoveEnd}
          ariaLabelConfig={labels}
          onlyRenderVisibleElements
          nodesDraggable={false}
          nodesConnectable={false}
          nodesFocusable={false}
          edgesFocusable={false}
          elementsSelectable={false}
          disableKeyboardA11y
          panOnScroll
          zoomOnDoubleClick={false}
          zIndexMode="manual"
          proOptions={{ hideAttribution: true }}
        >
          <Background gap={20} size={1.5} color="var(--graph-dots)" />
        </ReactFlow>
      )}
    </div>
  );
}
