// The decision about a tool call: make it, make it with changes, or reject it with a reason.
import { useId, type ReactNode } from "react";
import { useMe } from "../../../api/queries";
import { useKeys } from "../../../app/keys";
import { useFormats } from "../../../i18n/format";
import { useMessages } from "../../../i18n/messages";
import type { Question } from "../../../live/run_model";
import { useRun } from "../../../live/useRunEvents";
import { Button } from "../../../ui/Button";
import { TextArea, TextField } from "../../../ui/Field";
import { Icon } from "../../../ui/Icon";
import { useRunContext } from "../context";
import { approvalBody, fieldOfError, type Decision } from "./approval";
import { useApprovalDraft } from "./ApprovalMain";
import { DeadlineBar } from "./Deadline";
import { messages } from "./messages";
import { askerOf } from "./question";
import { SideHead } from "./QuestionSide";
import { TooLate } from "./TooLate";
import { unlessDialog, useSendAnswer } from "./useSendAnswer";
import "./people.css";

export function ApprovalSide({ question }: { question: Question }) {
  const texts = useMessages(messages);
  const { clock } = useFormats();
  const me = useMe();
  const { runId, store, mayControl } = useRunContext();
  const asker = useRun(store, (model) => model.executions.get(askerOf(question))?.nodeId ?? askerOf(question));
  const { value: draft, before, read, at, change } = useApprovalDraft(question);
  const sending = useSendAnswer(runId, question.address);
  const tool = question.tool?.name ?? "";
  const count = read.changed.length;
  const isBroken = draft.decision === "edited" && Object.keys(read.problems).length > 0;
  const isReject = draft.decision === "reject";
  const canSend = mayControl && sending.status === "idle" && !isBroken && (!isReject || draft.reason.trim() !== "");
  const submit = () => {
    if (canSend) void sending.send(approvalBody(draft, read, question.address));
  };
  const button = isReject
    ? texts.rejectCall
    : draft.decision === "edited" && count > 0
      ? texts.approveWith(count)
      : texts.approve;
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
  const choose = (decision: Decision) => {
    if (sending.error !== null) sending.forget();
    change({ decision });
  };
  const refused = sending.error === null || sending.isConflict ? "" : sending.error.message;
  const refusedField = refused ? fieldOfError(refused, Object.keys(before)) : null;
  return (
    <aside className="people-side" aria-label={texts.decision}>
      <SideHead title={texts.decision} aside={at === null ? "" : texts.draftKept(clock(at).slice(0, 5))} />
      <div className="people-side-body">
        <div className="people-part people-choices" role="radiogroup" aria-label={texts.decision}>
          <Choice
            value="asked"
            chosen={draft.decision}
            onChoose={choose}
            title={texts.approveAsAsked}
            help={count > 0 ? texts.throwsAway(count) : texts.asModelWrote}
          />
          <Choice
            value="edited"
            chosen={draft.decision}
            onChoose={choose}
            title={texts.editAndApprove}
            help={count > 0 ? texts.editedNames(read.changed.join(", "), asker) : texts.editHelp}
          />
          <Choice value="reject" chosen={draft.decision} onChoose={choose} title={texts.reject} help={texts.rejectHelp} />
        </div>
        <section className="people-part">
          {isReject ? (
            <TextArea
              label={texts.reason(asker)}
              rows={3}
              value={draft.reason}
              placeholder={texts.reasonPlaceholder}
              help={texts.needsReason(asker)}
              onChange={(reason) => change({ reason })}
            />
          ) : (
            <TextField
              label={texts.note}
              aside={<span className="people-note-aside">{texts.noteAside}</span>}
              value={draft.note}
              placeholder={texts.notePlaceholder}
              onChange={(note) => change({ note })}
            />
          )}
        </section>
        <DeadlineBar question={question} timeoutTarget="" />
        {!isReject && (
          <p className="people-part people-warning">
            <Icon name="warning" />
            <span>{texts.actsOutside}</span>
          </p>
        )}
      </div>
      <footer className="people-foot">
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

function Choice({
  value,
  chosen,
  onChoose,
  title,
  help,
}: {
  value: Decision;
  chosen: Decision;
  onChoose: (value: Decision) => void;
  title: string;
  help: ReactNode;
}) {
  const id = useId();
  return (
    <div className="people-choice">
      <input
        id={id}
        type="radio"
        name="people-decision"
        value={value}
        checked={chosen === value}
        aria-describedby={`${id}-help`}
        onChange={() => onChoose(value)}
      />
      <div>
        <label htmlFor={id}>{title}</label>
        <p className="people-help" id={`${id}-help`}>
          {help}
        </p>
      </div>
    </div>
  );
}
