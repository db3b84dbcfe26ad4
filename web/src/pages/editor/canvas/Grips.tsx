// The ends of the selected edge, to drag them to another node. They lie above the nodes that they touch.
import { ViewportPortal } from "@xyflow/react";
import type { Point } from "../../../graph/scene";
import { useEditor } from "../store";
import { dragWire } from "./gestures";
import { lineOf } from "./targets";
import { useTools } from "./tools";
import { useUi } from "./ui";

export function Grips() {
  const tools = useTools();
  const { commands, texts } = tools;
  const only = useEditor(({ selection }) => (selection.length === 1 && selection[0]?.kind === "edge" ? selection[0] : null));
  const line = useUi(({ scene, targets }) => (scene && only ? lineOf(scene.lines, targets, only) : undefined));
  const isWiring = useUi((state) => state.wire !== null);
  if (only === null || line === undefined || isWiring || !commands.mayEdit) return null;
  const { route } = line.drawn;
  const ends = { from: endOf(route[0]), to: endOf(route.at(-1)) };
  return (
    <ViewportPortal>
      <svg className="canvas-overlay" aria-hidden="true">
        {(["from", "to"] as const).map((end) => (
          <circle
            key={end}
            className="canvas-grip nopan"
            data-grip={end}
            cx={ends[end].x}
            cy={ends[end].y}
            r="6"
            onPointerDown={(event) =>
              dragWire(event, ends[end === "to" ? "from" : "to"], tools, (key) => {
                if (key) commands.reconnectEnd(only, end, key);
              })
            }
          >
            <title>{texts.grip}</title>
          </circle>
        ))}
      </svg>
    </ViewportPortal>
  );
}

function endOf(piece: number[][] | undefined): Point {
  const [x = 0, y = 0] = piece?.at(-1) ?? [];
  return { x, y };
}
