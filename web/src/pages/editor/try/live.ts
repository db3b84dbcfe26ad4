// What the canvas asks about the run that is followed. It is loaded with the first run, and not with the editor.
import type { Line, Scene } from "../../../graph/scene";
import type { RunStore } from "../../../live/useRunEvents";
import { isLit, loopNow, nodeNow, type LoopView, type NodeView } from "../../run/graph/states";
import { doingOf, type Doing } from "../../run/graph/texts";

export interface Live {
  store: RunStore;
  node: (key: string) => NodeView;
  doing: (address: string) => Doing;
  loop: (scene: Scene, region: string) => LoopView;
  isLit: (line: Line) => boolean;
}

export function liveOf(store: RunStore): Live {
  const { model } = store.getState();
  return {
    store,
    node: (key) => nodeNow(model, key),
    doing: (address) => doingOf(model.executions.get(address)),
    loop: (scene, region) => loopNow(model, scene, region),
    isLit: (line) => isLit(model, line),
  };
}
