// The scores of both runs by round. What both share is drawn once, in grey.
import { useMemo } from "react";
import { useFormats } from "../../i18n/format";
import { useMessages } from "../../i18n/messages";
import { Chart, type ChartData } from "../../ui/chart/Chart";
import { ticks } from "../../ui/chart/scale";
import type { Row } from "./align";
import { messages } from "./messages";

export function ScoreChart({
  rows,
  shared,
  threshold,
}: {
  rows: readonly Row[];
  shared: number;
  threshold: number | null;
}) {
  const texts = useMessages(messages);
  const formats = useFormats();
  const data = useMemo((): ChartData | null => {
    const scoresOf = (side: "a" | "b") => rows.map((row) => row[side]?.score ?? null);
    const a = scoresOf("a");
    const b = scoresOf("b");
    const known = [...a, ...b, threshold].filter((score) => score !== null);
    if (known.length === (threshold === null ? 0 : 1)) return null;
    // Both lines begin at the last point that they share.
    const joint = a.findLastIndex((score, index) => index < shared && score !== null);
    const start = joint < 0 ? null : { round: rows[joint]?.number ?? 1, value: a[joint] ?? 0 };
    const own = (side: "a" | "b", scores: readonly (number | null)[]) => {
      const values = scores.map((score, index) => (index < shared ? null : score));
      const last = values.findLast((score) => score !== null);
      const end = last == null ? undefined : `${side.toUpperCase()} ${formats.decimal(last)}`;
      return { kind: "line" as const, values, start, end };
    };
    const after = rows[shared - 1]?.number;
    return {
      height: 176,
      rounds: rows.map((row) => row.number),
      first: rows[0]?.number ?? 1,
      last: rows.at(-1)?.number ?? 1,
      lines: ticks(Math.min(...known), Math.max(...known)),
      tick: (value) => formats.decimal(value),
      series: [
        { ...own("a", a), color: "--text-3", isDashed: true, dot: "square" },
        { ...own("b", b), color: "--accent" },
        { kind: "line", color: "--control", values: a.map((score, index) => (index < shared ? score : null)) },
      ],
      threshold: threshold === null ? null : { value: threshold, color: "--exit-text", text: texts.exitAt(formats.decimal(threshold)) },
      edge: after !== undefined && shared < rows.length ? { after, text: texts.sameUntilHere } : null,
    };
  }, [rows, shared, threshold, texts, formats]);
  if (data === null) return <p className="compare-no-scores">{texts.noScores}</p>;
  const scoreOf = (side: "a" | "b", row: Row) => {
    const score = row[side]?.score ?? null;
    return score === null ? [] : [formats.decimal(score)];
  };
  const label = (side: "a" | "b") =>
    rows
      .slice(shared)
      .flatMap((row) => scoreOf(side, row).map((score) => texts.chartPoint(side.toUpperCase(), row.number, score)))
      .slice(-40)
      .join("; ");
  const describe = (index: number) => {
    const row = rows[index];
    if (row === undefined) return "";
    const both = [...scoreOf("a", row).map((score) => `A ${score}`), ...scoreOf("b", row).map((score) => `B ${score}`)];
    const scores = index < shared ? scoreOf("a", row) : both;
    return texts.chartRound(row.number, scores.join(", ") || "–");
  };
  return (
    <div className="compare-chart">
      <Chart
        data={data}
        label={`${texts.chart}. ${label("a")}; ${label("b")}`}
        name={texts.chart}
        describe={describe}
        hasTip
      />
    </div>
  );
}
