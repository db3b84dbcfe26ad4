// Parts of a run that change with almost every event, read only so often as a person can follow.
import { useEffect, useRef, useState } from "react";
import type { RunModel } from "../../../live/run_model";
import type { RunStore } from "../../../live/useRunEvents";

/** What `read` returns, at most once in `pause` milliseconds; at once if `key`, which names what is read, changes. */
export function useThrottled<T>(
  store: RunStore,
  key: string,
  read: (model: RunModel) => T,
  pause: number,
  isSame: (a: T, b: T) => boolean = Object.is,
): T {
  const [, draw] = useState(0);
  const held = useRef<{ key: string; value: T }>(undefined);
  if (held.current?.key !== key) held.current = { key, value: read(store.getState().model) };
  const current = useRef({ read, isSame });
  current.current = { read, isSame };
  useEffect(() => {
    let timer = 0;
    let last = 0;
    const update = () => {
      timer = 0;
      last = performance.now();
      const value = current.current.read(store.getState().model);
      if (held.current !== undefined && current.current.isSame(held.current.value, value)) return;
      held.current = { key, value };
      draw((count) => count + 1);
    };
    update();
    const stop = store.subscribe(() => {
      if (!timer) timer = window.setTimeout(update, Math.max(0, pause - (performance.now() - last)));
    });
    return () => {
      stop();
      clearTimeout(timer);
    };
  }, [store, key, pause]);
  return held.current.value;
}
