// Values by round: lines or bars, with limits, marked stretches and marked rounds. The pointer and the arrow keys
// read the values of a round, a click or Enter selects it.
import { useId, useLayoutEffect, useMemo, useRef, useState } from "react";
import {
  apart,
  barPath,
  dotPath,
  evenRounds,
  fitLines,
  linePath,
  nearest,
  textWidth,
  type Point,
} from "./scale";
import "./chart.css";

export interface ChartSeries {
  kind: "line" | "bar";
  /** The name of a token, as all colours here. */
  color: string;
  /** In the order of the rounds of the chart. A line goes on over rounds without a value. */
  values: readonly (number | null)[];
  /** Where the line comes from: a value of another series. */
  start?: { round: number; value: number } | null;
  isDashed?: boolean;
  dot?: "round" | "square";
  /** Bars that still grow, in the order of the rounds. */
  isPale?: readonly boolean[];
  /** Rounds that are marked by a ring. */
  rings?: { rounds: readonly number[]; color: string };
  /** Written beside the last value. */
  end?: string;
}

/** A marked stretch of the x axis; a round takes from half before to half after its number. */
export interface ChartBand {
  from: number;
  to: number;
  color: string;
  /** The colour of hatching. */
  hatch?: string;
  /** The band ends at this value, and a line marks it; otherwise it is as high as the chart. */
  level?: number;
  /** Written into it, if there is room. */
  text?: string;
}

export interface ChartData {
  height: number;
  /** In order. */
  rounds: readonly number[];
  /** The x axis. */
  first: number;
  last: number;
  /** Values with a line across; the first and the last are the ends of the y axis. */
  lines: readonly number[];
  /** The texts left of these lines, if they have any. */
  tick?: (value: number) => string;
  /** The rounds whose numbers are written; as many as have room, unless given. */
  labels?: readonly number[];
  series: readonly ChartSeries[];
  threshold?: { value: number; color: string; text?: string } | null;
  bands?: readonly ChartBand[];
  /** A line after a round: what is before it is the past that several series share. */
  edge?: { after: number; text: string } | null;
  selected?: number | null;
}

const ABOVE = 7;
const BELOW = 20;
const SMALL = 11;
/** Above so many rounds their dots would be one thick line. */
const MOST_DOTS = 60;

const colored = (token: string) => ({ color: `var(${token})` });

interface Frame {
  left: number;
  right: number;
  top: number;
  bottom: number;
  slot: number;
  x: (round: number) => number;
  y: (value: number) => number;
  points: readonly (readonly (Point | null)[])[];
}

function frameOf(data: ChartData, width: number): Frame {
  const { lines, tick, series, first, last } = data;
  const left = tick ? 12 + Math.max(...lines.map((value) => textWidth(tick(value), SMALL))) : 0;
  const ends = series.map((one) => (one.end ? 16 + textWidth(one.end, 12) : 0));
  const right = width - Math.max(tick ? 8 : 0, ...ends);
  const bottom = data.height - BELOW;
  const low = lines[0] ?? 0;
  const high = lines.at(-1) ?? 1;
  const slot = Math.max(0, right - left) / Math.max(1, last - first + 1);
  const x = (round: number) => left + (round - first + 0.5) * slot;
  const y = (value: number) => bottom - ((value - low) / (high - low || 1)) * (bottom - ABOVE);
  const points = series.map((one) =>
    data.rounds.map((round, index): Point | null => {
      const value = one.values[index];
      return value == null ? null : [x(round), y(value)];
    }),
  );
  return { left, right, top: ABOVE, bottom, slot, x, y, points };
}

