// The state of one editor. The text is the only truth: canvas, form and YAML are views of it, and each edit is a
// change of the text. CodeMirror's state keeps text and history, also while its view is closed, so that undo is one
// for all views.
import { history, isolateHistory, redo, redoDepth, undo, undoDepth } from "@codemirror/commands";
import {
  ChangeSet,
  Compartment,
  EditorState,
  type Extension,
  type Transaction,
  type TransactionSpec,
} from "@codemirror/state";
import { createContext, useContext } from "react";
import { createStore, useStore, type StoreApi } from "zustand";
import { call, ApiError } from "../../api/client";
import type { CheckResult, Drawing } from "../../api/schema";
import { isSame, type Change, type Edit, type Target, type WorkflowDocument } from "../../document/model";
import { keepCollapsed, opened, readCollapsed, renamed } from "./collapsed";
import { readText } from "./reading";

export interface Saved {
  name: string;
  group: string;
  version: number;
  etag: string;
  text: string;
}

export interface EditorValues {
  /** Text and history. */
  state: EditorState;
  text: string;
  /** What the text says; of a large text it may be some moments old. */
  document: WorkflowDocument;
  /** The newest text without errors of YAML; the canvas and the forms show it. */
  lastGood: WorkflowDocument;
  selection: readonly Target[];
  /** The newest answer of the server, and the text that it is about. */
  check: CheckResult | null;
  checkedText: string;
  /** What was changed since that text, to find the places that the answer names. */
  sinceCheck: ChangeSet;
  checkError: ApiError | null;
  /** The newest drawing of everything; of an older text while the current one cannot be drawn. */
  drawing: Drawing | null;
  /** The same with collapsed nodes as single cards: what canvas and outline show. */
  shown: Drawing | null;
  /** The keys of the nodes that are collapsed. */
  collapsed: readonly string[];
  drawnText: string;
  /** What is on the server; null before the first save. */
  saved: Saved | null;
  /** The reader may look, and not change anything. */
  isReadOnly: boolean;
}

/** What shows the text: CodeMirror's view. */
export interface TextView {
  update: (transactions: readonly Transaction[]) => void;
}

export interface EditorActions {
  /** Changes the text as one step of the history. The changes refer to `base`: usually to `lastGood`, which the views
   * show; what was typed since then stays. */
  edit: (edit: Edit, base?: WorkflowDocument) => void;
  /** Applies transactions that were made for the current `state`. */
  apply: (transactions: readonly Transaction[]) => void;
  /** Connects a view, which then gets each transaction, and hands its own ones to `apply`. The extensions hold until
   * the view is removed. */
  attach: (extensions: Extension, create: (state: EditorState, apply: EditorActions["apply"]) => TextView) => () => void;
  undo: () => void;
  redo: () => void;
  /** Replaces the whole text, as one step of the history. */
  replace: (text: string) => void;
  select: (targets: readonly Target[]) => void;
  toggleSelected: (target: Target) => void;
  setCollapsed: (keys: readonly string[]) => void;
  /** Opens the collapsed nodes around a node. */
  openAround: (targets: readonly Target[]) => void;
  setSaved: (saved: Saved) => void;
  /** Asks the server now, and not after the pause. */
  checkNow: () => void;
  /** Stops what is under way; the page is left. */
  close: () => void;
}

export type EditorStore = StoreApi<EditorValues & EditorActions>;

/** A pause in typing after which the text is checked. */
export const CHECK_AFTER = 250;
/** Texts of so many characters are read at once, within a few milliseconds; larger ones after a pause. */
export const READ_AT_ONCE = 100_000;
const READ_AFTER = 200;

/** What changed since a certain text. */
class Since {
  constructor(private changes: ChangeSet) {}
  static text(text: string): Since {
    return new Since(ChangeSet.empty(text.length));
  }
  add(changes: ChangeSet): void {
    this.changes = this.changes.compose(changes);
  }
  get all(): ChangeSet {
    return this.changes;
  }
}

