import { renderToStaticMarkup } from "react-dom/server";
import { expect, it } from "vitest";
import type { BudgetPart, BudgetView } from "../../api/schema";
import { formatsFor } from "../../i18n/format";
import { BudgetTable, ownerOf, shareOf, useOf } from "./Budgets";
import { messages } from "./messages";

const part = (more: Partial<BudgetPart> = {}): BudgetPart => ({ what: "tokens", limit: 1000, used: 600, reserved: 0, ...more });
const budget = (more: Partial<BudgetView> = {}): BudgetView => ({
  kind: "group",
  name: "ada",
  token: "",
  per: "day",
  resets: "2026-12-01T00:00:00.000Z",
  parts: [part()],
  ...more,
});

it("counts what calls in flight have reserved", () => {
  expect(shareOf(part({ reserved: 200 }))).toBe(0.8);
  expect(shareOf(part({ used: 1200 }))).toBe(1);
  expect(shareOf(part({ limit: 0, used: 0 }))).toBe(1);
});

it("says whose budget it is, and what is used of it", () => {
  const formats = formatsFor("en", "UTC");
  expect(ownerOf(messages.en, budget())).toBe("Group ada");
  expect(ownerOf(messages.en, budget({ name: "" }))).toBe("The group without a name");
  expect(ownerOf(messages.zh, budget({ kind: "token", name: "", token: "a1" }))).toBe("令牌 a1");
  expect(useOf(messages.en, formats, part({ reserved: 50 }), "month")).toBe("600 of 1,000 tokens per month, 50 reserved");
  expect(useOf(messages.en, formats, part({ what: "runs", used: 2, limit: 5 }), "day")).toBe("2 of 5 runs at once");
  expect(useOf(messages.en, formats, part({ what: "cost_usd", used: 1.5, limit: 5 }), "total")).toBe("$1.500 of $5.000 in all");
});

it("shows a bar for each limit, and one in the colour of locks where nothing is left", () => {
  const parts = [part(), part({ what: "model_calls", used: 9, limit: 9 }), part({ what: "runs", used: 0, limit: 5 })];
  const html = renderToStaticMarkup(<BudgetTable budgets={[budget({ parts }), budget({ kind: "token", token: "a1", resets: null })]} />);
  expect(html.match(/guard-bar-track/g)).toHaveLength(4);
  expect(html.match(/guard-bar-locked/g)).toHaveLength(1);
  expect(html.match(/guard-bar-near/g)).toHaveLength(2);
  expect(renderToStaticMarkup(<BudgetTable budgets={[]} />)).toContain(messages.en.noBudgets);
});
