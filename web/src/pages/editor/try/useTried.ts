// What the run that tries the text says about one node, loop or line. Without such a run it is nothing.
import { useStore } from "zustand";
import { createStore } from "zustand/vanilla";
import { useShallow } from "zustand/react/shallow";
import type { Line } from "../../../graph/scene";
import type { RunStatus } from "../../../api/statuses";
import type { LoopView, NodeView } from "../../run/graph/states";
import { NOTHING, type Doing } from "../../run/graph/texts";
import { useUi } from "../canvas/ui";
import type { Live } from "./live";
import { useTrying } from "./store";

const NO_RUN = createStore(() => ({ version: 0 }));
const NOT_RUN: NodeView = { status: "idle", runs: 0, address: "", isCurrent: false };
const NOT_ENTERED: LoopView = { round: 0, isOpen: false };

/** A part of the run, drawn again when it changes. */
function useLive<T>(select: (live: Live | null) => T): T {
  const live = useTrying((trying) => trying.live);
  return useStore(
    live?.store ?? NO_RUN,
    useShallow(() => select(live)),
  );
}

export interface TriedNode {
  view: NodeView;
  doing: Doing;
  /** The ring that the card has. */
  state: string;
  /** Whether it runs next, or soon, while the run is paused. */
  ready: "next" | "held" | undefined;
}

export function useTriedNode(key: string): TriedNode {
  const view = useLive((live) => live?.node(key) ?? NOT_RUN);
  const doing = useLive((live) => live?.doing(view.address) ?? NOTHING);
  const ready = useTrying((trying) => trying.ready.get(key));
  const isNow = view.status === "running" || view.status === "waiting" || view.isCurrent;
  return { view, doing, state: isNow ? view.status : "idle", ready };
}

export function useTriedLoop(region: string): LoopView {
  const scene = useUi((state) => state.scene);
  return useLive((live) => (live === null || scene === null ? NOT_ENTERED : live.loop(scene, region)));
}

export function useIsTriedLine(line: Line): boolean {
  return useLive((live) => live?.isLit(line) ?? false);
}

/** The status of the run; null if nothing was tried yet. */
export function useStatus(): RunStatus | null {
  const hasRun = useTrying((trying) => trying.attempt !== null);
  const status = useLive((live) => live?.store.getState().model.status ?? "running");
  return hasRun ? status : null;
}
