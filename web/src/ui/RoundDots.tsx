// The rounds of a loop as dots: those that are over, the current one, and those that are still possible.
import "./round_dots.css";

/** More dots than this are no longer counted at a glance: a bar says it better. */
export const MOST_DOTS = 20;

export function RoundDots({
  round,
  limit,
  isRunning = true,
}: {
  round: number;
  /** The most rounds; null if there is no number. */
  limit: number | null;
  /** Whether the current round goes on. */
  isRunning?: boolean;
}) {
  const most = Math.max(limit ?? round, round);
  if (most > MOST_DOTS) {
    return (
      <span className="round-bar" aria-hidden="true">
        <span style={{ width: `${limit === null ? 100 : (round / most) * 100}%` }} />
      </span>
    );
  }
  return (
    <span className="round-dots" aria-hidden="true">
      {Array.from({ length: most }, (_, index) => {
        const kind = index + 1 < round ? "past" : index + 1 > round ? "left" : isRunning ? "now" : "past";
        return <i key={index} className={`round-dot-${kind}`} />;
      })}
    </span>
  );
}
