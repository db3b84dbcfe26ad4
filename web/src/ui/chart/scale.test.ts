import { describe, expect, it } from "vitest";
import {
  apart,
  barPath,
  dotPath,
  evenRounds,
  fitLines,
  labelledRounds,
  lastRound,
  linePath,
  nearest,
  stepUp,
  ticks,
  valueRange,
} from "./scale";

describe("axes", () => {
  it("change in steps", () => {
    expect([0, 0.3, 1, 1.2, 4, 51, 93, 100, 5835].map(stepUp)).toEqual([1, 0.5, 1, 2, 5, 100, 100, 100, 10_000]);
    expect([1, 9, 10, 11, 300, 7000].map((count) => lastRound(count, null))).toEqual([10, 10, 10, 20, 500, 10_000]);
    expect(lastRound(3, 5)).toBe(5);
    expect(lastRound(3, 1200)).toBe(10);
    expect(lastRound(12, 11)).toBe(20);
  });

  it("contain all values", () => {
    expect(valueRange([null, 58, 84], [90])).toEqual([0, 100]);
    expect(valueRange([-3, 0.3])).toEqual([-5, 0.5]);
    expect(valueRange([])).toEqual([0, 1]);
  });

  it("label the selected round, and others that have room", () => {
    expect(labelledRounds(10, 3)).toEqual([1, 3, 6, 10]);
    expect(labelledRounds(10, 5)).toEqual([1, 5, 10]);
    expect(labelledRounds(10, null)).toEqual([1, 6, 10]);
    expect(labelledRounds(1, 1)).toEqual([1]);
  });

  it("have lines that contain their values", () => {
    for (const [low, high] of [[58, 95], [0, 1], [0.31, 0.42], [5, 5], [-3, 1200]] as const) {
      const lines = ticks(low, high);
      expect(lines[0]).toBeLessThanOrEqual(low);
      expect(lines.at(-1)).toBeGreaterThanOrEqual(high);
      expect(lines.length).toBeLessThanOrEqual(8);
    }
    expect(ticks(58, 95)).toEqual([50, 60, 70, 80, 90, 100]);
  });

  it("label as many rounds as have room", () => {
    expect(evenRounds(1, 5, 50)).toEqual([1, 2, 3, 4, 5]);
    expect(evenRounds(3, 8, 10)).toEqual([3, 6]);
    expect(evenRounds(1, 1000, 0.5)).toHaveLength(18);
  });
});

describe("the round at a place", () => {
  it("is the nearest one, and never one outside", () => {
    const rounds = [1, 2, 3, 7];
    expect([-4, 1.4, 1.5, 2.4, 4.9, 5, 99].map((place) => nearest(rounds, place))).toEqual([0, 0, 1, 1, 2, 3, 3]);
    expect(nearest([4], 1)).toBe(0);
  });

  it("is found for every one of many", () => {
    const rounds = Array.from({ length: 1000 }, (_, index) => index + 1);
    expect(rounds.every((round, index) => nearest(rounds, round) === index)).toBe(true);
  });
});

describe("texts", () => {
  it("break into two lines, or are left out", () => {
    expect(fitLines("gain 1 by 6", 10, 80)).toEqual(["gain 1 by 6"]);
    expect(fitLines("gain 1 by 6", 10, 40)).toEqual(["gain 1", "by 6"]);
    expect(fitLines("gain 1 by 6", 10, 20)).toEqual([]);
    // Chinese characters are wider.
    expect(fitLines("前有提升", 10, 30)).toEqual([]);
  });

  it("beside the ends of lines move apart if they overlap", () => {
    expect(apart([{ x: 90, y: 50 }, { x: 90, y: 46 }], 14)).toEqual([55, 41]);
    expect(apart([{ x: 90, y: 50 }, { x: 90, y: 20 }], 14)).toEqual([50, 20]);
    expect(apart([{ x: 90, y: 50 }, { x: 10, y: 46 }], 14)).toEqual([50, 46]);
  });
});

describe("paths", () => {
  it("go through all points", () => {
    expect(linePath([[1, 2.04], [3, 4]])).toBe("M1 2L3 4");
    expect(dotPath([[1, 2], [3, 4]])).toBe("M1 2h0M3 4h0");
    expect(linePath([])).toBe("");
  });

  it("draw bars that stand on the base, and stay visible when there are many", () => {
    expect(barPath([[20, 30]], 10, 60)).toBe("M16.3 60V31.9q0 -1.9 1.9 -1.9h3.7q1.9 0 1.9 1.9V60z");
    expect(barPath([[20, 60]], 10, 60)).toBe("M16.3 60V60h7.4V60z");
    expect(barPath([[20, 30]], 0.1, 60)).toMatch(/^M19.5 60/);
  });
});
