// The dialog that forks a run. Few readers open it, so it is loaded when they do.
import { Later, later } from "../../../ui/later";

const ForkDialog = later(() => import("../../fork/ForkDialog"));

export function LazyForkDialog(props: { runId: string; at: string; onClose: () => void }) {
  return (
    <Later>
      <ForkDialog {...props} />
    </Later>
  );
}
