// A part of a form that opens and closes.
import { useId, useState, type ReactNode } from "react";
import { Icon } from "../../../../ui/Icon";
import { Help, HelpButton } from "./Line";

export function Fold({
  title,
  aside,
  help,
  see,
  actions,
  isOpen: isOpenAtFirst = false,
  children,
}: {
  title: ReactNode;
  /** What is inside, in a few words; while it is closed. */
  aside?: ReactNode;
  help?: string;
  see?: string | null;
  actions?: ReactNode;
  isOpen?: boolean;
  children: ReactNode;
}) {
  const id = useId();
  const [isOpen, setOpen] = useState(isOpenAtFirst);
  const [isHelped, setHelped] = useState(false);
  return (
    <div className="form-fold">
      <div className="form-fold-head">
        <button type="button" className="form-fold-title" aria-expanded={isOpen} aria-controls={id} onClick={() => setOpen(!isOpen)}>
          <Icon name={isOpen ? "down" : "right"} size={12} />
          <span>{title}</span>
        </button>
        {help && typeof title === "string" && <HelpButton title={title} isOpen={isHelped} onClick={() => setHelped(!isHelped)} />}
        <span className="form-fold-aside ellipsis">{!isOpen && aside}</span>
        {actions}
      </div>
      {isHelped && <Help text={help ?? ""} see={see ?? null} />}
      <div id={id} className="form-fold-body" hidden={!isOpen}>
        {isOpen && children}
      </div>
    </div>
  );
}
