// Links at the top of the page that lead past what comes before; Tab reaches them first.
import { useEffect, useRef } from "react";
import { create } from "zustand";
import { useMessages } from "../i18n/messages";
import { messages } from "./messages";

interface Skip {
  text: string;
  go: () => void;
}

const useSkips = create<{ skips: readonly Skip[] }>(() => ({ skips: [] }));

/** Another place that can be skipped to while a component is shown; null for none. */
export function useSkip(text: string | null, go: () => void): void {
  const current = useRef(go);
  current.current = go;
  useEffect(() => {
    if (text === null) return;
    const own = { text, go: () => current.current() };
    useSkips.setState(({ skips }) => ({ skips: [...skips, own] }));
    return () => useSkips.setState(({ skips }) => ({ skips: skips.filter((one) => one !== own) }));
  }, [text]);
}

/** Buttons, and no links: the fragment of the URL is the address that is selected in a run. */
export function SkipLinks() {
  const texts = useMessages(messages);
  const skips = useSkips((state) => state.skips);
  return (
    <nav aria-label={texts.skips} className="skips">
      <button type="button" className="skip" onClick={() => document.getElementById("content")?.focus()}>
        {texts.skip}
      </button>
      {skips.map(({ text, go }) => (
        <button key={text} type="button" className="skip" onClick={go}>
          {text}
        </button>
      ))}
    </nav>
  );
}
