// Asks before something is deleted.
import { useState, type ReactNode } from "react";
import { catalogue, useMessages } from "../../i18n/messages";
import { Button } from "../../ui/Button";
import { Dialog } from "../../ui/Dialog";
import { Failure } from "../../ui/State";

const messages = catalogue({ cancel: "Cancel" }, { cancel: "取消" });

export function Confirm({
  title,
  action,
  onConfirm,
  onClose,
  children,
}: {
  title: string;
  /** The text of the button. */
  action: string;
  onConfirm: () => Promise<void>;
  onClose: () => void;
  children: ReactNode;
}) {
  const texts = useMessages(messages);
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<Error | null>(null);
  const confirm = async () => {
    setBusy(true);
    setError(null);
    try {
      await onConfirm();
      onClose();
    } catch (problem) {
      setError(problem as Error);
      setBusy(false);
    }
  };
  return (
    <Dialog
      title={title}
      onClose={onClose}
      footer={
        <>
          <Button autoFocus onClick={onClose}>
            {texts.cancel}
          </Button>
          <Button kind="danger" isBusy={isBusy} onClick={() => void confirm()}>
            {action}
          </Button>
        </>
      }
    >
      <div className="plain-stack">{children}</div>
      {error && <Failure error={error} />}
    </Dialog>
  );
}
