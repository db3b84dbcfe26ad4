// Text of an earlier visit beside the saved one, before it is restored.
import { useMessages } from "../../../i18n/messages";
import { Button } from "../../../ui/Button";
import { Dialog } from "../../../ui/Dialog";
import { WordDiff } from "../../../ui/diff/WordDiff";
import { useEditor } from "../store";
import type { Kept } from "./kept";
import { messages } from "./messages";
import type { Saving } from "./useSaving";

export default function KeptDialog({ saving, kept }: { saving: Saving; kept: Kept }) {
  const texts = useMessages(messages);
  const text = useEditor((values) => values.text);
  return (
    <Dialog
      title={texts.keptTitle}
      kind="drawer"
      onClose={saving.close}
      footer={
        <>
          <Button onClick={saving.dismissKept}>{texts.dropKept}</Button>
          <Button kind="primary" autoFocus onClick={() => saving.restore(kept.text, texts.restoredKept)}>
            {texts.restoreKept}
          </Button>
        </>
      }
    >
      <div className="save-diff">
        <WordDiff kind="lines" before={text} after={kept.text} />
      </div>
    </Dialog>
  );
}
