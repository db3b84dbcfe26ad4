// Undo and redo from everywhere in the page. Inputs of dialogs keep their own.
import { useEffect } from "react";
import { keyName, useKeys } from "../../app/keys";
import { useMessages } from "../../i18n/messages";
import { messages } from "./messages";

const INPUTS = "input, textarea, [contenteditable]";

function isInDialog(target: EventTarget | null): boolean {
  return target instanceof Element && target.matches(INPUTS) && target.closest("dialog") !== null;
}

export function useUndoKeys(undo: () => void, redo: () => void): void {
  const texts = useMessages(messages);
  useKeys([
    { keys: "Ctrl Z", text: texts.undo, action: undo },
    { keys: "Ctrl Shift Z", text: texts.redo, action: redo },
    { keys: "Ctrl Y", text: texts.redo, action: redo },
  ]);
  useEffect(() => {
    const leave = (event: KeyboardEvent) => {
      const isOurs = ["Ctrl Z", "Ctrl Shift Z", "Ctrl Y"].includes(keyName(event));
      // Before the listener for the keys of the page, which would take the key from the input.
      if (isOurs && isInDialog(event.target)) event.stopImmediatePropagation();
    };
    document.addEventListener("keydown", leave);
    return () => document.removeEventListener("keydown", leave);
  }, []);
}
