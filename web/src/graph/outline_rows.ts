// The rows of the outline: a loop precedes its nodes, and a node precedes what is inside it.
import type { DrawnNode, Region } from "../api/schema";
import { groupBy, type Loop, type Scene } from "./scene";

export interface Row {
  key: string;
  level: number;
  /** Null for a loop. */
  node: DrawnNode | null;
  /** What repeats: the loop, or the node itself. */
  loop: Loop | null;
}

/** From the top of the drawing down, as one would read it. */
export function outlineOf(scene: Scene): Row[] {
  const rows: Row[] = [];
  const nodes = groupBy(scene.drawing.nodes, (node) => node.parent);
  const regions = groupBy(
    scene.drawing.regions.filter((region) => region.kind === "loop"),
    (region) => region.parent,
  );
  const add = (parent: string, level: number): void => {
    const inside: (DrawnNode | Region)[] = [...(nodes.get(parent) ?? []), ...(regions.get(parent) ?? [])];
    inside.sort((one, other) => one.box.y - other.box.y || one.box.x - other.box.x);
    for (const item of inside) {
      if ("entry" in item) {
        rows.push({ key: `loop ${item.key}`, level, node: null, loop: scene.loops.get(item.key) ?? null });
        add(item.key, level + 1);
      } else {
        rows.push({ key: item.key, level, node: item, loop: scene.loops.get(item.region) ?? null });
        if (item.region) add(item.region, level + 1);
      }
    }
  };
  add("", 0);
  return rows;
}
