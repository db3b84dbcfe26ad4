// The rounds of both runs in rows, the same address in the same row.
import { useVirtualizer } from "@tanstack/react-virtual";
import { memo, useLayoutEffect, useMemo, useRef, useState, useSyncExternalStore, type ReactNode, type RefObject } from "react";
import { loopName } from "../../live/address";
import { isOver } from "../../api/statuses";
import { useFormats } from "../../i18n/format";
import { useMessages } from "../../i18n/messages";
import type { LoopEntry, Round, RunModel } from "../../live/run_model";
import { Icon } from "../../ui/Icon";
import { statusMessages, StatusShape } from "../../ui/Status";
import { looksLikeCode, WordDiff } from "../../ui/diff/WordDiff";
import { alignSaid, presented, textOf, type AlignedLoop, type Row, type Said } from "./align";
import { Delta } from "./ChangesPane";
import { bestOf } from "./figures";
import { Letter } from "./Letter";
import { messages } from "./messages";

export type TextMode = "diff" | "last" | "plain";

/** More rows than this are drawn only where they are seen. */
const MANY = 100;
const NARROW = "(max-width: 859px)";

function useIsNarrow(): boolean {
  return useSyncExternalStore(
    (listener) => {
      const query = matchMedia(NARROW);
      query.addEventListener("change", listener);
      return () => query.removeEventListener("change", listener);
    },
    () => matchMedia(NARROW).matches,
  );
}

type Item = { kind: "fold" } | { kind: "fork" } | { kind: "row"; row: Row; before: Row | undefined } | { kind: "result" };

interface Props {
  chart: ReactNode;
  root: RefObject<HTMLDivElement | null>;
  rows: readonly Row[];
  shared: number;
  loop: AlignedLoop;
  modelA: RunModel;
  modelB: RunModel;
  /** Changes when a model does. */
  versions: string;
  speakers: ReadonlySet<string>;
  /** The names of loops that each workflow has. */
  loops: { a: ReadonlySet<string>; b: ReadonlySet<string> };
  mode: TextMode;
  isChild: boolean;
  forked: { time: string; withWhat: string } | null;
  onLoop: (stem: string) => void;
}

export function RoundRows(props: Props) {
  const { chart, root, rows, shared, loop, modelA, modelB, versions, speakers, mode, isChild, forked } = props;
  const texts = useMessages(messages);
  const [isOpen, setOpen] = useState(false);
  const scroller = useRef<HTMLDivElement>(null);
  const list = useRef<HTMLDivElement>(null);
  const isNarrow = useIsNarrow();
  const items = useMemo(() => {
    const made: Item[] = [];
    if (shared > 0) made.push({ kind: "fold" });
    rows.forEach((row, index) => {
      if (index === shared && shared > 0 && forked !== null) made.push({ kind: "fork" });
      if (index >= shared || isOpen) made.push({ kind: "row", row, before: rows[index - 1] });
    });
    made.push({ kind: "result" });
    return made;
  }, [rows, shared, isOpen, forked === null]);
  const bestA = bestOf(loop.a);
  const bestB = bestOf(loop.b);
  const best = bestA === null || (bestB !== null && bestB.score > bestA.score) ? bestB : bestA;
  const bestSide = best === null || (bestA !== null && bestB !== null && bestA.score === bestB.score) ? null : best === bestB ? "b" : "a";
  const nodes = useMemo(() => {
    const row = rows.find((one) => !one.isShared) ?? rows[0];
    return row === undefined ? [] : [...new Set(alignSaid(row, modelA, modelB, speakers).map((said) => said.nodeId))];
  }, [rows, modelA, modelB, speakers, versions]);

  const draw = (item: Item) => {
    switch (item.kind) {
      case "fold":
        return <Fold rows={rows} shared={shared} isOpen={isOpen} onToggle={() => setOpen(!isOpen)} />;
      case "fork":
        return (
          <div className="compare-forked">
            <Icon name="fork" />
            <p>
              {forked === null ? "" : texts.forkedHere(forked.time)} <span className="dim">{forked?.withWhat}</span>
            </p>
          </div>
        );
      case "row":
        return (
          <RoundRow
            {...item}
            loop={loop}
            modelA={modelA}
            modelB={modelB}
            // A round that runs changes inside: its text grows.
            version={isSettled(item.row) ? "" : versions}
            speakers={speakers}
            loops={props.loops}
            mode={item.row.isShared && mode === "diff" ? "plain" : mode}
            best={bestSide !== null && best?.round === item.row.number && !item.row.isShared ? bestSide : null}
            onLoop={props.onLoop}
          />
        );
      case "result":
        return <ResultRow loop={loop} modelA={modelA} modelB={modelB} mode={mode} />;
    }
  };
  const key = (item: Item) => (item.kind === "row" ? `row ${item.row.number}` : item.kind);
  return (
    <div className="compare-rows" ref={scroller}>
      {chart}
      <div className="compare-columns" aria-hidden="true">
        <span>{loop.stem === "" ? "" : texts.round}</span>
        <span>
          <Letter of="a" /> <strong>{isChild ? texts.parent : texts.runA}</strong>{" "}
          <span className="dim ellipsis">{texts.then(nodes)}</span>
        </span>
        <span>
          <Letter of="b" /> <strong>{isChild ? texts.fork : texts.runB}</strong>
        </span>
        <span>{texts.score}</span>
      </div>
      <div ref={list}>
        {items.length > MANY ? (
          <Windowed items={items} draw={draw} itemKey={key} scroller={isNarrow ? root : scroller} list={list} />
        ) : (
          items.map((item) => <div key={key(item)}>{draw(item)}</div>)
        )}
      </div>
    </div>
  );
}

