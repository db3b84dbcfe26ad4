// Two texts in one: removed words are struck out, added ones are marked.
import { Fragment, useMemo, useState } from "react";
import { useMessages } from "../../i18n/messages";
import { messages } from "./messages";
import { lineDiff, wordDiff, type DiffLine, type DiffPart } from "./words";
import "./diff.css";

export { countWords, lineDiff, looksLikeCode, wordDiff, type DiffLine, type DiffPart } from "./words";

/** How many equal lines stay before and after a change. */
const AROUND = 3;

export function WordDiff({
  before,
  after,
  kind = "words",
}: {
  before: string;
  after: string;
  kind?: "words" | "lines";
}) {
  const texts = useMessages(messages);
  if (before === after) {
    return (
      <>
        <p className="diff-same">{texts.same}</p>
        <div className={`diff diff-${kind}`}>{after}</div>
      </>
    );
  }
  return kind === "lines" ? <Lines before={before} after={after} /> : <Words before={before} after={after} />;
}

function Words({ before, after }: { before: string; after: string }) {
  const parts = useMemo(() => wordDiff(before, after), [before, after]);
  return (
    <div className="diff diff-words">
      <Parts parts={parts} />
    </div>
  );
}

function Parts({ parts }: { parts: readonly DiffPart[] }) {
  return parts.map((part, index) => {
    if (part.kind === "added") return <ins key={index}>{part.text}</ins>;
    if (part.kind === "removed") return <del key={index}>{part.text}</del>;
    return <Fragment key={index}>{part.text}</Fragment>;
  });
}

interface Stretch {
  isFolded: boolean;
  lines: readonly DiffLine[];
}

/** Long stretches of equal lines are folded, except for some around each change. */
export function stretches(lines: readonly DiffLine[]): Stretch[] {
  const isNear = lines.map(() => false);
  lines.forEach((line, index) => {
    if (line.kind === "equal") return;
    for (let near = index - AROUND; near <= index + AROUND; near++) if (near in isNear) isNear[near] = true;
  });
  const result: { isFolded: boolean; lines: DiffLine[] }[] = [];
  lines.forEach((line, index) => {
    const isFolded = !isNear[index];
    const last = result.at(-1);
    if (last?.isFolded === isFolded) last.lines.push(line);
    else result.push({ isFolded, lines: [line] });
  });
  // A fold takes a line itself: a short one would hide without saving room.
  return result.map((one) => ({ ...one, isFolded: one.isFolded && one.lines.length > 4 }));
}

function Lines({ before, after }: { before: string; after: string }) {
  const parts = useMemo(() => stretches(lineDiff(before, after)), [before, after]);
  return (
    <div className="diff diff-lines">
      {parts.map((part, index) => (part.isFolded ? <Fold key={index} lines={part.lines} /> : <Rows key={index} lines={part.lines} />))}
    </div>
  );
}

function Rows({ lines }: { lines: readonly DiffLine[] }) {
  return lines.map((line, index) => (
    <div key={index} className={`diff-line diff-line-${line.kind}`}>
      {line.kind === "changed" ? (
        <Parts parts={line.parts} />
      ) : line.kind === "added" ? (
        <ins>{line.parts[0]?.text || "\n"}</ins>
      ) : line.kind === "removed" ? (
        <del>{line.parts[0]?.text || "\n"}</del>
      ) : (
        line.parts[0]?.text || "\n"
      )}
    </div>
  ));
}

function Fold({ lines }: { lines: readonly DiffLine[] }) {
  const texts = useMessages(messages);
  const [isOpen, setOpen] = useState(false);
  if (isOpen) return <Rows lines={lines} />;
  return (
    <button type="button" className="diff-fold" aria-expanded={false} onClick={() => setOpen(true)}>
      {texts.equalLines(lines.length)}
    </button>
  );
}
