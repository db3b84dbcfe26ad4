// Single keys of the canvas and the outline. `?` lists them; they wait while another pane has the keyboard.
import { useKeys } from "../../../app/keys";
import { useEditorUi } from "../ui";
import { useTools } from "./tools";

/** Whether a key is meant for the graph: nothing has the focus, or something of canvas, outline or palette. */
function isHere(): boolean {
  const active = document.activeElement;
  return active === null || active === document.body || active.closest(".canvas-pane, .outline-pane, .palette, .proof") !== null;
}

export function useCanvasKeys(goTo: (key: string) => void): void {
  const { texts, commands, dialogs } = useTools();
  const here = (action: () => void) => () => {
    if (isHere()) action();
  };
  const add = () => {
    const palette = document.getElementById("palette-search");
    // With nothing selected the palette is the list to choose from.
    if (!commands.subject() && palette !== null && palette.offsetParent !== null) palette.focus();
    else dialogs.add();
  };
  useKeys([
    { keys: "A", text: texts.addAfter, action: here(add) },
    { keys: "C", text: texts.connect, action: here(dialogs.connect) },
    { keys: "E", text: texts.edges, action: here(dialogs.edges) },
    { keys: "F", text: texts.fix, action: here(() => commands.fix()) },
    { keys: ".", text: texts.toggle, action: here(() => commands.toggle(commands.shownSubject())) },
    { keys: "/", text: texts.searchKey, action: here(() => dialogs.find(goTo)) },
    { keys: "F2", text: texts.rename, action: here(() => dialogs.rename(commands.subject())) },
    { keys: "Delete", text: texts.remove, action: here(commands.removeSelected) },
    { keys: "O", text: texts.outline, action: here(() => useEditorUi.getState().toggle("outline")) },
    { keys: "Shift F10", text: texts.actions, action: here(() => dialogs.menuAtCursor()) },
  ]);
}
