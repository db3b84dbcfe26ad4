// The keys that canvas and outline share. They belong to what has the focus, so that text fields keep theirs.
import type { ClipboardEvent, KeyboardEvent } from "react";
import { useEditorUi } from "../ui";
import { beside } from "./dialogs";
import type { Tools } from "./tools";

export function onEditKey(event: KeyboardEvent, { commands, dialogs, editor }: Tools, goTo: (key: string) => void): void {
  const take = (action: () => void) => {
    event.preventDefault();
    action();
  };
  const key = event.key.toLowerCase();
  if (event.ctrlKey || event.metaKey) {
    if (key === "a") take(commands.selectAll);
    else if (key === "d") take(commands.duplicate);
    else if (key === "f") take(() => dialogs.find(goTo));
    else if (key === "z") take(event.shiftKey ? commands.redo : commands.undo);
    else if (key === "y") take(commands.redo);
  } else if (event.altKey) return;
  else if (event.key === "Delete" || event.key === "Backspace") take(commands.removeSelected);
  // The click that follows selects it.
  else if (event.key === "Enter") useEditorUi.getState().show("form");
  else if (event.key === "F2") take(() => dialogs.rename(commands.subject()));
  else if (event.key === "Escape" && editor.getState().selection.length) take(() => editor.getState().select([]));
  else if (event.key === "ContextMenu" || (event.shiftKey && event.key === "F10")) take(() => dialogs.menu(beside(commands.subject())));
}

/** Copy, cut and paste through the clipboard of the system, which the browser opens for these events. */
export function clipboardOf({ commands, ui }: Tools) {
  const onCopy = (event: ClipboardEvent, isCut = false) => {
    const text = commands.copyText();
    if (text === null) return;
    event.preventDefault();
    event.clipboardData.setData("text/plain", text);
    if (isCut) commands.removeSelected();
  };
  return {
    onCopy: (event: ClipboardEvent) => onCopy(event),
    onCut: (event: ClipboardEvent) => onCopy(event, true),
    onPaste: (event: ClipboardEvent) => {
      event.preventDefault();
      commands.pasteText(event.clipboardData.getData("text/plain") || ui.getState().clipboard);
    },
  };
}
