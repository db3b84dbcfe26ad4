// The breaker: three guards, each with a switch, and what it takes to lock a run.
import { useFormats } from "../../../../i18n/format";
import { useMessages } from "../../../../i18n/messages";
import { messages } from "./messages";
import { amountOf, SwitchedPart, useFields, type SettingsProps } from "./Part";

/** The time of a run without timers, where the text has none. */
export const LONGEST = 600;

export const BREAKER = ["enabled", "dead_loop", "window", "threshold", "token_surge", "factor", "timeout", "seconds"];

export function BreakerForm(props: SettingsProps) {
  const { at, value } = props;
  const texts = useMessages(messages);
  const formats = useFormats();
  const { field, of, view } = useFields(props);
  const number = (key: string, format: (one: number) => string = String) => amountOf(of(key) ?? field(key)?.default, format);
  const seconds = of("seconds");
  const time = (one: number) => formats.duration(one, true);
  return (
    <SwitchedPart field={field("enabled")} at={at} container={value} says={null} saysOff={texts.breakerOff}>
      <SwitchedPart
        field={field("dead_loop")}
        at={at}
        container={value}
        says={texts.deadLoop(number("window"), number("threshold", formats.percent))}
        saysOff={texts.deadLoopOff}
      >
        {view("window")}
        {view("threshold")}
      </SwitchedPart>
      <SwitchedPart field={field("token_surge")} at={at} container={value} says={texts.surge(number("factor"))} saysOff={texts.surgeOff}>
        {view("factor")}
      </SwitchedPart>
      <SwitchedPart
        field={field("timeout")}
        at={at}
        container={value}
        says={seconds === undefined ? texts.tooLongPreset(time(LONGEST)) : texts.tooLong(amountOf(seconds, time))}
        saysOff={texts.tooLongOff}
      >
        {view("seconds")}
      </SwitchedPart>
    </SwitchedPart>
  );
}
