// The rows of the list. Only those in sight are in the document: a store may have thousands.
import { useCallback, useEffect, useMemo, useRef, useState, useSyncExternalStore } from "react";
import { useKeys } from "../../app/keys";
import { useFormats } from "../../i18n/format";
import { useMessages } from "../../i18n/messages";
import { Button } from "../../ui/Button";
import type { Filter, Group } from "./filter";
import { itemsOf, pendingOf, type Item, type Layout, type Listed } from "./list";
import { messages } from "./messages";
import { RunRow } from "./RunRow";
import { useLayout } from "./useLayout";
import { useWindow } from "./windowing";

const SIZES = { wide: { head: 30, run: 46, tall: 84, more: 46 }, narrow: { head: 34, run: 116, tall: 200, more: 46 } };
const NARROW = "(max-width: 719px)";

function heightOf(item: Item, isNarrow: boolean): number {
  const sizes = isNarrow ? SIZES.narrow : SIZES.wide;
  if (item.type === "run") return item.group === "needs" ? sizes.tall : sizes.run;
  return sizes[item.type];
}

function useIsNarrow(): boolean {
  const query = useMemo(() => matchMedia(NARROW), []);
  const subscribe = useCallback(
    (changed: () => void) => {
      query.addEventListener("change", changed);
      return () => query.removeEventListener("change", changed);
    },
    [query],
  );
  return useSyncExternalStore(subscribe, () => query.matches);
}

function keyOf(item: Item): string {
  return item.type === "run" ? item.id : `${item.type} ${item.group}`;
}

export function RunTable({
  listed,
  filter,
  path,
  counts,
  loadMore,
  isLoadingMore,
}: {
  listed: Listed;
  filter: Filter;
  /** The path of the filter that the list belongs to. */
  path: string;
  /** How many runs each section has in the store; null if the filter leaves some out. */
  counts: Record<Group, number> | null;
  loadMore: (group: Group) => Promise<void>;
  isLoadingMore: boolean;
}) {
  const texts = useMessages(messages);
  const formats = useFormats();
  const scroller = useRef<HTMLDivElement>(null);
  const isNarrow = useIsNarrow();
  const [isPointedAt, setPointedAt] = useState(false);
  const { shown, wanted, rows, release } = useLayout(listed, path, isPointedAt);
  const items = useMemo(() => itemsOf(shown, listed.parts), [shown, listed.parts]);
  const [current, setCurrent] = useState("");
  const currentIndex = useMemo(() => items.findIndex((item) => item.type === "run" && item.id === current), [items, current]);

  // The row with the focus stays in the document when it is scrolled away: the focus would be lost with it.
  const heights = useMemo(() => items.map((item) => heightOf(item, isNarrow)), [items, isNarrow]);
  const { indexes, offsets, scrollTo } = useWindow(scroller, heights, currentIndex);

  // Moving to a row: it has to be in the document before it can take the focus.
  const [wantedFocus, setWantedFocus] = useState("");
  const move = (step: 1 | -1) => {
    const runs = items.flatMap((item, index) => (item.type === "run" ? [{ id: item.id, index }] : []));
    const at = runs.findIndex((run) => run.id === current);
    const next = runs[at < 0 ? (step > 0 ? 0 : runs.length - 1) : Math.max(0, Math.min(runs.length - 1, at + step))];
    if (next === undefined) return;
    setCurrent(next.id);
    setWantedFocus(next.id);
    scrollTo(next.index);
  };
  useEffect(() => {
    if (!wantedFocus) return;
    scroller.current?.querySelector<HTMLElement>(`[data-run="${wantedFocus}"] .runs-name`)?.focus({ preventScroll: true });
    setWantedFocus("");
  }, [wantedFocus]);
  useKeys([
    { keys: "J", text: texts.nextRow, action: () => move(1) },
    { keys: "K", text: texts.previousRow, action: () => move(-1) },
  ]);

  // What follows is read before the end is reached.
  const atEnd = indexes.map((index) => items[index]).find((item) => item?.type === "more")?.group;
  useEffect(() => {
    if (atEnd !== undefined && !isLoadingMore) void loadMore(atEnd);
  }, [atEnd, isLoadingMore, loadMore]);

  const heading = (group: Group) =>
    group === "finished" && filter.since ? texts.finishedIn(texts[`since${filter.since}`]) : texts[group];
  const count = (group: Group, loaded: number) => {
    if (counts !== null && listed.parts[group].next !== null) return formats.number(counts[group]);
    return `${formats.number(loaded)}${listed.parts[group].next === null ? "" : "+"}`;
  };

  return (
    <div className="runs-table" role="table" aria-label={texts.title} aria-rowcount={-1}>
      <div className="runs-columns" role="rowgroup">
        <div className="runs-grid" role="row">
          <div role="columnheader">{texts.columnStatus}</div>
          <div role="columnheader">{texts.columnWorkflow}</div>
          <div role="columnheader">{texts.columnLoop}</div>
          <div role="columnheader">{texts.columnScore}</div>
          <div role="columnheader">{texts.columnGuard}</div>
          <div role="columnheader">{texts.columnCost}</div>
          <div role="columnheader">{texts.columnUpdated}</div>
          <div role="columnheader">{texts.columnDuration}</div>
        </div>
      </div>
      {/* The offer is a part of what is pointed at: otherwise the way to it would already accept it. */}
      <div
        className="runs-area"
        role="presentation"
        onPointerEnter={() => setPointedAt(true)}
        onPointerLeave={() => setPointedAt(false)}
      >
        <PendingNote shown={shown} wanted={wanted} onRelease={release} />
        <div ref={scroller} className="runs-scroll" role="rowgroup">
          <div className="runs-space" role="presentation" style={{ height: offsets.at(-1) }}>
            {indexes.map((index) => {
              const item = items[index];
              if (item === undefined) return null;
              const run = item.type === "run" ? rows.get(item.id) : undefined;
              return (
                <div
                  key={keyOf(item)}
                  role="presentation"
                  className="runs-place"
                  style={{ height: heights[index], transform: `translateY(${offsets[index]}px)` }}
                >
                  {item.type === "head" && (
                    <div className={`runs-head runs-head-${item.group}`} role="row">
                      <div role="cell">
                        <h2>{heading(item.group)}</h2>
                        <span className="runs-head-count">{count(item.group, item.count)}</span>
                      </div>
                    </div>
                  )}
                  {run && <RunRow run={run} isTall={item.group === "needs"} onFocus={setCurrent} />}
                  {item.type === "more" && (
                    <div className="runs-more" role="row">
                      <div role="cell">
                        <Button kind="quiet" isBusy={isLoadingMore} onClick={() => void loadMore(item.group)}>
                          {isLoadingMore ? texts.loadingMore : texts.more}
                        </Button>
                      </div>
                    </div>
                  )}
                </div>
              );
            })}
          </div>
        </div>
      </div>
    </div>
  );
}

/** Offers what has to wait while the pointer is over the rows. */
function PendingNote({ shown, wanted, onRelease }: { shown: Layout; wanted: Layout; onRelease: () => void }) {
  const texts = useMessages(messages);
  const pending = useMemo(() => pendingOf(shown, wanted), [shown, wanted]);
  const text = pending.needs ? texts.pendingNeeds(pending.needs) : pending.others ? texts.pendingOthers(pending.others) : "";
  return (
    <div className="runs-pending" role="presentation">
      {text && (
        <Button icon="up" onClick={onRelease}>
          {text}
        </Button>
      )}
    </div>
  );
}
