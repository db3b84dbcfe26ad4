// What pages read from the server, cached and shared. Live events say when something is out of date.
import { keepPreviousData, QueryClient, useQuery } from "@tanstack/react-query";
import { ApiError, call } from "./client";
import { ME, runRequest } from "./requests";
import type { Me, RunList, RunState, RunView, ServerView } from "./schema";

export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 5_000,
      refetchOnWindowFocus: true,
      // What the server refused, it will refuse again.
      retry: (tries, error) => !(error instanceof ApiError && error.status >= 400 && error.status < 500) && tries < 2,
    },
  },
});

export const keys = {
  me: ["me"] as const,
  server: ["server"] as const,
  runs: ["runs"] as const,
  run: (id: string) => ["run", id] as const,
  state: (id: string) => ["run", id, "state"] as const,
  plan: (id: string) => ["run", id, "plan"] as const,
  rounds: (id: string) => ["run", id, "rounds"] as const,
};

export function useMe() {
  return useQuery({ queryKey: keys.me, queryFn: () => call<Me>(...ME), staleTime: 60_000 });
}

export function useServer() {
  return useQuery({ queryKey: keys.server, queryFn: () => call<ServerView>("/server"), staleTime: 30_000 });
}

export function useRunView(id: string) {
  return useQuery({ queryKey: keys.run(id), queryFn: () => call<RunView>(...runRequest(id)) });
}

/** Guards, queues, breakpoints and what is ready. */
export function useRunState(id: string, isEnabled = true) {
  return useQuery({
    queryKey: keys.state(id),
    queryFn: () => call<RunState>(`/runs/${id}/state`),
    enabled: isEnabled,
    placeholderData: keepPreviousData,
  });
}

export interface RunFilter {
  status?: readonly string[];
  workflow?: string;
  q?: string;
  cursor?: string;
  limit?: number;
}

export function readRuns(filter: RunFilter): Promise<RunList> {
  return call<RunList>("/runs", { query: { ...filter } });
}
