// Where everything on the strip is: pure, from the rounds, the room and the mode.
//
// The strip is a sequence of columns in the order of time: cells, folded rounds, work between them, and gaps.
// Widths follow a ladder of scales, so that a growing cell moves nothing before it until the next rung.
import { isInside } from "../../../live/address";
import type { Pause, StripLoop, StripRound, StripTree } from "./tree";

export type Mode = "time" | "even";

/** Narrower cells are merged into bands of ten. */
export const MIN_CELL = 34;
export const BAND = 10;
const COMFORTABLE_CELL = 58;
/** A cell that has a name or an error to show, while there is room for it. */
const MIN_NAMED = 96;
const MIN_LIVE = 64;
/** Shorter work counts as this long: the difference of a few milliseconds says nothing. */
const SHORT = 250;
/** What an open round takes beside its cells. */
const AROUND = 26;
const MAX_TIME_CELL = 260;
const MAX_EVEN_CELL = 140;
const MIN_FOLD = 118;
const MIN_NODE = 84;
const MIN_TURN = 168;
const MIN_LANE_CELL = 40;
const MIN_BAR = 72;
const GAP = 88;
const NARROW_GAP = 26;
const MIN_BAND = 8;
const USUAL_BAND = 30;
/** The least width of bands on a phone, where they scroll. */
const SCROLLED = 900;
/** The space between two cells. */
const SEAM = 3;
/** Work after a pause that is shorter than this gets no cell of its own. */
const REST_OF_ROUND = 500;
const OWN_AFTER = 200;
const TICK_EVERY = 92;
/** Below this number of leaves the strip rather scrolls than merges. */
const FEW = 20;

export interface Box {
  key: string;
  x: number;
  width: number;
}

export interface Bar extends Box {
  round: StripRound;
  depth: number;
  /** Whether this is the part that has the text. */
  isMain: boolean;
}

export interface Cell extends Box {
  round: StripRound;
  kind: StripLoop["kind"];
  depth: number;
  /** 0 for the first part of a round that pauses interrupt. */
  part: number;
  isLast: boolean;
}

export interface Fold extends Box {
  round: StripRound;
  depth: number;
}

export interface Band extends Box {
  rounds: readonly StripRound[];
  depth: number;
}

export interface Gap extends Box {
  pause: Pause;
}

export interface LaneItem extends Box {
  round: StripRound;
  lane: number;
}

export interface LaneGroup extends Box {
  loop: StripLoop;
  depth: number;
  lanes: number;
  items: readonly LaneItem[];
}

export interface Tick {
  x: number;
  time: number;
}

export interface OverviewColumn {
  x: number;
  width: number;
  best: number;
  median: number;
}

export interface OverviewMark {
  x: number;
  kind: "best" | "failed" | "locked";
  address: string;
}

export interface Overview {
  width: number;
  columns: readonly OverviewColumn[];
  marks: readonly OverviewMark[];
  labels: readonly { x: number; number: number }[];
  /** The brushed leaves, from 0. */
  start: number;
  count: number;
  total: number;
  /** The most leaves that the lower row can show. */
  most: number;
  brushX: number;
  brushWidth: number;
}

export interface Layout {
  /** The right end of everything that happened. */
  end: number;
  bars: readonly Bar[];
  cells: readonly Cell[];
  folds: readonly Fold[];
  bands: readonly Band[];
  gaps: readonly Gap[];
  /** Locks between bands, where there is no room for a gap. */
  locks: readonly { x: number; pause: Pause }[];
  lanes: readonly LaneGroup[];
  ticks: readonly Tick[];
  overview: Overview | null;
  /** The box of each round that can be selected, by address. */
  boxes: ReadonlyMap<string, Box>;
  laneCount: number;
}

export interface Brush {
  start: number;
  count: number;
}

export interface LayoutInput {
  tree: StripTree;
  mode: Mode;
  /** The room for what happened, without what is still possible. */
  room: number;
  /** The rounds whose paths are open: the one that is shown, and the newest. */
  paths: readonly string[];
  /** The round around which bands open; empty for the newest. */
  selected: string;
  brush: Brush | null;
  /** Whether the strip may be wider than its room, up to 60 cells. */
  scrolls: boolean;
}

