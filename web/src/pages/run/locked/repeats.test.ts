import { expect, test } from "vitest";
import { markRepeats, units } from "./repeats";

const marked = (texts: string[]) =>
  markRepeats(texts).map((parts) => parts.map((part) => `${part.mark}:${part.text}`));

test("the first text is new, and the same again is said before", () => {
  expect(marked(["It is late. Go home.", "go home.  IT IS LATE."])).toEqual([
    ["new:It is late. Go home."],
    ["said:go home.  IT IS LATE."],
  ]);
});

test("only the digits differ", () => {
  expect(marked(["A project of 40,000 files.", "A project of 41,000 files."])[1]).toEqual([
    "said:A project of",
    "none: ",
    "digits:41,000",
    "none: ",
    "said:files.",
  ]);
});

test("a version number ends no sentence", () => {
  expect(units("Version 2.4 is out. See below.\n\nIt is fast")).toEqual(["Version 2.4 is out. ", "See below.\n\n", "It is fast"]);
});

test("in a sentence that was changed, only the new words are new", () => {
  expect(marked(["We meet on Monday at noon.", "We meet on Tuesday at noon. Bring tea."])[1]).toEqual([
    "said:We meet on",
    "none: ",
    "new:Tuesday",
    "none: ",
    "said:at noon.",
    "none: ",
    "new:Bring tea.",
  ]);
});

test("small words in common do not make a sentence similar", () => {
  expect(marked(["The cat is on the mat.", "Prices of the steel rose in June."])[1]).toEqual([
    "new:Prices of the steel rose in June.",
  ]);
});

test("Chinese is compared by characters and sentences", () => {
  const [first, second, third] = marked([
    "搜索更快了。请说明来源。",
    "搜索更快了。共有3个文件。",
    "搜索更快了。共有4个文件。",
  ]);
  expect(first).toEqual(["new:搜索更快了。请说明来源。"]);
  expect(second).toEqual(["said:搜索更快了。", "new:共有3个文件。"]);
  expect(third).toEqual(["said:搜索更快了。共有", "digits:4", "said:个文件。"]);
});

test("it compares with the last eight texts only", () => {
  const between = ["one", "two", "three", "four", "five", "six", "seven", "eight"];
  expect(marked(["zero", ...between, "zero"]).at(-1)).toEqual(["new:zero"]);
  expect(marked(["zero", ...between.slice(1), "zero"]).at(-1)).toEqual(["said:zero"]);
});

test("nothing of a text is lost", () => {
  const texts = ["", "  a\n\nb!? c", "“x” — 1,5 / y\r\n", "  a\n\nb!? d"];
  expect(markRepeats(texts).map((parts) => parts.map((part) => part.text).join(""))).toEqual(texts);
});
