// Why the newest text is not on the canvas: the line and the error, and a click that goes there.
import { targetAt } from "../../../document/read";
import { Icon } from "../../../ui/Icon";
import { useEditor } from "../store";
import { useTools } from "./tools";

export function Broken() {
  const { texts, editor } = useTools();
  const error = useEditor((state) => state.document.errors[0]);
  const text = useEditor((state) => state.text);
  // What YAML allows may still say nothing that can be drawn; the server knows.
  const problem = useEditor((state) => {
    const { check } = state;
    if (check === null || check.drawing !== null || state.checkedText !== state.text || !state.text.trim()) return undefined;
    return check.diagnostics.find((one) => one.severity === "error");
  });
  const hasDrawing = useEditor((state) => state.drawing !== null);
  if (error === undefined && problem === undefined) return null;
  const from = error ? error.from : offsetOf(text, problem?.line ?? 0, problem?.column ?? 0);
  const line = error ? text.slice(0, error.from).split("\n").length : (problem?.line ?? 0);
  const go = () => {
    const { state, apply, document, select } = editor.getState();
    apply([state.update({ selection: { anchor: Math.min(from, state.doc.length) }, scrollIntoView: true })]);
    select([targetAt(document, from)]);
  };
  return (
    <button type="button" className="canvas-broken" onClick={go}>
      <Icon name="warning" size={14} />
      <span>
        <strong>{line ? texts.brokenAt(line) : texts.broken}</strong> {error?.message ?? problem?.message}
        {hasDrawing && <span className="canvas-broken-note">{texts.brokenOld}</span>}
      </span>
    </button>
  );
}

function offsetOf(text: string, line: number, column: number): number {
  let start = 0;
  for (let number = 1; number < line; number++) start = text.indexOf("\n", start) + 1;
  return start + Math.max(0, column - 1);
}