interface Column {
  kind: "cell" | "fold" | "own" | "bar" | "lanes" | "gap" | "band";
  path: readonly StripRound[];
  from: number;
  to: number;
  min: number;
  weight: number;
  max: number;
  depth: number;
  part: number;
  loop?: StripLoop;
  round?: StripRound;
  rounds?: readonly StripRound[];
  pause?: Pause;
  x: number;
  width: number;
}

function column(kind: Column["kind"], path: readonly StripRound[], from: number, to: number, more: Partial<Column>): Column {
  const end = Math.max(from, to);
  return { kind, path, from, to: end, min: 0, weight: 0, max: Infinity, depth: path.length, part: 0, x: 0, width: 0, ...more };
}

/** Whether an address is this round or inside it. */
function isOnPath(paths: readonly string[], round: string): boolean {
  return paths.some((path) => isInside(path, round));
}

/** Which outer rounds are open: those on the paths, and as many others as fit, the newest first. */
export function openRounds(tree: StripTree, paths: readonly string[], room: number): ReadonlySet<string> {
  const open = new Set<string>();
  const widthOf = (loop: StripLoop): number =>
    loop.rounds.length * (loop.isOuter ? MIN_FOLD : loop.kind === "debate" ? MIN_TURN : COMFORTABLE_CELL);
  let free = room;
  for (const loop of tree.loops) free -= widthOf(loop);
  const enter = (round: StripRound): void => {
    open.add(round.address);
    free += MIN_FOLD - AROUND;
    for (const loop of round.inner) free -= widthOf(loop);
  };
  const openPaths = (loops: readonly StripLoop[]): void => {
    for (const loop of loops) {
      for (const round of loop.rounds) {
        if (!round.inner.length || !isOnPath(paths, round.address)) continue;
        enter(round);
        openPaths(round.inner);
      }
    }
  };
  openPaths(tree.loops);
  // The oldest are the first to fold, so the search ends at the first that does not fit.
  const openOthers = (loops: readonly StripLoop[]): boolean => {
    for (let at = loops.length - 1; at >= 0; at--) {
      const rounds = loops[at]?.rounds ?? [];
      for (let index = rounds.length - 1; index >= 0; index--) {
        const round = rounds[index];
        if (round === undefined || !round.inner.length) continue;
        if (!open.has(round.address)) {
          const cost = round.inner.reduce((sum, loop) => sum + widthOf(loop), 0) + AROUND - MIN_FOLD;
          if (cost > free) return false;
          enter(round);
        }
        if (!openOthers(round.inner)) return false;
      }
    }
    return true;
  };
  openOthers(tree.loops);
  return open;
}

function endOf(loop: StripLoop): number {
  let end = 0;
  for (const round of loop.rounds) if (round.to > end) end = round.to;
  return end;
}

function toColumns(tree: StripTree, mode: Mode, open: ReadonlySet<string>): Column[] {
  const columns: Column[] = [];
  const isTime = mode === "time";
  const own = (path: readonly StripRound[], from: number, to: number): void => {
    const took = to - from;
    if (took > 0) columns.push(column("own", path, from, to, { min: took >= OWN_AFTER ? 10 : 0, weight: isTime ? took : 0 }));
  };
  const walk = (loops: readonly StripLoop[], path: readonly StripRound[]): void => {
    for (const loop of loops) {
      if (loop.kind === "lanes" && isTime) {
        columns.push(lanesColumn(loop, path));
        continue;
      }
      loop.rounds.forEach((round, index) => {
        // A cell lasts until the next one; what nobody did in between is cut out as a gap.
        const next = loop.kind === "lanes" ? undefined : loop.rounds[index + 1];
        const until = Math.max(round.from, next === undefined ? round.to : Math.max(next.from, round.from));
        const weight = isTime ? Math.max(SHORT, until - round.from) : 1;
        const max = isTime ? MAX_TIME_CELL : MAX_EVEN_CELL;
        if (!round.inner.length) {
          if (loop.isOuter) {
            columns.push(column("bar", [...path, round], round.from, until, { min: MIN_BAR, weight: isTime ? weight : 0, max, round, loop }));
            return;
          }
          const isDebate = loop.kind === "debate";
          const min = isDebate ? MIN_TURN : round.failed ? MIN_NAMED : round.name ? MIN_NODE : round.isOpen ? MIN_LIVE : MIN_CELL;
          columns.push(column("cell", path, round.from, until, { min, weight, max: isDebate ? 300 : max, round, loop }));
        } else if (!open.has(round.address)) {
          columns.push(column("fold", path, round.from, until, { min: MIN_FOLD, max: MIN_FOLD * 1.5, round, loop }));
        } else {
          const inside = [...path, round];
          let cursor = round.from;
          const inner = [...round.inner].sort((a, b) => (a.rounds[0]?.from ?? 0) - (b.rounds[0]?.from ?? 0));
          for (const one of inner) {
            own(inside, cursor, one.rounds[0]?.from ?? cursor);
            walk([one], inside);
            cursor = Math.max(cursor, endOf(one));
          }
          own(inside, cursor, until);
        }
      });
    }
  };
  walk(tree.loops, []);
  return columns;
}

