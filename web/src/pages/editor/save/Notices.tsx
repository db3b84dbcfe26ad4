// Quiet notices below the bar: somebody else has saved, or an earlier visit has left unsaved text.
import { useFormats } from "../../../i18n/format";
import { useMessages } from "../../../i18n/messages";
import { Button } from "../../../ui/Button";
import { Icon } from "../../../ui/Icon";
import { isUnsaved, useEditor } from "../store";
import { messages } from "./messages";
import type { Saving } from "./useSaving";

export function Notices({ saving }: { saving: Saving }) {
  const texts = useMessages(messages);
  const formats = useFormats();
  const isDirty = useEditor(isUnsaved);
  const { newer, kept } = saving;
  return (
    <div role="status">
      {newer && (
        <div className="editor-notice">
          <Icon name="info" />
          <p title={formats.full(newer.updated)}>
            {texts.newer(newer.author || texts.somebody, newer.version, formats.ago(newer.updated))}
          </p>
          <Button onClick={() => saving.show({ kind: "conflict", theirs: newer })}>{texts.compareNewer}</Button>
          {!isDirty && <Button onClick={() => saving.take(newer)}>{texts.load}</Button>}
          <Button kind="quiet" icon="close" aria-label={texts.dismiss} onClick={saving.dismissNewer} />
        </div>
      )}
      {kept && (
        <div className="editor-notice">
          <Icon name="info" />
          <p title={formats.full(kept.time)}>
            {kept.version ? texts.keptOfVersion(formats.short(kept.time), kept.version) : texts.kept(formats.short(kept.time))}
          </p>
          <Button onClick={() => saving.restore(kept.text, texts.restoredKept)}>{texts.restoreKept}</Button>
          <Button onClick={() => saving.show({ kind: "kept", kept })}>{texts.compareNewer}</Button>
          <Button kind="quiet" onClick={saving.dismissKept}>
            {texts.dropKept}
          </Button>
        </div>
      )}
    </div>
  );
}
