import { memo } from "react";
import type { EdgeProps } from "@xyflow/react";
import type { SceneEdge } from "../../../graph/scene";
import { useShown } from "./graph_context";
import { useIsLit } from "./useViews";

export const EdgeLine = memo(function EdgeLine({ data }: EdgeProps<SceneEdge>) {
  const line = data?.line;
  return line === undefined ? null : <Line line={line} />;
});

function Line({ line }: { line: NonNullable<SceneEdge["data"]>["line"] }) {
  const isLit = useIsLit(line);
  const isLocked = useShown((shown) => line.loop !== "" && shown.locked === line.loop && shown.past === null);
  const waiting = useShown((shown) => (shown.past ? 0 : (shown.waiting.lines.get(line.id) ?? 0)));
  const isFull = waiting > 0 && line.drawn.triggers;
  const kind = isLit || isFull ? "lit" : line.kind;
  return (
    <>
      <path
        className={`graph-line graph-line-${kind} ${isLocked ? "graph-line-locked" : ""}`}
        d={line.path}
        markerEnd={`url(#graph-head-${kind})`}
      />
      {isLocked && (
        <g className="graph-lock" transform={`translate(${line.lock.x} ${line.lock.y})`}>
          <circle r="10" />
          <path className="graph-lock-bow" d="M-2.500 -1v-1.500a2.500 2.500 0 0 1 5 0V-1" />
          <rect x="-4" y="-1" width="8" height="5.500" rx="1" />
        </g>
      )}
      {waiting > 0 && (
        <g className="graph-waiting" transform={`translate(${line.near.x} ${line.near.y})`}>
          <circle r="8.500" />
          <text textAnchor="middle" dy="3.700">
            {waiting}
          </text>
        </g>
      )}
    </>
  );
}
