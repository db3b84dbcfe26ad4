import { memo } from "react";
import type { NodeProps } from "@xyflow/react";
import { useMessages } from "../i18n/messages";
import { messages } from "./messages";
import type { MarkNode } from "./scene";
import "./marks.css";

/** The ends that React Flow looks for; lines are drawn by the routes of the server. */
export function Ends() {
  return (
    <>
      <span className="source graph-end" data-handlepos="bottom" />
      <span className="target graph-end" data-handlepos="top" />
    </>
  );
}

/** Where the input enters, and where votes are counted. */
export const GraphMark = memo(function GraphMark({ data }: NodeProps<MarkNode>) {
  const texts = useMessages(messages);
  const { kind } = data.mark;
  return (
    <div className={`graph-mark graph-mark-${kind}`}>
      {texts[kind]}
      <Ends />
    </div>
  );
});

/** Only an end for lines: the whole drawing, or a node whose frame is its card. */
export const Paper = memo(function Paper() {
  return <Ends />;
});
