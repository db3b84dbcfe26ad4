// One round as a cell, a bar, a folded block or a band of ten. Clicks are handled by the strip.
import { memo, type ReactNode } from "react";
import { useFormats, type Formats } from "../../../i18n/format";
import { useMessages } from "../../../i18n/messages";
import { Icon } from "../../../ui/Icon";
import { StatusShape } from "../../../ui/Status";
import type { Band, Bar, Cell, Fold, LaneItem } from "./layout";
import { messages } from "./messages";
import type { StripRound } from "./tree";

export interface Marks {
  isSelected: boolean;
  isOther: boolean;
  isTab: boolean;
}

type Texts = ReturnType<typeof useStripTexts>;
const useStripTexts = () => useMessages(messages);

export function valueText(round: StripRound, formats: Formats): string {
  if (round.value === null) return "";
  return round.measure === "novelty" ? round.value.toFixed(2) : formats.decimal(round.value);
}

/** All that a cell shows, in words. */
export function roundLabel(round: StripRound, marks: Marks, texts: Texts, formats: Formats): string {
  const value = valueText(round, formats);
  const parts = [
    round.name ? texts.nodeCell(round.name) : texts.cell(round.number, round.loop),
    value && (round.measure === "novelty" ? texts.cellNovelty(value) : texts.cellScore(value)),
    round.isBest && texts.best,
    round.failed && texts.cellFailed(round.failed),
    round.isRetried && texts.cellRetried,
    round.isStale && texts.cellStale,
    round.isOpen && texts.cellRunning(round.active),
    marks.isSelected && texts.selected,
    marks.isOther && texts.other,
  ];
  return parts.filter(Boolean).join(", ");
}

function classes(base: string, round: StripRound, marks: Marks): string {
  return [
    base,
    round.isBest && "is-best",
    round.failed && "is-failed",
    round.isRetried && "is-retried",
    round.isStale && "is-stale",
    round.isOpen && "is-running",
    marks.isSelected && "is-selected",
    marks.isOther && "is-other",
  ]
    .filter(Boolean)
    .join(" ");
}

function Fill({ round }: { round: StripRound }) {
  if (round.fill === null) return null;
  const kind = round.measure === "novelty" ? "strip-fill is-novelty" : "strip-fill";
  return <span className={kind} style={{ height: `${Math.max(2, round.fill * 100)}%` }} />;
}

/** What is drawn is short; what is read aloud is complete. */
function Name({ text }: { text: string }) {
  return <span className="hidden-text">{text}</span>;
}

interface Place {
  top: number;
  height: number;
}

export const CellView = memo(function CellView({ cell, top, height, ...marks }: { cell: Cell } & Place & Marks) {
  const texts = useStripTexts();
  const formats = useFormats();
  const { round, width } = cell;
  const label = roundLabel(round, marks, texts, formats);
  const isRunning = round.isOpen && cell.isLast;
  const isWide = width >= 84;
  // A number of three digits leaves no room beside it.
  const isTight = width < 48 && round.number > 99;
  let bottom: ReactNode = valueText(round, formats);
  if (round.failed && isWide) {
    bottom = (
      <span className="strip-error">
        <StatusShape status="failed" size={12} /> <span className="ellipsis">{round.failed}</span>
      </span>
    );
  } else if (isRunning && round.value === null && width >= 44) bottom = round.name ? formats.duration((round.to - round.from) / 1000) : round.active;
  else if (round.measure === "none" && !round.name && isWide) bottom = round.said;
  else if (round.name && !isRunning) bottom = formats.duration((round.to - round.from) / 1000);
  return (
    <button
      type="button"
      className={`${classes("strip-cell", round, marks)}${cell.part ? " is-part" : ""}${round.measure === "novelty" ? " has-limit" : ""}${width < 48 ? " is-tight" : ""}${round.number > 999 ? " is-long" : ""}`}
      style={{ left: cell.x, width, top, height }}
      data-address={round.address}
      aria-current={marks.isSelected || undefined}
      tabIndex={marks.isTab && cell.part === 0 ? 0 : -1}
      title={label}
    >
      <Name text={label} />
      <span className="strip-face" aria-hidden="true">
        <Fill round={round} />
        <span className="strip-number">{round.name || round.number}</span>
        {cell.part === 0 && <span className={isRunning && round.value === null ? "strip-value is-active" : "strip-value"}>{bottom}</span>}
        {round.isBest && cell.isLast && (
          <span className={isTight ? "strip-mark is-low" : "strip-mark"}>
            <Icon name="star" size={width < 48 ? 10 : 12} filled />
          </span>
        )}
        {round.failed && !isWide && (
          <span className="strip-mark">
            <StatusShape status="failed" size={12} />
          </span>
        )}
        {isRunning && width >= 44 && (
          <span className="strip-mark">
            <StatusShape status="running" size={12} />
          </span>
        )}
      </span>
    </button>
  );
});

