// All rounds in one row that never scrolls. The brush says which of them the lower row shows.
import { useRef, type KeyboardEvent, type PointerEvent } from "react";
import { useMessages } from "../../../i18n/messages";
import { Icon } from "../../../ui/Icon";
import { StatusShape } from "../../../ui/Status";
import { BAND, type Brush, type Overview } from "./layout";
import { messages } from "./messages";

export const OVERVIEW = { labels: 16, chart: 32, joint: 12 };

export function OverviewView({
  overview,
  lowerEnd,
  onBrush,
}: {
  overview: Overview;
  /** Where the lower row ends; 0 if it scrolls, and nothing joins both rows. */
  lowerEnd: number;
  onBrush: (brush: Brush) => void;
}) {
  const texts = useMessages(messages);
  const chart = useRef<HTMLDivElement>(null);
  const grip = useRef<{ kind: "move" | "start" | "end"; at: number; brush: Brush } | null>(null);
  const { width, columns, marks, labels, start, count, total, most, brushX, brushWidth } = overview;
  const { labels: labelHeight, chart: height, joint } = OVERVIEW;

  const put = (next: Brush): void => {
    const size = Math.max(BAND, Math.min(Math.round(next.count), most, total));
    onBrush({ count: size, start: Math.max(0, Math.min(Math.round(next.start), total - size)) });
  };
  const leafAt = (event: PointerEvent): number => {
    const box = chart.current?.getBoundingClientRect();
    return box === undefined ? 0 : ((event.clientX - box.left) / box.width) * total;
  };
  const grab = (kind: "move" | "start" | "end") => (event: PointerEvent<HTMLElement>) => {
    event.preventDefault();
    event.stopPropagation();
    event.currentTarget.setPointerCapture(event.pointerId);
    event.currentTarget.focus();
    grip.current = { kind, at: leafAt(event), brush: { start, count } };
  };
  const drag = (event: PointerEvent): void => {
    const held = grip.current;
    if (held === null) return;
    const moved = Math.round(leafAt(event) - held.at);
    const { brush, kind } = held;
    if (kind === "move") put({ start: brush.start + moved, count: brush.count });
    else if (kind === "end") put({ start: brush.start, count: brush.count + moved });
    else {
      const first = Math.max(0, Math.min(brush.start + moved, brush.start + brush.count - BAND));
      put({ start: first, count: brush.start + brush.count - first });
    }
  };
  const release = (): void => {
    grip.current = null;
  };
  const onKey = (kind: "move" | "start" | "end") => (event: KeyboardEvent) => {
    const step = event.key === "ArrowRight" ? BAND : event.key === "ArrowLeft" ? -BAND : 0;
    const far = event.key === "Home" ? -total : event.key === "End" ? total : event.key === "PageUp" ? -count : event.key === "PageDown" ? count : 0;
    const by = step || far;
    if (!by) return;
    event.preventDefault();
    event.stopPropagation();
    if (kind === "move") put({ start: start + by, count });
    else if (kind === "end") put({ start, count: count + by });
    else put({ start: start + by, count: count - by });
  };
  const slider = (kind: "move" | "start" | "end", label: string, value: number) => ({
    role: "slider",
    tabIndex: 0,
    "aria-label": label,
    "aria-valuemin": 1,
    "aria-valuemax": total,
    "aria-valuenow": value,
    "aria-valuetext": texts.brushValue(start + 1, start + count, total),
    onPointerDown: grab(kind),
    onPointerMove: drag,
    onPointerUp: release,
    onPointerCancel: release,
    onKeyDown: onKey(kind),
  });

  let area = "";
  let line = "";
  columns.forEach((one, index) => {
    const top = height - Math.max(1, one.best * (height - 4));
    area += `M${one.x.toFixed(1)} ${height}V${top.toFixed(1)}h${Math.max(0.5, one.width - (one.width > 3 ? 1 : 0.2)).toFixed(1)}V${height}z`;
    const y = height - Math.max(1, one.median * (height - 4));
    line += `${index ? "L" : "M"}${(one.x + one.width / 2).toFixed(1)} ${y.toFixed(1)}`;
  });
  return (
    <div className="strip-overview" style={{ width, height: labelHeight + height + joint }}>
      {labels.map((label) => (
        <span key={label.x} className="strip-overview-label" style={{ left: label.x }}>
          {label.number}
        </span>
      ))}
      {/* A click beside the brush centres it there; the brush itself has the keys. */}
      <div
        ref={chart}
        className="strip-overview-chart"
        style={{ top: labelHeight, height }}
        onPointerDown={(event) => {
          if (event.target === event.currentTarget || event.target instanceof SVGElement) put({ start: leafAt(event) - count / 2, count });
        }}
      >
        <svg width={width} height={height} aria-hidden="true">
          <path className="is-best" d={area} />
          <path className="is-median" d={line} />
        </svg>
        {marks.map((mark) => (
          <span key={`${mark.kind} ${mark.x}`} className={`strip-overview-mark is-${mark.kind}`} style={{ left: mark.x }} aria-hidden="true">
            {mark.kind === "best" ? (
              <Icon name="star" size={11} filled />
            ) : (
              <StatusShape status={mark.kind === "failed" ? "failed" : "suspended_locked"} size={mark.kind === "failed" ? 9 : 10} />
            )}
          </span>
        ))}
        <div className="strip-brush" style={{ left: brushX, width: brushWidth }} {...slider("move", texts.brush, start + 1)} />
        <div className="strip-brush-end" style={{ left: brushX }} {...slider("start", texts.brushStart, start + 1)} />
        <div className="strip-brush-end" style={{ left: brushX + brushWidth }} {...slider("end", texts.brushEnd, start + count)} />
      </div>
      {lowerEnd > 0 && <svg className="strip-joint" style={{ top: labelHeight + height }} width={Math.max(width, lowerEnd)} height={joint} aria-hidden="true">
        <path d={`M${brushX} 0 L0.5 ${joint} M${brushX + brushWidth} 0 L${lowerEnd} ${joint}`} />
      </svg>}
    </div>
  );
}
