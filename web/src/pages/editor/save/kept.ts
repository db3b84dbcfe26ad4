// Text that is not saved yet, kept in the browser: a crash, a reload or the back button loses nothing.
import { isUnsaved, type EditorStore, type Saved } from "../store";

export interface Kept {
  text: string;
  /** The version that was changed; 0 for a new workflow. */
  version: number;
  /** Milliseconds since 1970. */
  time: number;
}

const KEEP_AFTER = 400;

const keyOf = (saved: Saved | null) => `roundel.unsaved/${saved?.group ?? ""}/${saved?.name ?? ""}`;

/** What was kept for a workflow, if it is not what is saved. */
export function readKept(saved: Saved | null): Kept | null {
  try {
    const found = JSON.parse(localStorage.getItem(keyOf(saved)) ?? "null") as Partial<Kept> | null;
    if (typeof found?.text !== "string" || typeof found.version !== "number" || typeof found.time !== "number") return null;
    return found.text === (saved?.text ?? "") ? null : (found as Kept);
  } catch {
    return null;
  }
}

export function dropKept(saved: Saved | null): void {
  try {
    localStorage.removeItem(keyOf(saved));
  } catch {
    // Storage is blocked, so nothing was kept.
  }
}

function keep(saved: Saved | null, text: string): void {
  try {
    localStorage.setItem(keyOf(saved), JSON.stringify({ text, version: saved?.version ?? 0, time: Date.now() } satisfies Kept));
  } catch {
    // Storage is full or blocked; the page still asks before it is left.
  }
}

/** Keeps what is typed until it is saved. Returns what stops it. */
export function keepText(store: EditorStore): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let isPending = false;
  const write = () => {
    clearTimeout(timer);
    if (!isPending) return;
    isPending = false;
    const { saved, text } = store.getState();
    if (isUnsaved({ saved, text })) keep(saved, text);
    else dropKept(saved);
  };
  const stop = store.subscribe((now, before) => {
    if (now.saved !== before.saved) dropKept(before.saved);
    if (now.text === before.text && now.saved === before.saved) return;
    isPending = true;
    clearTimeout(timer);
    timer = setTimeout(write, KEEP_AFTER);
  });
  addEventListener("pagehide", write);
  return () => {
    stop();
    write();
    removeEventListener("pagehide", write);
  };
}
