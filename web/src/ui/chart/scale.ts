// Where things stand in a chart. Its axes change in steps: a chart whose axis moves with each point cannot be
// read while it grows.

/** The next of 1, 2, 5, 10, 20, 50, … that is not smaller. */
export function stepUp(value: number): number {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  for (const factor of [1, 2, 5, 10]) {
    if (value <= factor * power * (1 + 1e-9)) return factor * power;
  }
  return 10 * power;
}

/** The last round of the x axis: the bound of the loop if that is near, otherwise the next step. */
export function lastRound(count: number, limit: number | null): number {
  const step = Math.max(10, stepUp(count));
  return limit !== null && limit >= count && limit <= Math.max(step, 12) ? limit : step;
}

/** The range of the y axis. Scores usually go from 0 to 100 or from 0 to 1. */
export function valueRange(values: readonly (number | null)[], more: readonly number[] = []): [number, number] {
  let low = 0;
  let high = 0;
  for (const value of [...values, ...more]) {
    if (value === null || !Number.isFinite(value)) continue;
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  return [low < 0 ? -stepUp(-low) : 0, stepUp(high)];
}

/** Steps for a y axis from `low` to `high` with about `count` lines. */
export function ticks(low: number, high: number, count = 4): number[] {
  const range = high - low || Math.abs(high) || 1;
  const rough = range / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((value) => value >= rough) ?? rough;
  const first = Math.floor(low / step) * step;
  const found: number[] = [];
  for (let value = first; found.length < 12; value += step) {
    found.push(Number(value.toPrecision(12)));
    if (value >= high) break;
  }
  return found;
}

/** The rounds whose numbers stand below a small chart: the first, the last of the axis, the selected one, and one
 * between them, if there is room. */
export function labelledRounds(last: number, selected: number | null): number[] {
  const found: number[] = selected === null ? [] : [selected];
  const gap = last * 0.16;
  for (const one of [1, last, Math.round((last + 1) / 2)]) {
    if (found.every((other) => Math.abs(other - one) >= gap || last <= 6) && !found.includes(one)) found.push(one);
  }
  return found.sort((a, b) => a - b);
}

/** The rounds whose numbers stand below a large chart: as many as have room, at even distances. */
export function evenRounds(first: number, last: number, slot: number): number[] {
  const every = Math.max(1, Math.ceil(28 / slot));
  return Array.from({ length: Math.floor((last - first) / every) + 1 }, (_, index) => first + index * every);
}

/** The index of the round that is nearest to a place on the x axis. The rounds are in order. */
export function nearest(rounds: readonly number[], place: number): number {
  let low = 0;
  let high = rounds.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    // Halfway between two rounds the later one is taken, whose slot begins there.
    if ((rounds[middle]! + rounds[middle + 1]!) / 2 <= place) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** About how wide a text is. An estimate suffices: it decides about margins, and what to leave out. */
export function textWidth(text: string, size: number): number {
  let sum = 0;
  for (const letter of text) sum += letter > "\u2e7f" ? 1 : 0.58;
  return sum * size;
}

/** A text in one or two lines, or not at all if it has no room. */
export function fitLines(text: string, size: number, room: number): string[] {
  const fits = (line: string) => textWidth(line, size) <= room;
  if (fits(text)) return [text];
  const words = text.split(" ");
  for (let index = words.length - 1; index > 0; index -= 1) {
    const lines = [words.slice(0, index).join(" "), words.slice(index).join(" ")];
    if (lines.every(fits)) return lines;
  }
  return [];
}

/** The heights of texts beside the ends of lines: those that would overlap move apart. */
export function apart(ends: readonly { x: number; y: number }[], gap: number): number[] {
  const heights = ends.map((end) => end.y);
  const order = ends.map((_, index) => index).sort((a, b) => ends[a]!.y - ends[b]!.y);
  order.forEach((lower, place) => {
    const upper = order[place - 1];
    if (upper === undefined || Math.abs(ends[lower]!.x - ends[upper]!.x) > 40) return;
    const missing = gap - (heights[lower]! - heights[upper]!);
    if (missing <= 0) return;
    heights[upper]! -= missing / 2;
    heights[lower]! += missing / 2;
  });
  return heights;
}

/** A place in the picture. */
export type Point = readonly [x: number, y: number];

const short = (value: number) => Number(value.toFixed(1));

export function linePath(points: readonly Point[]): string {
  return points.map(([x, y], index) => `${index ? "L" : "M"}${short(x)} ${short(y)}`).join("");
}

/** Lines without length: their round or square ends are the dots, so that a thousand are one element. */
export function dotPath(points: readonly Point[]): string {
  return points.map(([x, y]) => `M${short(x)} ${short(y)}h0`).join("");
}

/** Bars from `base` to their points, as one element. */
export function barPath(points: readonly Point[], slot: number, base: number): string {
  const width = Math.min(26, Math.max(1, slot * 0.74));
  return points
    .map(([x, y]) => {
      const round = Math.max(0, Math.min(2, width / 4, base - y));
      const curve = round ? `q0 ${-short(round)} ${short(round)} ${-short(round)}` : "";
      const back = round ? `q${short(round)} 0 ${short(round)} ${short(round)}` : "";
      return `M${short(x - width / 2)} ${short(base)}V${short(y + round)}${curve}h${short(width - 2 * round)}${back}V${short(base)}z`;
    })
    .join("");
}
