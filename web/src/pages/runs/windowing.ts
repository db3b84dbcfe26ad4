// Which rows of a long list are in sight. All sizes are known beforehand, so nothing has to be measured, and
// nothing jumps; a general library would cost a tenth of what the whole page may weigh.
import { useCallback, useEffect, useMemo, useState, type RefObject } from "react";

/** Where each row begins, and at the end where the last one ends. */
export function offsetsOf(sizes: readonly number[]): number[] {
  const offsets = [0];
  for (const size of sizes) offsets.push((offsets.at(-1) as number) + size);
  return offsets;
}

/** The rows between two heights, as a half-open range, with some more on both sides. */
export function rangeOf(offsets: readonly number[], top: number, height: number, more: number): [number, number] {
  const count = offsets.length - 1;
  // The first row that ends below the top.
  let [low, high] = [0, count];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((offsets[middle + 1] as number) > top) high = middle;
    else low = middle + 1;
  }
  let end = low;
  while (end < count && (offsets[end] as number) < top + height) end++;
  return [Math.max(0, low - more), Math.min(count, end + more)];
}

const MORE = 10;

export interface Window {
  /** The indexes of the rows to draw. */
  indexes: readonly number[];
  offsets: readonly number[];
  scrollTo: (index: number) => void;
}

/** Follows a scrolling element. `kept` is a row that stays in the document wherever it is. */
export function useWindow(scroller: RefObject<HTMLElement | null>, sizes: readonly number[], kept: number): Window {
  const offsets = useMemo(() => offsetsOf(sizes), [sizes]);
  const [[first, last], setRange] = useState<[number, number]>([0, 0]);
  const follow = useCallback(() => {
    const element = scroller.current;
    if (element === null) return;
    const next = rangeOf(offsets, element.scrollTop, element.clientHeight, MORE);
    setRange((range) => (range[0] === next[0] && range[1] === next[1] ? range : next));
  }, [offsets, scroller]);
  useEffect(() => {
    const element = scroller.current;
    if (element === null) return;
    follow();
    const observer = new ResizeObserver(follow);
    observer.observe(element);
    element.addEventListener("scroll", follow, { passive: true });
    return () => {
      observer.disconnect();
      element.removeEventListener("scroll", follow);
    };
  }, [follow, scroller]);
  const scrollTo = (index: number) => {
    const element = scroller.current;
    if (element === null) return;
    const [top, bottom] = [offsets[index] as number, offsets[index + 1] as number];
    if (top < element.scrollTop) element.scrollTop = top;
    else if (bottom > element.scrollTop + element.clientHeight) element.scrollTop = bottom - element.clientHeight;
  };
  const end = Math.min(last, sizes.length);
  const indexes = Array.from({ length: Math.max(0, end - first) }, (_, index) => first + index);
  if (kept >= 0 && kept < sizes.length && (kept < first || kept >= end)) indexes.push(kept);
  return { indexes: indexes.sort((a, b) => a - b), offsets, scrollTo };
}
