// What is drawn now: the newest drawing of the server, with nodes where the user has moved them.
import { useEffect, useMemo, useRef } from "react";
import type { Proof } from "../../../api/schema";
import { sceneOf, type Scene, type SceneEdge, type SceneNode } from "../../../graph/scene";
import { useEditor } from "../store";
import { placed, storedPlaces, type Places } from "./positions";
import { edgeTargets } from "./targets";
import { useTools } from "./tools";
import { useUi } from "./ui";

export function useScene(): Scene | null {
  const { ui, texts } = useTools();
  const drawing = useEditor((state) => state.shown);
  const document = useEditor((state) => state.lastGood);
  const loops = useDrawnLoops();
  const stored = useStoredPlaces();
  const dragged = useUi((state) => state.dragged);
  const before = useRef<Scene | null>(null);
  const scene = useMemo(() => {
    if (drawing === null || !drawing.nodes.length) return null;
    const places = dragged ? new Map([...stored, ...dragged]) : stored;
    return reused(before.current, sceneOf({ drawing: placed(drawing, places), loops }, texts.edgeName));
  }, [drawing, loops, stored, dragged, texts]);
  useEffect(() => {
    const isToggled = before.current?.drawing !== scene?.drawing && ui.getState().toggled !== "";
    before.current = scene;
    ui.setState((state) => ({
      scene,
      cursor: scene === null || scene.byKey.has(state.cursor) || state.wanted ? state.cursor : scene.first,
      // The card of a collapsed node is another element than its frame, so the focus has to go over.
      ...(isToggled && { toggled: "", ...(isFree() && { wanted: state.toggled }) }),
    }));
  }, [scene, ui]);
  useEffect(() => {
    ui.setState({ targets: scene === null ? new Map() : edgeTargets(document, scene.drawing) });
  }, [scene, document, ui]);
  return scene;
}

/** Whether the focus may be moved: the reader has not gone to another pane meanwhile. */
function isFree(): boolean {
  const active = window.document.activeElement;
  return active === null || active === window.document.body || active.closest(".canvas-pane, .outline-pane") !== null;
}

/** The proofs of the text that is drawn. */
function useDrawnLoops(): readonly Proof[] {
  const check = useEditor((state) => (state.checkedText === state.drawnText ? state.check : null));
  const last = useRef<readonly Proof[]>([]);
  if (check !== null) last.current = check.loops;
  return last.current;
}

/** The same object until a position changes. */
function useStoredPlaces(): Places {
  const document = useEditor((state) => state.lastGood);
  const last = useRef<Places>(new Map());
  const places = useMemo(() => storedPlaces(document), [document]);
  if (!arePlacesSame(last.current, places)) last.current = places;
  return last.current;
}

function arePlacesSame(one: Places, other: Places): boolean {
  if (one.size !== other.size) return false;
  return [...one].every(([key, at]) => {
    const found = other.get(key);
    return found?.x === at.x && found.y === at.y;
  });
}

/** Keeps the objects of what looks as before, so that React Flow draws only the rest again. */
export function reused(before: Scene | null, now: Scene): Scene {
  if (before === null) return now;
  const nodes = new Map(before.nodes.map((node) => [node.id, node]));
  const edges = new Map(before.edges.map((edge) => [edge.id, edge]));
  return {
    ...now,
    nodes: now.nodes.map((node) => pick(nodes.get(node.id), node)),
    edges: now.edges.map((edge) => pick(edges.get(edge.id), edge)),
  };
}

function pick<T extends SceneNode | SceneEdge>(before: T | undefined, now: T): T {
  return before !== undefined && looks(before) === looks(now) ? before : now;
}

/** All that is drawn of something, as a text: answers of the server are new objects with equal content. */
const known = new WeakMap<object, string>();
function looks(item: SceneNode | SceneEdge): string {
  let text = known.get(item);
  if (text === undefined) {
    if (item.type === "line" && item.data) {
      const { line } = item.data as { line: Scene["lines"][number] };
      text = JSON.stringify([item.id, (item as SceneEdge).source, (item as SceneEdge).target, line.drawn, line.kind]);
    } else if (item.type === "label") {
      const { line } = item.data as { line: Scene["lines"][number] };
      text = JSON.stringify([item.id, (item as SceneNode).position, line.drawn]);
    } else {
      const { position, width, height } = item as SceneNode;
      text = JSON.stringify([item.id, position, width, height, item.data]);
    }
    known.set(item, text);
  }
  return text;
}
