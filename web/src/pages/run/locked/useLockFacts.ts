// Everything that both halves of the locked page show.
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useEffect, useMemo } from "react";
import { keys, queryClient, useRunState } from "../../../api/queries";
import { readRounds } from "../../../api/rounds";
import type { RoundView, RunState } from "../../../api/schema";
import type { RoundStep } from "../../../live/address";
import { newestRound, useRunContext } from "../context";
import { useRun } from "../../../live/useRunEvents";
import { tokensOf, type Lock } from "../../../live/run_model";
import { parseAddress } from "../../../live/address";
import { needsChange, type UnlockFacts } from "./draft";
import { raisableLimit } from "./limits";
import { exitNodes, lockedRound, nextMessage } from "./place";

/** More rounds than this are neither plotted nor put side by side. */
export const MOST_ROUNDS = 30;

export interface LockFacts extends UnlockFacts {
  lock: Lock;
  /** The innermost round around it. */
  round: RoundStep | undefined;
  /** Undefined until the server has answered. */
  state: RunState | undefined;
  stateError: Error | null;
  retry: () => void;
  /** Figures of the last rounds of the loop. */
  rounds: readonly RoundView[];
  /** How many more rounds are possible; null if that is not known, or there is no loop. */
  roundsLeft: number | null;
  isUnlocked: boolean;
}

export function useLockFacts(lock: Lock): LockFacts {
  const { runId, store, plan } = useRunContext();
  const locks = useRun(store, (model) => model.locks);
  const composites = useRun(store, (model) => model.composites);
  const usage = useRun(store, (model) => model.usage);
  const isUnlocked = useRun(store, (model) => model.status !== "suspended_locked");
  const now = useRun(store, (model) => model.seq);
  const asked = useRunState(runId);
  const { seq } = lock;
  // What was read before the lock says nothing about it.
  const state = asked.data !== undefined && asked.data.seq >= seq ? asked.data : undefined;
  // Somebody may edit a waiting message while the run is locked.
  const isStale = asked.data !== undefined && asked.data.seq < (isUnlocked ? seq : now) && !asked.isFetching;
  useEffect(() => {
    if (isStale) void queryClient.invalidateQueries({ queryKey: keys.state(runId) });
  }, [isStale, runId]);
  useEffect(() => {
    void queryClient.invalidateQueries({ queryKey: keys.run(runId), exact: true });
  }, [runId, seq]);
  const round = lockedRound(lock, state);
  const from = Math.max(1, (round?.round ?? 0) - MOST_ROUNDS + 1);
  const figures = useQuery({
    queryKey: [...keys.rounds(runId), "lock", round?.stem ?? "", seq],
    queryFn: ({ signal }) => readRounds(runId, { loop: round?.loop, from }, signal),
    enabled: round !== undefined,
    placeholderData: keepPreviousData,
  });
  const rounds = useMemo(() => {
    const all = (figures.data ?? []).flatMap((loop) => loop.rounds);
    const stem = round?.stem;
    return all.filter((one) => parseAddress(one.address).rounds.at(-1)?.stem === stem).sort((a, b) => a.number - b.number);
  }, [figures.data, round?.stem]);
  const exits = useMemo(
    () => exitNodes(plan.drawing, composites, round?.address ?? "").map((exit) => exit.id),
    [plan.drawing, composites, round?.address],
  );
  const worked = state?.guards.find((guard) => guard.kind === "seconds" && !guard.address)?.used ?? 0;
  const limit = useMemo(
    () => raisableLimit(lock, { tokens: tokensOf(usage), seconds: worked }),
    [lock, usage, worked],
  );
  const position = state?.loops.find((loop) => loop.address === round?.address);
  return {
    lock,
    round,
    state,
    stateError: state === undefined ? asked.error : null,
    retry: () => void asked.refetch(),
    rounds,
    roundsLeft: position?.limit == null ? null : Math.max(0, position.limit - position.round),
    next: nextMessage(state),
    limit,
    exits,
    needsChange: needsChange(locks, lock),
    isUnlocked,
  };
}

/** The number of the round in which the run is now. */
export function useRoundNow(): number | null {
  const { store } = useRunContext();
  return useRun(store, (model) => parseAddress(newestRound(model)).rounds.at(-1)?.round ?? null);
}
