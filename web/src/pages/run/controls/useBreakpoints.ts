// The breakpoints of a run, as the server has them.
import { useQuery } from "@tanstack/react-query";
import { call } from "../../../api/client";
import { keys } from "../../../api/queries";
import type { BreakpointState } from "../../../api/schema";

export const breakpointsKey = (runId: string) => [...keys.run(runId), "breakpoints"] as const;

export function useBreakpoints(runId: string, isEnabled = true) {
  return useQuery({
    queryKey: breakpointsKey(runId),
    queryFn: () => call<BreakpointState[]>(`/runs/${runId}/breakpoints`),
    enabled: isEnabled,
  });
}
