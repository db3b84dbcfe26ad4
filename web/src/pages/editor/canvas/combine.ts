// Several edits as one step: each is made from the text that the one before it leaves.
import { ChangeSet } from "@codemirror/state";
import { applied, type Change, type Edit, type WorkflowDocument } from "../../../document/model";
import { readDocument } from "../../../document/read";

export type MakeEdit = (document: WorkflowDocument) => Edit;

export function combined(document: WorkflowDocument, steps: readonly MakeEdit[]): Edit {
  let now = document;
  let changes = ChangeSet.empty(document.text.length);
  let select: Edit["select"];
  for (const step of steps) {
    const edit = step(now);
    changes = changes.compose(ChangeSet.of([...edit.changes], now.text.length, "\n"));
    select = edit.select ?? select;
    now = readDocument(applied(now.text, edit.changes));
  }
  const all: Change[] = [];
  changes.iterChanges((from, to, _from, _to, inserted) => all.push({ from, to, insert: inserted.toString() }));
  return { changes: all, select };
}
