// The figures of the rounds of a loop: one small chart for each, all read at the same round.
import { useMemo, useState } from "react";
import { useMessages } from "../../../i18n/messages";
import { Chart, type ChartData } from "../../../ui/chart/Chart";
import { labelledRounds, lastRound, valueRange } from "../../../ui/chart/scale";
import { messages } from "./messages";

export interface Series {
  name: string;
  kind: "line" | "bar";
  /** The name of a token. */
  color: string;
  values: readonly (number | null)[];
  text: (value: number) => string;
  /** Beside the name, unless a round is read. */
  summary: string;
  threshold?: { value: number; color: string } | null;
  /** The number of the best round. */
  best?: number | null;
  /** The rounds in which a gain is due, and the score that would be one. */
  plateau?: { from: number; to: number; level: number; text: string } | null;
  /** The end of the y axis, if it is known. */
  top?: number;
}

interface Common {
  numbers: readonly number[];
  isOpen: readonly boolean[];
  selected: number | null;
  limit: number | null;
  onPick: (index: number) => void;
}

export function Charts({ series, ...common }: Common & { series: readonly Series[] }) {
  const [at, setAt] = useState<number | null>(null);
  return (
    <div className="plots-grid">
      {series.map((one) => (
        <Plot key={one.name} series={one} {...common} at={at} onAt={setAt} />
      ))}
    </div>
  );
}

function dataOf(series: Series, { numbers, isOpen, selected, limit }: Omit<Common, "onPick">): ChartData {
  const { threshold = null, plateau } = series;
  const last = Math.max(lastRound(numbers.at(-1) ?? 1, limit), Math.min(plateau?.to ?? 0, limit ?? Infinity));
  return {
    height: 84,
    rounds: numbers,
    first: 1,
    last,
    lines: series.top === undefined ? valueRange(series.values, threshold ? [threshold.value] : []) : [0, series.top],
    labels: labelledRounds(last, selected),
    series: [
      {
        kind: series.kind,
        color: series.color,
        values: series.values,
        // The bar of a round that runs is paler: it still grows.
        isPale: isOpen,
        rings: series.best == null ? undefined : { rounds: [series.best], color: series.color },
      },
    ],
    threshold,
    bands: plateau ? [{ ...plateau, color: "--line" }] : [],
    selected,
  };
}

function Plot({
  series,
  onPick,
  at,
  onAt,
  numbers,
  isOpen,
  selected,
  limit,
}: Common & { series: Series; at: number | null; onAt: (index: number | null) => void }) {
  const texts = useMessages(messages);
  const data = useMemo(
    () => dataOf(series, { numbers, isOpen, selected, limit }),
    [series, numbers, isOpen, selected, limit],
  );
  const describe = (index: number) => {
    const value = series.values[index];
    return texts.atRound(numbers[index] ?? 0, value == null ? "–" : series.text(value));
  };
  return (
    <figure className="plots-chart">
      <figcaption>
        <span>{series.name}</span>
        <span className="plots-value">{at === null || at >= numbers.length ? series.summary : describe(at)}</span>
      </figcaption>
      <Chart
        data={data}
        label={texts.chart(series.name, series.summary)}
        name={series.name}
        describe={describe}
        at={at}
        onAt={onAt}
        onPick={onPick}
      />
    </figure>
  );
}
