// The line between two panes: it can be dragged, and moved with the arrow keys.
import { useRef } from "react";
import { useMessages } from "../../i18n/messages";
import type { Edge } from "./layout";
import { messages } from "./messages";
import { DEFAULT_SIZES, useEditorUi, type Sizes } from "./ui";

/** Pixels of a step with an arrow key. */
const STEP = 16;
const LEAST = 96;
/** The least share of the width that a pane in the middle keeps. */
const LEAST_SHARE = 0.15;

export function Splitter({ edge, name }: { edge: Edge; name: string }) {
  const texts = useMessages(messages);
  const sizes = useEditorUi((ui) => ui.sizes);
  const resize = useEditorUi((ui) => ui.resize);
  const element = useRef<HTMLDivElement>(null);
  const dragged = useRef<{ at: number; sizes: Sizes } | null>(null);
  const isVertical = edge.orientation === "vertical";
  const [first, second] = edge.sizes;
  const start = () => useEditorUi.getState().sizes;

  /** Moves the edge by pixels, to the right or down, from the sizes at the beginning. */
  const move = (pixels: number, from: Sizes) => {
    if (second === undefined) {
      const frame = element.current?.parentElement;
      const most = ((isVertical ? frame?.clientWidth : frame?.clientHeight) ?? 1000) * 0.8;
      resize({ [first]: Math.round(Math.min(Math.max(from[first] - pixels, LEAST), most)) });
      return;
    }
    const width =
      (element.current?.previousElementSibling?.clientWidth ?? 0) + (element.current?.nextElementSibling?.clientWidth ?? 0);
    const sum = from[first] + from[second];
    const share = Math.min(Math.max(from[first] / sum + pixels / Math.max(width, 1), LEAST_SHARE), 1 - LEAST_SHARE);
    resize({ [first]: Number((sum * share).toFixed(4)), [second]: Number((sum * (1 - share)).toFixed(4)) });
  };
  const now = second === undefined ? sizes[first] : Math.round((100 * sizes[first]) / (sizes[first] + sizes[second]));
  return (
    <div
      ref={element}
      className={`editor-edge editor-edge-${edge.orientation}`}
      style={{ gridArea: edge.area }}
      role="separator"
      tabIndex={0}
      aria-orientation={edge.orientation}
      aria-label={texts.resize(name)}
      aria-valuenow={now}
      aria-valuemin={second === undefined ? LEAST : 100 * LEAST_SHARE}
      aria-valuemax={second === undefined ? 2000 : 100 - 100 * LEAST_SHARE}
      onPointerDown={(event) => {
        event.currentTarget.setPointerCapture(event.pointerId);
        dragged.current = { at: isVertical ? event.clientX : event.clientY, sizes: start() };
      }}
      onPointerMove={(event) => {
        if (dragged.current) move((isVertical ? event.clientX : event.clientY) - dragged.current.at, dragged.current.sizes);
      }}
      onPointerUp={() => (dragged.current = null)}
      onPointerCancel={() => (dragged.current = null)}
      onDoubleClick={() => resize(Object.fromEntries(edge.sizes.map((size) => [size, DEFAULT_SIZES[size]])))}
      onKeyDown={(event) => {
        const [back, on] = isVertical ? ["ArrowLeft", "ArrowRight"] : ["ArrowUp", "ArrowDown"];
        if (event.key !== back && event.key !== on) return;
        event.preventDefault();
        event.stopPropagation();
        move(event.key === on ? STEP : -STEP, start());
      }}
    />
  );
}
