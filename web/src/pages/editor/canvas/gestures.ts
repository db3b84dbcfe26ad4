// What the pointer does on the canvas: moving nodes, and drawing edges from a port or from the end of an edge.
import type { PointerEvent as ReactPointerEvent } from "react";
import { cardBox, type Point } from "../../../graph/scene";
import type { Tools } from "./tools";

/** How far the pointer must go before a press becomes a drag. */
const THRESHOLD = 4;

/** Follows the pointer until it is released; Escape gives up. */
function follow(
  event: ReactPointerEvent,
  { move, end, cancel }: { move: (at: PointerEvent) => void; end: (at: PointerEvent) => void; cancel: () => void },
): void {
  const { pointerId } = event;
  const stop = () => {
    window.removeEventListener("pointermove", onMove);
    window.removeEventListener("pointerup", onUp);
    window.removeEventListener("pointercancel", onCancel);
    window.removeEventListener("keydown", onKey, true);
  };
  const onMove = (at: PointerEvent) => {
    if (at.pointerId === pointerId) move(at);
  };
  const onUp = (at: PointerEvent) => {
    if (at.pointerId !== pointerId) return;
    stop();
    end(at);
  };
  const onCancel = () => {
    stop();
    cancel();
  };
  const onKey = (key: KeyboardEvent) => {
    if (key.key !== "Escape") return;
    key.stopPropagation();
    onCancel();
  };
  window.addEventListener("pointermove", onMove);
  window.addEventListener("pointerup", onUp);
  window.addEventListener("pointercancel", onCancel);
  window.addEventListener("keydown", onKey, true);
}

/** The key of the node at a place in the window. */
export function nodeAt({ x, y }: Point): string {
  for (const element of document.elementsFromPoint(x, y)) {
    const found = element.closest<HTMLElement>(".react-flow__node [data-card]");
    if (found?.dataset.card) return found.dataset.card;
  }
  return "";
}

/** Moves a node, and all others that are selected with it. */
export function dragNode(event: ReactPointerEvent, key: string, { ui, editor, commands, flow }: Tools): void {
  if (event.button !== 0 || event.shiftKey || !commands.mayEdit) return;
  const start = { x: event.clientX, y: event.clientY };
  const { scene } = ui.getState();
  const chosen = commands.selectedNodes();
  const keys = chosen.includes(key) ? chosen : [key];
  const boxes = keys.flatMap((one) => {
    const drawn = scene?.byKey.get(one);
    return drawn && commands.node(one) ? [{ key: one, box: drawn.region ? drawn.box : cardBox(drawn) }] : [];
  });
  let frame = 0;
  let places: Map<string, Point> | null = null;
  follow(event, {
    move: (at) => {
      const [x, y] = [at.clientX - start.x, at.clientY - start.y];
      if (places === null && Math.hypot(x, y) < THRESHOLD) return;
      const zoom = flow.current?.getZoom() ?? 1;
      places = new Map(boxes.map((one) => [one.key, { x: Math.round(one.box.x + x / zoom), y: Math.round(one.box.y + y / zoom) }]));
      // One drawing a frame, however often the pointer reports.
      frame ||= requestAnimationFrame(() => {
        frame = 0;
        ui.setState({ dragged: places });
      });
    },
    end: () => {
      cancelAnimationFrame(frame);
      if (places === null) return;
      swallowClick();
      if (!chosen.includes(key)) editor.getState().select([{ kind: "node", key }]);
      commands.move(places);
      ui.setState({ dragged: null });
    },
    cancel: () => {
      cancelAnimationFrame(frame);
      ui.setState({ dragged: null });
    },
  });
}

/** A drag ends with a click, which would select something else. */
export function swallowClick(): void {
  const swallow = (event: Event) => event.stopPropagation();
  window.addEventListener("click", swallow, { capture: true, once: true });
  setTimeout(() => window.removeEventListener("click", swallow, { capture: true }), 0);
}

/** Draws a line from a point to the pointer; the drop says the node under it, or none. */
export function dragWire(event: ReactPointerEvent, from: Point, { ui, flow }: Tools, drop: (key: string, at: Point) => void): void {
  if (event.button !== 0) return;
  event.preventDefault();
  event.stopPropagation();
  const start = { x: event.clientX, y: event.clientY };
  const read = (at: PointerEvent) => ({ x: at.clientX, y: at.clientY });
  let isDragged = false;
  follow(event, {
    move: (at) => {
      isDragged ||= Math.hypot(at.clientX - start.x, at.clientY - start.y) >= THRESHOLD;
      const to = flow.current?.screenToFlowPosition(read(at), { snapToGrid: false }) ?? from;
      ui.setState({ wire: { from, to, over: nodeAt(read(at)) } });
    },
    end: (at) => {
      ui.setState({ wire: null });
      swallowClick();
      if (isDragged) drop(nodeAt(read(at)), read(at));
    },
    cancel: () => ui.setState({ wire: null }),
  });
}
