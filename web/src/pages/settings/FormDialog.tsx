// A dialog with fields that are sent together.
import { useId, useState, type ReactNode } from "react";
import { catalogue, useMessages } from "../../i18n/messages";
import { Button } from "../../ui/Button";
import { Dialog } from "../../ui/Dialog";
import { Failure } from "../../ui/State";

const messages = catalogue({ cancel: "Cancel" }, { cancel: "取消" });

export function FormDialog({
  title,
  action,
  onSubmit,
  onClose,
  children,
}: {
  title: string;
  /** The text of the button. */
  action: string;
  /** Sends the fields. The dialog shows why it failed. */
  onSubmit: () => Promise<void>;
  onClose: () => void;
  children: ReactNode;
}) {
  const texts = useMessages(messages);
  const formId = useId();
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<Error | null>(null);
  const submit = async () => {
    setBusy(true);
    setError(null);
    try {
      await onSubmit();
    } catch (problem) {
      setError(problem as Error);
    } finally {
      setBusy(false);
    }
  };
  return (
    <Dialog
      title={title}
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>{texts.cancel}</Button>
          <Button kind="primary" type="submit" form={formId} isBusy={isBusy}>
            {action}
          </Button>
        </>
      }
    >
      <form
        id={formId}
        className="plain-stack"
        onSubmit={(event) => {
          event.preventDefault();
          void submit();
        }}
      >
        {children}
        {error && <Failure error={error} />}
      </form>
    </Dialog>
  );
}
