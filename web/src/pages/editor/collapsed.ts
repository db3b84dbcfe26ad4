// The nodes with graphs inside that are shown as single cards. It is a setting of the view, so the browser keeps it
// for each workflow, and the text does not have it. The keys are those of the drawing.
import { keep, readKept } from "../../ui/kept";
import type { Saved } from "./store";

/** The server takes no more. */
const MOST = 1000;

const keyOf = ({ group, name }: Saved) => `roundel.collapsed/${group}/${name}`;

export function readCollapsed(saved: Saved | null): readonly string[] {
  try {
    const found = JSON.parse((saved && readKept("browser", keyOf(saved))) ?? "[]") as unknown;
    return Array.isArray(found) ? found.filter((key): key is string => typeof key === "string").slice(-MOST) : [];
  } catch {
    // Somebody has edited the storage by hand.
    return [];
  }
}

export function keepCollapsed(saved: Saved | null, keys: readonly string[]): void {
  if (saved) keep("browser", keyOf(saved), keys.length ? JSON.stringify(keys) : null);
}

/** Collapses some nodes and opens others. */
export function withCollapsed(keys: readonly string[], closed: readonly string[], opened: readonly string[] = []): readonly string[] {
  return [...keys.filter((key) => !closed.includes(key) && !opened.includes(key)), ...closed].slice(-MOST);
}

export const isInside = (key: string, outer: string) => key.startsWith(`${outer}/`);

/** All nodes around some others are open. */
export function opened(keys: readonly string[], inner: readonly string[]): readonly string[] {
  return keys.filter((key) => !inner.some((one) => isInside(one, key)));
}

/** A node has another key, and so has all that is inside it. */
export function renamed(keys: readonly string[], from: string, to: string): readonly string[] {
  return keys.map((key) => (key === from || isInside(key, from) ? to + key.slice(from.length) : key));
}
