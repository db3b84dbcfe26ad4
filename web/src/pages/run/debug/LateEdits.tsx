// Edits that were not saved before the run went on.
import { useState } from "react";
import { useLocation } from "wouter";
import { call } from "../../../api/client";
import type { StartedRun } from "../../../api/schema";
import { useMessages } from "../../../i18n/messages";
import { Button } from "../../../ui/Button";
import { toastError } from "../../../ui/toasts";
import { messages } from "./messages";
import { editKey, useUnsavedEdit, type UnsavedEdit } from "./unsaved";
import { useLateEdits } from "./usePaused";

export function LateEdits() {
  const late = useLateEdits();
  return late.map((edit) => <LateEdit key={editKey(edit)} edit={edit} />);
}

function LateEdit({ edit }: { edit: UnsavedEdit }) {
  const texts = useMessages(messages);
  const [, navigate] = useLocation();
  const [isForking, setForking] = useState(false);
  const drop = () => useUnsavedEdit.getState().drop(editKey(edit));
  const fork = async () => {
    setForking(true);
    try {
      const made = await call<StartedRun>(`/runs/${edit.runId}/fork`, { body: { at: edit.address, message: edit.text } });
      drop();
      navigate(`/runs/${made.id}`);
    } catch (error) {
      toastError(error);
      setForking(false);
    }
  };
  return (
    <section className="debug-late" role="status">
      <h3>{texts.tooLate(edit.nodeId)}</h3>
      <p>{texts.tooLateHelp}</p>
      <pre className="debug-text">{edit.text}</pre>
      <div className="debug-save">
        <Button icon="fork" isBusy={isForking} onClick={() => void fork()}>
          {texts.fork(edit.nodeId)}
        </Button>
        <Button kind="quiet" onClick={drop}>
          {texts.discard}
        </Button>
      </div>
    </section>
  );
}
