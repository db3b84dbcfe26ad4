import { describe, expect, it } from "vitest";
import { stretches } from "./WordDiff";
import { countWords, lineDiff, looksLikeCode, tokens, wordDiff, type DiffPart } from "./words";

const sides = (parts: readonly DiffPart[]) => ({
  before: parts.filter((part) => part.kind !== "added").map((part) => part.text).join(""),
  after: parts.filter((part) => part.kind !== "removed").map((part) => part.text).join(""),
});

const shown = (parts: readonly DiffPart[]) =>
  parts.map(({ kind, text }) => (kind === "equal" ? text : kind === "added" ? `{+${text}+}` : `[-${text}-]`)).join("");

describe("tokens", () => {
  it("loses nothing", () => {
    const text = "A  b\r\n\tc_1, 中文abc日本語ひらがな 😀 e\u0301!";
    expect(tokens(text).join("")).toBe(text);
  });

  it("takes each Chinese character as a word, and Latin words whole", () => {
    expect(tokens("修复parse函数2次")).toEqual(["修", "复", "parse", "函", "数", "2", "次"]);
  });

  it("keeps accents and characters of two units together", () => {
    expect(tokens("naïve e\u0301t 😀")).toEqual(["naïve", " ", "e\u0301t", " ", "😀"]);
  });
});

describe("wordDiff", () => {
  it("marks words and not letters", () => {
    expect(shown(wordDiff("Come to tea.", "Come to dinner."))).toBe("Come to [-tea-]{+dinner+}.");
  });

  it("joins changes that only a space separates", () => {
    expect(shown(wordDiff("picked very early", "picked by hand"))).toBe("picked [-very early-]{+by hand+}");
  });

  it("marks brackets as a person would type them", () => {
    expect(shown(wordDiff("f(text)", "f(text.lower())"))).toBe("f(text{+.lower()+})");
  });

  it("works without spaces", () => {
    expect(shown(wordDiff("我们的茶很好。", "我们的茶不好喝。"))).toBe("我们的茶[-很-]{+不+}好{+喝+}。");
  });

  it("contains both texts", () => {
    const before = "def f(x):\n  return int(x) * 2  # twice\n";
    const after = "def f(x, y):\n\n  return float(x) * y\n# done";
    expect(sides(wordDiff(before, after))).toEqual({ before, after });
  });

  it("contains both texts if they are too different to compare", () => {
    const before = Array.from({ length: 3000 }, (_, at) => `a${at}`).join(" ");
    const after = Array.from({ length: 3000 }, (_, at) => `b${at}`).join(" ");
    const both = sides(wordDiff(before, after));
    expect(both.before === before && both.after === after).toBe(true);
  });

  it("counts words, without signs and spaces", () => {
    expect(countWords(wordDiff("a b.", "a c, d."))).toEqual({ added: 2, removed: 1 });
    expect(countWords(wordDiff("茶", "好茶"))).toEqual({ added: 1, removed: 0 });
    expect(countWords(wordDiff("", ""))).toEqual({ added: 0, removed: 0 });
  });
});

describe("lineDiff", () => {
  it("marks words in lines that changed, and whole lines that are new", () => {
    const lines = lineDiff("total = 0\nreturn total", "total = 0\nimport re\nreturn round(total)");
    expect(lines.map((line) => `${line.kind}: ${shown(line.parts)}`)).toEqual([
      "equal: total = 0",
      "added: {+import re+}",
      "changed: return {+round(+}total{+)+}",
    ]);
  });

  it("does not pair lines that have little in common", () => {
    expect(lineDiff("alpha beta", "one two six").map((line) => line.kind)).toEqual(["removed", "added"]);
  });

  it("folds long stretches of equal lines, and keeps three around a change", () => {
    const lines = Array.from({ length: 20 }, (_, at) => `line ${at}`);
    const parts = stretches(lineDiff(lines.join("\n"), [...lines, "more"].join("\n")));
    expect(parts.map((part) => [part.isFolded, part.lines.length])).toEqual([
      [true, 17],
      [false, 4],
    ]);
  });
});

describe("looksLikeCode", () => {
  it("knows code from prose", () => {
    expect(looksLikeCode("def f():\n    return 1")).toBe(true);
    expect(looksLikeCode("Come to tea.\nBring cake.\n\nYours, Ada")).toBe(false);
    expect(looksLikeCode("one line {")).toBe(false);
  });
});
