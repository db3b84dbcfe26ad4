// The line of a field: its title, what it means on demand, the control, and what is wrong.
import { useId, useState, type ReactNode } from "react";
import { useMessages } from "../../../../i18n/messages";
import { Icon } from "../../../../ui/Icon";
import { messages } from "../messages";

export interface LineParts {
  title: string;
  help?: string;
  see?: string | null;
  isRequired?: boolean;
  error?: string | null;
  /** Beside the title. */
  aside?: ReactNode;
}

/** For one control; it gets its id, and that of what describes it. */
export function Line({
  layout = "stack",
  children,
  ...parts
}: LineParts & {
  /** `row`: the control stands beside the title; `stack`: below it. */
  layout?: "row" | "stack";
  children: (control: { id: string; describedBy: string | undefined; isWrong: boolean }) => ReactNode;
}) {
  const id = useId();
  return (
    <div className={`form-line form-line-${layout}`}>
      <Title {...parts} id={id} labelFor={id} />
      <div className="form-control">
        {children({ id, describedBy: parts.error ? `${id}-error` : undefined, isWrong: Boolean(parts.error) })}
      </div>
      {parts.error && (
        <p className="field-error" id={`${id}-error`}>
          {parts.error}
        </p>
      )}
    </div>
  );
}

/** For several controls that belong together. */
export function Group({ children, layout = "stack", ...parts }: LineParts & { layout?: "row" | "stack"; children: ReactNode }) {
  const id = useId();
  return (
    <div className={`form-line form-line-${layout}`} role="group" aria-labelledby={`${id}-title`}>
      <Title {...parts} id={id} />
      <div className="form-control">{children}</div>
      {parts.error && <p className="field-error">{parts.error}</p>}
    </div>
  );
}

function Title({ id, labelFor, title, help, see, isRequired, aside }: LineParts & { id: string; labelFor?: string }) {
  const texts = useMessages(messages);
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      <div className="form-title">
        {labelFor ? (
          <label id={`${id}-title`} htmlFor={labelFor}>
            {title}
          </label>
        ) : (
          <span id={`${id}-title`}>{title}</span>
        )}
        {isRequired && (
          <span className="form-required" title={texts.required}>
            *<span className="hidden-text">{texts.required}</span>
          </span>
        )}
        {help && <HelpButton title={title} isOpen={isOpen} onClick={() => setOpen(!isOpen)} />}
        {aside && <span className="form-aside">{aside}</span>}
      </div>
      {isOpen && <Help text={help ?? ""} see={see ?? null} />}
    </>
  );
}

export function HelpButton({ title, isOpen, onClick }: { title: string; isOpen: boolean; onClick: () => void }) {
  const texts = useMessages(messages);
  return (
    <button type="button" className="form-help-button" aria-label={texts.helpFor(title)} aria-expanded={isOpen} onClick={onClick}>
      <Icon name="info" size={13} />
    </button>
  );
}

export function Help({ text, see }: { text: string; see: string | null }) {
  const texts = useMessages(messages);
  return (
    <p className="form-help">
      <Marked text={text} />
      {see && (
        <>
          {" "}
          {texts.manual} <code>{see}</code>
        </>
      )}
    </p>
  );
}

/** A text with `code` in it. */
export function Marked({ text }: { text: string }) {
  return text.split("`").map((part, index) => (index % 2 ? <code key={index}>{part}</code> : part));
}
