// What becomes of a tool call: made as it was asked, made with changes, or rejected with a reason.
import { useId, type ReactNode } from "react";
import { useMessages } from "../../../i18n/messages";
import { TextArea, TextField } from "../../../ui/Field";
import type { Decision } from "./approval";
import { messages } from "./messages";
import type { DecisionState } from "./useDecision";
import "./people.css";

export function DecisionFields({ decision, asker }: { decision: DecisionState; asker: string }) {
  const texts = useMessages(messages);
  // Several calls may wait on one page.
  const group = useId();
  const { draft, change, changed, choose, isReject } = decision;
  return (
    <>
      <div className="people-part people-choices" role="radiogroup" aria-label={texts.decision}>
        <Choice
          group={group}
          value="asked"
          chosen={draft.decision}
          onChoose={choose}
          title={texts.approveAsAsked}
          help={changed.length > 0 ? texts.throwsAway(changed.length) : texts.asModelWrote}
        />
        <Choice
          group={group}
          value="edited"
          chosen={draft.decision}
          onChoose={choose}
          title={texts.editAndApprove}
          help={changed.length > 0 ? texts.editedNames(changed.join(", "), asker) : texts.editHelp}
        />
        <Choice group={group} value="reject" chosen={draft.decision} onChoose={choose} title={texts.reject} help={texts.rejectHelp} />
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
    </>
  );
}

function Choice({
  group,
  value,
  chosen,
  onChoose,
  title,
  help,
}: {
  group: string;
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
        name={group}
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
