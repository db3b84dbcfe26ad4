// A type of node that is dropped on the canvas: on a node it goes behind it, elsewhere into the graph at that place.
import type { DragEvent } from "react";
import type { Point, Scene } from "../../../graph/scene";
import { nodeAt } from "./gestures";
import { NODE_TYPE } from "./Palette";
import type { Tools } from "./tools";

export function dropOf({ commands, dialogs, flow }: Tools, scene: Scene | null) {
  return {
    onDragOver: (event: DragEvent) => {
      if (!commands.mayEdit || !event.dataTransfer.types.includes(NODE_TYPE)) return;
      event.preventDefault();
      event.dataTransfer.dropEffect = "copy";
    },
    onDrop: (event: DragEvent) => {
      const type = event.dataTransfer.getData(NODE_TYPE);
      if (!type) return;
      event.preventDefault();
      const at = { x: event.clientX, y: event.clientY };
      const key = nodeAt(at);
      const graph = graphAt(scene, flow.current?.screenToFlowPosition(at), (one) => commands.node(one)?.graphs[0]);
      const made = commands.add(type, key ? { after: key } : { graph });
      if (made) dialogs.rename(made, at);
    },
  };
}

/** The graph of the innermost node with graphs inside, or of the file. */
function graphAt(scene: Scene | null, at: Point | undefined, graphIn: (key: string) => string | undefined): string {
  if (scene === null || at === undefined) return "";
  const owner = scene.drawing.nodes.findLast(
    ({ region, box }) => region && at.x >= box.x && at.y >= box.y && at.x <= box.x + box.width && at.y <= box.y + box.height,
  );
  return (owner && graphIn(owner.key)) ?? "";
}
