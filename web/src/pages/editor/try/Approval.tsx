// A tool call that waits for approval, in the pane: its arguments, and the decision about it. The logic is that of the
// page of a run.
import { useMessages } from "../../../i18n/messages";
import type { Question, RunModel } from "../../../live/run_model";
import { Button } from "../../../ui/Button";
import { ArgumentEditor } from "../../run/people/ArgumentEditor";
import { DecisionFields } from "../../run/people/DecisionFields";
import { messages as people } from "../../run/people/messages";
import { askerOf } from "../../run/people/question";
import { useDecision } from "../../run/people/useDecision";
import { messages } from "./messages";

export default function Approval({ run, model, question }: { run: string; model: RunModel; question: Question }) {
  const texts = useMessages(messages);
  const words = useMessages(people);
  const decision = useDecision(question, run, true);
  const { sending, isReject, isBroken, canSend, button, refused, refusedField, submit } = decision;
  const asker = model.executions.get(askerOf(question))?.node_id ?? askerOf(question);
  const error = sending.isConflict ? (sending.error?.message ?? "") : refused;
  return (
    <form
      className="try-question try-approval"
      aria-label={texts.approve(question.tool?.name ?? "")}
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
      onKeyDown={(event) => {
        if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
        event.preventDefault();
        event.stopPropagation();
        submit();
      }}
    >
      <p>{texts.wantsToCall(asker, question.tool?.name ?? "")}</p>
      <ArgumentEditor question={question} runId={run} isReadOnly={false} />
      <DecisionFields decision={decision} asker={asker} />
      {error && (
        <p className="field-error" role="alert">
          {refusedField !== null && <code>{refusedField}: </code>}
          {error}
        </p>
      )}
      <div className="try-answers">
        <Button type="submit" kind={isReject ? "danger" : "primary"} hint="Ctrl Enter" isBusy={sending.status !== "idle"} disabled={!canSend}>
          {button}
        </Button>
        {isBroken && <span className="dim">{words.fixFirst}</span>}
      </div>
    </form>
  );
}
