// Limits: each one is a switch with an amount, and says when it locks the run.
import { useFormats } from "../../../../i18n/format";
import { useMessages } from "../../../../i18n/messages";
import { useForm } from "../context";
import { messages, type Scope } from "./messages";
import { amountOf, Part, Says, SwitchedNumber, useFields, type SettingsProps } from "./Part";

/** What a limit is when it is turned on: enough for a small workflow. */
const FIRST: Readonly<Record<string, number>> = {
  cost_usd: 1,
  tokens: 100_000,
  input_tokens: 80_000,
  output_tokens: 20_000,
  tokens_per_call: 20_000,
  rounds: 20,
  steps: 500,
  model_calls: 100,
  tool_calls: 100,
  seconds: 600,
};
const BUDGET = ["cost_usd", "tokens", "input_tokens", "output_tokens", "tokens_per_call"];
const AMOUNT = ["model_calls", "tool_calls", "steps", "rounds"];
const TIME = ["seconds"];
export const LIMITS = [...BUDGET, ...AMOUNT, ...TIME, "unpriced"];

export function LimitsForm(props: SettingsProps) {
  const { at, value } = props;
  const texts = useMessages(messages);
  const form = useForm();
  const formats = useFormats();
  const { field, of, view } = useFields(props);
  const scope: Scope = at.includes("loops") ? "loop" : form.targets[0]?.kind === "node" ? "node" : "run";
  const says = (key: string) => {
    const duration = (seconds: number) => formats.duration(seconds, true);
    const amount = amountOf(of(key), key === "seconds" ? duration : key === "cost_usd" ? money : formats.number);
    switch (key) {
      case "tokens_per_call":
        return texts.perCall(amount);
      case "rounds":
        return texts.perLoop(amount);
      case "cost_usd":
        return texts.after(amount, scope);
      default:
        return texts.after(AMOUNTS[key]?.(texts, amount) ?? amount, scope);
    }
  };
  const line = (key: string) => {
    const found = field(key);
    return (
      found && (
        <SwitchedNumber key={key} field={found} at={at} container={value} first={FIRST[key] ?? 1}>
          {says(key)}
        </SwitchedNumber>
      )
    );
  };
  const isFree = LIMITS.every((key) => of(key) === undefined);
  return (
    <>
      {isFree && <Says>{texts.noLimits}</Says>}
      <Part title={texts.budget}>
        {BUDGET.map(line)}
        {view("unpriced")}
      </Part>
      <Part title={texts.amount}>{AMOUNT.map(line)}</Part>
      <Part title={texts.time}>{TIME.map(line)}</Part>
    </>
  );
}

/** Whole cents with two digits, and smaller amounts as they are written. */
const money = (dollars: number) => `$${Number.isInteger(dollars * 100) ? dollars.toFixed(2) : dollars}`;

type Texts = ReturnType<typeof useMessages<(typeof messages)["en"]>>;

const AMOUNTS: Readonly<Record<string, (texts: Texts, amount: string) => string>> = {
  tokens: (texts, amount) => texts.tokens(amount),
  input_tokens: (texts, amount) => texts.read(amount),
  output_tokens: (texts, amount) => texts.written(amount),
  model_calls: (texts, amount) => texts.modelCalls(amount),
  tool_calls: (texts, amount) => texts.toolCalls(amount),
  steps: (texts, amount) => texts.steps(amount),
  seconds: (texts, amount) => texts.work(amount),
};
