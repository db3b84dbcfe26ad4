// Two people have changed the same version: both texts, and what can be done. Nothing is lost by any of it.
import { useState } from "react";
import { useFormats } from "../../../i18n/format";
import { useMessages } from "../../../i18n/messages";
import { Button, Segmented } from "../../../ui/Button";
import { Dialog } from "../../../ui/Dialog";
import { WordDiff } from "../../../ui/diff/WordDiff";
import { useEditor } from "../store";
import { messages } from "./messages";
import type { Theirs } from "./requests";
import type { Saving } from "./useSaving";

export default function ConflictDialog({ saving, theirs }: { saving: Saving; theirs: Theirs | null }) {
  const texts = useMessages(messages);
  return (
    <Dialog
      title={theirs ? texts.conflictTitle : texts.deletedTitle}
      kind={theirs ? "drawer" : "dialog"}
      onClose={saving.close}
      footer={
        <>
          <Button autoFocus onClick={saving.close}>
            {texts.keepEditing}
          </Button>
          <Button onClick={() => saving.show({ kind: "name", isCopy: true, error: "" })}>{texts.saveCopy}</Button>
          {theirs && <Button onClick={() => saving.take(theirs)}>{texts.takeTheirs}</Button>}
          <Button kind="primary" isBusy={saving.isBusy} onClick={() => saving.overwrite(theirs)}>
            {theirs ? texts.overwrite : texts.saveAgain}
          </Button>
        </>
      }
    >
      {theirs ? <Sides theirs={theirs} /> : <p>{texts.deleted}</p>}
    </Dialog>
  );
}

type Side = "mine" | "theirs";

function Sides({ theirs }: { theirs: Theirs }) {
  const texts = useMessages(messages);
  const formats = useFormats();
  const [side, setSide] = useState<Side>("mine");
  const text = useEditor((values) => values.text);
  const saved = useEditor((values) => values.saved);
  const base = saved?.text ?? "";
  return (
    <div className="save-sides">
      <p title={formats.full(theirs.updated)}>
        {texts.conflict(theirs.author || texts.somebody, formats.ago(theirs.updated), theirs.version, saved?.version ?? 0)}
      </p>
      <Segmented
        label={texts.sides}
        value={side}
        onChange={setSide}
        choices={[
          { value: "mine", text: texts.showMine },
          { value: "theirs", text: texts.showTheirs },
        ]}
      />
      <h3>{side === "mine" ? texts.difference : texts.onlyTheirs}</h3>
      <div className="save-diff">
        {side === "mine" ? (
          <WordDiff kind="lines" before={theirs.text} after={text} />
        ) : (
          <WordDiff kind="lines" before={base} after={theirs.text} />
        )}
      </div>
    </div>
  );
}