function isSettled(row: Row): boolean {
  return row.address !== "" && !row.a?.isOpen && !row.b?.isOpen;
}

function Windowed({
  items,
  draw,
  itemKey,
  scroller,
  list,
}: {
  items: readonly Item[];
  draw: (item: Item) => ReactNode;
  itemKey: (item: Item) => string;
  scroller: RefObject<HTMLDivElement | null>;
  list: RefObject<HTMLDivElement | null>;
}) {
  const [margin, setMargin] = useState(0);
  // What is above the list, such as the chart, scrolls with it.
  useLayoutEffect(() => {
    const [inner, outer] = [list.current, scroller.current];
    if (inner === null || outer === null) return;
    setMargin(inner.getBoundingClientRect().top - outer.getBoundingClientRect().top + outer.scrollTop);
  }, [list, scroller]);
  const rows = useVirtualizer({
    count: items.length,
    getScrollElement: () => scroller.current,
    estimateSize: (index) => (items[index]?.kind === "row" ? 84 : 40),
    getItemKey: (index) => itemKey(items[index]!),
    overscan: 6,
    scrollMargin: margin,
  });
  return (
    <div className="compare-window" style={{ height: rows.getTotalSize() }}>
      {rows.getVirtualItems().map((one) => (
        <div
          key={one.key}
          ref={rows.measureElement}
          data-index={one.index}
          style={{ transform: `translateY(${one.start - rows.options.scrollMargin}px)` }}
        >
          {draw(items[one.index]!)}
        </div>
      ))}
    </div>
  );
}

function Fold({ rows, shared, isOpen, onToggle }: { rows: readonly Row[]; shared: number; isOpen: boolean; onToggle: () => void }) {
  const texts = useMessages(messages);
  const formats = useFormats();
  const from = rows[0]?.number ?? 1;
  const to = rows[shared - 1]?.number ?? from;
  const scores = rows.slice(0, shared).map((row) => row.a?.score ?? null);
  const known = scores.filter((score) => score !== null);
  const shown = known.slice(-12).map((score) => formats.decimal(score));
  if (known.length > shown.length) shown.unshift("…");
  return (
    <button type="button" className="compare-fold" aria-expanded={isOpen} onClick={onToggle}>
      <Icon name={isOpen ? "down" : "right"} size={14} />
      <span>
        <strong>{texts.sameRounds(from, to)}</strong> <span className="dim">{texts.sameRoundsRest(from, to)}</span>
      </span>
      <span className="dim compare-fold-scores">{shown.join(" · ")}</span>
    </button>
  );
}

interface RowProps {
  row: Row;
  before: Row | undefined;
  loop: AlignedLoop;
  modelA: RunModel;
  modelB: RunModel;
  version: string;
  speakers: ReadonlySet<string>;
  loops: Props["loops"];
  mode: TextMode;
  best: "a" | "b" | null;
  onLoop: (stem: string) => void;
}