function lanesColumn(loop: StripLoop, path: readonly StripRound[]): Column {
  const from = loop.rounds[0]?.from ?? 0;
  const to = endOf(loop);
  const counts = new Map<number, number>();
  for (const { lane } of loop.rounds) counts.set(lane, (counts.get(lane) ?? 0) + 1);
  const min = Math.min(MIN_LANE_CELL * Math.max(1, ...counts.values()), 1200);
  return column("lanes", path, from, to, { min: Math.max(180, min), weight: to - from, loop });
}

/** Cuts the pauses out of the columns: before, gap, after. */
function cutPauses(columns: readonly Column[], pauses: readonly Pause[]): Column[] {
  const found: Column[] = [];
  const rest = [...pauses];
  const gap = (pause: Pause): Column =>
    column("gap", [], pause.from, pause.to ?? pause.from, { pause, min: GAP, max: GAP });
  for (const one of columns) {
    while (rest[0] !== undefined && rest[0].from < one.from) found.push(gap(rest.shift() as Pause));
    if (one.kind === "lanes" || one.kind === "fold") {
      // Time without work inside is not counted, and drawn only where it ends the block.
      let idle = 0;
      let last: Pause | undefined;
      while (rest[0] !== undefined && (rest[0].to ?? Infinity) <= one.to) {
        last = rest.shift() as Pause;
        idle += (last.to ?? last.from) - last.from;
      }
      found.push({ ...one, weight: Math.max(0, one.weight - idle) });
      if (last !== undefined && one.to - (last.to ?? last.from) < REST_OF_ROUND) found.push(gap(last));
      continue;
    }
    const isTime = one.weight !== 1 || one.kind === "own";
    const whole = one.to - one.from;
    let left = one;
    while (rest[0] !== undefined && rest[0].from < left.to) {
      const pause = rest.shift() as Pause;
      const until = pause.to ?? left.to;
      const share = (from: number, to: number) => (isTime && whole > 0 ? (one.weight * (to - from)) / whole : one.weight);
      const before = { ...left, to: pause.from, weight: share(left.from, pause.from) };
      if (left.part === 0 || before.weight > 0) found.push(before);
      found.push(gap(pause));
      const isLive = one.round?.isOpen === true;
      const from = Math.min(until, left.to);
      if (left.to - until < REST_OF_ROUND && !(isLive && left.to > until)) {
        left = { ...left, from, to: from, part: -1 };
        break;
      }
      left = { ...left, from, weight: share(from, left.to), part: left.part + 1, min: one.kind === "own" ? 0 : one.min };
    }
    if (left.part >= 0) found.push(left);
  }
  for (const pause of rest) found.push(gap(pause));
  return found;
}

function widthAt(columns: readonly Column[], scale: number): number {
  let sum = 0;
  for (const one of columns) sum += Math.max(one.min, Math.min(one.max, one.weight * scale));
  return sum;
}

/** The largest rung of the ladder at which everything fits; 0 if nothing but the least widths remains. */
function pickScale(columns: readonly Column[], room: number, mode: Mode): number {
  let heaviest = 0;
  for (const one of columns) if (one.weight > heaviest) heaviest = one.weight;
  if (heaviest === 0) return 0;
  // Rungs are powers of the step, so that the same rung is found again after a cell has grown.
  const step = mode === "time" ? 2 ** (1 / 3) : 2 ** (1 / 4);
  const rungBelow = (scale: number) => step ** Math.floor(Math.log(scale) / Math.log(step));
  const top = mode === "time" ? rungBelow(MAX_TIME_CELL / heaviest) : MAX_EVEN_CELL;
  // Lanes have no greatest width: they may take all the room.
  const isLanes = columns.some((one) => one.kind === "lanes");
  let scale = isLanes ? rungBelow(room / heaviest) : top;
  for (let rung = 0; rung < 120; rung++, scale /= step) if (widthAt(columns, scale) <= room) return scale;
  return 0;
}

