import { describe, expect, it } from "vitest";
import { formatsFor } from "./format";

/** A duration with plain spaces. */
function shown(language: "en" | "zh", seconds: number, isWhole = false): string {
  return formatsFor(language, "UTC").duration(seconds, isWhole).replace(/\s/g, " ");
}

describe("durations", () => {
  it.each([
    [0.414, "0.41 s", "0.41 秒"],
    [18.24, "18.2 s", "18.2 秒"],
    [59.97, "1 m", "1 分"],
    [212, "3 m 32 s", "3 分 32 秒"],
    [9660, "2 h 41 m", "2 小时 41 分"],
    [273_600, "3 d 4 h", "3 天 4 小时"],
    [-1, "0.00 s", "0.00 秒"],
    [Number.NaN, "–", "–"],
  ])("of %d seconds", (seconds, en, zh) => {
    expect(shown("en", seconds)).toBe(en);
    expect(shown("zh", seconds)).toBe(zh);
  });

  it("count down in whole seconds", () => {
    expect(shown("en", 9.9, true)).toBe("9 s");
    expect(shown("zh", 61.9, true)).toBe("1 分 1 秒");
    expect(shown("en", -2, true)).toBe("0 s");
  });
});
