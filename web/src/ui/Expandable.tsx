// Long texts: the beginning, and a button for the rest.
import { useState, type ReactNode } from "react";
import { catalogue, useMessages } from "../i18n/messages";
import "./expandable.css";

const messages = catalogue(
  {
    all: (lines: number, size: string) => `Show all ${lines} lines, ${size}`,
    allText: (size: string) => `Show all, ${size}`,
    more: (lines: number, size: string) => `${lines} more ${lines === 1 ? "line" : "lines"}, ${size}`,
    less: "Show less",
  },
  {
    all: (lines: number, size: string) => `显示全部 ${lines} 行，${size}`,
    allText: (size: string) => `显示全部，${size}`,
    more: (lines: number, size: string) => `还有 ${lines} 行，${size}`,
    less: "收起",
  },
);

/** 840 B, 1.2 kB, 3.4 MB */
export function sizeText(text: string): string {
  const bytes = new TextEncoder().encode(text).length;
  if (bytes < 1000) return `${bytes} B`;
  if (bytes < 1_000_000) return `${(bytes / 1000).toFixed(1)} kB`;
  return `${(bytes / 1_000_000).toFixed(1)} MB`;
}

/** So many characters count as one line: a text without line breaks can be long as well. */
const WIDTH = 120;

export interface Cut {
  /** The beginning, which is shown. */
  head: string;
  /** How many lines are left out; 0 if the text is shown completely, or has no further line breaks. */
  lines: number;
  isCut: boolean;
}

/** The first lines of a text. A rest of one line is not worth a button. */
export function cutText(text: string, most: number): Cut {
  let at = 0;
  let shown = 0;
  let room = most;
  while (at < text.length && room > 0) {
    const end = text.indexOf("\n", at);
    const next = end < 0 ? text.length : end;
    const rows = Math.max(1, Math.ceil((next - at) / WIDTH));
    if (rows > room) {
      at += room * WIDTH;
      room = 0;
      // Not between the two halves of one character.
      const code = text.charCodeAt(at);
      if (code >= 0xdc00 && code <= 0xdfff) at++;
      break;
    }
    room -= rows;
    shown++;
    at = next + 1;
  }
  const rest = text.slice(at);
  if (rest.length <= WIDTH && !rest.trim().includes("\n")) return { head: text, lines: 0, isCut: false };
  const total = text.split("\n").length;
  return { head: text.slice(0, at).replace(/\n$/, ""), lines: total - shown, isCut: true };
}

/** A text that is shown up to so many lines. `isOpen` begins with all of it. */
export function ExpandableText({
  text,
  lines = 24,
  isOpen: isOpenAtFirst = false,
  says = "all",
  className = "",
}: {
  text: string;
  lines?: number;
  isOpen?: boolean;
  /** Whether the button names all lines, or those that are left out. */
  says?: "all" | "more";
  className?: string;
}) {
  const texts = useMessages(messages);
  const [isOpen, setOpen] = useState(isOpenAtFirst);
  const cut = cutText(text, lines);
  const left = text.slice(cut.head.length);
  const total = text.split("\n").length;
  return (
    <>
      <div className={`expandable-text ${className}`}>{isOpen ? text : cut.head}</div>
      {cut.isCut && (
        <button type="button" className="expandable-more" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          {isOpen
            ? texts.less
            : says === "more" && cut.lines
              ? texts.more(cut.lines, sizeText(left))
              : total > 1
                ? texts.all(total, sizeText(text))
                : texts.allText(sizeText(text))}
        </button>
      )}
    </>
  );
}

/** Content that is cut by height if `text`, which it shows in some form, is long. */
export function Expandable({
  text,
  lines = 24,
  isOpen: isOpenAtFirst = false,
  children,
}: {
  text: string;
  lines?: number;
  isOpen?: boolean;
  children: ReactNode;
}) {
  const texts = useMessages(messages);
  const [isOpen, setOpen] = useState(isOpenAtFirst);
  if (!cutText(text, lines).isCut) return children;
  return (
    <>
      <div className={isOpen ? undefined : "expandable-cut"} style={isOpen ? undefined : { maxHeight: lines * 20 }}>
        {children}
      </div>
      <button type="button" className="expandable-more" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        {isOpen ? texts.less : texts.all(text.split("\n").length, sizeText(text))}
      </button>
    </>
  );
}
