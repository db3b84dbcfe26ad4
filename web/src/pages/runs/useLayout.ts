// Where the rows stand. Nothing moves under the pointer: a run that belongs elsewhere goes there when the
// pointer has left, or when somebody asks for it.
import { useMemo, useRef, useState } from "react";
import type { RunView } from "../../api/schema";
import { arrange, hold, type Listed } from "./list";

export function useLayout(listed: Listed, path: string, isHeld: boolean) {
  const { layout: wanted, rows: fresh } = useMemo(() => arrange(listed.parts), [listed.parts]);
  const held = useRef({ path, layout: wanted, rows: fresh });
  const [, setReleased] = useState(0);
  const before = held.current;
  const keeps = isHeld && before.path === path;
  const layout = keeps ? hold(before.layout, wanted) : wanted;
  // A row that left the filter is still shown while it is held: with its newest texts, or its last ones.
  const rows = useMemo(() => {
    const all = new Map<string, RunView>(keeps ? before.rows : []);
    for (const run of listed.left) all.set(run.id, run);
    for (const [id, run] of fresh) all.set(id, run);
    return all;
    // `before` is what the last render showed.
  }, [fresh, listed.left, keeps]);
  held.current = { path, layout, rows };
  const release = () => {
    held.current = { path, layout: wanted, rows };
    setReleased((count) => count + 1);
  };
  return { shown: layout, wanted, rows, release };
}
