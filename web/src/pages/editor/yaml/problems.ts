// Errors and warnings in the text: a line below the place, a mark in the margin, and a box with what to do about it.
import { setDiagnostics, type Diagnostic as Mark } from "@codemirror/lint";
import { StateEffect, StateField, Text, type ChangeDesc, type EditorState, type TransactionSpec } from "@codemirror/state";
import { Decoration, EditorView, WidgetType, type DecorationSet } from "@codemirror/view";
import type { Diagnostic } from "../../../api/schema";
import type { ReadError } from "../../../document/model";

export interface Problem {
  from: number;
  to: number;
  severity: "error" | "warning";
  message: string;
  hint: string;
  code: string;
  /** What repairs it, with the text of its button. */
  fix: { text: string; apply: () => void } | null;
}

/** Where a diagnostic is: from its column to the end of what is written on its line. */
export function rangeOf(doc: Text, line: number, column: number): { from: number; to: number } {
  if (line < 1 || line > doc.lines) return { from: 0, to: 0 };
  const found = doc.line(line);
  const written = found.text.replace(/\s+#.*$/, "").trimEnd();
  // A key is named for its value, as `id` is for a node.
  const key = /^[\w-]+:\s+/.exec(written.slice(Math.max(0, column - 1)))?.[0].length ?? 0;
  const begin = column > 0 ? Math.min(column - 1 + key, written.length) : found.text.length - found.text.trimStart().length;
  return { from: found.from + begin, to: found.from + Math.max(written.length, begin) };
}

/** The problems that the server has found in an older text, at their places in the current one. */
export function problemsIn(
  checked: string,
  diagnostics: readonly Diagnostic[],
  since: ChangeDesc,
  fixOf: (diagnostic: Diagnostic) => Problem["fix"],
): Problem[] {
  const doc = Text.of(checked.split("\n"));
  return diagnostics.map((one) => {
    const { from, to } = rangeOf(doc, one.line, one.column);
    const { severity, message, hint, code } = one;
    const start = since.mapPos(from, 1);
    return { from: start, to: Math.max(start, since.mapPos(to, -1)), severity, message, hint, code, fix: fixOf(one) };
  });
}

/** What the parser of the page has found; the server's answer replaces it. */
export function problemsOfReading(errors: readonly ReadError[], length: number): Problem[] {
  return errors.map(({ from, to, message }) => ({
    from: Math.min(from, length),
    to: Math.min(to, length),
    severity: "error",
    message,
    hint: "",
    code: "",
    fix: null,
  }));
}

interface Boxes {
  problems: readonly Problem[];
  /** Boxes that somebody has opened or closed, by code and message. */
  chosen: ReadonlyMap<string, boolean>;
  shown: DecorationSet;
}

const keyOf = ({ code, message }: Problem) => `${code} ${message}`;
const setProblems = StateEffect.define<readonly Problem[]>();
const choose = StateEffect.define<{ key: string; isOpen: boolean }>();

/** Boxes with a repair are open until somebody closes them; others wait for a click. */
const isOpen = (problem: Problem, chosen: ReadonlyMap<string, boolean>) => chosen.get(keyOf(problem)) ?? problem.fix !== null;

class Box extends WidgetType {
  constructor(
    private readonly problem: Problem,
    private readonly closeText: string,
  ) {
    super();
  }

  override eq(other: Box): boolean {
    return keyOf(other.problem) === keyOf(this.problem) && other.problem.fix?.text === this.problem.fix?.text;
  }

  toDOM(view: EditorView): HTMLElement {
    const { severity, message, hint, code, fix } = this.problem;
    const place = document.createElement("div");
    place.className = "yaml-place";
    const box = place.appendChild(document.createElement("div"));
    box.className = `yaml-box yaml-box-${severity}`;
    box.setAttribute("role", "note");
    const add = (name: string, text: string, kind = "") => {
      const part = box.appendChild(document.createElement(name));
      part.textContent = text;
      part.className = kind;
      return part;
    };
    add("p", message);
    // The button does what the hint says.
    if (hint && !fix) add("p", hint, "yaml-hint");
    if (code) add("code", code);
    if (fix) {
      const button = add("button", fix.text, "button button-primary") as HTMLButtonElement;
      button.type = "button";
      button.onclick = () => fix.apply();
    }
    const close = add("button", "", "yaml-close") as HTMLButtonElement;
    close.type = "button";
    close.setAttribute("aria-label", this.closeText);
    close.onclick = () => view.dispatch({ effects: choose.of({ key: keyOf(this.problem), isOpen: false }) });
    return place;
  }

  override ignoreEvent(): boolean {
    return true;
  }
}

function boxes(state: EditorState, problems: readonly Problem[], chosen: ReadonlyMap<string, boolean>): DecorationSet {
  const closeText = state.phrase("close");
  return Decoration.set(
    problems
      .filter((problem) => isOpen(problem, chosen))
      .map((problem) => {
        const at = state.doc.lineAt(Math.min(problem.from, state.doc.length)).to;
        return Decoration.widget({ widget: new Box(problem, closeText), block: true, side: 1 }).range(at);
      }),
    true,
  );
}

export const problemBoxes = StateField.define<Boxes>({
  create: () => ({ problems: [], chosen: new Map(), shown: Decoration.none }),
  update(old, transaction) {
    let { problems, chosen, shown } = old;
    if (transaction.docChanged) {
      const { changes } = transaction;
      problems = problems.map((one) => ({ ...one, from: changes.mapPos(one.from, 1), to: changes.mapPos(one.to, -1) }));
      shown = shown.map(changes);
    }
    const isNew = transaction.effects.some((effect) => effect.is(setProblems) || effect.is(choose));
    for (const effect of transaction.effects) {
      if (effect.is(setProblems)) problems = effect.value;
      if (effect.is(choose)) chosen = new Map(chosen).set(effect.value.key, effect.value.isOpen);
    }
    if (isNew) shown = boxes(transaction.state, problems, chosen);
    return problems === old.problems && !isNew ? old : { problems, chosen, shown };
  },
  provide: (field) => EditorView.decorations.from(field, ({ shown }) => shown),
});

/** A click on what is marked, or on the mark in the margin, opens and closes its boxes. */
export const openByClick = EditorView.domEventHandlers({
  click: (event, view) => {
    const target = event.target as HTMLElement;
    if (!target.closest(".cm-lintRange, .cm-lint-marker")) return false;
    const block = view.lineBlockAtHeight(event.clientY - view.documentTop);
    const { problems, chosen } = view.state.field(problemBoxes);
    const here = problems.filter(({ from }) => from >= block.from && from <= block.to);
    const effects = here.map((one) => choose.of({ key: keyOf(one), isOpen: !isOpen(one, chosen) }));
    if (effects.length > 0) view.dispatch({ effects });
    return false;
  },
});

/** Shows these problems, and no others. */
export function showProblems(state: EditorState, problems: readonly Problem[]): TransactionSpec {
  const marks = problems.map(
    ({ from, to, severity, message, code, fix }): Mark => ({
      from,
      to,
      severity,
      message,
      source: code,
      actions: fix ? [{ name: fix.text, apply: () => fix.apply() }] : [],
    }),
  );
  const { effects } = setDiagnostics(state, marks);
  return { effects: [...((effects ?? []) as readonly StateEffect<unknown>[]), setProblems.of(problems)] };
}
