// Tries the text: what a run of it gets, and what becomes of the run.
import { useMessages } from "../../../i18n/messages";
import { Button } from "../../../ui/Button";
import { useEditor } from "../store";
import { useEditorUi } from "../ui";
import { messages } from "./messages";
import { TryButtons } from "./TryButtons";
import { TryFields } from "./TryFields";
import { TryRun } from "./TryRun";
import { useGiven } from "./useGiven";
import "./try.css";

export function TryPane() {
  const texts = useMessages(messages);
  const setTrying = useEditorUi((ui) => ui.setTrying);
  const setTab = useEditorUi((ui) => ui.setTab);
  const isReadOnly = useEditor((values) => values.isReadOnly);
  const close = () => {
    setTrying(false);
    setTab("canvas");
  };
  return (
    <div className="try">
      <header className="editor-head try-head">
        <h2>{texts.title}</h2>
        <span className="dim small">{texts.aside}</span>
        {!isReadOnly && <Buttons />}
        <Button kind="quiet" icon="close" aria-label={texts.close} title={texts.close} onClick={close} />
      </header>
      {isReadOnly ? <p className="try-note">{texts.viewer}</p> : <Parts />}
    </div>
  );
}

function Buttons() {
  return <TryButtons given={useGiven()} />;
}

function Parts() {
  const given = useGiven();
  return (
    <div className="try-parts">
      <TryFields given={given} />
      <TryRun given={given} />
    </div>
  );
}
