// What cannot be taken back is asked again: stop, lock, delete.
import { useState, type ReactNode } from "react";
import { call } from "../../../api/client";
import { useMessages } from "../../../i18n/messages";
import { Button } from "../../../ui/Button";
import { Dialog } from "../../../ui/Dialog";
import { TextArea } from "../../../ui/Field";
import { toast } from "../../../ui/toasts";
import { messages } from "./messages";

function Confirm({
  title,
  text,
  button,
  kind,
  isReady = true,
  onConfirm,
  onClose,
  children,
}: {
  title: string;
  text: string;
  button: string;
  kind: "danger" | "locked";
  isReady?: boolean;
  onConfirm: () => Promise<void>;
  onClose: () => void;
  children?: ReactNode;
}) {
  const texts = useMessages(messages);
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState("");
  const confirm = async () => {
    setBusy(true);
    setError("");
    try {
      await onConfirm();
      onClose();
    } catch (problem) {
      setError((problem as Error).message);
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
          <Button kind={kind} isBusy={isBusy} disabled={!isReady} onClick={() => void confirm()}>
            {button}
          </Button>
        </>
      }
    >
      <div className="controls-dialog">
        <p>{text}</p>
        {children}
        {error && (
          <p className="field-error" role="alert">
            {error}
          </p>
        )}
      </div>
    </Dialog>
  );
}

export function StopDialog({ runId, onClose }: { runId: string; onClose: () => void }) {
  const texts = useMessages(messages);
  const [reason, setReason] = useState("");
  return (
    <Confirm
      title={texts.stopTitle}
      text={texts.stopText}
      button={texts.stopRun}
      kind="danger"
      onClose={onClose}
      onConfirm={() => call(`/runs/${runId}/stop`, { body: reason.trim() ? { reason: reason.trim() } : {} })}
    >
      <TextArea
        label={texts.reason}
        aside={<span className="controls-optional">{texts.optional}</span>}
        rows={2}
        value={reason}
        onChange={setReason}
      />
    </Confirm>
  );
}

export function LockDialog({ runId, onClose }: { runId: string; onClose: () => void }) {
  const texts = useMessages(messages);
  const [reason, setReason] = useState("");
  return (
    <Confirm
      title={texts.lockTitle}
      text={texts.lockText}
      button={texts.lockRun}
      kind="locked"
      isReady={reason.trim() !== ""}
      onClose={onClose}
      onConfirm={() => call(`/runs/${runId}/lock`, { body: { reason: reason.trim() } })}
    >
      <TextArea label={texts.lockReason} rows={3} autoFocus value={reason} onChange={setReason} />
    </Confirm>
  );
}

export function DeleteDialog({
  runId,
  onClose,
  onDeleted,
}: {
  runId: string;
  onClose: () => void;
  onDeleted: () => void;
}) {
  const texts = useMessages(messages);
  const remove = async () => {
    await call(`/runs/${runId}`, { method: "DELETE" });
    toast(texts.deleted);
    onDeleted();
  };
  return (
    <Confirm
      title={texts.deleteTitle}
      text={texts.deleteText}
      button={texts.deleteRun}
      kind="danger"
      onClose={onClose}
      onConfirm={remove}
    />
  );
}
