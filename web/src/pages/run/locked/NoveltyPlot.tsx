// How new each round was, with the threshold below which a round only repeats.
import { useMemo } from "react";
import { useFormats } from "../../../i18n/format";
import { useMessages } from "../../../i18n/messages";
import { Chart, type ChartData } from "../../../ui/chart/Chart";
import { messages } from "./messages";

export interface NoveltyPoint {
  round: number;
  novelty: number;
}

export function NoveltyPlot({
  points,
  threshold,
  staleFrom,
}: {
  points: readonly NoveltyPoint[];
  threshold: number;
  /** The first round that only repeats. */
  staleFrom: number;
}) {
  const texts = useMessages(messages);
  const formats = useFormats();
  const data = useMemo((): ChartData => {
    const rounds = points.map((point) => point.round);
    const first = rounds[0] ?? 1;
    const last = rounds.at(-1) ?? 1;
    const stale = rounds.filter((round) => round >= staleFrom);
    return {
      height: 104,
      rounds,
      first,
      last,
      lines: [0, 0.5, 1],
      tick: (value) => formats.decimal(value, 1),
      series: [
        {
          kind: "line",
          color: "--novelty",
          values: points.map((point) => point.novelty),
          rings: { rounds: stale, color: "--locked" },
        },
      ],
      threshold: { value: threshold, color: "--locked", text: texts.plotLimit(threshold.toFixed(2)) },
      bands: [{ from: staleFrom - 0.5, to: last + 0.5, color: "--locked-tint", hatch: "--locked-solid" }],
    };
  }, [points, threshold, staleFrom, texts, formats]);
  const describe = (index: number) => {
    const point = points[index];
    return point === undefined ? "" : texts.plotPoint(point.round, point.novelty.toFixed(2));
  };
  return (
    <Chart
      className="locked-plot"
      data={data}
      label={texts.plot(points.map((_, index) => describe(index)).join(", "))}
      name={texts.plotName}
      describe={describe}
      hasTip
    />
  );
}
