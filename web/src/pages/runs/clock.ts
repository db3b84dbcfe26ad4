// One clock for all rows. A cell selects the text that it shows, so only those whose text changes are drawn
// again. It stops while the connection is lost: "now" would not be true.
import { useEffect } from "react";
import { create } from "zustand";
import { useConnection } from "../../live/connection";

const useClockState = create(() => ({ now: Date.now() }));

export function useClock<T extends string | number>(select: (now: number) => T): T {
  return useClockState((state) => select(state.now));
}

/** Runs the clock while the page is shown. */
export function useRunningClock(): void {
  const isLost = useConnection((state) => state.state === "reconnecting");
  useEffect(() => {
    if (isLost) return;
    const tick = () => useClockState.setState({ now: Date.now() });
    tick();
    const timer = setInterval(tick, 1000);
    return () => clearInterval(timer);
  }, [isLost]);
}
