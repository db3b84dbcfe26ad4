// The dialogs around saving. Those with a comparison load when somebody opens one.
import { useState } from "react";
import { useMessages } from "../../../i18n/messages";
import { Button } from "../../../ui/Button";
import { Dialog } from "../../../ui/Dialog";
import { TextField } from "../../../ui/Field";
import { Later, later } from "../../../ui/later";
import { FileDrop } from "../../workflows/import/FileDrop";
import { messages as workflowMessages } from "../../workflows/messages";
import { useEditor } from "../store";
import { messages } from "./messages";
import { isName, suggestedName, wantedName } from "./names";
import type { SaveDialog, Saving } from "./useSaving";

const ConflictDialog = later(() => import("./ConflictDialog"));
const VersionsDrawer = later(() => import("./VersionsDrawer"));
const KeptDialog = later(() => import("./KeptDialog"));
const ImportDialog = later(() => import("../../workflows/import/ImportDialog"));

export function SaveDialogs({ saving }: { saving: Saving }) {
  const isReadOnly = useEditor((values) => values.isReadOnly);
  return (
    <>
      {!isReadOnly && <FileDrop onFiles={(files) => saving.show({ kind: "import", files })} />}
      {saving.dialog && <OpenDialog saving={saving} dialog={saving.dialog} />}
    </>
  );
}

function OpenDialog({ saving, dialog }: { saving: Saving; dialog: SaveDialog }) {
  const texts = useMessages(workflowMessages);
  return (
    <Later>
      {dialog.kind === "name" && <NameDialog saving={saving} isCopy={dialog.isCopy} error={dialog.error} />}
      {dialog.kind === "leave" && <LeaveDialog saving={saving} go={dialog.go} />}
      {dialog.kind === "conflict" && <ConflictDialog saving={saving} theirs={dialog.theirs} />}
      {dialog.kind === "versions" && <VersionsDrawer saving={saving} />}
      {dialog.kind === "kept" && <KeptDialog saving={saving} kept={dialog.kept} />}
      {dialog.kind === "import" && (
        <ImportDialog
          // Files that are dropped meanwhile are another import.
          key={dialog.files.map((file) => `${file.name} ${file.lastModified}`).join("/")}
          files={dialog.files}
          isInEditor
          onClose={saving.close}
          onOpen={({ text, file }) => saving.restore(text, texts.replaced(file))}
        />
      )}
    </Later>
  );
}

function NameDialog({ saving, isCopy, error }: { saving: Saving; isCopy: boolean; error: string }) {
  const texts = useMessages(messages);
  const value = useEditor(({ lastGood }) => lastGood.value);
  const own = useEditor(({ saved }) => saved?.name ?? "");
  const [name, setName] = useState(() => (own ? "" : wantedName()) || suggestedName(value, own));
  const [isTried, setTried] = useState(false);
  const wrong = isTried && !isName(name) ? texts.nameWrong : error;
  const submit = () => {
    setTried(true);
    if (isName(name)) saving.saveAs(name);
  };
  return (
    <Dialog
      title={isCopy ? texts.copyTitle : texts.nameTitle}
      onClose={saving.close}
      footer={
        <>
          <Button onClick={saving.close}>{texts.cancel}</Button>
          <Button kind="primary" isBusy={saving.isBusy} onClick={submit}>
            {texts.save}
          </Button>
        </>
      }
    >
      <form
        onSubmit={(event) => {
          event.preventDefault();
          submit();
        }}
      >
        <TextField label={texts.name} value={name} onChange={setName} autoFocus error={wrong || undefined} help={texts.nameHelp} />
      </form>
    </Dialog>
  );
}

function LeaveDialog({ saving, go }: { saving: Saving; go: () => void }) {
  const texts = useMessages(messages);
  return (
    <Dialog
      title={texts.leaveTitle}
      onClose={saving.close}
      footer={
        <>
          <Button
            onClick={() => {
              saving.close();
              go();
            }}
          >
            {texts.leaveNow}
          </Button>
          <Button
            onClick={() => {
              saving.close();
              saving.save();
            }}
          >
            {texts.saveFirst}
          </Button>
          <Button kind="primary" autoFocus onClick={saving.close}>
            {texts.stay}
          </Button>
        </>
      }
    >
      <p>{texts.leave}</p>
    </Dialog>
  );
}
