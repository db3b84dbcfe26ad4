// The lines of the items that are selected, in the text.
import { RangeSetBuilder, StateEffect, StateField, type EditorState } from "@codemirror/state";
import { Decoration, EditorView, type DecorationSet } from "@codemirror/view";
import type { Target, WorkflowDocument } from "../../../document/model";
import { linesOf } from "../../../document/read";

export interface Lines {
  first: number;
  last: number;
}

export const showLines = StateEffect.define<readonly Lines[]>();

const line = Decoration.line({ class: "yaml-selected" });

function decorate(state: EditorState, all: readonly Lines[]): DecorationSet {
  const builder = new RangeSetBuilder<Decoration>();
  const numbers = new Set<number>();
  for (const { first, last } of all) for (let at = first; at <= Math.min(last, state.doc.lines); at++) numbers.add(at);
  for (const number of [...numbers].sort((one, other) => one - other)) {
    const { from } = state.doc.line(number);
    builder.add(from, from, line);
  }
  return builder.finish();
}

export const selectedLines = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update(lines, transaction) {
    let next = lines.map(transaction.changes);
    for (const effect of transaction.effects) if (effect.is(showLines)) next = decorate(transaction.state, effect.value);
    return next;
  },
  provide: (field) => EditorView.decorations.from(field),
});

/** The lines of nodes and edges; a graph or the whole workflow is not marked. */
export function linesOfSelection(document: WorkflowDocument, selection: readonly Target[]): Lines[] {
  return selection
    .filter((target) => target.kind === "node" || target.kind === "edge")
    .flatMap((target) => linesOf(document, target) ?? []);
}