function place(columns: readonly Column[], room: number, mode: Mode): number {
  const scale = pickScale(columns, room, mode);
  let x = 0;
  for (const one of columns) {
    one.x = x;
    one.width = Math.max(one.min, Math.min(one.max, one.weight * scale));
    x += one.width;
  }
  return x;
}

function isLeaf(one: Column): boolean {
  return one.kind === "cell" || one.kind === "fold" || one.kind === "bar" || one.kind === "lanes";
}

export function layoutStrip(input: LayoutInput): Layout {
  const { tree, mode, paths } = input;
  const open = openRounds(tree, paths, input.room);
  let columns = cutPauses(toColumns(tree, mode, open), tree.pauses);
  const leaves = columns.filter(isLeaf);
  const room = input.scrolls ? Math.max(input.room, Math.min(leaves.length, 60) * 72) : input.room;
  if (widthAt(columns, 0) > room) {
    for (const one of columns) {
      if (one.kind === "gap") one.min = one.max = NARROW_GAP;
      else if (one.kind === "cell" && one.loop?.kind === "rounds" && one.round?.name === "") one.min = MIN_CELL;
    }
  }
  let overview: Overview | null = null;
  let locks: { x: number; pause: Pause }[] = [];
  const isDense = leaves.length > FEW && widthAt(columns, 0) > room && !(leaves.length <= 60 && leaves.some((one) => one.loop?.kind === "debate"));
  if (isDense) {
    const lower = input.scrolls ? Math.max(input.room, SCROLLED) : room;
    const dense = toBands(columns, leaves, input, lower);
    columns = dense.columns;
    overview = dense.overview;
    place(columns, lower, mode);
    locks = dense.locks.map(({ after, pause }) => ({ x: after === undefined ? 0 : after.x + after.width, pause }));
  } else place(columns, room, mode);
  return { ...draw(columns, mode, overview === null), overview, locks };
}

