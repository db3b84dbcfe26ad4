// What groups and tokens may use, and how much of it is used.
import type { BudgetPart, BudgetView } from "../../api/schema";
import { useFormats, type Formats } from "../../i18n/format";
import { useMessages } from "../../i18n/messages";
import { GuardBar, guardTone } from "../../ui/GuardBar";
import { messages } from "./messages";
import "./plain.css";
import "./settings.css";

type Texts = (typeof messages)["en"] | (typeof messages)["zh"];

export function BudgetTable({ budgets }: { budgets: readonly BudgetView[] }) {
  const texts = useMessages(messages);
  const formats = useFormats();
  if (budgets.length === 0) return <p className="settings-part dim">{texts.noBudgets}</p>;
  return (
    <table className="plain-table">
      <thead>
        <tr>
          <th scope="col">{texts.budgetOf}</th>
          <th scope="col">{texts.budgetUse}</th>
          <th scope="col">{texts.budgetResets}</th>
        </tr>
      </thead>
      <tbody>
        {budgets.map((budget) => (
          <tr key={`${budget.kind} ${budget.token || budget.name}`}>
            <td data-label={texts.budgetOf}>{ownerOf(texts, budget)}</td>
            <td data-label={texts.budgetUse}>
              <div className="settings-budget">
                {budget.parts.map((part) => (
                  <GuardBar key={part.what} share={shareOf(part)} tone={toneOf(part)}>
                    {useOf(texts, formats, part, budget.per)}
                  </GuardBar>
                ))}
              </div>
            </td>
            <td data-label={texts.budgetResets}>
              {budget.resets ? formats.full(budget.resets) : <span className="dim">{texts.never}</span>}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

export function ownerOf(texts: Texts, budget: Pick<BudgetView, "kind" | "name" | "token">): string {
  if (budget.kind === "token") return texts.tokenNamed(budget.name || budget.token || "");
  return budget.name ? texts.groupNamed(budget.name) : texts.groupUnnamed;
}

/** How much is gone, also what calls in flight have reserved: from 0 to 1. */
export function shareOf({ used, reserved, limit }: Pick<BudgetPart, "used" | "reserved" | "limit">): number {
  return limit > 0 ? Math.min(1, (used + reserved) / limit) : 1;
}

function toneOf(part: BudgetPart) {
  const share = shareOf(part);
  return share >= 1 ? "locked" : guardTone(share);
}

export function useOf(texts: Texts, formats: Formats, part: BudgetPart, per: BudgetView["per"]): string {
  const shown = part.what === "cost_usd" ? formats.cost : formats.number;
  const text = texts[`budget.${part.what}`](shown(part.used), shown(part.limit));
  if (part.what === "runs") return text;
  const period = { day: texts.perDay, month: texts.perMonth, total: texts.perTotal }[per];
  return `${text} ${period}${part.reserved > 0 ? texts.budgetReserved(shown(part.reserved)) : ""}`;
}
