// An overview of the whole graph in one picture. It changes when the drawing does, and when the view has come to rest.
import { memo, useMemo, useRef, type PointerEvent } from "react";
import type { Scene, Size, View } from "../../../graph/scene";
import { useTools } from "./tools";
import { needsOverview } from "./view";

const WIDTH = 140;
const HEIGHT = 100;

export const Minimap = memo(function Minimap({ scene, view, pane }: { scene: Scene; view: View; pane: Size }) {
  const { texts, flow } = useTools();
  const picture = useRef<SVGSVGElement>(null);
  const { bounds, drawing } = scene;
  const paths = useMemo(() => {
    const boxes = (all: readonly { box: { x: number; y: number; width: number; height: number } }[]) =>
      all.map(({ box }) => `M${box.x} ${box.y}h${box.width}v${box.height}h${-box.width}Z`).join("");
    return { regions: boxes(drawing.regions), nodes: boxes(drawing.nodes.filter((node) => !node.region)) };
  }, [drawing]);
  if (!needsOverview(scene, view, pane)) return null;
  const go = (event: PointerEvent) => {
    const box = picture.current?.getBoundingClientRect();
    const scale = picture.current?.getScreenCTM()?.a;
    if (!box || !scale || flow.current === null) return;
    const x = bounds.x + bounds.width / 2 + (event.clientX - box.left - box.width / 2) / scale;
    const y = bounds.y + bounds.height / 2 + (event.clientY - box.top - box.height / 2) / scale;
    void flow.current.setCenter(x, y, { zoom: flow.current.getZoom() });
  };
  return (
    <svg
      ref={picture}
      className="canvas-minimap"
      width={WIDTH}
      height={HEIGHT}
      viewBox={`${bounds.x} ${bounds.y} ${Math.max(1, bounds.width)} ${Math.max(1, bounds.height)}`}
      role="img"
      aria-label={texts.minimap}
      onPointerDown={(event) => {
        event.stopPropagation();
        event.currentTarget.setPointerCapture(event.pointerId);
        go(event);
      }}
      onPointerMove={(event) => {
        if (event.buttons & 1) go(event);
      }}
    >
      <path className="canvas-minimap-regions" d={paths.regions} />
      <path className="canvas-minimap-nodes" d={paths.nodes} />
      <rect
        className="canvas-minimap-view"
        x={-view.x / view.zoom}
        y={-view.y / view.zoom}
        width={pane.width / view.zoom}
        height={pane.height / view.zoom}
      />
    </svg>
  );
});
