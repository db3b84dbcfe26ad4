// The right pane: how near the limits are, and the figures of each round.
import { Guards } from "./Guards";
import { Plots } from "./Plots";

export function GuardsPane() {
  return (
    <div className="guards-pane">
      <Guards />
      <Plots />
    </div>
  );
}

export { Guards } from "./Guards";
export { Plots } from "./Plots";
