// A text while it is typed. It is written when the field is left, by Enter, or after a pause; Escape restores it.
import { useEffect, useRef, useState, type KeyboardEvent } from "react";

/** A pause in typing after which a text is written. */
export const WRITE_AFTER = 700;

export interface Draft {
  text: string;
  /** Whether something was typed that is not written yet. */
  isOpen: boolean;
  /** Whether it could not be written as it is. */
  isRefused: boolean;
  change: (text: string) => void;
  finish: () => void;
  restore: () => void;
  onKeyDown: (event: KeyboardEvent<HTMLElement>) => void;
}

export interface DraftOptions {
  /** Enter begins a new line; Ctrl Enter writes. */
  isLong?: boolean;
  /** A pause does not write: half a name would be another name. */
  isPatient?: boolean;
}

/**
 * `value` is what the text of the workflow says. `write` gets the typed text; it answers false if it cannot be
 * written, and the field keeps it then.
 */
export function useDraft(
  value: string,
  write: (text: string) => boolean,
  { isLong = false, isPatient = false }: DraftOptions = {},
): Draft {
  const [draft, setDraft] = useState<string | null>(null);
  const [isRefused, setRefused] = useState(false);
  const now = useRef({ draft, value, write, before: value, saved: null as string | null, isOwn: false });
  now.current.write = write;
  now.current.value = value;
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);

  const put = (text: string): boolean => {
    clearTimeout(timer.current);
    const state = now.current;
    if (text === (state.saved ?? state.value)) return true;
    if (!state.write(text)) {
      setRefused(true);
      return false;
    }
    state.saved = text;
    state.isOwn = true;
    return true;
  };
  const show = (text: string | null) => {
    setRefused(false);
    now.current.draft = text;
    setDraft(text);
  };
  const close = () => {
    now.current.saved = null;
    show(null);
  };
  const finish = () => {
    const { draft: typed } = now.current;
    if (typed !== null && put(typed)) close();
  };
  const restore = () => {
    clearTimeout(timer.current);
    const { saved, before } = now.current;
    if (saved !== null && saved !== before) now.current.write(before);
    close();
  };

  useEffect(() => {
    const state = now.current;
    // The field's own write comes back, perhaps in other words; any later change comes from elsewhere, such as undo.
    if (state.isOwn) state.isOwn = false;
    else if (state.draft !== null && state.draft === state.saved) close();
  }, [value]);
  useEffect(
    () => () => {
      // Another item was selected before the field lost the focus.
      const { draft: typed } = now.current;
      if (typed !== null) put(typed);
    },
    [],
  );

  return {
    text: draft ?? value,
    isOpen: draft !== null,
    isRefused,
    change: (text) => {
      if (now.current.draft === null) now.current.before = value;
      show(text);
      clearTimeout(timer.current);
      if (!isPatient) timer.current = setTimeout(() => put(text), WRITE_AFTER);
    },
    finish,
    restore,
    onKeyDown: (event) => {
      const isWaiting = now.current.draft !== null && now.current.draft !== now.current.saved;
      // What is not written yet, the browser takes back itself.
      if (isWaiting && (event.ctrlKey || event.metaKey) && /^[zy]$/i.test(event.key)) event.stopPropagation();
      if (event.key === "Escape" && now.current.draft !== null) {
        event.preventDefault();
        event.stopPropagation();
        restore();
      } else if (event.key === "Enter" && (!isLong || event.ctrlKey || event.metaKey)) {
        event.preventDefault();
        finish();
      }
    },
  };
}
