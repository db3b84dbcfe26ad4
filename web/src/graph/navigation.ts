// Where the arrow keys lead on the canvas: along the lines first, and otherwise to what is nearest.
import type { DrawnNode } from "../api/schema";
import { cardBox, type Point, type Scene } from "./scene";

export type Direction = "up" | "down" | "left" | "right";

function centre(node: DrawnNode): Point {
  const box = cardBox(node);
  return { x: box.x + box.width / 2, y: box.y + box.height / 2 };
}

/** How far a place is in a direction; null if it is not there. Being beside costs more than being far. */
function distance(from: Point, to: Point, direction: Direction): number | null {
  const [x, y] = [to.x - from.x, to.y - from.y];
  const isUpright = direction === "up" || direction === "down";
  const along = isUpright ? (direction === "down" ? y : -y) : direction === "right" ? x : -x;
  const across = Math.abs(isUpright ? x : y);
  if (along < 1 || (!isUpright && across > along * 2)) return null;
  return along + 2 * across;
}

/** The node that an arrow key leads to; the same node if there is none. */
export function neighbour(scene: Scene, key: string, direction: Direction): string {
  const node = scene.byKey.get(key);
  if (node === undefined) return scene.first;
  if (direction === "down" && node.region) {
    // The line out of a node with graphs inside would pass by what is inside.
    const inside = [...scene.byKey.values()].filter((one) => one.key.startsWith(`${key}/`)).map((one) => one.key);
    const found = nearest(scene, node, inside, direction);
    if (found) return found;
  }
  const isUpright = direction === "up" || direction === "down";
  const others = isUpright ? nearest(scene, node, linked(scene, key, direction === "down"), direction) : "";
  return others || nearest(scene, node, [...scene.byKey.keys()], direction) || key;
}

/** The ends of the lines that lead on from a node, or to it; back edges lead the other way. */
function linked(scene: Scene, key: string, isOnwards: boolean): string[] {
  return scene.lines.flatMap(({ drawn }) => {
    if (drawn.back || !drawn.triggers) return [];
    if (isOnwards) return drawn.source === key ? [drawn.target] : [];
    return drawn.target === key ? [drawn.source] : [];
  });
}

function nearest(scene: Scene, node: DrawnNode, keys: readonly string[], direction: Direction): string {
  let found = "";
  let least = Infinity;
  for (const key of keys) {
    const other = scene.byKey.get(key);
    if (other === undefined || other === node) continue;
    const far = distance(centre(node), centre(other), direction);
    if (far !== null && far < least) [found, least] = [key, far];
  }
  return found;
}
