import { memo } from "react";
import type { NodeProps } from "@xyflow/react";
import type { LabelNode } from "./scene";
import "./edge_line.css";

const KINDS = ["plain", "back", "leave", "failure", "data", "lit"] as const;

/** The arrow heads. A marker does not take the colour of its line in all browsers, so there is one of each. */
export function ArrowHeads() {
  return (
    <svg className="graph-heads" aria-hidden="true">
      <defs>
        {KINDS.map((kind) => (
          <marker
            key={kind}
            id={`graph-head-${kind}`}
            viewBox="0 0 10 10"
            refX="9"
            refY="5"
            markerWidth="8"
            markerHeight="8"
            markerUnits="userSpaceOnUse"
            orient="auto"
          >
            <path className={`graph-head graph-head-${kind}`} d="M0 .8 10 5 0 9.2 2.2 5Z" />
          </marker>
        ))}
      </defs>
    </svg>
  );
}

/** The words on a line. */
export const EdgeLabel = memo(function EdgeLabel({ data }: NodeProps<LabelNode>) {
  const { label, line } = data;
  return (
    <div className={`graph-label graph-label-${line.kind}`} title={line.drawn.text}>
      <span>{label.lines.map((text) => text.replace(/^port /, "")).join(" ")}</span>
    </div>
  );
});
