// The guards that are missing, dashed, before anyone adds them.
import { useMemo, type CSSProperties } from "react";
import { ViewportPortal } from "@xyflow/react";
import { Icon, nodeLook } from "../../../ui/Icon";
import { COUNTER_ROUNDS, fixOf } from "../proof/fix";
import { useEditor } from "../store";
import { ghostOf, isOnlyCapped } from "./fix";
import { useTools } from "./tools";
import { useUi } from "./ui";

export function Ghosts() {
  const { texts, commands } = useTools();
  const scene = useUi((state) => state.scene);
  const previewed = useUi((state) => state.previewed);
  const isDragging = useUi((state) => state.dragged !== null || state.wire !== null);
  const document = useEditor((state) => state.lastGood);
  const ghosts = useMemo(() => {
    if (scene === null) return [];
    return scene.drawing.regions.filter(isOnlyCapped).flatMap((region) => {
      const fix = fixOf(document, scene.drawing, region);
      const ghost = fix && ghostOf(scene, document, region, fix);
      return fix && ghost ? [{ key: region.key, name: fix.guard.id, ghost }] : [];
    });
  }, [scene, document]);
  if (!ghosts.length || isDragging || !commands.mayEdit) return null;
  return (
    <ViewportPortal>
      {ghosts.map(({ key, name, ghost }) => (
        <div key={key} className="canvas-ghost" data-lit={previewed === key || undefined} aria-hidden="true">
          <svg className="canvas-overlay">
            {ghost.paths.map(({ path, kind }) => (
              <path key={kind} className={`graph-line graph-line-${kind}`} d={path} markerEnd={`url(#graph-head-${kind})`} />
            ))}
          </svg>
          <div
            className="graph-card canvas-ghost-card"
            style={{ left: ghost.box.x, top: ghost.box.y, width: ghost.box.width, height: ghost.box.height, "--kind": nodeLook("loop_counter").color } as CSSProperties}
          >
            <span className="graph-card-inside">
              <span className="graph-tile">
                <Icon name={nodeLook("loop_counter").icon} size={14} />
              </span>
              <span className="graph-name ellipsis">{name}</span>
              <span className="graph-caption ellipsis">{texts.counterCaption(COUNTER_ROUNDS)}</span>
            </span>
          </div>
        </div>
      ))}
    </ViewportPortal>
  );
}
