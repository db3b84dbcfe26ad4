// The decision about a tool call: make it, make it with changes, or reject it with a reason.
import { useMe } from "../../../api/queries";
import { useKeys } from "../../../app/keys";
import { useFormats } from "../../../i18n/format";
import { useMessages } from "../../../i18n/messages";
import type { Question } from "../../../live/run_model";
import { useRun } from "../../../live/useRunEvents";
import { Button } from "../../../ui/Button";
import { Icon } from "../../../ui/Icon";
import { useRunContext } from "../context";
import { DeadlineBar } from "./Deadline";
import { DecisionFields } from "./DecisionFields";
import { messages } from "./messages";
import { askerOf } from "./question";
import { SideHead } from "./QuestionSide";
import { TooLate } from "./TooLate";
import { useDecision } from "./useDecision";
import { unlessDialog } from "./useSendAnswer";
import "./people.css";

export function ApprovalSide({ question }: { question: Question }) {
  const texts = useMessages(messages);
  const { clock } = useFormats();
  const me = useMe();
  const { runId, store, mayControl } = useRunContext();
  const asker = useRun(store, (model) => model.executions.get(askerOf(question))?.node_id ?? askerOf(question));
  const decision = useDecision(question, runId, mayControl);
  const { sending, at, isReject, isBroken, canSend, button, refused, refusedField, submit } = decision;
  const tool = question.tool?.name ?? "";
  useKeys([{ keys: "Ctrl Enter", text: button, action: unlessDialog(submit) }]);
  if (!mayControl) {
    return (
      <aside className="people-side" aria-label={texts.decision}>
        <SideHead title={texts.decision} />
        <p className="people-part people-help">{texts.mayNotDecide}</p>
        <DeadlineBar question={question} timeoutTarget="" />
      </aside>
    );
  }
  return (
    <aside className="people-side" aria-label={texts.decision}>
      <SideHead title={texts.decision} aside={at === null ? "" : texts.draftKept(clock(at).slice(0, 5))} />
      <div className="people-side-body">
        <DecisionFields decision={decision} asker={asker} />
        <DeadlineBar question={question} timeoutTarget="" />
        {!isReject && (
          <p className="people-part people-warning">
            <Icon name="warning" />
            <span>{texts.actsOutside}</span>
          </p>
        )}
      </div>
      <footer className="run-foot">
        {sending.isConflict ? (
          <TooLate address={question.address} isTool reason={sending.error?.message ?? ""} />
        ) : (
          <>
            {refused && (
              <p className="field-error" role="alert">
                {refusedField !== null && <code>{refusedField}: </code>}
                {refused}
              </p>
            )}
            <Button
              kind={isReject ? "danger" : "primary"}
              hint="Ctrl Enter"
              isBusy={sending.status !== "idle"}
              disabled={!canSend}
              onClick={submit}
            >
              {button}
            </Button>
            <p className="people-help" role="status">
              {sending.status === "sent" ? (
                texts.sent
              ) : (
                <>
                  {isBroken ? texts.fixFirst : isReject ? "" : texts.runsAtOnce(tool)}{" "}
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
