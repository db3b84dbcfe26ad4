// A box drawn with Shift and the pointer selects what it touches.
import { useState, type CSSProperties, type PointerEvent as ReactPointerEvent, type RefObject } from "react";
import type { Target } from "../../../document/model";
import { cardBox, type Scene } from "../../../graph/scene";
import { swallowClick } from "./gestures";
import { useTools } from "./tools";

export function useBand(frame: RefObject<HTMLDivElement | null>, scene: Scene) {
  const { editor, flow, commands, texts } = useTools();
  const [box, setBox] = useState<CSSProperties | null>(null);
  const onPointerDown = (event: ReactPointerEvent) => {
    const isEmpty = event.target instanceof Element && event.target.closest(".react-flow__pane, .react-flow__background") !== null;
    const pane = frame.current;
    if (!event.shiftKey || event.button !== 0 || !isEmpty || pane === null) return;
    event.preventDefault();
    event.stopPropagation();
    const origin = pane.getBoundingClientRect();
    const from = { x: event.clientX, y: event.clientY };
    const before = event.ctrlKey || event.metaKey ? editor.getState().selection : [];
    const move = (at: PointerEvent) => {
      const [left, top] = [Math.min(from.x, at.clientX), Math.min(from.y, at.clientY)];
      const [right, bottom] = [Math.max(from.x, at.clientX), Math.max(from.y, at.clientY)];
      setBox({ left: left - origin.left, top: top - origin.top, width: right - left, height: bottom - top });
      const start = flow.current?.screenToFlowPosition({ x: left, y: top });
      const end = flow.current?.screenToFlowPosition({ x: right, y: bottom });
      if (!start || !end) return;
      const touched = scene.drawing.nodes.filter((node) => {
        const card = cardBox(node);
        return card.x < end.x && card.y < end.y && card.x + card.width > start.x && card.y + card.height > start.y;
      });
      editor.getState().select([...before, ...touched.map((node): Target => ({ kind: "node", key: node.key }))]);
    };
    const stop = () => {
      window.removeEventListener("pointermove", move);
      window.removeEventListener("pointerup", stop);
      window.removeEventListener("pointercancel", stop);
      setBox(null);
      swallowClick();
      pane.focus({ preventScroll: true });
      commands.say(texts.selected(editor.getState().selection.length));
    };
    window.addEventListener("pointermove", move);
    window.addEventListener("pointerup", stop);
    window.addEventListener("pointercancel", stop);
  };
  return { box, onPointerDown };
}
