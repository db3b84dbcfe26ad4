// A workflow as the server has laid it out, as a picture: nothing in it moves or can be chosen.
import { useId } from "react";
import type { Diagnostic, DrawnEdge, DrawnNode, Drawing, Region } from "../../api/schema";
import { Icon, nodeLook } from "../../ui/Icon";
import "./drawing.css";

/** The sizes by which the server has measured texts, for each density. */
const SIZES = {
  normal: { pad: 18, height: 46, icon: 28, id: 13, type: 11, title: 20, label: 11, labelLine: 14 },
  compact: { pad: 12, height: 40, icon: 24, id: 12, type: 10.5, title: 16, label: 10.5, labelLine: 13 },
} as const;

type Sizes = (typeof SIZES)[keyof typeof SIZES];

/** Nobody can read letters of fewer pixels; a picture without them is clearer. */
const LEAST_LETTERS = 5;

export function StaticDrawing({ drawing, label, room }: { drawing: Drawing; label: string; room?: { width: number; height: number } }) {
  const sizes = SIZES[drawing.density];
  // A large drawing shrinks to its room.
  const scale = room === undefined ? 1 : Math.min(1, room.width / drawing.width, room.height / drawing.height);
  const hasTexts = sizes.type * scale >= LEAST_LETTERS;
  // Several drawings of one page need arrow heads of their own.
  const id = useId();
  return (
    <svg
      className={hasTexts ? "drawn" : "drawn drawn-wordless"}
      viewBox={`0 0 ${drawing.width} ${drawing.height}`}
      width={drawing.width}
      height={drawing.height}
      role="img"
      aria-label={label}
    >
      <defs>
        {["plain", "back", "leave", "fault"].map((kind) => (
          <marker
            key={kind}
            id={`${id}-${kind}`}
            viewBox="0 0 10 10"
            refX="9"
            refY="5"
            markerWidth="9"
            markerHeight="9"
            markerUnits="userSpaceOnUse"
            orient="auto"
          >
            <path className={`drawn-tip drawn-tip-${kind}`} d="M0 .8 10 5 0 9.2 2.2 5Z" />
          </marker>
        ))}
      </defs>
      <Title lines={[drawing.title, ...drawing.captions]} x={sizes.pad} y={0} sizes={sizes} />
      {drawing.regions.map((region) => (
        <Frame key={region.key} region={region} sizes={sizes} />
      ))}
      {drawing.edges.map((edge, index) => (
        <path
          key={index}
          className={`drawn-edge drawn-edge-${kindOf(edge)} ${edge.triggers ? (edge.explicit ? "drawn-explicit" : "") : "drawn-data"}`}
          d={pathOf(edge)}
          markerEnd={`url(#${id}-${kindOf(edge)})`}
        />
      ))}
      {drawing.edges.map((edge, index) =>
        edge.label === null ? null : <EdgeLabel key={index} edge={edge} label={edge.label} sizes={sizes} />,
      )}
      {drawing.marks.map((mark) => (
        <g key={mark.key}>
          <rect className={`drawn-mark-${mark.kind}`} {...mark.box} rx={mark.box.height / 2} />
          <text
            className="drawn-mark-text"
            x={mark.box.x + mark.box.width / 2}
            y={mark.box.y + mark.box.height / 2 + 4}
            fontSize={sizes.label}
            textAnchor="middle"
          >
            {mark.text}
          </text>
        </g>
      ))}
      {drawing.nodes.map((node) => (
        <Card key={node.key} node={node} sizes={sizes} />
      ))}
    </svg>
  );
}

function hasError(problems: readonly Diagnostic[]): boolean {
  return problems.some((problem) => problem.severity === "error");
}

function kindOf(edge: DrawnEdge): "fault" | "back" | "leave" | "plain" {
  if (hasError(edge.problems) || (edge.explicit && edge.port === "error")) return "fault";
  return edge.back ? "back" : edge.leaves ? "leave" : "plain";
}

