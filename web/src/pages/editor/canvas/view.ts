// Keeps the view where it is while the drawing changes under it.
import type { Rect } from "../../../api/schema";
import { cardBox, type Scene, type Size, type View } from "../../../graph/scene";

function isSeen(box: Rect, view: View, pane: Size): boolean {
  const left = box.x * view.zoom + view.x;
  const top = box.y * view.zoom + view.y;
  return left + box.width * view.zoom > 0 && top + box.height * view.zoom > 0 && left < pane.width && top < pane.height;
}

/** The view in which one node stays at its place in the window: the selected one if it is seen, or the first that is. */
export function anchored(before: Scene, after: Scene, selected: readonly string[], view: View, pane: Size): View {
  const keys = [...selected, ...before.byKey.keys()];
  for (const key of keys) {
    const [was, is] = [before.byKey.get(key), after.byKey.get(key)];
    if (was === undefined || is === undefined || !isSeen(cardBox(was), view, pane)) continue;
    return { ...view, x: view.x + (was.box.x - is.box.x) * view.zoom, y: view.y + (was.box.y - is.box.y) * view.zoom };
  }
  return view;
}

/** How much larger than its pane a graph is before an overview is worth the room that it takes. */
const LARGE = 1.5;
const LEAST_PANE = 400;

/** Whether an overview helps: most of the graph is out of sight, and there is room for it. */
export function needsOverview({ bounds }: Pick<Scene, "bounds">, view: View, pane: Size): boolean {
  if (pane.width < LEAST_PANE || pane.height < LEAST_PANE) return false;
  return bounds.width * view.zoom > LARGE * pane.width || bounds.height * view.zoom > LARGE * pane.height;
}
