// Asks the server what a part of the workflow makes of a text.
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { lastPart } from "../../../live/address_parts";
import { call, ApiError } from "../../../api/client";
import { readRuns } from "../../../api/queries";
import type { JsonValue, LoopFigures, RoundView, TryBody, TryResult } from "../../../api/schema";
import { useEditor } from "../store";

const ASK_AFTER = 250;

/** A value that follows another one after a pause. */
function useLater<T>(value: T): T {
  const [later, setLater] = useState(value);
  const name = JSON.stringify(value);
  useEffect(() => {
    const timer = setTimeout(() => setLater(JSON.parse(name) as T), ASK_AFTER);
    return () => clearTimeout(timer);
  }, [name]);
  return later;
}

export function useTry(kind: TryBody["kind"], config: unknown, text: string, round = 1) {
  const vars = useEditor((state) => (state.lastGood.value as { vars?: Record<string, JsonValue> } | null)?.vars);
  const body = useLater<TryBody>({ kind, config: (config ?? null) as JsonValue, text, round, vars: vars ?? {} });
  return useQuery<TryResult, ApiError>({
    queryKey: ["try", body],
    queryFn: ({ signal }) => call<TryResult>("/try", { body, signal }),
    enabled: body.text !== "",
    staleTime: Infinity,
    placeholderData: keepPreviousData,
    retry: false,
  });
}

/** A text that a node has sent in an earlier run of the workflow. */
export interface Sample {
  name: string;
  text: string;
  round: number;
}

const RUNS = 3;
const SAMPLES = 30;
/** The first rounds of a run are enough for samples. */
const SAMPLED_ROUNDS = 200;

/** What these nodes have sent in the rounds of recent runs, the newest first. */
export function useSamples(nodes: readonly string[], describe: (node: string, round: number, run: string) => string) {
  const saved = useEditor((state) => state.saved);
  return useQuery({
    queryKey: ["samples", saved?.group, saved?.name, nodes],
    queryFn: async (): Promise<Sample[]> => {
      const { runs } = await readRuns({ workflow: saved?.name, limit: RUNS });
      const found: Sample[] = [];
      for (const run of runs) {
        const loops = await call<LoopFigures[]>(`/runs/${run.id}/rounds`, { query: { outputs: true, limit: SAMPLED_ROUNDS } });
        const rounds = loops.flatMap((loop) => loop.rounds as RoundView[]);
        for (const round of rounds.sort((one, other) => Date.parse(other.started) - Date.parse(one.started))) {
          for (const [address, text] of Object.entries(round.outputs)) {
            const node = lastPart(address);
            if (text && nodes.includes(node)) {
              found.push({ name: describe(node, round.number, run.id.slice(0, 8)), text, round: round.number });
            }
          }
        }
      }
      return found.slice(0, SAMPLES);
    },
    enabled: saved !== null && nodes.length > 0,
    staleTime: 30_000,
    retry: false,
  });
}