const RoundRow = memo(function RoundRow({ row, before, loop, modelA, modelB, version, speakers, loops, mode, best, onLoop }: RowProps) {
  const texts = useMessages(messages);
  const formats = useFormats();
  const said = useMemo(
    () => alignSaid(row, modelA, modelB, speakers),
    [row, modelA, modelB, speakers, version],
  );
  const earlier = useMemo(
    () => (before === undefined || mode !== "last" ? [] : alignSaid(before, modelA, modelB, speakers)),
    [before, mode, modelA, modelB, speakers, version],
  );
  const scores = [row.a?.score ?? null, row.b?.score ?? null];
  const inner = [...new Set([...(row.a?.inner ?? []), ...(row.b?.inner ?? [])])];
  const side = (which: "a" | "b") => {
    const model = which === "a" ? modelA : modelB;
    const exists = row.address === "" ? said.some((one) => one[which] !== undefined) : row[which] !== undefined;
    if (!exists) return <Missing entry={loop[which]} model={model} isOutside={row.address === ""} isKnown={loops[which].has(loop.loop)} />;
    return (
      <SaidTexts
        said={said}
        earlier={earlier}
        which={which}
        mode={mode}
        round={row[which]}
        isBest={best === which}
        hasNames={said.length > 2}
      />
    );
  };
  return (
    <article
      className={row.isShared ? "compare-row compare-row-shared" : "compare-row"}
      aria-label={row.address || texts.outside}
    >
      <h3 title={row.address}>{row.number || ""}</h3>
      <div className="compare-cell compare-cell-a">{side("a")}</div>
      <div className="compare-cell compare-cell-b">
        {row.isShared ? <p className="dim small">{texts.sharedRound}</p> : side("b")}
      </div>
      <div className="compare-score">
        {row.isShared ? (
          <span className="dim">{scores[0] === null ? "" : formats.decimal(scores[0] ?? 0)}</span>
        ) : (
          <Delta
            value={scores[0] === null || scores[1] === null ? null : (scores[1] ?? 0) - (scores[0] ?? 0)}
            show={(value) => formats.decimal(value)}
            isMoreBetter
          />
        )}
      </div>
      {inner.map((stem) => (
        <p key={stem} className="compare-inner">
          <button type="button" onClick={() => onLoop(stem)}>
            <Icon name="loop" size={14} />
            {texts.insideRounds(
              loopName(stem),
              modelA.loops.get(stem)?.rounds.length ?? 0,
              modelB.loops.get(stem)?.rounds.length ?? 0,
            )}
          </button>
        </p>
      ))}
    </article>
  );
});

function SaidTexts({
  said,
  earlier,
  which,
  mode,
  round,
  isBest,
  hasNames,
}: {
  said: readonly Said[];
  earlier: readonly Said[];
  which: "a" | "b";
  mode: TextMode;
  round: Round | undefined;
  isBest: boolean;
  hasNames: boolean;
}) {
  const texts = useMessages(messages);
  const formats = useFormats();
  const own = said.filter((one) => one[which] !== undefined);
  const scored = own.some((one) => presented(textOf(one[which])).score !== null);
  const badge = isBest && (
    <span className="compare-best">
      <Icon name="star" size={13} />
      {texts.bestOfBoth}
    </span>
  );
  return (
    <>
      {own.map((one) => {
        const shown = presented(textOf(one[which]));
        const name = (
          <span className={hasNames ? "compare-node" : "hidden-text"}>
            {one.nodeId}
          </span>
        );
        if (one[which]?.status === "failed") {
          return (
            <p key={one.address} className="compare-failed">
              {name} <StatusShape status="failed" size={14} /> {shown.text}
            </p>
          );
        }
        if (shown.score !== null) {
          return (
            <p key={one.address} className="compare-note-line">
              {name} <strong>{formats.decimal(shown.score)}</strong> <span>{shown.text}</span> {badge}
            </p>
          );
        }
        return (
          <div key={one.address} className="compare-text">
            {name}
            <Shown text={shown.text} before={textBefore(one, earlier, which, mode)} />
          </div>
        );
      })}
      {own.length === 0 && <p className="dim small">{texts.noText}</p>}
      {!scored && round !== undefined && round.score !== null && (
        <p className="compare-note-line">
          <strong>{formats.decimal(round.score)}</strong> {badge}
        </p>
      )}
    </>
  );
}

