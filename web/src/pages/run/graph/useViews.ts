// The state of one node, loop or line: now or in the past, and drawn again only when it changes.
import { useStore } from "zustand";
import { useShallow } from "zustand/react/shallow";
import type { Line } from "../../../graph/scene";
import type { RunModel } from "../../../live/run_model";
import { useGraph, useShown } from "./graph_context";
import { isLit, loopNow, NOT_ENTERED, NOT_RUN, nodeNow, type LoopView, type NodeView } from "./states";
import { doingOf, NOTHING, type Doing } from "./texts";

function useModel<T>(select: (model: RunModel) => T): T {
  const { run } = useGraph();
  return useStore(run, (state) => select(state.model));
}

export function useNodeView(key: string): NodeView {
  const past = useShown((shown) => shown.past);
  const { run } = useGraph();
  return useStore(
    run,
    useShallow((state) => (past ? (past.nodes.get(key) ?? NOT_RUN) : nodeNow(state.model, key))),
  );
}

export function useDoing(view: NodeView): Doing {
  const isPast = useShown((shown) => shown.past !== null);
  const { run } = useGraph();
  return useStore(
    run,
    useShallow(({ model }) => {
      if (!view.address || (isPast && view.status !== "completed")) return NOTHING;
      return doingOf(model.executions.get(view.address));
    }),
  );
}

export function useLoopView(region: string): LoopView {
  const past = useShown((shown) => shown.past);
  const { run, scene } = useGraph();
  return useStore(
    run,
    useShallow((state) => (past ? (past.loops.get(region) ?? NOT_ENTERED) : loopNow(state.model, scene, region))),
  );
}

export function useIsLit(line: Line): boolean {
  const isPast = useShown((shown) => shown.past !== null);
  return useModel((model) => !isPast && isLit(model, line));
}
