// The words for locks and limits.
import { messages } from "./messages";
import type { Formats } from "../../../i18n/format";
import { parseAddress } from "../../../live/address";
import type { Lock } from "../../../live/run_model";
import { figure } from "./limits";

export type Texts = (typeof messages)["en"] | (typeof messages)["zh"];

function lookUp(texts: Texts, key: string): string | undefined {
  const found = (texts as Record<string, unknown>)[key];
  return typeof found === "string" ? found : undefined;
}

/** What tripped, as a heading. */
export function titleOf(texts: Texts, what: string): string {
  return lookUp(texts, `title.${what}`) ?? texts.titleOther(what);
}

/** An amount of a limit with its unit: 320 tokens, $0.30, 12 m. */
export function amount(texts: Texts, formats: Formats, what: string, value: number): string {
  if (what === "cost_usd") return formats.cost(value);
  if (what === "seconds") return formats.duration(value);
  const unit = lookUp(texts, `${value === 1 ? "one" : "unit"}.${what}`);
  return unit === undefined ? formats.decimal(value) : `${formats.decimal(value)} ${unit}`;
}

export function unitOf(texts: Texts, what: string): string {
  return lookUp(texts, `unit.${what}`) ?? (what === "cost_usd" ? "USD" : what === "seconds" ? "s" : what);
}

/** One paragraph that says what happened. */
export function explain(texts: Texts, formats: Formats, lock: Lock): string {
  const { what, data, address } = lock;
  const round = parseAddress(address).rounds.at(-1);
  const limit = figure(data.limit);
  switch (what) {
    case "dead_loop": {
      const found = (data.messages as { node: string }[] | undefined) ?? [];
      const to = round?.round ?? 0;
      const from = Math.max(1, to - figure(data.stale_rounds) + 1);
      const speakers = new Set(found.map((message) => message.node)).size;
      return texts.deadLoop(texts.roundsFromTo(from, to), speakers, found.length, to + 1);
    }
    case "token_surge":
      return texts.surge(formats.number(figure(data.tokens)), formats.number(figure(data.estimate)), formats.decimal(figure(data.factor)));
    case "timeout":
      return texts.timeout(formats.duration(figure(data.seconds)), formats.duration(limit));
    case "manual":
      return texts.manual(String(data.by ?? ""), String(data.reason ?? ""));
    case "group_limit": {
      const unit = String(data.what ?? "");
      const resets = typeof data.resets === "string" ? formats.full(data.resets) : "";
      return texts.shared(String(data.scope ?? ""), amount(texts, formats, unit, limit), address, resets);
    }
    case "crashes":
      return texts.crashes(figure(data.crashes), (data.in_flight as string[] | undefined) ?? []);
    case "unpriced":
      return texts.unpriced(String(data.model ?? ""), formats.cost(limit));
    case "rounds":
      return texts.rounds(round?.loop ?? address, round?.round ?? limit, (round?.round ?? limit) + 1);
    case "items":
      return texts.items(address, limit);
    case "tool_rounds":
      return texts.toolRounds(address, limit);
    case "tokens_per_call":
      return texts.perCall(
        address,
        amount(texts, formats, what, Math.max(figure(data.wanted), figure(data.spent))),
        amount(texts, formats, what, limit),
      );
    default:
      if (data.spent === undefined) return texts.otherLimit(address);
      return texts.budget(
        String(data.scope ?? ""),
        // The unit follows the limit; money and time have their own signs.
        what === "cost_usd" || what === "seconds" ? amount(texts, formats, what, figure(data.spent)) : formats.number(figure(data.spent)),
        amount(texts, formats, what, limit),
        address,
        amount(texts, formats, what, figure(data.wanted)),
      );
  }
}
