// How new the texts of each round were: only the server knows, so it is asked again when rounds end.
import { useEffect, useState } from "react";
import { readRounds } from "../../../api/rounds";
import { Refresher } from "../../../live/refresher";

export interface NoveltyState {
  novelty: ReadonlyMap<string, number>;
  /** Why it could not be read; empty if it was. */
  error: string;
}

const NOTHING: NoveltyState = { novelty: new Map(), error: "" };

/** `ended` counts the rounds that ended; a change of it asks again. */
export function useNovelty(runId: string, isWanted: boolean, ended: number): NoveltyState {
  const [state, setState] = useState(NOTHING);
  const [refresher, setRefresher] = useState<Refresher | null>(null);
  useEffect(() => {
    if (!isWanted) return;
    const control = new AbortController();
    const made = new Refresher(async () => {
      try {
        const loops = await readRounds(runId, {}, control.signal);
        const novelty = new Map<string, number>();
        for (const { rounds } of loops) {
          for (const round of rounds) if (round.novelty !== null) novelty.set(round.address, round.novelty);
        }
        setState({ novelty, error: "" });
      } catch (error) {
        if (!control.signal.aborted) setState((before) => ({ ...before, error: (error as Error).message }));
      }
    });
    setRefresher(made);
    return () => {
      control.abort();
      made.close();
      setState(NOTHING);
    };
  }, [runId, isWanted]);
  useEffect(() => {
    if (ended > 0) refresher?.want();
  }, [refresher, ended]);
  return state;
}
