import { StatusShape } from "../../../ui/Status";

/** The state as a shape at the corner; running and waiting are rings around the card. */
export function StateBadge({ state, isHeld }: { state: string; isHeld: boolean }) {
  if (isHeld) {
    return (
      <span className="graph-badge graph-badge-held">
        <StatusShape status="paused" size={10} />
      </span>
    );
  }
  if (state === "completed") {
    return (
      <span className="graph-badge">
        <StatusShape status="completed" size={14} />
      </span>
    );
  }
  if (state === "failed") {
    return (
      <span className="graph-badge">
        <StatusShape status="failed" size={14} />
      </span>
    );
  }
  if (state === "waiting") {
    return (
      <span className="graph-badge graph-badge-people">
        <StatusShape status="waiting" size={14} />
      </span>
    );
  }
  return null;
}
