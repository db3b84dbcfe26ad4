// The present, again and again while it matters: for deadlines, and words such as "8 sec ago".
import { useEffect, useState } from "react";

/** The time now, read again after each interval while `isOn`. */
export function useNow(interval = 1000, isOn = true): number {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    if (!isOn) return;
    setNow(Date.now());
    const timer = setInterval(() => setNow(Date.now()), interval);
    return () => clearInterval(timer);
  }, [interval, isOn]);
  return now;
}
