// Two runs side by side: what is different between them, and from where on.
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { call } from "../../api/client";
import { keys, useRunView } from "../../api/queries";
import type { RunPlan } from "../../api/schema";
import { Failure, Loading } from "../../ui/State";
import { Comparison } from "./Comparison";
import { Picker } from "./Picker";
import "./compare.css";

function usePlan(id: string) {
  return useQuery({ queryKey: keys.plan(id), queryFn: () => call<RunPlan>(`/runs/${id}/plan`), staleTime: Infinity });
}

/** `otherId` is a run, or `choose` for a list of runs to choose from. */
export default function ComparePage({ runId, otherId }: { runId: string; otherId: string }) {
  return otherId === "choose" ? <Picker runId={runId} /> : <Loader runId={runId} otherId={otherId} />;
}

function Loader({ runId, otherId }: { runId: string; otherId: string }) {
  const runs = [useRunView(runId), useRunView(otherId)] as const;
  const plans = [usePlan(runId), usePlan(otherId)] as const;
  const failed = [...runs, ...plans].find((query) => query.error !== null && query.data === undefined);
  const [first, second] = [runs[0].data, runs[1].data];
  const [planOne, planTwo] = [plans[0].data, plans[1].data];
  // The parent is A, whichever was named first.
  const isTurned = first !== undefined && second !== undefined && first.parent === second.id;
  const sides = useMemo(() => {
    if (first === undefined || second === undefined || planOne === undefined || planTwo === undefined) return undefined;
    const one = { view: first, plan: planOne };
    const other = { view: second, plan: planTwo };
    return isTurned ? { a: other, b: one } : { a: one, b: other };
  }, [first, second, planOne, planTwo, isTurned]);
  if (failed?.error) {
    return <Failure error={failed.error} onRetry={() => void failed.refetch()} command={`roundel log ${runId}`} />;
  }
  if (sides === undefined) return <Loading lines={8} />;
  if (sides.a.view.id === sides.b.view.id) return <Picker runId={runId} isSame />;
  return <Comparison {...sides} />;
}
