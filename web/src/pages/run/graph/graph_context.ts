// What the parts of the canvas share. The object stays the same; parts select from its stores.
import { createContext, useContext } from "react";
import { useStore, type StoreApi } from "zustand";
import type { Scene } from "../../../graph/scene";
import type { RunStore } from "../../../live/useRunEvents";
import { NOTHING_WAITS, type Stop, type Waiting } from "./debugging";
import type { Past } from "./states";

/** What is shown besides the events. */
export interface Shown {
  /** The states at the end of a past round; null while the canvas is live. */
  past: Past | null;
  stops: ReadonlyMap<string, Stop>;
  waiting: Waiting;
  ready: ReadonlyMap<string, "next" | "held">;
  /** The key of the selected node. */
  selected: string;
  /** The key of the node that takes part in the tab order. */
  cursor: string;
  /** The key of the node that is to get the focus as soon as it is drawn. */
  wanted: string;
  /** The key of the loop that a lock holds. */
  locked: string;
}

export const AT_FIRST: Shown = {
  past: null,
  stops: new Map(),
  waiting: NOTHING_WAITS,
  ready: new Map(),
  selected: "",
  cursor: "",
  wanted: "",
  locked: "",
};

export interface GraphContextValue {
  run: RunStore;
  scene: Scene;
  shown: StoreApi<Shown>;
  mayControl: boolean;
  choose: (key: string) => void;
  toggleStop: (key: string) => void;
}

export const GraphContext = createContext<GraphContextValue | null>(null);

export function useGraph(): GraphContextValue {
  const found = useContext(GraphContext);
  if (found === null) throw new Error("it is outside of the graph");
  return found;
}

export function useShown<T>(select: (shown: Shown) => T): T {
  return useStore(useGraph().shown, select);
}
