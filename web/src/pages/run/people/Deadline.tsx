// How long a question stays open, and what happens then.
import { useFormats } from "../../../i18n/format";
import { useMessages } from "../../../i18n/messages";
import type { Question } from "../../../live/run_model";
import { messages } from "./messages";
import { useNow } from "../../../ui/useNow";

/** The deadline as a fact: the time, and how far it is. */
export function DeadlineFact({ deadline }: { deadline: string }) {
  const texts = useMessages(messages);
  const { clock, duration } = useFormats();
  const left = (Date.parse(deadline) - useNow()) / 1000;
  const at = clock(deadline);
  return left > 0 ? texts.deadlineAt(at, duration(left, true)) : texts.deadlinePassed(at);
}

/** The deadline as a bar that fills, with what happens at its end. */
export function DeadlineBar({
  question,
  timeoutTarget,
  fallback,
}: {
  question: Question;
  timeoutTarget: string;
  /** The default answer. */
  fallback?: string;
}) {
  const texts = useMessages(messages);
  const { clock, duration } = useFormats();
  const now = useNow();
  if (question.deadline === null) return null;
  const end = Date.parse(question.deadline);
  const total = Math.max(1, end - question.asked);
  const share = Math.min(1, Math.max(0, (now - question.asked) / total));
  const at = clock(end);
  return (
    <section className="people-part" aria-label={texts.deadline}>
      <div className="people-part-head">
        <h3>{texts.deadline}</h3>
        <span>{end > now ? texts.left(duration((end - now) / 1000, true), duration(total / 1000, true)) : texts.passed}</span>
      </div>
      <div className="people-bar" aria-hidden="true">
        <div style={{ width: `${share * 100}%` }} />
      </div>
      <p className="people-help">
        {question.tool !== null
          ? texts.atDeadlineRejected(at)
          : fallback !== undefined
            ? texts.atDeadlineDefault(at, fallback)
            : timeoutTarget
              ? texts.atDeadlinePort(at, timeoutTarget)
              : texts.atDeadlineFails(at)}
      </p>
    </section>
  );
}
