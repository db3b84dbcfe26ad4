// @vitest-environment happy-dom
import { renderToStaticMarkup } from "react-dom/server";
import { describe, expect, it } from "vitest";
import { Chart, type ChartData, type ChartSeries } from "./Chart";

function dataOf(count: number, series: Partial<ChartSeries> = {}, more: Partial<ChartData> = {}): ChartData {
  const rounds = Array.from({ length: count }, (_, index) => index + 1);
  return {
    height: 100,
    rounds,
    first: 1,
    last: Math.max(1, count),
    lines: [0, 100],
    series: [{ kind: "line", color: "--exit", values: rounds.map((round) => round % 100), ...series }],
    ...more,
  };
}

function draw(data: ChartData, at: number | null = null): Document {
  const text = renderToStaticMarkup(
    <Chart data={data} label="Score per round" name="Score" describe={(index) => `round ${index + 1}`} at={at} hasTip />,
  );
  return new DOMParser().parseFromString(text, "text/html");
}

describe("a chart", () => {
  it.each(["line", "bar"] as const)("has as many elements for a thousand rounds as for a hundred: %s", (kind) => {
    const count = (rounds: number) => draw(dataOf(rounds, { kind }, { labels: [1] })).querySelectorAll("svg *").length;
    expect(count(1000)).toBe(count(100));
  });

  it("has a label, and a value for those who read it by keys", () => {
    const page = draw(dataOf(5, {}, { selected: 2 }));
    expect(page.querySelector("svg")?.getAttribute("role")).toBe("img");
    expect(page.querySelector("svg")?.getAttribute("aria-label")).toBe("Score per round");
    const keys = page.querySelector("input");
    expect(keys?.getAttribute("aria-label")).toBe("Score");
    // It begins at the selected round.
    expect(keys?.getAttribute("aria-valuetext")).toBe("round 2");
  });

  it("shows the values of the round that is read, and none of a round that is gone", () => {
    expect(draw(dataOf(5), 3).querySelector(".chart-tip")?.textContent).toBe("round 4");
    expect(draw(dataOf(5), 3).querySelectorAll(".chart-at circle")).toHaveLength(1);
    expect(draw(dataOf(2), 3).querySelector(".chart-at")).toBeNull();
  });

  it("draws bars that still grow apart from the others", () => {
    const page = draw(dataOf(3, { kind: "bar", isPale: [false, false, true] }));
    const bars = [...page.querySelectorAll(".chart-bars")].map((path) => path.getAttribute("d")?.match(/M/g)?.length);
    expect(bars).toEqual([2, 1]);
  });

  it("goes on over rounds without a value, and begins where another series ends", () => {
    const values = [null, null, 40, null, 60];
    const path = (series: Partial<ChartSeries>) => draw(dataOf(5, { values, ...series })).querySelector(".chart-series")?.getAttribute("d");
    expect(path({})?.match(/[ML]/g)).toEqual(["M", "L"]);
    expect(path({ start: { round: 2, value: 10 } })?.match(/[ML]/g)).toEqual(["M", "L", "L"]);
  });

  it("stands without rounds", () => {
    const page = draw(dataOf(0));
    expect(page.querySelector("svg")).not.toBeNull();
    expect(page.querySelector("input")).toBeNull();
  });
});
