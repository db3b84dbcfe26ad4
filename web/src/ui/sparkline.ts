export type Point = readonly [x: number, y: number];

export interface SparkShape {
  points: Point[];
  last: Point | null;
  /** The height of the threshold; null if there is none. */
  threshold: number | null;
}

const PAD = 3;
/** More points than this cannot be told apart. */
const MOST = 42;

/** Where the points of a sparkline are. The newest value is always among them. */
export function sparkline(
  values: readonly number[],
  threshold: number | null,
  width: number,
  height: number,
): SparkShape {
  const finite = values.filter((value) => Number.isFinite(value));
  const step = Math.max(1, (finite.length - 1) / (MOST - 1));
  const shown = Array.from({ length: Math.min(finite.length, MOST) }, (_, index) => finite[Math.round(index * step)] as number);
  const all = threshold === null ? shown : [...shown, threshold];
  const low = Math.min(...all);
  const span = Math.max(...all) - low;
  // A line without any rise stands in the middle.
  const y = (value: number) => round(span === 0 ? height / 2 : height - PAD - ((value - low) / span) * (height - 2 * PAD));
  // A few rounds do not fill the width: the slope would look steeper than that of a long run.
  const gap = shown.length > 1 ? Math.min((width - 2 * PAD) / (shown.length - 1), 16) : 0;
  const points = shown.map((value, index): Point => [round(PAD + index * gap), y(value)]);
  return { points, last: points.at(-1) ?? null, threshold: threshold === null ? null : y(threshold) };
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