export const BarView = memo(function BarView({ bar, top, height, ...marks }: { bar: Bar } & Place & Marks) {
  const texts = useStripTexts();
  const formats = useFormats();
  const { round } = bar;
  const { left } = round;
  const text =
    left !== null && !round.isOpen
      ? texts.left(left.loop, left.rounds, left.reason) + (left.kept ? texts.kept(left.kept) : "")
      : round.said;
  const label = [roundLabel(round, marks, texts, formats), text].filter(Boolean).join(", ");
  return (
    <button
      type="button"
      className={classes("strip-bar", round, marks)}
      style={{ left: bar.x, width: bar.width, top, height }}
      data-address={round.address}
      aria-current={marks.isSelected || undefined}
      tabIndex={marks.isTab && bar.isMain ? 0 : -1}
      title={label}
    >
      <Name text={label} />
      <span className="strip-face" aria-hidden="true">
        {bar.width > 18 && <span className="strip-number">{round.number}</span>}
        {bar.isMain && bar.width > 60 && <span className="ellipsis">{text}</span>}
        {round.failed && bar.isMain && <StatusShape status="failed" size={12} />}
      </span>
    </button>
  );
});

/** The rounds inside a folded one as bars: groups per entry of the innermost loops. */
function MiniBars({ rounds, width, height }: { rounds: readonly StripRound[]; width: number; height: number }) {
  const slot = width / Math.max(1, rounds.length);
  const bar = Math.max(1, Math.min(slot - (slot > 3 ? 1 : 0.4), 14));
  let plain = "";
  let best = "";
  let failed = "";
  let novelty = "";
  rounds.forEach((round, index) => {
    const size = round.failed ? height : Math.max(1.5, (round.fill ?? 0.08) * height);
    const x = index * slot;
    const path = `M${x.toFixed(1)} ${height}v${(-size).toFixed(1)}h${bar.toFixed(1)}v${size.toFixed(1)}z`;
    if (round.failed) failed += path;
    else if (round.isBest) best += path;
    else if (round.measure === "novelty") novelty += path;
    else plain += path;
  });
  return (
    <svg className="strip-mini" width={width} height={height} aria-hidden="true">
      {plain && <path className="is-plain" d={plain} />}
      {novelty && <path className="is-novelty" d={novelty} />}
      {best && <path className="is-best" d={best} />}
      {failed && <path className="is-failed" d={failed} />}
    </svg>
  );
}

function innermost(round: StripRound, found: StripRound[] = []): StripRound[] {
  for (const loop of round.inner) {
    for (const one of loop.rounds) {
      if (one.inner.length) innermost(one, found);
      else found.push(one);
    }
  }
  return found;
}

export const FoldView = memo(function FoldView({ fold, top, height, ...marks }: { fold: Fold } & Place & Marks) {
  const texts = useStripTexts();
  const formats = useFormats();
  const { round } = fold;
  const inner = innermost(round);
  const direct = round.inner.reduce((sum, loop) => sum + loop.rounds.length, 0);
  let best: StripRound | undefined;
  for (const one of inner) if (one.isBest && (best?.value ?? -Infinity) < (one.value ?? -Infinity)) best = one;
  const text =
    texts.foldedRounds(direct, round.inner[0]?.loop ?? "") +
    (round.count > direct ? texts.foldedAll(inner.length) : best === undefined ? "" : texts.foldedBest(valueText(best, formats)));
  const label = [roundLabel(round, marks, texts, formats), texts.foldLabel(inner.length), text].join(", ");
  const failures = inner.filter((one) => one.failed).length;
  return (
    <button
      type="button"
      className={classes("strip-fold", round, marks)}
      style={{ left: fold.x, width: fold.width, top, height }}
      data-address={round.address}
      aria-expanded={false}
      tabIndex={marks.isTab ? 0 : -1}
      title={label}
    >
      <Name text={label} />
      <span className="strip-face" aria-hidden="true">
        <span className="strip-fold-head">
          <span className="strip-number">{round.number}</span>
          <span className="ellipsis">{text}</span>
          {failures > 0 && <StatusShape status="failed" size={12} />}
        </span>
        <MiniBars rounds={inner} width={Math.max(4, fold.width - 14)} height={Math.max(8, height - 34)} />
      </span>
    </button>
  );
});

