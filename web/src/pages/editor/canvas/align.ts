// Puts several nodes on one line, or at even distances.
import type { Rect } from "../../../api/schema";
import type { Point } from "../../../graph/scene";

export const ALIGNMENTS = ["left", "centre", "top", "distribute"] as const;
export type Alignment = (typeof ALIGNMENTS)[number];

/** The new places of those that move. */
export function aligned(boxes: ReadonlyMap<string, Rect>, how: Alignment): Map<string, Point> {
  const all = [...boxes];
  if (all.length < 2) return new Map();
  const places = how === "distribute" ? distributed(all) : onLine(all, how);
  return new Map([...places].filter(([key, at]) => at.x !== boxes.get(key)?.x || at.y !== boxes.get(key)?.y));
}

function onLine(all: readonly (readonly [string, Rect])[], how: "left" | "centre" | "top"): Map<string, Point> {
  const left = Math.min(...all.map(([, box]) => box.x));
  const right = Math.max(...all.map(([, box]) => box.x + box.width));
  const top = Math.min(...all.map(([, box]) => box.y));
  return new Map(
    all.map(([key, { x, y, width }]) => {
      if (how === "top") return [key, { x, y: top }];
      return [key, { x: how === "left" ? left : Math.round((left + right - width) / 2), y }];
    }),
  );
}

/** Equal gaps, along the side on which they are spread further. */
function distributed(all: readonly (readonly [string, Rect])[]): Map<string, Point> {
  const span = (from: "x" | "y", size: "width" | "height") => {
    const begin = Math.min(...all.map(([, box]) => box[from]));
    const end = Math.max(...all.map(([, box]) => box[from] + box[size]));
    return { begin, length: end - begin };
  };
  const isTall = span("y", "height").length >= span("x", "width").length;
  const [from, size] = isTall ? (["y", "height"] as const) : (["x", "width"] as const);
  const { begin, length } = span(from, size);
  const sorted = [...all].sort(([, one], [, other]) => one[from] - other[from]);
  const filled = sorted.reduce((sum, [, box]) => sum + box[size], 0);
  const gap = (length - filled) / (sorted.length - 1);
  let at = begin;
  const places = new Map<string, Point>();
  for (const [key, box] of sorted) {
    places.set(key, { x: box.x, y: box.y, [from]: Math.round(at) });
    at += box[size] + gap;
  }
  return places;
}
