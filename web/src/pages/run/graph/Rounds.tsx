import type { Loop } from "../../../graph/scene";
import type { LoopView } from "./states";
import { dotsOf, MOST_DOTS } from "./texts";
import "../../../graph/region_frame.css";

/** One dot for each round, or a bar for many. The title says the same in words. */
export function Rounds({ loop, view }: { loop: Loop; view: LoopView }) {
  const { most } = loop;
  if (most === null) return null;
  if (most > MOST_DOTS) {
    const share = Math.min(1, view.round / most);
    return (
      <div className="graph-rounds-bar" aria-hidden="true">
        <i style={{ width: `${share * 100}%` }} />
      </div>
    );
  }
  return (
    <div className="graph-rounds" aria-hidden="true">
      {dotsOf(most, view).map((dot, at) => (
        <i key={at} className={`graph-dot graph-dot-${dot}`} />
      ))}
    </div>
  );
}