export const BandView = memo(function BandView({ band, top, height, ...marks }: { band: Band } & Place & Marks) {
  const texts = useStripTexts();
  const first = band.rounds[0];
  const last = band.rounds.at(-1);
  if (first === undefined || last === undefined) return null;
  const failed = band.rounds.filter((round) => round.failed).length;
  const hasBest = band.rounds.some((round) => round.isBest);
  const isRunning = band.rounds.some((round) => round.isOpen);
  const label = [
    texts.bandLabel(first.number, last.number, first.loop),
    failed ? texts.failedCount(failed) : "",
    hasBest ? texts.best : "",
  ]
    .filter(Boolean)
    .join(", ");
  return (
    <button
      type="button"
      className={`strip-band ${failed ? "is-failed" : ""} ${isRunning ? "is-running" : ""}`}
      style={{ left: band.x, width: band.width, top, height }}
      data-band={band.key}
      aria-expanded={false}
      tabIndex={marks.isTab ? 0 : -1}
      title={label}
    >
      <Name text={label} />
      <span className="strip-face" aria-hidden="true">
        <MiniBars rounds={band.rounds} width={Math.max(2, band.width - 4)} height={height - 20} />
        {(failed > 0 || hasBest) && band.width >= 24 && (
          <span className="strip-band-marks">
            {hasBest && <Icon name="star" size={11} filled />}
            {failed > 1 && band.width >= 30 && <b>{failed}</b>}
            {failed > 0 && <StatusShape status="failed" size={11} />}
          </span>
        )}
      </span>
    </button>
  );
});

export const LaneView = memo(function LaneView({ item, top, height, ...marks }: { item: LaneItem } & Place & Marks) {
  const texts = useStripTexts();
  const formats = useFormats();
  const { round } = item;
  const label = [roundLabel(round, marks, texts, formats), round.said].filter(Boolean).join(", ");
  const hasText = height >= 16 && item.width >= 22;
  return (
    <button
      type="button"
      className={classes("strip-lane", round, marks)}
      style={{ left: item.x, width: item.width, top, height }}
      data-address={round.address}
      aria-current={marks.isSelected || undefined}
      tabIndex={marks.isTab ? 0 : -1}
      title={label}
    >
      <Name text={label} />
      <span className="strip-face" aria-hidden="true">
        {hasText && (
          <>
            {round.number > 0 && <span className="strip-number">{round.number}</span>}
            {round.failed ? (
              <span className="strip-error">
                <StatusShape status="failed" size={12} /> <span className="ellipsis">{round.name || round.failed}</span>
              </span>
            ) : (
              <span className="ellipsis">{round.name || round.said || round.active}</span>
            )}
            {round.isOpen && <StatusShape status="running" size={11} />}
          </>
        )}
      </span>
    </button>
  );
});

/** A round of a debate: one line for each speaker. */
export const TurnsView = memo(function TurnsView({
  cell,
  top,
  height,
  speakers,
  ...marks
}: { cell: Cell; speakers: readonly string[] } & Place & Marks) {
  const texts = useStripTexts();
  const formats = useFormats();
  const { round } = cell;
  const label = [roundLabel(round, marks, texts, formats), ...round.turns.map((turn) => `${turn.speaker}: ${turn.text}`)];
  return (
    <button
      type="button"
      className={classes("strip-turns", round, marks)}
      style={{ left: cell.x, width: cell.width, top, height }}
      data-address={round.address}
      aria-current={marks.isSelected || undefined}
      tabIndex={marks.isTab ? 0 : -1}
    >
      <Name text={label.filter(Boolean).join(", ")} />
      <span className="strip-face" aria-hidden="true">
        <span className="strip-turns-head">
          <span className="strip-number">{round.number}</span>
          {round.failed ? <StatusShape status="failed" size={12} /> : round.value !== null && <span>{texts.cellNovelty(valueText(round, formats))}</span>}
        </span>
        {speakers.map((speaker) => {
          const turn = round.turns.find((one) => one.speaker === speaker);
          const kind = turn === undefined ? "is-missing" : turn.isRunning ? "is-running" : "";
          return (
            <span key={speaker} className={`strip-turn ${kind}`} title={turn?.text}>
              <span className="ellipsis">{turn === undefined ? "" : turn.isRunning ? texts.writes : turn.text}</span>
              {turn?.isRunning && <StatusShape status="running" size={11} />}
            </span>
          );
        })}
      </span>
    </button>
  );
});
