// Texts with carriage returns keep them. They are characters of their lines here, which nobody sees, and what is typed
// gets them as well.
import { EditorState, RangeSet, RangeSetBuilder, RangeValue, type ChangeSpec, type Extension, type Text } from "@codemirror/state";
import { Decoration, EditorView, MatchDecorator, ViewPlugin, type DecorationSet, type ViewUpdate } from "@codemirror/view";

const hasReturns = (doc: Text) => doc.lines > 1 && doc.line(1).text.endsWith("\r");

/** Completes line breaks that were typed or pasted, and moves what was typed behind a return to its front. */
const complete = EditorState.transactionFilter.of((transaction) => {
  const isTyped = transaction.isUserEvent("input") || transaction.isUserEvent("delete") || transaction.isUserEvent("move");
  if (!transaction.docChanged || !isTyped || transaction.isUserEvent("input.canvas") || !hasReturns(transaction.startState.doc)) {
    return transaction;
  }
  const before = transaction.startState.doc;
  const now = transaction.newDoc;
  const fixes: ChangeSpec[] = [];
  transaction.changes.iterChangedRanges((_from, toBefore, from, to) => {
    const first = Math.max(0, from - 1);
    const text = now.sliceString(Math.max(0, first - 1), Math.min(now.length, to + 1));
    const start = Math.max(0, first - 1);
    const hadReturn = toBefore > 0 && before.sliceString(toBefore - 1, toBefore) === "\r";
    for (let at = first; at < Math.min(now.length, to + 1); at++) {
      const sign = text[at - start];
      const isInside = at >= from && at < to;
      if (sign === "\r" && (now.sliceString(at + 1, at + 2) || "") !== "\n") {
        fixes.push({ from: at, to: at + 1 });
      } else if (sign === "\n" && text[at - start - 1] !== "\r" && (isInside || hadReturn)) {
        fixes.push({ from: at, insert: "\r" });
      }
    }
  });
  return fixes.length > 0 ? [transaction, { changes: fixes, sequential: true }] : transaction;
});

const decorator = new MatchDecorator({ regexp: /\r$/g, decoration: Decoration.replace({}) });

const hidden = ViewPlugin.fromClass(
  class {
    decorations: DecorationSet;
    constructor(view: EditorView) {
      this.decorations = decorator.createDeco(view);
    }
    update(update: ViewUpdate) {
      this.decorations = decorator.updateDeco(update, this.decorations);
    }
  },
  { decorations: (plugin) => plugin.decorations },
);

class Pair extends RangeValue {}
const pair = new Pair();

/** A return and its line feed are one step for the cursor. */
const steps = EditorView.atomicRanges.of((view) => {
  if (!hasReturns(view.state.doc)) return RangeSet.empty;
  const builder = new RangeSetBuilder<RangeValue>();
  for (const { from, to } of view.visibleRanges) {
    for (let line = view.state.doc.lineAt(from); ; line = view.state.doc.line(line.number + 1)) {
      const isLast = line.number === view.state.doc.lines;
      if (line.text.endsWith("\r") && !isLast) builder.add(line.to - 1, line.to + 1, pair);
      if (isLast || line.to >= to) break;
    }
  }
  return builder.finish();
});

export const lineEndings: Extension = [complete, hidden, steps];
