// The rounds of a run. The server gives them in pages; a run may have 100,000.
import { call, type Options } from "./client";
import type { LoopFigures, RoundView } from "./schema";

const PAGE = 5_000;

export interface LoopRounds {
  loop: string;
  rounds: RoundView[];
}

interface Wanted {
  /** Only the loop with this name. */
  loop?: string;
  /** The first round. */
  from?: number;
}

/** All rounds of the loops of a run. */
export async function readRounds(run: string, wanted: Wanted = {}, signal?: AbortSignal): Promise<LoopRounds[]> {
  const found: LoopRounds[] = [];
  for (const { loop, rounds, next } of await readPage(run, { ...wanted }, signal)) {
    const all = rounds as RoundView[];
    for (let cursor = next; cursor; ) {
      const [page] = await readPage(run, { ...wanted, loop, cursor }, signal);
      all.push(...((page?.rounds ?? []) as RoundView[]));
      cursor = page?.next;
    }
    found.push({ loop, rounds: all });
  }
  return found;
}

function readPage(run: string, query: Options["query"], signal?: AbortSignal): Promise<LoopFigures[]> {
  return call<LoopFigures[]>(`/runs/${run}/rounds`, { query: { ...query, limit: PAGE }, signal });
}
