// How long a run has worked.
import type { Interval } from "./run_model";

/** The seconds of work between two moments: without the times in which the run waited, was paused or locked. */
export function workSeconds(idle: readonly Interval[], from: number, to: number): number {
  let work = to - from;
  for (const interval of idle) {
    const overlap = Math.min(to, interval.to ?? to) - Math.max(from, interval.from);
    if (overlap > 0) work -= overlap;
  }
  return Math.max(0, work) / 1000;
}
