// Edges: a line, and a wide invisible one to hit it.
import { memo } from "react";
import type { EdgeProps, NodeProps } from "@xyflow/react";
import { isSame } from "../../../document/model";
import { EdgeLabel } from "../../../graph/lines";
import type { LabelNode, Line, SceneEdge } from "../../../graph/scene";
import { useEditor } from "../store";
import { useIsTriedLine } from "../try/useTried";
import type { EdgeTarget } from "./targets";
import { useTools } from "./tools";
import { useUi } from "./ui";

const placeOf = (line: Line) => Number(line.id.slice("edge ".length));

function useTarget(line: Line): EdgeTarget | undefined {
  return useUi((state) => state.targets.get(placeOf(line)));
}

function useIsEdgeSelected(target: EdgeTarget | undefined): boolean {
  return useEditor((state) => target !== undefined && state.selection.some((one) => isSame(one, target)));
}

function useSelect(target: EdgeTarget | undefined) {
  const { editor } = useTools();
  return (event: React.MouseEvent) => {
    if (target === undefined) return;
    event.stopPropagation();
    if (event.shiftKey || event.ctrlKey || event.metaKey) editor.getState().toggleSelected(target);
    else editor.getState().select([target]);
  };
}

export const Wire = memo(function Wire({ data }: EdgeProps<SceneEdge>) {
  return data === undefined ? null : <WireLine line={data.line} />;
});

function WireLine({ line }: { line: Line }) {
  const target = useTarget(line);
  const isSelected = useIsEdgeSelected(target);
  const select = useSelect(target);
  const isTried = useIsTriedLine(line);
  const { problems } = line.drawn;
  const kind = isSelected || isTried ? "lit" : line.kind;
  return (
    <>
      <path className={`graph-line graph-line-${kind}`} d={line.path} markerEnd={`url(#graph-head-${kind})`} />
      {target && <path className="canvas-hit nopan" data-line={placeOf(line)} d={line.path} onClick={select} />}
      {problems.length > 0 && (
        <g className={`canvas-wire-problem ${problems.some((one) => one.severity === "error") ? "canvas-problem-error" : ""}`} transform={`translate(${line.lock.x} ${line.lock.y})`}>
          <title>{problems.map((one) => one.message).join("\n")}</title>
          <circle r="9" />
          <path d="M0-5 5 4H-5ZM0-2v3M0 2.800v.200" />
        </g>
      )}
    </>
  );
}

/** The words on an edge; they select it as well. */
export const WireLabel = memo(function WireLabel(props: NodeProps<LabelNode>) {
  const { line } = props.data;
  const target = useTarget(line);
  const isSelected = useIsEdgeSelected(target);
  const select = useSelect(target);
  return (
    <div className="canvas-label nopan" data-line={placeOf(line)} data-selected={isSelected || undefined} onClick={select}>
      <EdgeLabel {...props} />
    </div>
  );
});