/** The overview, and the columns of its brushed part. */
function toBands(
  columns: readonly Column[],
  leaves: readonly Column[],
  input: LayoutInput,
  room: number,
): { columns: Column[]; overview: Overview; locks: { after: Column | undefined; pause: Pause }[] } {
  const total = leaves.length;
  const most = Math.min(total, Math.max(BAND * 2, Math.floor((room - BAND * MIN_CELL) / MIN_BAND) * BAND));
  const usual = Math.max(BAND * 2, Math.floor((room - BAND * MIN_CELL) / USUAL_BAND) * BAND);
  const count = Math.min(total, most, Math.max(BAND, input.brush?.count ?? (Math.floor(usual / 60) * 60 || usual)));
  const wanted = input.selected ? leaves.findIndex((one) => one.round !== undefined && isOnPath([input.selected], one.round.address)) : -1;
  const focus = wanted < 0 ? total - 1 : wanted;
  const aligned = Math.floor((focus - count / 2) / BAND) * BAND;
  const start = Math.max(0, Math.min(input.brush?.start ?? (wanted < 0 ? total - count : aligned), total - count));
  const first = leaves[start];
  const last = leaves[start + count - 1];
  const from = first === undefined ? 0 : columns.indexOf(first);
  const to = last === undefined ? columns.length : columns.indexOf(last) + 1;
  const groups: Column[][] = [];
  const locks: { after: Column | undefined; pause: Pause }[] = [];
  const lockAfter: { group: number; index: number; pause: Pause }[] = [];
  for (const one of columns.slice(from, to)) {
    if (one.kind === "gap") {
      const at = groups.length - 1;
      if (one.pause?.status === "suspended_locked") lockAfter.push({ group: at, index: (groups[at]?.length ?? 0) - 1, pause: one.pause });
      continue;
    }
    if (!isLeaf(one)) continue;
    const group = groups.at(-1);
    const before = group?.at(-1);
    const tens = (column: Column) => Math.floor(((column.round?.number ?? 1) - 1) / BAND);
    const belongs =
      before !== undefined &&
      one.round !== undefined &&
      before.round !== undefined &&
      before.kind === one.kind &&
      before.round.stem === one.round.stem &&
      tens(before) === tens(one) &&
      one.round.number > 0;
    if (belongs) group?.push(one);
    else groups.push([one]);
  }
  // The band of the focus opens first, then its neighbours as long as they fit.
  const focused = leaves[focus];
  let middle = groups.findIndex((group) => focused !== undefined && group.includes(focused));
  const hasFocus = middle >= 0;
  if (!hasFocus) middle = groups.length - 1;
  const widthOf = (group: readonly Column[]) => group.reduce((sum, one) => sum + one.min, 0);
  let free = room - groups.length * MIN_CELL;
  const opened = new Set<number>();
  const openGroup = (index: number, isForced: boolean): boolean => {
    const group = groups[index];
    if (group === undefined || opened.has(index)) return true;
    const cost = widthOf(group) - MIN_CELL;
    if (cost > free && !isForced && group.length > 1) return false;
    opened.add(index);
    free -= cost;
    return true;
  };
  groups.forEach((group, index) => {
    if (group.length === 1) openGroup(index, true);
  });
  if (hasFocus) openGroup(middle, true);
  for (let far = hasFocus ? 1 : 0; far < groups.length; far++) {
    if (!openGroup(middle - far, false) || !openGroup(middle + far, false)) break;
  }
  const openWidth = groups.reduce((sum, group, index) => sum + (opened.has(index) ? widthOf(group) : 0), 0);
  const bandMin = Math.max(MIN_BAND, Math.min(MIN_CELL, Math.floor((room - openWidth) / Math.max(1, groups.length - opened.size))));
  const made: Column[] = [];
  const madeFor: (Column | undefined)[][] = [];
  groups.forEach((group, index) => {
    const head = group[0] as Column;
    if (opened.has(index)) {
      const copies = group.map((one) => ({ ...one }));
      made.push(...copies);
      madeFor.push(copies);
      return;
    }
    const band = column("band", head.path, head.from, group.at(-1)?.to ?? head.to, {
      min: bandMin,
      max: input.mode === "time" ? MAX_TIME_CELL : MAX_EVEN_CELL,
      weight: input.mode === "time" ? group.reduce((sum, one) => sum + one.weight, 0) : 1,
      depth: head.depth,
      loop: head.loop,
      rounds: group.map((one) => one.round).filter((round) => round !== undefined),
    });
    made.push(band);
    madeFor.push(group.map(() => band));
  });
  for (const lock of lockAfter) locks.push({ after: madeFor[lock.group]?.[lock.index], pause: lock.pause });
  return { columns: made, overview: overviewOf(columns, leaves, input.room, start, count, most), locks };
}

function overviewOf(
  all: readonly Column[],
  leaves: readonly Column[],
  width: number,
  start: number,
  count: number,
  most: number,
): Overview {
  const total = leaves.length;
  let bucket = BAND;
  while ((total / bucket) * 4 > width) bucket *= bucket.toString().startsWith("2") ? 2.5 : 2;
  const unit = width / total;
  const columns: OverviewColumn[] = [];
  const marks: OverviewMark[] = [];
  for (let at = 0; at < total; at += bucket) {
    const values: number[] = [];
    const size = Math.min(bucket, total - at);
    for (let index = at; index < at + size; index++) {
      const fill = leaves[index]?.round?.fill;
      if (fill !== null && fill !== undefined) values.push(fill);
    }
    values.sort((a, b) => a - b);
    columns.push({
      x: at * unit,
      width: size * unit,
      best: values.at(-1) ?? 0,
      median: values[Math.floor(values.length / 2)] ?? 0,
    });
  }
  const labels: Overview["labels"] = labelsOf(leaves, unit, width);
  leaves.forEach((one, index) => {
    if (one.round === undefined) return;
    const x = (index + 0.5) * unit;
    if (one.round.failed) marks.push({ x, kind: "failed", address: one.round.address });
    else if (one.round.isBest && one.kind === "cell") marks.push({ x, kind: "best", address: one.round.address });
  });
  let seen = 0;
  for (const one of all) {
    if (isLeaf(one)) seen++;
    else if (one.pause?.status === "suspended_locked") marks.push({ x: seen * unit, kind: "locked", address: one.pause.at });
  }
  return { width, columns, marks, labels, start, count, total, most, brushX: start * unit, brushWidth: count * unit };
}

