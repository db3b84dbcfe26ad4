import { expect, it } from "vitest";
import { sparkline } from "./sparkline";

it("scales to the values and the threshold", () => {
  const shape = sparkline([0, 50, 100], 100, 100, 26);
  expect(shape.points.map(([, y]) => y)).toEqual([23, 13, 3]);
  expect(shape.threshold).toBe(3);
  expect(shape.last).toEqual(shape.points[2]);
});

it("draws a level line in the middle, and a single value as a dot", () => {
  expect(sparkline([7, 7], null, 100, 26).points.map(([, y]) => y)).toEqual([13, 13]);
  expect(sparkline([7], null, 100, 26).points).toHaveLength(1);
  expect(sparkline([], null, 100, 26)).toEqual({ points: [], last: null, threshold: null });
});

it("keeps the newest of many values, inside of the picture", () => {
  const values = Array.from({ length: 1000 }, (_, index) => index);
  const { points, last } = sparkline(values, null, 84, 22);
  expect(points).toHaveLength(42);
  expect(last).toEqual([81, 3]);
});

it("leaves out what is no number", () => {
  expect(sparkline([1, NaN, 3], null, 84, 22).points).toHaveLength(2);
});
