// What CodeMirror's view has beyond text and history.
import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, indentWithTab } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import { bracketMatching, codeFolding, foldGutter, foldKeymap, indentOnInput, indentUnit } from "@codemirror/language";
import { lintGutter, lintKeymap } from "@codemirror/lint";
import { Compartment, EditorState, Text, type Extension, type StateEffect } from "@codemirror/state";
import {
  crosshairCursor,
  drawSelection,
  EditorView,
  highlightActiveLine,
  highlightActiveLineGutter,
  highlightSpecialChars,
  keymap,
  lineNumbers,
  rectangularSelection,
} from "@codemirror/view";
import { isSame } from "../../../document/model";
import { targetAt } from "../../../document/read";
import { messagesNow, useLanguage, type Language } from "../../../i18n/messages";
import { tooDeepAt } from "../reading";
import type { EditorStore } from "../store";
import { toastError } from "../../../ui/toasts";
import { completionSource } from "./completion";
import { highlighting } from "./highlight";
import { hoverHelp } from "./hover";
import { lineEndings } from "./line_endings";
import { messages } from "./messages";
import { phrasesIn } from "./phrases";
import { openByClick, problemBoxes } from "./problems";
import type { Fields } from "./schema";
import { selectedLines } from "./selected";
import { loadFields } from "./useFields";

const language = new Compartment();
const searching = new Compartment();
const comparison = new Compartment();
const parsing = new Compartment();

/** The grammar of YAML, unless brackets are nested so deeply that its parser would exceed the stack. */
function grammar(text: string): Extension {
  return [
    parsing.of(isDeep(text) ? NO_GRAMMAR : yaml()),
    EditorState.transactionExtender.of(({ docChanged, newDoc, startState }) =>
      docChanged && hasGrammar(startState) && isDeep(newDoc.toString()) ? { effects: parsing.reconfigure(NO_GRAMMAR) } : null,
    ),
    // Not with the change itself: CodeMirror hands the text before it to a new grammar.
    EditorView.updateListener.of(({ docChanged, view }) => {
      if (docChanged && !hasGrammar(view.state)) queueMicrotask(() => addGrammar(view));
    }),
  ];
}

const NO_GRAMMAR: Extension = [];
const hasGrammar = (state: EditorState) => parsing.get(state) !== NO_GRAMMAR;
const isDeep = (text: string) => tooDeepAt(text) >= 0;

function addGrammar(view: EditorView): void {
  if (!hasGrammar(view.state) && !isDeep(view.state.doc.toString())) view.dispatch({ effects: parsing.reconfigure(yaml()) });
}

export function languageOf(now: Language): StateEffect<unknown> {
  return language.reconfigure(inLanguage(now));
}

function inLanguage(now: Language): Extension {
  return [
    EditorState.phrases.of(phrasesIn(now)),
    EditorView.contentAttributes.of({ tabindex: "0", "aria-label": messages[now].title, "aria-describedby": "yaml-keys" }),
  ];
}

/** Marks in the text what differs from another one; null ends it. The code for it loads when it is needed. */
export async function comparing(original: string | null, revertText: string): Promise<StateEffect<unknown>> {
  if (original === null) return comparison.reconfigure([]);
  const { unifiedMergeView } = await import("@codemirror/merge");
  return comparison.reconfigure(
    unifiedMergeView({
      original: Text.of(original.split("\n")),
      collapseUnchanged: { margin: 3, minSize: 5 },
      mergeControls: (kind, action) => {
        const button = document.createElement("button");
        if (kind === "accept") {
          // A change is accepted by saving; only the way back is offered.
          button.hidden = true;
          return button;
        }
        button.type = "button";
        button.className = "button yaml-revert";
        button.textContent = revertText;
        button.onmousedown = action;
        return button;
      },
    }),
  );
}

/** The search, whose code loads when it is first wanted; from then on its own keys work. */
function openSearch(view: EditorView): boolean {
  void import("@codemirror/search").then(({ highlightSelectionMatches, openSearchPanel, search, searchKeymap }) => {
    const parts = [highlightSelectionMatches(), search({ top: true }), keymap.of(searchKeymap)];
    view.dispatch({ effects: searching.reconfigure(parts) });
    openSearchPanel(view);
  }, toastError);
  return true;
}

/** Selects the item at the cursor; the focus stays in the text. */
function selectsItems(store: EditorStore): Extension {
  return EditorView.updateListener.of((update) => {
    const isMoved = update.transactions.some((one) => one.selection !== undefined && one.isUserEvent("select"));
    if (!isMoved || !update.view.hasFocus) return;
    const { document, text, selection, select } = store.getState();
    if (document.text !== text) return;
    const target = targetAt(document, update.state.selection.main.head);
    const isSelected = selection.length === 1 && selection[0] !== undefined && isSame(selection[0], target);
    if (!isSelected) select([target]);
  });
}

export function extensionsOf(store: EditorStore, fields: () => Fields | null): Extension {
  const texts = () => messagesNow(messages);
  const known = () => ({ fields: fields(), document: store.getState().document });
  const { isReadOnly, text } = store.getState();
  return [
    lineNumbers(),
    foldGutter(),
    codeFolding(),
    lintGutter(),
    highlightSpecialChars({ specialChars: /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u00ad\u061c\u200b\u200e\u200f\u2028\u2029\u202d\u202e\u2066\u2067\u2069\ufeff\ufff9-\ufffc]/g }),
    drawSelection(),
    rectangularSelection(),
    crosshairCursor(),
    indentOnInput(),
    indentUnit.of("  "),
    bracketMatching(),
    closeBrackets(),
    highlightActiveLine(),
    highlightActiveLineGutter(),
    searching.of(keymap.of([{ key: "Mod-f", run: openSearch }])),
    grammar(text),
    highlighting,
    lineEndings,
    selectedLines,
    problemBoxes,
    openByClick,
    EditorView.editable.of(true),
    autocompletion({ override: isReadOnly ? [] : [completionSource(known, loadFields)] }),
    hoverHelp(fields, { required: () => texts().required, standard: (value) => texts().standard(value) }),
    selectsItems(store),
    keymap.of([
      ...closeBracketsKeymap,
      ...defaultKeymap,
      ...foldKeymap,
      ...completionKeymap,
      ...lintKeymap,
      ...(isReadOnly ? [] : [indentWithTab]),
    ]),
    language.of(inLanguage(useLanguage.getState().language)),
    comparison.of([]),
  ];
}
