// The state of a paused run, and the node whose queue is shown.
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useEffect } from "react";
import { create } from "zustand";
import { useShallow } from "zustand/react/shallow";
import { call } from "../../../api/client";
import { keys, queryClient } from "../../../api/queries";
import type { RunState, WaitingMessage } from "../../../api/schema";
import { useRun } from "../../../live/useRunEvents";
import { useRunContext } from "../context";
import { lateEdits } from "./paused";
import { editsOf, useUnsavedEdit, type UnsavedEdit } from "./unsaved";

/** Setting a breakpoint is no event, so those of other people are looked for now and then. */
const AGAIN = 5000;

export interface Paused {
  /** Undefined until the server has answered. */
  state: RunState | undefined;
  error: Error | null;
  retry: () => void;
  isPaused: boolean;
}

export function usePaused(): Paused {
  const { runId, store } = useRunContext();
  const isPaused = useRun(store, (model) => model.status === "paused");
  const seq = useRun(store, (model) => model.seq);
  const asked = useQuery({
    queryKey: keys.state(runId),
    queryFn: () => call<RunState>(`/runs/${runId}/state`),
    placeholderData: keepPreviousData,
    refetchInterval: isPaused ? AGAIN : false,
    enabled: isPaused,
  });
  const isOld = isPaused && asked.data !== undefined && asked.data.seq < seq && !asked.isFetching;
  useEffect(() => {
    if (isOld) void queryClient.invalidateQueries({ queryKey: keys.state(runId) });
  }, [isOld, runId]);
  // While a step runs, the last state stays in place; it is replaced when the run is paused again.
  return { state: asked.data, error: asked.data === undefined ? asked.error : null, retry: () => void asked.refetch(), isPaused };
}

const useChoice = create<{ chosen: Readonly<Record<string, string>> }>(() => ({ chosen: {} }));

export interface ShownNode {
  address: string;
  nodeId: string;
  isReady: boolean;
  /** A round of tools has calls instead of messages. */
  calls: readonly string[];
  messages: readonly WaitingMessage[];
}

/** The node whose queue is shown: the one that was chosen, the one that is selected on the page, or the next. */
export function useShownNode(state: RunState | undefined): ShownNode | undefined {
  const { runId, selected } = useRunContext();
  const chosen = useChoice((choice) => choice.chosen[runId] ?? "");
  if (state === undefined) return undefined;
  return nodeAt(state, chosen) ?? nodeAt(state, selected) ?? nodeAt(state, state.ready[0]?.address ?? "");
}

export function chooseNode(runId: string, address: string): void {
  useChoice.setState(({ chosen }) => ({ chosen: { ...chosen, [runId]: address } }));
}

function nodeAt(state: RunState, address: string): ShownNode | undefined {
  if (!address) return undefined;
  const queue = state.queues.find((one) => one.address === address);
  const ready = state.ready.find((one) => one.address === address);
  const blocked = state.blocked.find((one) => one.address === address);
  const node = ready ?? queue ?? blocked;
  if (node === undefined) return undefined;
  return {
    address,
    nodeId: node.node_id,
    isReady: ready !== undefined,
    calls: ready?.calls ?? [],
    messages: queue?.messages ?? ready?.messages ?? [],
  };
}

/** Edits that came too late. */
export function useLateEdits(): UnsavedEdit[] {
  const { runId } = useRunContext();
  const { state, isPaused } = usePaused();
  return useUnsavedEdit(useShallow((edits) => lateEdits(editsOf(edits.edits, runId), state, isPaused)));
}

/** Whether the page shows the debug panes: the run is paused, or went on with an edit left behind. */
export function useIsDebugShown(): boolean {
  const { runId, store } = useRunContext();
  const isPaused = useRun(store, (model) => model.status === "paused");
  const hasEdit = useUnsavedEdit((edits) => editsOf(edits.edits, runId).length > 0);
  return isPaused || hasEdit;
}
