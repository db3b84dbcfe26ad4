// Dialogs and drawers, on the browser's own <dialog>: it keeps the focus inside, and Escape closes it.
import { useLayoutEffect, useRef, useState, type ReactNode } from "react";
import { catalogue, useMessages } from "../i18n/messages";
import { Button } from "./Button";
import "./dialog.css";

const messages = catalogue({ close: "Close" }, { close: "关闭" });

export function Dialog({
  title,
  onClose,
  kind = "dialog",
  footer,
  children,
}: {
  title: string;
  onClose: () => void;
  /** A drawer comes from the right and is as high as the page. */
  kind?: "dialog" | "drawer";
  footer?: ReactNode;
  children: ReactNode;
}) {
  const texts = useMessages(messages);
  const ref = useRef<HTMLDialogElement>(null);
  // A field takes the focus as it is added, and cannot in a dialog that is not open yet.
  const [isOpen, setOpen] = useState(false);
  useLayoutEffect(() => {
    const dialog = ref.current;
    if (dialog === null) return;
    dialog.showModal();
    setOpen(true);
    // The browser gives the focus back to what had it, unless the dialog is only removed.
    return () => dialog.close();
  }, []);
  return (
    <dialog
      ref={ref}
      className={kind}
      aria-label={title}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onClick={(event) => {
        if (event.target === ref.current) onClose();
      }}
    >
      <div className="dialog-frame">
        <header className="dialog-head">
          <h2>{title}</h2>
          <Button kind="quiet" icon="close" aria-label={texts.close} onClick={onClose} />
        </header>
        <div className="dialog-body">{isOpen && children}</div>
        {isOpen && footer && <footer className="dialog-foot">{footer}</footer>}
      </div>
    </dialog>
  );
}
