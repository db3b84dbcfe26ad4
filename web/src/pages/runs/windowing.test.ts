import { expect, it } from "vitest";
import { offsetsOf, rangeOf } from "./windowing";

const offsets = offsetsOf([30, 84, 84, 30, 46, 46, 46]);

it("adds up the sizes", () => {
  expect(offsets).toEqual([0, 30, 114, 198, 228, 274, 320, 366]);
});

it("finds the rows in sight", () => {
  expect(rangeOf(offsets, 0, 30, 0)).toEqual([0, 1]);
  expect(rangeOf(offsets, 29, 2, 0)).toEqual([0, 2]);
  expect(rangeOf(offsets, 30, 84, 0)).toEqual([1, 2]);
  expect(rangeOf(offsets, 115, 100, 0)).toEqual([2, 4]);
});

it("takes some more on both sides, but none that do not exist", () => {
  expect(rangeOf(offsets, 198, 30, 2)).toEqual([1, 6]);
  expect(rangeOf(offsets, 0, 10_000, 5)).toEqual([0, 7]);
  expect(rangeOf(offsets, 9999, 100, 2)).toEqual([5, 7]);
  expect(rangeOf([0], 0, 500, 10)).toEqual([0, 0]);
});

it("is fast for many rows", () => {
  const many = offsetsOf(Array.from({ length: 100_000 }, () => 46));
  expect(rangeOf(many, 46 * 50_000, 460, 0)).toEqual([50_000, 50_010]);
});