/** The text to compare with; undefined to show the text as it is. */
function textBefore(one: Said, earlier: readonly Said[], which: "a" | "b", mode: TextMode): string | undefined {
  // A text that is still written would lose all words that are to come.
  if (mode === "plain" || one[which]?.ended === null) return undefined;
  if (mode === "diff") {
    if (which === "a" || one.a === undefined || one.a.status === "failed") return undefined;
    return presented(textOf(one.a)).text;
  }
  const last = earlier.find((other) => other.nodeId === one.nodeId)?.[which];
  return last === undefined ? undefined : presented(textOf(last)).text;
}

function Shown({ text, before }: { text: string; before: string | undefined }) {
  const texts = useMessages(messages);
  const isCode = looksLikeCode(text);
  if (!text) return <p className="dim small">{texts.noText}</p>;
  if (before === undefined || before === "") return <p className={isCode ? "compare-plain mono" : "compare-plain"}>{text}</p>;
  if (before === text) {
    return (
      <p className={isCode ? "compare-plain mono" : "compare-plain"}>
        {text} <span className="dim small">({texts.sameText})</span>
      </p>
    );
  }
  return <WordDiff before={before} after={text} kind={isCode ? "lines" : "words"} />;
}

/** Why a run has no such round. */
function Missing({
  entry,
  model,
  isOutside,
  isKnown,
}: {
  entry: LoopEntry | undefined;
  model: RunModel;
  isOutside: boolean;
  isKnown: boolean;
}) {
  const texts = useMessages(messages);
  const statuses = useMessages(statusMessages);
  if (entry?.exit) {
    return (
      <>
        <p className="compare-left">
          <StatusShape status="completed" size={15} />
          {texts.leftAfter(entry.rounds.length)}
        </p>
        <p className="dim small">{entry.exit.reason}</p>
      </>
    );
  }
  if (!isOutside && entry === undefined && !isKnown) return <p className="dim">{texts.noSuchLoop}</p>;
  if (!isOver(model.status)) return <p className="dim">{texts.notReached}</p>;
  if (entry === undefined && !isOutside) return <p className="dim">{texts.notEntered}</p>;
  return <p className="dim">{texts.endedBefore(statuses[model.status])}</p>;
}

function ResultRow({ loop, modelA, modelB, mode }: { loop: AlignedLoop; modelA: RunModel; modelB: RunModel; mode: TextMode }) {
  const texts = useMessages(messages);
  const formats = useFormats();
  const scoreOf = (model: RunModel, entry: LoopEntry | undefined) => {
    const own = presented(model.output).score;
    return own ?? roundOfResult(model, entry)?.score ?? null;
  };
  const scores = [scoreOf(modelA, loop.a), scoreOf(modelB, loop.b)];
  const side = (model: RunModel, other: RunModel | null, entry: LoopEntry | undefined, score: number | null) => {
    const text = presented(model.output).text || model.output;
    const round = roundOfResult(model, entry);
    const facts = [round === undefined ? "" : texts.fromRound(round.number), entry?.exit?.reason ?? ""].filter(Boolean);
    return (
      <>
        {model.error ? (
          <p className="compare-failed">
            <StatusShape status="failed" size={14} /> {model.error}
          </p>
        ) : text ? (
          <div className="compare-text compare-result-text">
            <Shown text={text} before={other === null ? undefined : presented(other.output).text} />
          </div>
        ) : (
          <p className="dim">{texts.noResult}</p>
        )}
        <p className="compare-note-line">
          {score !== null && <strong>{formats.decimal(score)}</strong>} <span className="dim">{facts.join(", ")}</span>
        </p>
      </>
    );
  };
  return (
    <article className="compare-row compare-result" aria-label={texts.result}>
      <h3>{texts.result}</h3>
      <div className="compare-cell compare-cell-a">{side(modelA, null, loop.a, scores[0] ?? null)}</div>
      <div className="compare-cell compare-cell-b">{side(modelB, mode === "diff" ? modelA : null, loop.b, scores[1] ?? null)}</div>
      <div className="compare-score">
        <Delta
          value={scores[0] === null || scores[1] === null ? null : (scores[1] ?? 0) - (scores[0] ?? 0)}
          show={(value) => formats.decimal(value)}
          isMoreBetter
        />
      </div>
    </article>
  );
}

/** The last round in which some node returned what the run returned. */
function roundOfResult(model: RunModel, entry: LoopEntry | undefined): Round | undefined {
  if (!model.output) return undefined;
  return entry?.rounds.findLast((round) =>
    round.executions.some((address) => model.executions.get(address)?.output === model.output),
  );
}
