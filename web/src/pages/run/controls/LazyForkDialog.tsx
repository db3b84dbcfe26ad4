// The dialog that forks a run. Few readers open it, so it is loaded when they do.
import { lazy, Suspense } from "react";

const ForkDialog = lazy(() => import("../../fork/ForkDialog"));

export function LazyForkDialog(props: { runId: string; at: string; onClose: () => void }) {
  return (
    <Suspense>
      <ForkDialog {...props} />
    </Suspense>
  );
}