export function createEditor(text: string, saved: Saved | null, isReadOnly = false): EditorStore {
  let checkTimer: ReturnType<typeof setTimeout> | undefined;
  let readTimer: ReturnType<typeof setTimeout> | undefined;
  let asked: { abort: AbortController; since: Since } | undefined;
  let view: TextView | null = null;
  const ofView = new Compartment();

  return createStore<EditorValues & EditorActions>()((set, get) => {
    const document = readText(text);
    /** What was changed since the documents that edits may refer to. */
    const since = new Map<WorkflowDocument, Since>([[document, Since.text(text)]]);

    const check = async () => {
      const { text: checked } = get();
      asked?.abort.abort();
      const question = { abort: new AbortController(), since: Since.text(checked) };
      asked = question;
      try {
        const result = await call<CheckResult>("/check", {
          body: { text: checked, name: get().saved?.name ?? "", density: "compact", collapsed: get().collapsed },
          signal: question.abort.signal,
        });
        // Nobody has made a mistake yet.
        if (checked === "") result.diagnostics = [];
        set({
          check: result,
          checkedText: checked,
          sinceCheck: question.since.all,
          checkError: null,
          ...(result.drawing && { drawing: result.drawing, shown: result.collapsed_drawing ?? result.drawing, drawnText: checked }),
        });
      } catch (error) {
        if (error instanceof ApiError) set({ checkError: error });
        else if (!question.abort.signal.aborted) throw error;
      } finally {
        if (asked === question) asked = undefined;
      }
    };

    const read = () => {
      const { text: now } = get();
      const next = readText(now);
      const lastGood = next.errors.length > 0 ? get().lastGood : next;
      for (const old of since.keys()) if (old !== lastGood) since.delete(old);
      since.set(next, Since.text(now));
      set({ document: next, lastGood });
    };

    const show = (transactions: readonly Transaction[]) => {
      const last = transactions.at(-1);
      if (last === undefined) return;
      view?.update(transactions);
      const changed = transactions.filter((one) => one.docChanged);
      if (changed.length === 0) {
        set({ state: last.state });
        return;
      }
      let sinceCheck = get().sinceCheck;
      for (const { changes } of changed) {
        sinceCheck = sinceCheck.compose(changes);
        for (const one of since.values()) one.add(changes);
        asked?.since.add(changes);
      }
      const now = last.state.doc.toString();
      const isSmall = now.length <= READ_AT_ONCE;
      clearTimeout(readTimer);
      set({ state: last.state, text: now, sinceCheck });
      if (isSmall) read();
      else readTimer = setTimeout(read, READ_AFTER);
      clearTimeout(checkTimer);
      checkTimer = setTimeout(() => void check(), CHECK_AFTER);
    };

    const dispatch = (spec: TransactionSpec) => show([get().state.update(spec)]);
    const command = (run: typeof undo) => {
      run({ state: get().state, dispatch: (transaction) => show([transaction]) });
    };
    checkTimer = setTimeout(() => void check(), 0);

    return {
      state: EditorState.create({
        doc: text,
        // Carriage returns stay characters of their lines, so that offsets and line endings are those of the text.
        extensions: [
          history(),
          EditorState.lineSeparator.of("\n"),
          EditorState.allowMultipleSelections.of(true),
          EditorState.readOnly.of(isReadOnly),
          ofView.of([]),
        ],
      }),
      text,
      document,
      lastGood: document,
      selection: [],
      check: null,
      checkedText: text,
      sinceCheck: ChangeSet.empty(text.length),
      checkError: null,
      drawing: null,
      shown: null,
      collapsed: readCollapsed(saved),
      drawnText: "",
      saved,
      isReadOnly,
      edit: ({ changes, select, renamed: names }, base = get().lastGood) => {
        if (changes.length > 0 && !isReadOnly) {
          const later = since.get(base)?.all;
          if (later === undefined) throw new Error("the edit refers to a text that is no longer shown");
          const wanted = ChangeSet.of([...changes], base.text.length).map(later);
          dispatch({ changes: wanted, annotations: isolateHistory.of("full"), userEvent: "input.canvas" });
        }
        if (names && !isReadOnly) get().setCollapsed(renamed(get().collapsed, names.from, names.to));
        if (!select) return;
        set({ selection: select });
        get().openAround(select);
      },
      apply: show,
      attach: (extensions, create) => {
        dispatch({ effects: ofView.reconfigure(extensions) });
        let isAttached = true;
        // Timers of a view outlive it: what it dispatches then is for a state that is long past.
        view = create(get().state, (transactions) => {
          if (isAttached) show(transactions);
        });
        return () => {
          isAttached = false;
          view = null;
          dispatch({ effects: ofView.reconfigure([]) });
        };
      },
      undo: () => command(undo),
      redo: () => command(redo),
      replace: (next) => {
        if (isReadOnly) return;
        dispatch({ changes: difference(get().text, next), annotations: isolateHistory.of("full") });
      },
      select: (selection) => set({ selection }),
      toggleSelected: (target) => {
        const { selection } = get();
        const rest = selection.filter((one) => !isSame(one, target));
        set({ selection: rest.length < selection.length ? rest : [...selection, target] });
      },
      setCollapsed: (collapsed) => {
        const before = get().collapsed;
        if (collapsed.length === before.length && collapsed.every((key, index) => key === before[index])) return;
        set({ collapsed });
        keepCollapsed(get().saved, collapsed);
        get().checkNow();
      },
      openAround: (targets) => {
        const keys = targets.flatMap((target) => (target.kind === "node" ? [target.key] : []));
        get().setCollapsed(opened(get().collapsed, keys));
      },
      setSaved: (next) => {
        set({ saved: next });
        keepCollapsed(next, get().collapsed);
      },
      checkNow: () => {
        clearTimeout(checkTimer);
        void check();
      },
      close: () => {
        clearTimeout(checkTimer);
        clearTimeout(readTimer);
        asked?.abort.abort();
      },
    };
  });
}

/** The part of a text that differs from another one; what is equal around it stays, with the cursor in it. */
function difference(before: string, after: string): Change {
  const most = Math.min(before.length, after.length);
  let start = 0;
  while (start < most && before[start] === after[start]) start++;
  let end = 0;
  while (end < most - start && before[before.length - 1 - end] === after[after.length - 1 - end]) end++;
  return { from: start, to: before.length - end, insert: after.slice(start, after.length - end) };
}

export const canUndo = (state: EditorState) => undoDepth(state) > 0;
export const canRedo = (state: EditorState) => redoDepth(state) > 0;

/** Whether there is something that the server does not have. */
export function isUnsaved({ text, saved }: Pick<EditorValues, "text" | "saved">): boolean {
  return text !== (saved?.text ?? "");
}

export const EditorContext = createContext<EditorStore | null>(null);

export function useEditorStore(): EditorStore {
  const store = useContext(EditorContext);
  if (store === null) throw new Error("there is no editor around this component");
  return store;
}

export function useEditor<T>(select: (values: EditorValues & EditorActions) => T): T {
  return useStore(useEditorStore(), select);
}
