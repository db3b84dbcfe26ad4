// The runs that fit a filter: the first pages of the three sections, read again when events say that something
// has changed, and further pages on demand.
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { ApiError, call } from "../../api/client";
import { keys, queryClient } from "../../api/queries";
import { summaryRequest } from "../../api/requests";
import type { RunList, RunsSummary, RunView } from "../../api/schema";
import { onEvents } from "../../live/connection";
import { Refresher } from "../../live/refresher";
import { toastError } from "../../ui/toasts";
import { filterPath, GROUPS, statusesOf, type Filter, type Group } from "./filter";
import { appendPage, groupOf, mergeFirstPage, NOTHING, vanished, type Listed, type Part, type Parts } from "./list";
import { partRequest } from "./requests";

/** Runs that are looked up one by one, if they are on none of the pages. */
const MOST_LOOKUPS = 20;

async function readPart(filter: Filter, group: Group, cursor: string, signal?: AbortSignal): Promise<Part> {
  const request = partRequest(filter, group, cursor);
  if (request === null) return NOTHING;
  const [path, options] = request;
  const page = await call<RunList>(path, { ...options, signal });
  return { rows: page.runs, next: page.next ?? null };
}

async function lookUp(id: string, signal: AbortSignal): Promise<RunView | null> {
  try {
    return await call<RunView>(`/runs/${id}`, { signal });
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return null;
    throw error;
  }
}

async function readList(filter: Filter, key: readonly string[], signal: AbortSignal): Promise<Listed> {
  const [needs, running, finished] = await Promise.all(GROUPS.map((group) => readPart(filter, group, "", signal)));
  const pages = { needs, running, finished } as Parts;
  // Read here, and not before: further pages may have come meanwhile.
  const known = queryClient.getQueryData<Listed>(key);
  const parts = Object.fromEntries(
    GROUPS.map((group) => [group, mergeFirstPage(known?.parts[group], pages[group])]),
  ) as Parts;
  const missing = vanished(known?.parts, parts).slice(0, MOST_LOOKUPS);
  const found = (await Promise.all(missing.map((id) => lookUp(id, signal)))).filter((run) => run !== null);
  for (const run of found) {
    // It changed its section between two reads; otherwise it does not fit the filter any more.
    const group = groupOf(run);
    if (statusesOf(filter, group).includes(run.status)) {
      parts[group] = { ...parts[group], rows: [...parts[group].rows, run] };
    }
  }
  return { parts, left: found };
}

export function useRunList(filter: Filter) {
  const path = filterPath(filter);
  const key = useMemo(() => [...keys.runs, path], [path]);
  const query = useQuery({
    queryKey: key,
    queryFn: ({ signal }) => readList(filter, key, signal),
    placeholderData: keepPreviousData,
  });
  const [isLoadingMore, setLoadingMore] = useState(false);
  const loadMore = useCallback(
    async (group: Group) => {
      const cursor = queryClient.getQueryData<Listed>(key)?.parts[group].next;
      if (!cursor) return;
      setLoadingMore(true);
      try {
        const page = await readPart(filter, group, cursor);
        queryClient.setQueryData<Listed>(key, (known) => {
          // A refresh may have replaced the page that this one follows.
          if (known === undefined || known.parts[group].next !== cursor) return known;
          return { ...known, parts: { ...known.parts, [group]: appendPage(known.parts[group], page) } };
        });
      } catch (error) {
        toastError(error);
      } finally {
        setLoadingMore(false);
      }
    },
    [key, filter],
  );
  return { query, path, loadMore, isLoadingMore };
}

export function useSummary() {
  return useQuery({
    queryKey: ["runs-summary"],
    queryFn: () => call<RunsSummary>(...summaryRequest()),
  });
}

/** How long the list waits for further events before it is read again. */
const SOON_MS = 60;

/** Calls a function when events say that some run has changed. */
export function useLiveRefresh(read: () => Promise<unknown>): void {
  const current = useRef(read);
  current.current = read;
  useEffect(() => {
    const refresher = new Refresher(() => current.current(), SOON_MS);
    const changed = () => refresher.want();
    const stop = onEvents(changed, changed);
    return () => {
      stop();
      refresher.close();
    };
  }, []);
}
