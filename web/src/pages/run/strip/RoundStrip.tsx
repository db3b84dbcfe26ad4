// The rounds of a run over time: timeline and chart of scores in one, with what is still possible.
//
// Live updates grow the last cell and add cells. They never change what is selected, and never scroll once
// the reader has scrolled.
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState, type KeyboardEvent, type MouseEvent } from "react";
import { useStore } from "zustand";
import { isOver } from "../../../api/statuses";
import { useKeys } from "../../../app/keys";
import { useFormats } from "../../../i18n/format";
import { useMessages } from "../../../i18n/messages";
import { parseAddress } from "../../../live/address";
import { useConnection } from "../../../live/connection";
import type { RunModel } from "../../../live/run_model";
import { Button, Segmented } from "../../../ui/Button";
import { Icon } from "../../../ui/Icon";
import { StatusShape } from "../../../ui/Status";
import { useNow } from "../../../ui/useNow";
import { newestRound, previousRound, siblings, useRunContext } from "../context";
import { useThrottled } from "../round/throttle";
import { GapView, LockMark, REST_WIDTH, RestView } from "./Blocks";
import { BandView, BarView, CellView, FoldView, LaneView, TurnsView, type Marks } from "./Cell";
import { layoutStrip, possible, share, type Brush, type Layout, type Mode, type Overview } from "./layout";
import { messages } from "./messages";
import { OVERVIEW, OverviewView } from "./Overview";
import { knownRound, roundsAtDepth, rowsOf, type Row } from "./rows";
import { readTree, type StripTree } from "./tree";
import { useNovelty } from "./useNovelty";
import "./strip.css";

const AXIS = 22;
const BAR = 22;
const BAR_STEP = 26;
const FOOT = 15;
const FUTURE = 132;
const NARROW = 720;
/** The least time between two drawings of new events, in milliseconds. */
const PACE_MS = 200;
/** Above this number of rounds cells are even by default. */
const MANY = 60;
const LANE = 20;
const THIN_LANE = 12;

/** The present, once a second while something changes with it; it stands still without a connection. */
function useTrueNow(isOn: boolean): number {
  const isConnected = useConnection((connection) => connection.state !== "reconnecting");
  return useNow(1000, isOn && isConnected);
}

function useWidth(): [(element: HTMLElement | null) => void, number] {
  const [width, setWidth] = useState(0);
  const observer = useRef<ResizeObserver | null>(null);
  const attach = useCallback((element: HTMLElement | null) => {
    observer.current?.disconnect();
    if (element === null) return;
    setWidth(element.clientWidth);
    observer.current = new ResizeObserver(() => setWidth(element.clientWidth));
    observer.current.observe(element);
  }, []);
  return [attach, width];
}

interface Heights {
  axis: number;
  leafTop: number;
  leaf: number;
  body: number;
  lane: number;
}

function heightsOf(tree: StripTree, layout: Layout): Heights {
  const hasOverview = layout.overview !== null;
  const axis = hasOverview ? OVERVIEW.labels + OVERVIEW.chart + OVERVIEW.joint : tree.depths === 1 ? AXIS + 8 : AXIS;
  const leafTop = axis + (tree.depths - 1) * BAR_STEP;
  const lane = layout.laneCount > 8 ? THIN_LANE : LANE;
  let leaf = tree.depths > 1 ? 48 : hasOverview ? 60 : 66;
  if (layout.laneCount) leaf = Math.max(leaf, layout.laneCount * (lane + 3) + 30);
  if (layout.cells.some((cell) => cell.kind === "debate")) leaf = Math.max(leaf, 26 + tree.speakers.length * 21);
  return { axis, leafTop, leaf, lane, body: leafTop + leaf + FOOT + (hasOverview ? 6 : 0) };
}

