// An error or a warning: what is wrong, what to do about it, and where it is.
import { Text } from "@codemirror/state";
import type { Diagnostic } from "../../../api/schema";
import { targetAt } from "../../../document/read";
import { useMessages } from "../../../i18n/messages";
import { Icon } from "../../../ui/Icon";
import { useEditor, useEditorStore, type EditorStore } from "../store";
import { rangeOf } from "../yaml/problems";
import { messages } from "./messages";

/** Where a diagnostic is in the current text; it is about the text that was checked. */
export function placeOf(store: EditorStore, { line, column }: Diagnostic): number {
  const { checkedText, sinceCheck } = store.getState();
  return sinceCheck.mapPos(rangeOf(Text.of(checkedText.split("\n")), line, column).from, 1);
}

export function ProblemRow({ diagnostic }: { diagnostic: Diagnostic }) {
  const texts = useMessages(messages);
  const store = useEditorStore();
  // A line that moves while the server is asked again is still named rightly.
  const line = useEditor(({ state }) => (diagnostic.line ? state.doc.lineAt(Math.min(placeOf(store, diagnostic), state.doc.length)).number : 0));
  const isError = diagnostic.severity === "error";
  const goTo = () => {
    const at = placeOf(store, diagnostic);
    const { document, select, openAround, apply, state } = store.getState();
    const target = targetAt(document, at);
    select([target]);
    openAround([target]);
    apply([state.update({ selection: { anchor: Math.min(at, state.doc.length) }, scrollIntoView: true })]);
  };
  return (
    <li className={`proof-row ${isError ? "proof-error" : "proof-warning"}`}>
      <Icon name="warning" />
      <p>
        <span className="hidden-text">{isError ? texts.error : texts.warning}</span>
        {diagnostic.message} <code className="dim">{diagnostic.code}</code>
        {diagnostic.hint && <span className="proof-hint">{diagnostic.hint}</span>}
      </p>
      {line > 0 && (
        <button type="button" className="proof-line" onClick={goTo}>
          {texts.line(line)}
        </button>
      )}
    </li>
  );
}
