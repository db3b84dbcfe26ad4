import { useEffect, useState } from "react";

/** A value that follows after a pause: requests need not follow each letter. */
export function useSettled<T>(value: T, pause = 300): T {
  const text = JSON.stringify(value);
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), pause);
    return () => clearTimeout(timer);
    // Two values with the same text are the same.
  }, [text, pause]);
  return settled;
}