function labelsOf(leaves: readonly Column[], unit: number, width: number): { x: number; number: number }[] {
  const every = niceStep((leaves.length * 80) / width);
  const found: { x: number; number: number }[] = [];
  let last = -Infinity;
  leaves.forEach((one, index) => {
    const number = one.round?.number ?? 0;
    if ((number === 1 || number % every === 0) && index * unit - last >= 56 && index * unit <= width - 30) {
      last = index * unit;
      found.push({ x: last, number });
    }
  });
  return found;
}

function niceStep(least: number): number {
  for (let power = 1; ; power *= 10) for (const digit of [1, 2, 5]) if (digit * power >= least) return digit * power;
}

/** From placed columns to what is drawn. */
function draw(columns: readonly Column[], mode: Mode, hasTicks: boolean): Omit<Layout, "overview" | "locks"> {
  const cells: Cell[] = [];
  const folds: Fold[] = [];
  const bands: Band[] = [];
  const gaps: Gap[] = [];
  const lanes: LaneGroup[] = [];
  const boxes = new Map<string, Box>();
  const bars: Bar[] = [];
  const open: { round: StripRound; x: number; end: number }[] = [];
  const parts = new Map<string, number>();
  let laneCount = 0;
  let end = 0;
  const close = (depth: number): void => {
    while (open.length > depth) {
      const one = open.pop();
      if (one === undefined || one.end - one.x < 1) continue;
      const part = parts.get(one.round.address) ?? 0;
      parts.set(one.round.address, part + 1);
      bars.push({
        key: `${one.round.address}~${part}`,
        round: one.round,
        depth: open.length,
        x: one.x,
        width: Math.max(1, one.end - one.x - SEAM),
        isMain: true,
      });
    }
  };
  for (const one of columns) {
    const right = one.x + one.width;
    end = Math.max(end, right);
    let same = 0;
    while (same < open.length && same < one.path.length && open[same]?.round === one.path[same]) same++;
    close(same);
    for (const round of one.path.slice(same)) open.push({ round, x: one.x, end: right });
    for (const round of open) round.end = right;
    const width = Math.max(1, one.width - SEAM);
    if (one.kind === "cell" && one.round !== undefined && one.loop !== undefined) {
      const { round } = one;
      const cell: Cell = {
        key: `${round.address}~${one.part}`,
        round,
        kind: one.loop.kind,
        depth: one.depth,
        part: one.part,
        isLast: true,
        x: one.x,
        width,
      };
      const earlier = one.part > 0 ? cells.findLast((other) => other.round === round) : undefined;
      if (earlier !== undefined) earlier.isLast = false;
      cells.push(cell);
      if (!boxes.has(round.address)) boxes.set(round.address, cell);
    } else if (one.kind === "fold" && one.round !== undefined) {
      const fold = { key: one.round.address, round: one.round, depth: one.depth, x: one.x, width };
      folds.push(fold);
      boxes.set(one.round.address, fold);
    } else if (one.kind === "band" && one.rounds !== undefined) {
      const band = { key: `${one.rounds[0]?.address ?? ""}…`, rounds: one.rounds, depth: one.depth, x: one.x, width };
      bands.push(band);
      for (const round of one.rounds) boxes.set(round.address, band);
    } else if (one.kind === "gap" && one.pause !== undefined) {
      gaps.push({ key: `gap ${one.pause.from} ${one.pause.status}`, pause: one.pause, x: one.x, width });
    } else if (one.kind === "lanes" && one.loop !== undefined) {
      const group = drawLanes(one, one.loop);
      laneCount = Math.max(laneCount, group.lanes);
      lanes.push(group);
      for (const item of group.items) boxes.set(item.round.address, item);
    }
  }
  close(0);
  bars.sort((a, b) => a.depth - b.depth || a.x - b.x);
  const widest = new Map<string, Bar>();
  for (const bar of bars) {
    const other = widest.get(bar.round.address);
    if (other !== undefined) (other.width >= bar.width ? bar : other).isMain = false;
    if (other === undefined || bar.width > other.width) widest.set(bar.round.address, bar);
  }
  for (const [address, bar] of widest) boxes.set(address, bar);
  return { end, bars, cells, folds, bands, gaps, lanes, boxes, laneCount, ticks: hasTicks ? ticksOf(columns, mode) : [] };
}

