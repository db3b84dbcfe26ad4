// The text itself. What is typed here goes to the store, and what happens elsewhere comes back from it.
import { useEffect, useEffectEvent, useRef, useState } from "react";
import { EditorView } from "@codemirror/view";
import { useFields } from "./useFields";
import { useLanguage, useMessages } from "../../../i18n/messages";
import { Button } from "../../../ui/Button";
import { applyFix, fixOf, regionOfProblem } from "../proof/fix";
import { useEditor, useEditorStore, type EditorStore } from "../store";
import { comparing, extensionsOf, languageOf } from "./extensions";
import { messages } from "./messages";
import { problemsIn, problemsOfReading, showProblems, type Problem } from "./problems";
import { linesOfSelection, showLines } from "./selected";
import { allowStyles } from "./styles";
import "./yaml.css";

export function YamlPane() {
  const texts = useMessages(messages);
  const [isComparing, setComparing] = useState(false);
  const hasSaved = useEditor(({ saved }) => saved !== null);
  const isReadOnly = useEditor((values) => values.isReadOnly);
  return (
    <>
      <header className="editor-head">
        <h2>{texts.title}</h2>
        <span className="dim" title={isReadOnly ? undefined : texts.keys}>
          {isReadOnly ? texts.readOnly : texts.kept}
        </span>
        {hasSaved && (
          <Button kind="quiet" icon="changes" aria-pressed={isComparing} onClick={() => setComparing(!isComparing)}>
            {texts.changes}
          </Button>
        )}
      </header>
      <p id="yaml-keys" className="hidden-text">
        {texts.keys}
      </p>
      <TextArea isComparing={isComparing} />
    </>
  );
}

function TextArea({ isComparing }: { isComparing: boolean }) {
  const texts = useMessages(messages);
  const language = useLanguage((state) => state.language);
  const store = useEditorStore();
  const fields = useFields();
  const place = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | null>(null);
  const newest = useRef(fields);
  newest.current = fields;

  const fixFor = useEffectEvent((made: EditorStore) => fixesOf(made, texts.addCounter));
  useEffect(() => {
    const parent = place.current;
    if (parent === null) return;
    allowStyles();
    const extensions = extensionsOf(store, () => newest.current);
    const detach = store.getState().attach(extensions, (state, dispatchTransactions) => {
      view.current = new EditorView({ state, parent, dispatchTransactions });
      return view.current;
    });
    const stop = follow(store, () => view.current, fixFor);
    return () => {
      stop();
      const old = view.current;
      view.current = null;
      detach();
      old?.destroy();
    };
  }, [store]);
  useEffect(() => {
    view.current?.dispatch({ effects: languageOf(language) });
    if (view.current) view.current.dispatch(showProblems(view.current.state, problemsNow(store, fixFor(store))));
  }, [language, store]);
  const original = useEditor(({ saved }) => (isComparing ? (saved?.text ?? "") : null));
  useEffect(() => {
    let isOver = false;
    void comparing(original, texts.revert).then((effect) => {
      if (!isOver) view.current?.dispatch({ effects: effect });
    });
    return () => {
      isOver = true;
    };
  }, [original, texts.revert]);
  return <div ref={place} className="yaml-text" />;
}

type FixFor = (store: EditorStore) => Parameters<typeof problemsIn>[3];

/** The repair of a problem: it is computed when it is applied, for the text of that moment. */
function fixesOf(store: EditorStore, text: string): Parameters<typeof problemsIn>[3] {
  return (diagnostic) => {
    const { drawing, lastGood, isReadOnly } = store.getState();
    const region = drawing && regionOfProblem(drawing, diagnostic);
    if (isReadOnly || !drawing || !region || fixOf(lastGood, drawing, region) === null) return null;
    return {
      text,
      apply: () => {
        const now = store.getState().lastGood;
        const fix = fixOf(now, drawing, region);
        if (fix) store.getState().edit(applyFix(now, fix), now);
      },
    };
  };
}

function problemsNow(store: EditorStore, fix: Parameters<typeof problemsIn>[3]): Problem[] {
  const { check, checkedText, sinceCheck, document, text } = store.getState();
  if (check && (text === checkedText || document.errors.length === 0)) {
    return problemsIn(checkedText, check.diagnostics, sinceCheck, fix);
  }
  return problemsOfReading(document.errors, text.length);
}

/** Brings to the view what the store knows: problems and the selected items. */
function follow(store: EditorStore, view: () => EditorView | null, fixFor: FixFor): () => void {
  let isFromText = false;
  const mark = (isScrolled: boolean) => {
    const shown = view();
    const { document, selection, text } = store.getState();
    if (shown === null || document.text !== text) return;
    const lines = linesOfSelection(document, selection);
    const first = lines[0];
    const scroll = first && isScrolled ? [EditorView.scrollIntoView(shown.state.doc.line(first.first).from, { y: "nearest", yMargin: 60 })] : [];
    shown.dispatch({ effects: [showLines.of(lines), ...scroll] });
  };
  const problems = () => {
    const shown = view();
    if (shown) shown.dispatch(showProblems(shown.state, problemsNow(store, fixFor(store))));
  };
  mark(true);
  problems();
  return store.subscribe((now, before) => {
    // Not inside of a transaction that is still on its way.
    const isChecked = now.check !== before.check || (now.document !== before.document && now.document.errors.length > 0);
    const isMoved = now.selection !== before.selection;
    if (isMoved) isFromText = view()?.hasFocus ?? false;
    if (isMoved || now.document !== before.document) queueMicrotask(() => mark(isMoved && !isFromText));
    if (isChecked) queueMicrotask(problems);
  });
}
