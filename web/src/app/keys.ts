// Keys. A page says which keys it has while it is shown; `?` lists them all. Single keys can be turned off,
// since they get in the way of speech input.
import { useLayoutEffect, useRef } from "react";
import { create } from "zustand";
import { keep, readKept } from "../ui/kept";

export interface KeyAction {
  /** As shown: `N`, `Shift S`, `Ctrl K`, `←`, `[`. */
  keys: string;
  text: string;
  action: () => void;
}

const STORED = "roundel.singleKeys";

interface KeyState {
  actions: readonly KeyAction[];
  areSingleKeysOn: boolean;
  turnSingleKeys: (on: boolean) => void;
}

export const useKeyState = create<KeyState>((set) => ({
  actions: [],
  areSingleKeysOn: readKept("browser", STORED) !== "off",
  turnSingleKeys: (on) => {
    keep("browser", STORED, on ? "on" : "off");
    set({ areSingleKeysOn: on });
  },
}));

const ARROWS: Record<string, string> = {
  ArrowLeft: "←",
  ArrowRight: "→",
  ArrowUp: "↑",
  ArrowDown: "↓",
  Enter: "Enter",
  Escape: "Escape",
};

/** How a key press is written in `KeyAction.keys`. */
export function keyName(event: KeyboardEvent): string {
  const name = ARROWS[event.key] ?? (event.key.length === 1 ? event.key.toUpperCase() : event.key);
  const ctrl = event.ctrlKey || event.metaKey ? "Ctrl " : "";
  // `?` and `[` need Shift on some keyboards; only letters and named keys say so.
  const shift = event.shiftKey && (name.length > 1 || /[A-Z←→↑↓]/.test(name)) ? "Shift " : "";
  return ctrl + shift + name;
}

function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (target.isContentEditable || target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement) return true;
  return target instanceof HTMLInputElement && !["checkbox", "radio", "button", "range"].includes(target.type);
}

/** Whether an arrow key already means something where the focus is: it chooses, or it scrolls. */
function usesArrows(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (target instanceof HTMLInputElement) return target.type === "radio" || target.type === "range";
  if (target.closest('[role="radio"], [role="slider"], [role="menuitem"]') !== null) return true;
  const isControl = target instanceof HTMLButtonElement || target instanceof HTMLAnchorElement;
  const isLarger = target.scrollHeight > target.clientHeight || target.scrollWidth > target.clientWidth;
  return !isControl && target.tabIndex >= 0 && isLarger;
}

addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.altKey || event.isComposing) return;
  const { actions, areSingleKeysOn } = useKeyState.getState();
  const name = keyName(event);
  const isSingle = !name.startsWith("Ctrl ");
  if (isSingle && (isTyping(event.target) || !areSingleKeysOn)) return;
  if (document.querySelector("dialog[open]") && isSingle) return;
  if (event.key.startsWith("Arrow") && usesArrows(event.target)) return;
  // The newest first: what was opened last takes the key.
  const found = actions.findLast((action) => action.keys === name);
  if (found === undefined) return;
  event.preventDefault();
  found.action();
});

/** The keys of a component, while it is shown. */
export function useKeys(actions: readonly KeyAction[]): void {
  const current = useRef(actions);
  current.current = actions;
  const names = actions.map((action) => `${action.keys} ${action.text}`).join("\n");
  // With the page itself: a key that is pressed as soon as a page is there must not be lost.
  useLayoutEffect(() => {
    const own = current.current.map((action, index) => ({
      ...action,
      action: () => current.current[index]?.action(),
    }));
    useKeyState.setState((state) => ({ actions: [...state.actions, ...own] }));
    return () => {
      useKeyState.setState((state) => ({ actions: state.actions.filter((action) => !own.includes(action)) }));
    };
  }, [names]);
}