/** The route of an edge: the first point is the start; one point is a line, three are a curve. */
export function pathOf(edge: DrawnEdge): string {
  return edge.route
    .map((points, index) => {
      const command = index === 0 ? "M" : points.length === 3 ? "C" : "L";
      return command + points.map((point) => point.join(" ")).join(" ");
    })
    .join("");
}

function Title({ lines, x, y, sizes, isLoop = false }: { lines: readonly string[]; x: number; y: number; sizes: Sizes; isLoop?: boolean }) {
  return lines.map((line, index) => (
    <text
      key={index}
      className={index > 0 ? "drawn-caption" : isLoop ? "drawn-title drawn-title-loop" : "drawn-title"}
      x={x}
      y={y + sizes.pad + 8 + (sizes.title - 3) * index}
      fontSize={index > 0 ? sizes.type : sizes.id}
    >
      {line}
    </text>
  ));
}

function Frame({ region, sizes }: { region: Region; sizes: Sizes }) {
  const kind = region.repeats ? (region.depth > 0 ? "inner" : "loop") : "graph";
  return (
    <>
      <rect
        className={`drawn-region drawn-region-${kind} ${hasError(region.problems) ? "drawn-fault" : ""}`}
        {...region.box}
        rx={region.kind === "loop" ? 14 : 12}
      />
      <Title
        lines={[region.title, ...region.captions]}
        x={region.title_x}
        y={region.box.y}
        sizes={sizes}
        isLoop={region.repeats}
      />
    </>
  );
}

function EdgeLabel({ edge, label, sizes }: { edge: DrawnEdge; label: NonNullable<DrawnEdge["label"]>; sizes: Sizes }) {
  return (
    <g>
      <title>{edge.text}</title>
      <rect className={`drawn-label drawn-label-${kindOf(edge)}`} {...label.box} rx="9" />
      {label.lines.map((line, index) => (
        <text
          key={index}
          className="drawn-label-text"
          x={label.box.x + label.box.width / 2}
          y={label.box.y + sizes.label + 3 + sizes.labelLine * index}
          fontSize={sizes.label}
          textAnchor="middle"
        >
          {line}
        </text>
      ))}
    </g>
  );
}

function Card({ node, sizes }: { node: DrawnNode; sizes: Sizes }) {
  const { box } = node;
  const look = nodeLook(node.guard ? "loop" : node.type);
  const gap = (sizes.height - sizes.icon) / 2;
  const inset = gap + (sizes.icon - 16) / 2;
  const text = box.x + 2 * gap + sizes.icon - 1;
  const middle = box.y + sizes.height / 2;
  const isWrong = hasError(node.problems) || node.missing;
  return (
    <g style={{ color: look.color }}>
      <title>{[`${node.id} (${node.type})`, ...node.problems.map((problem) => problem.message)].join("\n")}</title>
      {/* The region of a node with graphs inside is its card. */}
      {node.region === "" && (
        <>
          <rect className={isWrong ? "drawn-card drawn-card-fault" : "drawn-card"} {...box} rx="10" />
          <rect
            className="drawn-tile"
            x={box.x + gap}
            y={box.y + gap}
            width={sizes.icon}
            height={sizes.icon}
            rx="8"
          />
          <g transform={`translate(${box.x + inset} ${box.y + inset})`}>
            <Icon name={look.icon} />
          </g>
          <text className="drawn-id" x={text} y={middle - 3} fontSize={sizes.id}>
            {node.label}
          </text>
          <text className="drawn-caption" x={text} y={middle + sizes.type + 1} fontSize={sizes.type}>
            {node.caption}
          </text>
        </>
      )}
      {node.end && (
        <rect
          className="drawn-end"
          x={box.x + 3.5}
          y={box.y + 3.5}
          width={box.width - 7}
          height={box.height - 7}
          rx="7"
        />
      )}
    </g>
  );
}