function drawLanes(one: Column, loop: StripLoop): LaneGroup {
  const span = one.to - one.from || 1;
  const at = (time: number) => one.x + (Math.max(0, Math.min(span, time - one.from)) / span) * one.width;
  const items: LaneItem[] = loop.rounds.map((round) => ({
    key: round.address,
    round,
    lane: round.lane,
    x: at(round.from),
    width: Math.max(2, at(round.to) - at(round.from) - SEAM),
  }));
  // Very short ones are drawn two pixels wide, but never over the next one in their lane.
  const last = new Map<number, LaneItem>();
  for (const item of [...items].sort((a, b) => a.x - b.x)) {
    const before = last.get(item.lane);
    if (before !== undefined && before.x + before.width > item.x) before.width = Math.max(0, item.x - before.x);
    last.set(item.lane, item);
  }
  return { key: loop.stem || "nodes", loop, depth: one.depth, lanes: Math.max(0, ...loop.rounds.map((round) => round.lane)) + 1, items, x: one.x, width: one.width };
}

const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21_600, 43_200, 86_400];

/** Times above the strip: the start of each stretch of work, then round times as far as they fit. */
function ticksOf(columns: readonly Column[], mode: Mode): Tick[] {
  const found: Tick[] = [];
  let lastX = -Infinity;
  let lastSecond = -1;
  let until = -Infinity;
  let isFirst = true;
  let density = 0;
  for (const one of columns) if (one.kind !== "gap" && one.to > one.from) density = Math.max(density, one.width / (one.to - one.from));
  const step = (STEPS.find((seconds) => seconds * 1000 * density >= TICK_EVERY) ?? 86_400) * 1000;
  const add = (x: number, time: number): void => {
    const second = Math.floor(time / 1000);
    if (x - lastX < TICK_EVERY || second === lastSecond) return;
    found.push({ x, time });
    lastX = x;
    lastSecond = second;
  };
  for (const one of columns) {
    if (one.kind === "gap") {
      isFirst = true;
      continue;
    }
    // Loops that run side by side stand one after the other: time only goes forward on the axis.
    if (one.from < until) continue;
    if (isFirst || mode === "even") add(one.x, one.from);
    isFirst = false;
    if (mode === "time") {
      const span = one.to - one.from;
      let time = Math.ceil(one.from / step) * step;
      if (span > 0 && span / step > 400) time = Infinity;
      for (; time < one.to; time += step) add(one.x + ((time - one.from) / span) * one.width, time);
    }
    until = Math.max(until, one.to);
  }
  return found;
}

/** How many more rounds are possible: in this entry of each loop on the path, and in the whole run. */
export function possible(
  path: readonly { bound: number | null; rounds: number; isLeft: boolean; total: number | null; used: number }[],
): { here: number | null; all: number | null }[] {
  let around: number | null = 0;
  return path.map(({ bound, rounds, isLeft, total, used }) => {
    if (bound === null) {
      around = null;
      return { here: null, all: null };
    }
    const here = isLeft ? 0 : Math.max(0, bound - rounds);
    let all: number | null = around === null ? null : here + bound * around;
    if (all !== null && total !== null) all = Math.min(all, Math.max(here, total - used));
    around = all;
    return { here, all };
  });
}

/** What is equal to before keeps its object, so that only what moved or changed is drawn again. */
export function share(before: Layout | null, next: Layout): Layout {
  if (before === null) return next;
  const keep = <T extends Box>(old: readonly T[], fresh: readonly T[]): readonly T[] => {
    const known = new Map(old.map((one) => [one.key, one]));
    let isSame = old.length === fresh.length;
    const shared = fresh.map((one, index) => {
      const other = known.get(one.key);
      const kept = other !== undefined && isEqual(other, one) ? other : one;
      if (old[index] !== kept) isSame = false;
      return kept;
    });
    return isSame ? old : shared;
  };
  return {
    ...next,
    bars: keep(before.bars, next.bars),
    cells: keep(before.cells, next.cells),
    folds: keep(before.folds, next.folds),
    bands: keep(before.bands, next.bands),
    gaps: keep(before.gaps, next.gaps),
  };
}

function isEqual<T extends object>(one: T, other: T): boolean {
  for (const key of Object.keys(one) as (keyof T)[]) {
    const a = one[key];
    const b = other[key];
    if (a === b) continue;
    if (!Array.isArray(a) || !Array.isArray(b) || a.length !== b.length) return false;
    if (a.some((item, index) => item !== b[index])) return false;
  }
  return true;
}
