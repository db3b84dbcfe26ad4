// The figures of a lock in a row.
import type { ReactNode } from "react";
import { tokensOf } from "../../../live/run_model";
import { useFormats } from "../../../i18n/format";
import { useMessages } from "../../../i18n/messages";
import { useRun } from "../../../live/useRunEvents";
import { useRunContext } from "../context";
import { figure, isBudget } from "./limits";
import { messages } from "./messages";
import type { LockFacts } from "./useLockFacts";
import { amount } from "./words";

export function Figures({ facts }: { facts: LockFacts }) {
  const texts = useMessages(messages);
  const rows = useFigures(facts);
  return (
    <dl className="locked-figures" aria-label={texts.figures}>
      {rows.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

function useFigures({ lock, state, rounds }: LockFacts): [string, ReactNode][] {
  const texts = useMessages(messages);
  const formats = useFormats();
  const { store, plan } = useRunContext();
  const usage = useRun(store, (model) => model.usage);
  const { what, data } = lock;
  const all = tokensOf(usage);
  const rows: [string, ReactNode][] = [[texts.trigger, <code key="what">{what}</code>]];
  if (what === "dead_loop") {
    const novelties = ((data.novelty as number[] | undefined) ?? []).slice(-Math.min(plan.window, 5));
    const repeats = rounds.slice(-figure(data.stale_rounds)).reduce((sum, round) => sum + round.tokens, 0);
    rows.push(
      [texts.lastNovelties(novelties.length), novelties.map((value) => value.toFixed(2)).join(", ")],
      [texts.threshold, texts.inMessages(figure(data.threshold).toFixed(2), plan.window)],
      [texts.spentInRepeats, texts.ofTokens(formats.number(repeats), formats.number(all))],
    );
  } else if (isBudget(what) || what === "group_limit") {
    const unit = isBudget(what) ? what : String(data.what ?? "");
    rows.push([texts.owner, String(data.scope ?? "")], [texts.spent, amount(texts, formats, unit, figure(data.spent))]);
    if (figure(data.reserved) > 0) rows.push([texts.reserved, amount(texts, formats, unit, figure(data.reserved))]);
    rows.push(
      [texts.wanted, amount(texts, formats, unit, figure(data.wanted))],
      [texts.limit, amount(texts, formats, unit, figure(data.limit))],
      [texts.notMade, <code key="address">{lock.address}</code>],
    );
    return rows;
  } else if (what === "token_surge") {
    rows.push(
      [texts.spent, amount(texts, formats, "tokens", figure(data.tokens))],
      [texts.expected, amount(texts, formats, "tokens", figure(data.estimate))],
      [texts.limit, `${formats.decimal(figure(data.factor))} ×`],
    );
  } else if (what === "timeout") {
    rows.push([texts.worked, formats.duration(figure(data.seconds))], [texts.limit, formats.duration(figure(data.limit))]);
  } else if (what === "manual") {
    rows.push([texts.lockedBy, String(data.by ?? "") || "–"], [texts.spent, amount(texts, formats, "tokens", all)]);
  } else if (what === "crashes") {
    rows.push([texts.spent, amount(texts, formats, "tokens", all)]);
  } else if (what === "unpriced") {
    rows.push([texts.model, <code key="model">{String(data.model ?? "")}</code>], [texts.limit, formats.cost(figure(data.limit))]);
  } else {
    rows.push([texts.limit, amount(texts, formats, what, figure(data.limit))]);
    rows.push([texts.spent, amount(texts, formats, "tokens", all)]);
  }
  if (lock.address && what !== "dead_loop") rows.push([texts.at, <code key="at">{lock.address}</code>]);
  const nearest = state?.guards.find((guard) => guard.kind !== "novelty");
  if (nearest !== undefined && what !== "rounds") {
    rows.push([texts.nearest, `${formats.decimal(nearest.used)} / ${amount(texts, formats, nearest.kind, nearest.limit)}`]);
  }
  return rows;
}
