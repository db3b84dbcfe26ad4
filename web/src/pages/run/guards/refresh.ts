// Reads again what the server computes, when events say that it has changed.
import { useEffect } from "react";
import type { QueryKey } from "@tanstack/react-query";
import { queryClient } from "../../../api/queries";
import type { RunModel } from "../../../live/run_model";
import type { RunStore } from "../../../live/useRunEvents";
import { Refresher } from "../../../live/refresher";

/** Marks a query as out of date each time that `mark` of the run changes. */
export function useRefresh(store: RunStore, queryKey: QueryKey, mark: (model: RunModel) => unknown): void {
  const name = JSON.stringify(queryKey);
  useEffect(() => {
    const key = JSON.parse(name) as QueryKey;
    let seen = mark(store.getState().model);
    const refresher = new Refresher(async () => {
      seen = mark(store.getState().model);
      await queryClient.invalidateQueries({ queryKey: key, exact: true });
    });
    const stop = store.subscribe(() => {
      if (mark(store.getState().model) !== seen) refresher.want();
    });
    return () => {
      stop();
      refresher.close();
    };
    // The mark is a constant function of its caller.
  }, [store, name]);
}