export function RoundStrip() {
  const { runId, store, plan, selected, select, other, compareWith } = useRunContext();
  const texts = useMessages(messages);
  const formats = useFormats();
  const { model } = store.getState();
  // Thousands of events a second would change hundreds of cells with each frame. Text that streams in has no
  // number, and changes nothing here.
  const seq = useThrottled(store, runId, (state) => state.seq, PACE_MS);
  const isLoaded = useStore(store, (state) => state.isLoaded);
  const over = isOver(model.status);
  const clock = useTrueNow(!over);
  const now = Math.max(clock, model.latest);

  const endedCount = useMemo(() => {
    let count = 0;
    for (const entry of model.loops.values()) for (const round of entry.rounds) if (!round.isOpen) count++;
    return count;
  }, [model, seq]);
  const needsNovelty = useMemo(() => {
    const scored = new Set<string>();
    for (const entry of model.loops.values()) if (entry.rounds.some((round) => round.score !== null)) scored.add(entry.loop);
    return [...model.loops.values()].some((entry) => !scored.has(entry.loop));
  }, [model, seq]);
  const { novelty, error: noveltyError } = useNovelty(runId, needsNovelty && isLoaded, endedCount);

  const tree = useMemo(() => readTree(model, plan, novelty, now), [model, plan, novelty, now, seq]);
  const newest = useMemo(() => newestRound(model), [model, seq]);
  const shown = useMemo(
    () => (selected ? knownRound(model, selected) || selected : newest || (model.sequence.at(-1) ?? "")),
    [model, selected, newest, seq],
  );

  const [chosenMode, setMode] = useState<Mode | null>(null);
  const mode: Mode = chosenMode ?? (tree.roundCount > MANY ? "even" : "time");
  const [brush, setBrush] = useState<Brush | null>(null);
  const [attach, width] = useWidth();
  const isNarrow = width > 0 && width < NARROW;
  const restWidth = tree.rest === null ? 0 : REST_WIDTH[tree.rest.status];
  const hasFuture = model.status !== "completed" && model.status !== "stopped";
  const reserve = restWidth + (hasFuture ? FUTURE : 12);

  const kept = useRef<Layout | null>(null);
  const layout = useMemo(() => {
    if (width === 0) return null;
    const made = layoutStrip({
      tree,
      mode,
      room: Math.max(isNarrow ? 160 : 280, width - reserve),
      paths: [shown, newest].filter(Boolean),
      selected: selected ? shown : "",
      brush,
      scrolls: isNarrow,
    });
    kept.current = share(kept.current, made);
    return kept.current;
  }, [tree, mode, width, reserve, shown, newest, selected, brush, isNarrow]);

  const rows = useMemo(() => rowsOf(model, plan, shown, tree.depths), [model, plan, shown, tree.depths, seq]);
  const future = useMemo(() => rowsOf(model, plan, newest, tree.depths), [model, plan, newest, tree.depths, seq]);

  const root = useRef<HTMLElement>(null);
  const scroller = useRef<HTMLDivElement | null>(null);
  const setScroller = useCallback(
    (element: HTMLDivElement | null) => {
      scroller.current = element;
      attach(element);
    },
    [attach],
  );

  // Scrolling: after now while nothing is selected, until the reader scrolls.
  const isManual = useRef(false);
  const lastScroll = useRef(0);
  /** Where the strip was scrolled to, which may be further than it goes; null after the reader has scrolled. */
  const wantedScroll = useRef<number | null>(0);
  const scrollTo = (x: number): void => {
    const element = scroller.current;
    // Even an assignment that changes nothing makes the browser lay out the page at once.
    if (element === null || x === wantedScroll.current) return;
    wantedScroll.current = x;
    element.scrollLeft = x;
    lastScroll.current = element.scrollLeft;
  };
  const onScroll = (): void => {
    const element = scroller.current;
    if (element === null || Math.abs(element.scrollLeft - lastScroll.current) <= 2) return;
    isManual.current = true;
    wantedScroll.current = null;
  };
  const end = layout?.end ?? 0;
  useLayoutEffect(() => {
    if (!selected && !isManual.current) scrollTo(Math.max(0, end + reserve - width));
  }, [end, reserve, width, selected]);
  useLayoutEffect(() => {
    const element = scroller.current;
    const box = layout?.boxes.get(shown);
    if (!selected || element === null || box === undefined) return;
    const margin = Math.min(60, element.clientWidth / 4);
    if (box.x < element.scrollLeft + margin) scrollTo(Math.max(0, box.x - margin));
    else if (box.x + box.width > element.scrollLeft + element.clientWidth - margin) scrollTo(box.x + box.width - element.clientWidth + margin);
    // Only a new selection scrolls, or a new width: not the growth of cells.
  }, [selected, shown, width, layout?.boxes.has(shown)]);

  // Selecting.
  const hadFocus = useRef(false);
  const pick = (address: string, isByKey: boolean): void => {
    hadFocus.current = root.current?.contains(document.activeElement) ?? false;
    const overview = layout?.overview;
    if (overview != null) {
      // What was clicked stays where it is; a key may lead out of the brushed part, which then follows.
      const box = layout?.boxes.has(address) ?? false;
      setBrush(isByKey && !box ? null : { start: overview.start, count: overview.count });
    }
    select(address);
  };
  const goLive = (): void => {
    isManual.current = false;
    setBrush(null);
    select("");
    scrollTo(Math.max(0, end + reserve - width));
  };
  useEffect(() => {
    if (!hadFocus.current) return;
    hadFocus.current = false;
    root.current?.querySelector<HTMLElement>('[data-address][tabindex="0"], [data-band][tabindex="0"]')?.focus({ preventScroll: true });
  }, [shown]);

  const move = (step: number): void => {
    const depth = parseAddress(shown).rounds.filter((one) => model.rounds.has(one.address)).length - 1;
    const line = depth < 0 ? nodeLine(tree) : roundsAtDepth(model, depth);
    const next = line[line.indexOf(shown) + step];
    if (line.includes(shown) && next !== undefined) pick(next, true);
  };
  const moveOther = (step: number): void => {
    const line = siblings(model, shown);
    const from = other || (previousRound(model, shown)?.address ?? shown);
    let at = line.findIndex((round) => round.address === from) + step;
    // The round itself has no difference.
    if (line[at]?.address === shown) at += step;
    const next = line[at];
    if (next !== undefined) compareWith(next.address);
  };
  const inside = useRef(new Map<string, string>());
  const out = (): void => {
    const steps = parseAddress(shown).rounds.filter((one) => model.rounds.has(one.address));
    const around = steps.at(-2);
    if (around === undefined) return;
    inside.current.set(around.address, shown);
    pick(around.address, true);
  };
  const into = (): void => {
    const last = model.rounds.get(shown)?.inner.at(-1);
    const target = inside.current.get(shown) ?? (last && model.loops.get(last)?.rounds.at(-1)?.address);
    if (target) pick(target, true);
  };

  // Replay: one round after the other.
  const [isPlaying, setPlaying] = useState(false);
  const played = useRef("");
  const startReplay = (): void => {
    const line = replayLine(tree);
    const at = line.indexOf(shown);
    const first = selected && at >= 0 && at < line.length - 1 ? shown : line[0];
    if (first === undefined) return;
    played.current = first;
    setPlaying(true);
    pick(first, true);
  };
  const stopReplay = useCallback(() => setPlaying(false), []);
  const step = useRef<() => void>(() => {});
  step.current = () => {
    const line = replayLine(tree);
    const next = line[line.indexOf(played.current) + 1];
    // Another selection, or the end, stops it.
    if (next === undefined || shown !== played.current) {
      stopReplay();
      return;
    }
    played.current = next;
    pick(next, true);
  };
  useEffect(() => {
    if (!isPlaying) return;
    const pace = Math.max(120, Math.min(900, 30_000 / Math.max(1, tree.roundCount)));
    const timer = setInterval(() => step.current(), pace);
    return () => clearInterval(timer);
  }, [isPlaying]);

  useKeys([
    { keys: "←", text: texts.keyPrevious, action: () => move(-1) },
    { keys: "→", text: texts.keyNext, action: () => move(1) },
    { keys: "↑", text: texts.keyOut, action: out },
    { keys: "↓", text: texts.keyIn, action: into },
    { keys: "Shift ←", text: texts.keyOtherPrevious, action: () => moveOther(-1) },
    { keys: "Shift →", text: texts.keyOtherNext, action: () => moveOther(1) },
    { keys: "L", text: texts.keyLive, action: goLive },
  ]);
  useKeys(isPlaying ? [{ keys: "Escape", text: texts.keyStop, action: stopReplay }] : []);

  // Arrows also work in the strip itself where single keys are turned off.
  const onKeyDown = (event: KeyboardEvent): void => {
    const actions: Record<string, () => void> = {
      ArrowLeft: () => (event.shiftKey ? moveOther(-1) : move(-1)),
      ArrowRight: () => (event.shiftKey ? moveOther(1) : move(1)),
      ArrowUp: out,
      ArrowDown: into,
    };
    const action = actions[event.key];
    if (action === undefined || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    action();
  };
  const onClick = (event: MouseEvent): void => {
    const target = (event.target as Element).closest<HTMLElement>("[data-address], [data-band]");
    if (target === null) return;
    const band = layout?.bands.find((one) => one.key === target.dataset.band);
    let address = target.dataset.address ?? "";
    if (band !== undefined) {
      const box = target.getBoundingClientRect();
      const share = event.detail === 0 ? 0 : (event.clientX - box.left) / box.width;
      const index = Math.max(0, Math.min(band.rounds.length - 1, Math.floor(share * band.rounds.length)));
      address = band.rounds[index]?.address ?? "";
    }
    if (event.shiftKey) {
      const round = knownRound(model, address);
      if (round && round !== shown) compareWith(round);
      return;
    }
    stopReplay();
    if (address === shown && target.dataset.address !== undefined) goLive();
    else pick(address, false);
  };

  const isEmpty = layout !== null && layout.boxes.size === 0;
  const heights = layout === null ? null : heightsOf(tree, layout);
  const marks = (address: string): Marks => ({
    isSelected: address === shown,
    isOther: address === other,
    isTab: address === tabAddress,
  });
  const tabAddress = layout?.boxes.has(shown) ? shown : (layout?.cells[0]?.round.address ?? layout?.bands[0]?.rounds[0]?.address ?? "");
  const place = (depth: number) => {
    const top = (heights?.axis ?? 0) + depth * BAR_STEP;
    return { top, height: (heights?.leafTop ?? 0) + (heights?.leaf ?? 0) - top };
  };
  const whole = place(0);
  const shownBox = layout?.boxes.get(shown);
  const otherBox = other ? layout?.boxes.get(other) : undefined;
  const overview = layout?.overview ?? null;
  const later = overview === null ? 0 : overview.total - overview.start - overview.count;
  const restX = later > 0 ? 0 : end;
  const nowX = end + (tree.rest === null || later > 0 ? 0 : restWidth - 3);
  const futureX = (later > 0 ? end : end + restWidth) + 6;
  const hasNow = overview === null && !over && model.status !== "suspended_locked" && later === 0 && !isEmpty;
  const contentWidth = Math.max(width, futureX + (hasFuture || later > 0 ? FUTURE - 10 : 8));
  const measure = innermostMeasure(tree);
  const isDebate = layout?.cells.some((cell) => cell.kind === "debate") ?? false;
  const isLanes = (layout?.laneCount ?? 0) > 0;

  return (
    <section ref={root} className={`strip ${isNarrow ? "is-narrow" : ""}`} aria-label={texts.rounds}>
      <header className="strip-header">
        <h2>{plan.loops.length || model.loops.size ? texts.rounds : texts.nodes}</h2>
        {isNarrow ? (
          <span className="strip-legend ellipsis">
            {rows.map((row) => texts.countShort(row.loop, row.rounds, row.bound)).join(" · ")}
          </span>
        ) : (
          <Legend
            tree={tree}
            layout={layout}
            model={model}
            measure={measure}
            isDebate={isDebate}
            isLanes={isLanes}
            limit={plan.novelty}
            error={noveltyError}
          />
        )}
        <span className="strip-space" />
        {!isNarrow && layout !== null && layout.gaps.length > 0 && <span className="strip-legend">{texts.squeezed}</span>}
        {overview !== null && !isNarrow && (
          <Segmented
            label={texts.windowSize}
            choices={[
              ...(overview.most >= overview.total ? [{ value: "all", text: texts.all }] : []),
              ...windowSizes(overview).map((size) => ({ value: String(size), text: String(size) })),
            ]}
            value={overview.count === overview.total ? "all" : String(overview.count)}
            onChange={(value) => {
              const count = value === "all" ? overview.total : Number(value);
              const middle = overview.start + overview.count / 2;
              const isAtEnd = later === 0 && !selected;
              setBrush({ count, start: isAtEnd ? Math.max(0, overview.total - count) : Math.max(0, Math.round((middle - count / 2) / 10) * 10) });
            }}
          />
        )}
        <Segmented
          label={texts.mode}
          choices={[
            { value: "time", text: texts.time },
            { value: "even", text: texts.even },
          ]}
          value={mode}
          onChange={setMode}
        />
        {!isNarrow && (
          <Button icon={isPlaying ? "stop" : "replay"} onClick={isPlaying ? stopReplay : startReplay} disabled={isEmpty} aria-pressed={isPlaying}>
            {isPlaying ? texts.stopReplay : texts.replay}
          </Button>
        )}
      </header>
      <div className="strip-body" style={{ height: heights === null ? undefined : Math.min(heights.body, 190) }}>
        {!isNarrow && heights !== null && (
          <Labels rows={rows} heights={heights} layout={layout} tree={tree} measure={measure} />
        )}
        <div className="strip-scroller" ref={setScroller} onScroll={onScroll}>
          {/* One handler for all cells: a thousand rounds need no functions of their own. */}
          <div
            className="strip-content"
            role="group"
            aria-label={texts.rounds}
            style={{ width: contentWidth, height: heights?.body }}
            onClick={onClick}
            onKeyDown={onKeyDown}
          >
            {layout !== null && heights !== null && (
              <>
                {overview !== null && (
                  <div className="strip-top" style={{ width, height: heights.axis }}>
                    <OverviewView overview={overview} lowerEnd={isNarrow ? 0 : end} onBrush={setBrush} />
                    {model.status === "running" && (
                      <>
                        <span className="strip-now-line" style={{ left: overview.width, top: OVERVIEW.labels - 2, height: OVERVIEW.chart + 2 }} />
                        <span className="strip-now" style={{ left: overview.width, top: -1 }}>
                          {texts.now}
                        </span>
                      </>
                    )}
                    {hasFuture && (
                      <Future
                        rows={future.slice(0, 1)}
                        status="running"
                        x={overview.width + 8}
                        width={Math.max(60, width - overview.width - 12)}
                        heights={{ ...heights, axis: OVERVIEW.labels, leafTop: OVERVIEW.labels, leaf: OVERVIEW.chart }}
                        elements={elementsOf(tree)}
                      />
                    )}
                  </div>
                )}
                {isEmpty && isLoaded && <p className="strip-empty">{texts.nothing}</p>}
                {layout.ticks.filter((tick) => !hasNow || Math.abs(tick.x - nowX) > 52).map((tick) => (
                  <span key={tick.time} className={tick.x < 30 ? "strip-tick is-first" : "strip-tick"} style={{ left: tick.x }} title={formats.full(tick.time)}>
                    {formats.clock(tick.time)}
                  </span>
                ))}
                {layout.bars.map((bar) => (
                  <BarView key={bar.key} bar={bar} top={heights.axis + bar.depth * BAR_STEP} height={BAR} {...marks(bar.round.address)} />
                ))}
                {layout.folds.map((fold) => (
                  <FoldView key={fold.key} fold={fold} {...place(fold.depth)} {...marks(fold.round.address)} />
                ))}
                {layout.bands.map((band) => (
                  <BandView key={band.key} band={band} {...place(band.depth)} isSelected={false} isOther={false} isTab={band.rounds[0]?.address === tabAddress} />
                ))}
                {layout.cells.map((cell) =>
                  cell.kind === "debate" ? (
                    <TurnsView key={cell.key} cell={cell} speakers={tree.speakers} {...place(cell.depth)} {...marks(cell.round.address)} />
                  ) : (
                    <CellView key={cell.key} cell={cell} {...place(cell.depth)} {...marks(cell.round.address)} />
                  ),
                )}
                {layout.lanes.map((group) =>
                  group.items.map((item) => (
                    <LaneView
                      key={item.key}
                      item={item}
                      top={heights.axis + group.depth * BAR_STEP + item.lane * (heights.lane + 3)}
                      height={heights.lane}
                      {...marks(item.round.address)}
                    />
                  )),
                )}
                {layout.lanes.map((group) => (
                  <Elements
                    key={`elements ${group.key}`}
                    group={group}
                    top={heights.axis + group.depth * BAR_STEP + group.lanes * (heights.lane + 3) + 4}
                    shown={shown}
                  />
                ))}
                {layout.gaps.map((gap) => (
                  <GapView key={gap.key} gap={gap} {...whole} />
                ))}
                {layout.locks.map((lock) => (
                  <LockMark key={lock.pause.from} x={lock.x} pause={lock.pause} top={heights.leafTop - 10} height={heights.leaf + 10} />
                ))}
                {measure === "novelty" && plan.novelty !== null && !isDebate && !isLanes && overview === null && layout.cells.length > 0 && (
                  <span
                    className="strip-limit"
                    style={{ left: 0, width: Math.max(0, end - 3), top: heights.leafTop + heights.leaf * (1 - plan.novelty) - 1 }}
                  />
                )}
                {tree.rest !== null && later === 0 && (
                  <RestView
                    rest={tree.rest}
                    now={now}
                    lock={model.locks.at(-1)}
                    question={model.questions[0]}
                    pause={model.pause}
                    status={model.status}
                    x={restX}
                    {...restPlace(whole, tree.depths)}
                  />
                )}
                {hasNow && (
                  <>
                    <span className="strip-now-line" style={{ left: nowX, top: heights.axis - 6, height: whole.height + 6 }} />
                    <span className="strip-now" style={{ left: nowX, top: heights.axis - 22 }}>
                      {texts.now}
                    </span>
                  </>
                )}
                {later > 0 ? (
                  <div className="strip-future" style={{ left: futureX, width: FUTURE - 16, top: heights.leafTop, height: heights.leaf }}>
                    <span>{texts.laterRounds(later)}</span>
                    <button type="button" className="strip-link" onClick={goLive}>
                      {texts.goToNow}
                    </button>
                  </div>
                ) : (
                  hasFuture &&
                  overview === null &&
                  !isEmpty && (
                    <Future rows={future} status={model.status} x={futureX} width={Math.max(FUTURE - 16, width - futureX - 4)} heights={heights} elements={elementsOf(tree)} />
                  )
                )}
                {shownBox !== undefined && (
                  <span className="strip-pointer" style={{ left: shownBox.x + shownBox.width / 2, top: heights.leafTop + heights.leaf + 4 }} />
                )}
                {otherBox !== undefined && otherBox !== shownBox && (
                  <span className="strip-pointer is-other" style={{ left: otherBox.x + otherBox.width / 2, top: heights.leafTop + heights.leaf + 4 }} />
                )}
                {overview !== null && <BandNumbers layout={layout} top={heights.leafTop + heights.leaf + 2} hidden={shownBox?.x ?? -1} />}
              </>
            )}
          </div>
        </div>
      </div>
    </section>
  );
}

function restPlace(whole: { top: number; height: number }, depths: number) {
  return depths > 2 ? { top: whole.top + whole.height - 74, height: 74 } : whole;
}

/** The usual sizes of the lower row, and the one that was dragged. */
function windowSizes({ total, most, count }: Overview): number[] {
  const sizes = new Set([240, 120, 60].filter((size) => size < total && size <= most && (size !== 120 || most < 240)));
  if (count < total) sizes.add(count);
  return [...sizes].sort((a, b) => b - a);
}

function nodeLine(tree: StripTree): string[] {
  return tree.loops.flatMap((loop) => (loop.stem ? [] : loop.rounds.map((round) => round.address)));
}

/** Innermost rounds, in the order of time. */
function replayLine(tree: StripTree): string[] {
  const found: string[] = [];
  const walk = (loops: StripTree["loops"]): void => {
    for (const loop of loops) {
      for (const round of loop.rounds) {
        if (round.inner.length) walk(round.inner);
        else found.push(round.address);
      }
    }
  };
  walk(tree.loops);
  return found;
}

function innermostMeasure(tree: StripTree): "score" | "novelty" | "none" {
  let found: "score" | "novelty" | "none" = "none";
  const walk = (loops: StripTree["loops"]): void => {
    for (const loop of loops) {
      if (loop.isOuter) for (const round of loop.rounds) walk(round.inner);
      else if (loop.measure !== "none") found = loop.measure;
    }
  };
  walk(tree.loops);
  return found;
}

/** How many elements a list has that the run works through; 0 if there is none. */
function elementsOf(tree: StripTree): number {
  return tree.loops.find((loop) => loop.elements > 0)?.elements ?? 0;
}

function Legend({
  tree,
  layout,
  model,
  measure,
  isDebate,
  isLanes,
  limit,
  error,
}: {
  tree: StripTree;
  layout: Layout | null;
  model: RunModel;
  measure: "score" | "novelty" | "none";
  isDebate: boolean;
  isLanes: boolean;
  limit: number | null;
  error: string;
}) {
  const texts = useMessages(messages);
  const hasRounds = tree.roundCount > 0;
  const overview = layout?.overview ?? null;
  const failed = overview?.marks.filter((mark) => mark.kind === "failed").length ?? 0;
  const locks = overview?.marks.filter((mark) => mark.kind === "locked").length ?? 0;
  const best = overview?.marks.find((mark) => mark.kind === "best");
  const summary = [
    failed ? texts.failedCount(failed) : "",
    locks ? texts.lockCount(locks) : "",
    best ? texts.bestIs(parseAddress(best.address).rounds.at(-1)?.round ?? 0) : "",
  ].filter(Boolean);
  return (
    <p className="strip-legend">
      {measure === "score" && (
        <span>
          <Icon name="star" size={14} /> {texts.best}
        </span>
      )}
      {hasRounds && (
        <span>
          <StatusShape status="failed" size={13} /> {texts.failed}
        </span>
      )}
      {hasRounds && !isLanes && (
        <span>
          <StatusShape status="suspended_locked" size={13} /> {texts.locked}
        </span>
      )}
      {measure === "score" && <span>{texts.heightScore}</span>}
      {isDebate && <span>{texts.debateLegend}</span>}
      {isLanes && hasRounds && <span>{texts.lanesLegend}</span>}
      {!hasRounds && model.sequence.length > 0 && <span>{texts.nodesLegend}</span>}
      {measure === "novelty" && !isDebate && !isLanes && <span>{texts.heightNovelty}</span>}
      {measure === "novelty" && !isDebate && !isLanes && limit !== null && (
        <span className="strip-limit-text">
          <i aria-hidden="true" /> {texts.repeatsBelow(limit.toFixed(2))}
        </span>
      )}
      {summary.length > 0 && <span>{summary.join(" · ")}</span>}
      {error && (
        <span className="strip-figures-failed" role="status">
          {texts.figuresFailed(error)}
        </span>
      )}
    </p>
  );
}

function Labels({
  rows,
  heights,
  layout,
  tree,
  measure,
}: {
  rows: readonly Row[];
  heights: Heights;
  layout: Layout | null;
  tree: StripTree;
  measure: "score" | "novelty" | "none";
}) {
  const texts = useMessages(messages);
  const { overview = null } = layout ?? {};
  const isDebate = layout?.cells.some((cell) => cell.kind === "debate") ?? false;
  const lanes = layout?.laneCount ?? 0;
  const elements = elementsOf(tree);
  const unit = measure === "score" ? texts.score : measure === "novelty" ? texts.novelty : "";
  return (
    <div className="strip-labels" style={{ height: heights.body }}>
      {rows.map((row, depth) => {
        const isLast = depth === rows.length - 1;
        const top = overview !== null && isLast && depth === 0 ? OVERVIEW.labels : heights.axis + depth * BAR_STEP;
        return (
          <div key={row.loop} className="strip-label" style={{ top, paddingLeft: 16 + Math.min(depth, 4) * 12 }}>
            {depth > 0 && <i className="strip-branch" style={{ left: 16 + (Math.min(depth, 4) - 1) * 12 + 4 }} aria-hidden="true" />}
            <b className="ellipsis" title={row.loop}>
              {row.loop}
            </b>
            <span>{isLast && elements ? texts.countOfElements(row.rounds, elements) : texts.countOf(row.rounds, row.bound)}</span>
            {isLast && overview === null && !isDebate && <em>{lanes ? texts.atATime(lanes) : unit}</em>}
          </div>
        );
      })}
      {overview !== null && (
        <div className="strip-label is-window" style={{ top: heights.leafTop }}>
          <b>
            {overview.start + 1} – {overview.start + overview.count}
          </b>
          <em>{[unit, texts.bands].filter(Boolean).join(", ")}</em>
        </div>
      )}
      {isDebate &&
        tree.speakers.map((speaker, index) => (
          <div key={speaker} className="strip-speaker ellipsis" style={{ top: heights.leafTop + 23 + index * 21 }} title={speaker}>
            {speaker}
          </div>
        ))}
      {lanes > 0 && (layout?.lanes.some((group) => group.loop.stem) ?? false) && (
        <div className="strip-speaker is-quiet" style={{ top: heights.leafTop + lanes * (heights.lane + 3) + 5 }}>
          {texts.byElement}
        </div>
      )}
    </div>
  );
}

/** The results of parallel rounds in the order of their elements. */
function Elements({ group, top, shown }: { group: Layout["lanes"][number]; top: number; shown: string }) {
  if (!group.loop.stem) return null;
  const size = Math.max(6, Math.min(32, group.width / group.items.length));
  return (
    <div className="strip-elements" style={{ left: group.x, top }}>
      {group.items.map(({ round }) => (
        <button
          key={round.address}
          type="button"
          tabIndex={-1}
          aria-hidden="true"
          className={`strip-element ${round.failed ? "is-failed" : round.isOpen ? "is-running" : ""} ${round.address === shown ? "is-selected" : ""}`}
          style={{ width: size - 3 }}
          data-address={round.address}
        >
          {size >= 20 && round.number}
        </button>
      ))}
    </div>
  );
}

/** Numbers below bands, where cells have none. */
function BandNumbers({ layout, top, hidden }: { layout: Layout; top: number; hidden: number }) {
  let last = -Infinity;
  return (
    <>
      {layout.bands.map((band) => {
        if (band.x - last < 90 || Math.abs(band.x - hidden) < 40) return null;
        last = band.x;
        return (
          <span key={band.key} className="strip-band-number" style={{ left: band.x + 3, top }}>
            {band.rounds[0]?.number}
          </span>
        );
      })}
    </>
  );
}

function Future({
  rows,
  status,
  x,
  width,
  heights,
  elements,
}: {
  rows: readonly Row[];
  status: RunModel["status"];
  x: number;
  width: number;
  heights: Heights;
  elements: number;
}) {
  const texts = useMessages(messages);
  // The list itself says how many rounds there will be.
  const left = possible(elements && rows.length === 1 ? rows.map((row) => ({ ...row, bound: elements, total: elements })) : rows);
  const note =
    status === "suspended_locked" ? texts.ifUnlocked : status === "waiting" ? texts.ifAnswered : status === "paused" ? texts.ifContinued : status === "failed" ? texts.ifRetried : "";
  return (
    <>
      {rows.map((row, depth) => {
        const { here, all } = left[depth] ?? { here: null, all: null };
        if (here === null || (here === 0 && !all)) return null;
        const isLast = depth === rows.length - 1;
        let text = texts.upTo(here);
        if (depth > 0 && all !== null && all > here) text = here > 0 && isLast ? texts.upToHere(here, all) : here > 0 ? text : texts.upToLater(all);
        const more = isLast ? [note, row.isCap ? texts.thenLocked : ""].filter(Boolean).join(", ") : "";
        return (
          <div
            key={row.loop}
            className={isLast ? "strip-future" : "strip-future is-slim"}
            style={{ left: x, width, top: heights.axis + depth * BAR_STEP, height: isLast ? heights.leafTop + heights.leaf - heights.axis - depth * BAR_STEP : BAR }}
          >
            <span>{text}</span>
            {more && <span>{more}</span>}
          </div>
        );
      })}
    </>
  );
}
