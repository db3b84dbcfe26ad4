// The answer to a question: text, structured data, where it goes, and how long there is time.
import { useMemo, useState } from "react";
import { queryClient, useMe } from "../../../api/queries";
import { useKeys } from "../../../app/keys";
import { useFormats } from "../../../i18n/format";
import { useMessages } from "../../../i18n/messages";
import { roundOf } from "../../../live/address";
import type { Question, RunModel } from "../../../live/run_model";
import { useRun } from "../../../live/useRunEvents";
import { Button } from "../../../ui/Button";
import { TextArea } from "../../../ui/Field";
import { Icon } from "../../../ui/Icon";
import { useRunContext } from "../context";
import { answerEdges, parseData, quickAnswers, triggeredBy } from "./answers";
import { ApprovalSide } from "./ApprovalSide";
import { DeadlineBar } from "./Deadline";
import { useDraft } from "./drafts";
import { messages } from "./messages";
import { Preview, previewKey, useRoutes } from "./Preview";
import { defaultOf, useQuestionView } from "./question";
import { TooLate } from "./TooLate";
import { unlessDialog, useSendAnswer } from "./useSendAnswer";
import "./people.css";

/** An answer that nobody has begun. */
export const NO_ANSWER = { text: "", data: "" };

/** The side of the page while a person is asked. */
export function QuestionSide({ question }: { question: Question }) {
  // The same address may ask again: nothing of the answer before may remain.
  const key = `${question.address} ${question.asked}`;
  return question.tool === null ? (
    <Answer key={key} question={question} />
  ) : (
    <ApprovalSide key={key} question={question} />
  );
}

/** What people answered to the same node before, the oldest first. */
function earlierAnswers(model: RunModel, key: string): string[] {
  const answers: string[] = [];
  for (const address of model.sequence) {
    const execution = model.executions.get(address);
    if (execution?.key === key && execution.answer !== undefined) answers.push(execution.answer);
  }
  return answers;
}

function Answer({ question }: { question: Question }) {
  const texts = useMessages(messages);
  const { clock } = useFormats();
  const me = useMe();
  const { runId, store, plan, mayControl } = useRunContext();
  const key = useRun(store, (model) => model.executions.get(question.address)?.key ?? "");
  const draft = useDraft("answer", runId, question.address, NO_ANSWER);
  const { text, data } = draft.value;
  const [isDataOpen, setDataOpen] = useState(data !== "");
  const sending = useSendAnswer(runId, question.address);
  const { edges, nodes } = plan.drawing;
  const own = useMemo(() => answerEdges(edges, key), [edges, key]);
  const quick = useMemo(
    () => quickAnswers(own, nodes, earlierAnswers(store.getState().model, key)),
    [own, nodes, store, key],
  );
  const timeout = edges.find((edge) => edge.source === key && edge.port === "timeout" && edge.triggers);
  const fallback = defaultOf(useQuestionView(runId, question).data);
  const parsed = parseData(data);
  const isEmpty = text === "" && parsed.data === null;
  const canSend = mayControl && !isEmpty && parsed.isValid && sending.status === "idle";
  const routes = useRoutes(question, own, text, parsed.data, mayControl && !isEmpty && sending.status === "idle");
  const targets = triggeredBy(routes, nodes);
  const submit = () => {
    if (!canSend) return;
    // Once it is sent, nobody has to know where it would go, and the server would refuse to say it.
    void queryClient.cancelQueries({ queryKey: previewKey(runId, question) });
    const body = { at: question.address, ...(text ? { text } : {}), ...(parsed.data ? { data: parsed.data } : {}) };
    void sending.send(body);
  };
  useKeys([{ keys: "Ctrl Enter", text: texts.send, action: unlessDialog(submit) }]);
  if (!mayControl) {
    return (
      <aside className="people-side" aria-label={texts.yourAnswer}>
        <SideHead title={texts.yourAnswer} />
        <p className="people-part people-help">{texts.mayNotAnswer}</p>
        <DeadlineBar question={question} timeoutTarget={timeout?.target ?? ""} fallback={fallback} />
      </aside>
    );
  }
  const change = (next: Partial<typeof NO_ANSWER>) => {
    if (sending.error !== null) sending.forget();
    draft.change(next);
  };
  return (
    <aside className="people-side" aria-label={texts.yourAnswer}>
      <SideHead title={texts.yourAnswer} aside={draft.at === null ? "" : texts.draftKept(clock(draft.at).slice(0, 5))} />
      <div className="people-side-body">
        <section className="people-part">
          <TextArea
            label={texts.answer}
            rows={5}
            value={text}
            placeholder={texts.answerPlaceholder}
            onChange={(value) => change({ text: value })}
          />
          {!isEmpty && <Preview question={question} routes={routes} />}
        </section>
        {quick.length > 0 && (
          <section className="people-part" aria-label={texts.quickAnswers}>
            <h3>{texts.quickAnswers}</h3>
            <div className="people-quick">
              {quick.map((one) => (
                <Button
                  key={one.text}
                  kind={one.target === null ? "quiet" : "plain"}
                  icon={one.target === null ? undefined : "check"}
                  onClick={() => change({ text: one.text })}
                >
                  {one.target === null ? one.text : texts.quickTo(one.text, one.target)}
                </Button>
              ))}
            </div>
            <p className="people-help">{texts.quickHelp}</p>
          </section>
        )}
        <section className="people-part">
          <div className="people-part-head">
            <span className="people-data-title">
              <Icon name="code" />
              <h3>{texts.data}</h3>
              <span className="dim">{texts.dataHelp}</span>
            </span>
            <Button
              kind="quiet"
              icon={isDataOpen ? "minus" : "plus"}
              aria-expanded={isDataOpen}
              onClick={() => {
                setDataOpen(!isDataOpen);
                change({ data: isDataOpen ? "" : "{}" });
              }}
            >
              {isDataOpen ? texts.removeData : texts.addData}
            </Button>
          </div>
          {isDataOpen && (
            <TextArea
              label={texts.data}
              isLabelHidden
              isMono
              rows={4}
              value={data}
              error={parsed.isValid ? undefined : texts.dataInvalid}
              onChange={(value) => change({ data: value })}
            />
          )}
        </section>
        <DeadlineBar question={question} timeoutTarget={timeout?.target ?? ""} fallback={fallback} />
      </div>
      <footer className="run-foot">
        {sending.isConflict ? (
          <TooLate address={question.address} isTool={false} reason={sending.error?.message ?? ""} />
        ) : (
          <>
            {sending.error !== null && (
              <p className="field-error" role="alert">
                {sending.error.message}
              </p>
            )}
            <Button
              kind="primary"
              hint="Ctrl Enter"
              isBusy={sending.status !== "idle"}
              disabled={!canSend}
              onClick={submit}
            >
              {isEmpty || !targets?.length ? texts.send : texts.sendTo(targets.join(", "))}
            </Button>
            <p className="people-help" role="status">
              {sending.status === "sent" ? (
                texts.sent
              ) : (
                <>
                  {texts.cannotTakeBack(roundOf(question.address) || question.address)}{" "}
                  {me.data && texts.signedAs(me.data.name)}
                </>
              )}
            </p>
          </>
        )}
      </footer>
    </aside>
  );
}

export function SideHead({ title, aside = "" }: { title: string; aside?: string }) {
  return (
    <header className="people-side-head">
      <h2>{title}</h2>
      {aside && <span className="dim small">{aside}</span>}
    </header>
  );
}