export function Chart({
  data,
  label,
  name,
  describe,
  hasTip = false,
  at: given,
  onAt,
  onPick,
  className = "",
}: {
  data: ChartData;
  /** What screen readers say instead of the picture. */
  label: string;
  /** What the values are, for those who read them by the arrow keys. */
  name: string;
  /** The values of a round in words. */
  describe: (index: number) => string;
  /** Shows these words beside the round, too. */
  hasTip?: boolean;
  /** The round that is read, for charts that are read together; otherwise each keeps its own. */
  at?: number | null;
  onAt?: (index: number | null) => void;
  onPick?: (index: number) => void;
  className?: string;
}) {
  const host = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(300);
  const [own, setOwn] = useState<number | null>(null);
  const count = data.rounds.length;
  const wanted = given === undefined ? own : given;
  const at = wanted === null || wanted >= count ? null : wanted;
  const read = onAt ?? setOwn;
  useLayoutEffect(() => {
    const element = host.current;
    if (element === null) return;
    const measure = () => setWidth(element.clientWidth);
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);

  const frame = useMemo(() => frameOf(data, width), [data, width]);
  // A thousand rounds are drawn when they change, and not when the pointer moves.
  const drawing = useMemo(() => <Drawing data={data} frame={frame} />, [data, frame]);
  const indexOf = (event: React.PointerEvent | React.MouseEvent) => {
    const place = event.clientX - (host.current?.getBoundingClientRect().left ?? 0);
    return nearest(data.rounds, data.first - 0.5 + (place - frame.left) / (frame.slot || 1));
  };
  const selected = data.rounds.indexOf(data.selected ?? NaN);
  const start = selected < 0 ? count - 1 : selected;
  const x = at === null ? 0 : frame.x(data.rounds[at] ?? data.first);
  return (
    <div
      ref={host}
      className={`chart ${onPick ? "chart-pick" : ""} ${className}`}
      style={{ height: data.height }}
      onPointerMove={(event) => count > 0 && read(indexOf(event))}
      onPointerLeave={() => read(null)}
      onClick={(event) => count > 0 && onPick?.(indexOf(event))}
    >
      <svg width={width} height={data.height} role="img" aria-label={label}>
        {drawing}
        {at !== null && (
          <g className="chart-at">
            <path d={`M${x} ${frame.top}V${frame.bottom}`} />
            {data.series.map((one, index) => {
              const point = frame.points[index]?.[at];
              return one.kind === "line" && point ? (
                <circle key={index} cx={point[0]} cy={point[1]} r="4" style={colored(one.color)} />
              ) : null;
            })}
          </g>
        )}
      </svg>
      {count > 0 && (
        <input
          type="range"
          className="chart-keys"
          aria-label={name}
          aria-valuetext={describe(at ?? start)}
          min={0}
          max={count - 1}
          value={at ?? start}
          onChange={(event) => read(event.target.valueAsNumber)}
          onFocus={() => read(start)}
          onBlur={() => read(null)}
          onKeyDown={(event) => {
            // The arrow keys select rounds elsewhere on the page; here they only read them.
            if (/^(Arrow|Page|Home|End|Enter)/.test(event.key)) event.stopPropagation();
            if (event.key === "Enter") onPick?.(at ?? start);
          }}
        />
      )}
      {hasTip && at !== null && (
        <div className="chart-tip" style={x < width / 2 ? { left: x + 8 } : { right: width - x + 8 }}>
          {describe(at)}
        </div>
      )}
    </div>
  );
}

function Drawing({ data, frame }: { data: ChartData; frame: Frame }) {
  const { selected = null, threshold, edge, tick } = data;
  const { left, right, top, bottom, slot, x, y, points } = frame;
  const hatch = useId();
  const across = (value: number) => `M${left} ${y(value)}H${right}`;
  const half = Math.max(slot / 2, 2);
  const drawn = points.map((row) => row.filter((point) => point !== null));
  return (
    <>
      {edge && <rect className="chart-past" x={left} y={top} width={x(edge.after + 0.5) - left} height={bottom - top} />}
      {selected !== null && (
        <rect
          className={slot < 6 ? "chart-selected chart-thin" : "chart-selected"}
          x={x(selected) - half}
          y={top}
          width={2 * half}
          height={bottom - top}
        />
      )}
      {data.bands?.map((band, index) => (
        <Band key={index} band={band} frame={frame} hatch={`${hatch}${index}`} />
      ))}
      {data.lines.map((value) => (
        <g key={value}>
          <path className="chart-line" d={across(value)} />
          {tick && (
            <text className="chart-text" x={left - 7} y={y(value) + 4} textAnchor="end">
              {tick(value)}
            </text>
          )}
        </g>
      ))}
      {(data.labels ?? evenRounds(data.first, data.last, slot)).map((round) => {
        const room = textWidth(String(round), SMALL) / 2;
        const isStrong = edge && round > edge.after;
        return (
          <text
            key={round}
            className={`chart-text ${round === selected ? "chart-text-selected" : isStrong ? "chart-text-strong" : ""}`}
            x={Math.min(Math.max(x(round), left + room), right - room)}
            y={data.height - 4}
            textAnchor="middle"
          >
            {round}
          </text>
        );
      })}
      {threshold && (
        <g style={colored(threshold.color)}>
          <path className="chart-threshold" d={across(threshold.value)} />
          {threshold.text && (
            <text className="chart-text chart-own" x={left + 5} y={y(threshold.value) - 5}>
              {threshold.text}
            </text>
          )}
        </g>
      )}
      {edge && <Edge edge={edge} frame={frame} />}
      {data.series.map((one, index) => (
        <Series key={index} series={one} rounds={data.rounds} points={points[index] ?? []} frame={frame} />
      ))}
      <Ends series={data.series} points={drawn} />
    </>
  );
}

function Band({ band, frame, hatch }: { band: ChartBand; frame: Frame; hatch: string }) {
  const { x, y, top, bottom, left, right } = frame;
  const from = Math.max(left, x(band.from));
  const to = Math.min(right, x(band.to));
  const level = band.level === undefined ? top : y(band.level);
  const box = { x: from, y: level, width: Math.max(0, to - from), height: Math.max(0, bottom - level) };
  const texts = band.text && box.height > 30 ? fitLines(band.text, 10, box.width - 4) : [];
  return (
    <>
      <rect {...box} className="chart-band" style={colored(band.color)} />
      {band.hatch && (
        <>
          <pattern id={hatch} width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
            <path className="chart-hatch" d="M0 0V6" style={colored(band.hatch)} />
          </pattern>
          <rect {...box} fill={`url(#${hatch})`} />
        </>
      )}
      {band.level !== undefined && <path className="chart-level" d={`M${from} ${level}H${to}`} />}
      {texts.map((text, index) => (
        <text
          key={index}
          className="chart-text chart-small"
          x={from + box.width / 2}
          y={bottom - 5 - (texts.length - 1 - index) * 11}
          textAnchor="middle"
        >
          {text}
        </text>
      ))}
    </>
  );
}

function Edge({ edge, frame }: { edge: { after: number; text: string }; frame: Frame }) {
  const { top, bottom, left } = frame;
  const x = frame.x(edge.after + 0.5);
  const isBefore = x - left > textWidth(edge.text, SMALL) + 20;
  // Beside the lines, and not on them.
  const isTaken = frame.points.some((row) =>
    row.some((point) => point !== null && point[1] > bottom - 26 && (isBefore ? point[0] < x && point[0] > x - 110 : point[0] < x + 110)),
  );
  return (
    <>
      <path className="chart-edge" d={`M${x} ${top - 4}V${bottom}`} />
      <text className="chart-text" x={isBefore ? x - 8 : x + 8} y={isTaken ? top + 34 : bottom - 8} textAnchor={isBefore ? "end" : "start"}>
        {edge.text}
      </text>
    </>
  );
}

function Series({
  series,
  rounds,
  points,
  frame,
}: {
  series: ChartSeries;
  rounds: readonly number[];
  points: readonly (Point | null)[];
  frame: Frame;
}) {
  const isThere = (point: Point | null): point is Point => point !== null;
  if (series.kind === "bar") {
    const bars = (isPale: boolean) =>
      barPath(points.filter((_, index) => (series.isPale?.[index] ?? false) === isPale).filter(isThere), frame.slot, frame.bottom);
    return (
      <g style={colored(series.color)}>
        <path className="chart-bars" d={bars(false)} />
        <path className="chart-bars chart-pale" d={bars(true)} />
      </g>
    );
  }
  const found = points.filter(isThere);
  const { rings, start } = series;
  const line = start ? [[frame.x(start.round), frame.y(start.value)] as const, ...found] : found;
  const marked = rings === undefined ? "" : dotPath(points.filter((_, index) => rings.rounds.includes(rounds[index] ?? NaN)).filter(isThere));
  return (
    <g style={colored(series.color)}>
      <path className={series.isDashed ? "chart-series chart-dashed" : "chart-series"} d={linePath(line)} />
      {found.length <= MOST_DOTS && <path className={`chart-dots chart-${series.dot ?? "round"}`} d={dotPath(found)} />}
      {marked && rings && (
        <>
          <path className="chart-ring" d={marked} style={colored(rings.color)} />
          <path className="chart-ring-inside" d={marked} />
        </>
      )}
    </g>
  );
}

/** The names of series, beside their last values. */
function Ends({ series, points }: { series: readonly ChartSeries[]; points: readonly (readonly Point[])[] }) {
  const ends = series.flatMap((one, index) => {
    const last = points[index]?.at(-1);
    return one.end && last ? [{ text: one.end, color: one.color, x: last[0], y: last[1] }] : [];
  });
  const heights = apart(ends, 14);
  return ends.map((end, index) => (
    <text key={index} className="chart-end" x={end.x + 9} y={(heights[index] ?? end.y) + 4} style={colored(end.color)}>
      {end.text}
    </text>
  ));
}
