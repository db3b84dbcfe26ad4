// The workflow as a graph, drawn by the server's layout and edited by pointer and keys.
import { useCallback } from "react";
import { messages as shapes } from "../../../graph/messages";
import { fitAll, fitWidth, type Scene } from "../../../graph/scene";
import { useMessages } from "../../../i18n/messages";
import { Button } from "../../../ui/Button";
import { Later, later } from "../../../ui/later";
import { useEditor } from "../store";
import { ALIGNMENTS } from "./align";
import { Broken } from "./Broken";
import { dropOf } from "./drop";
import { EditorFlow } from "./EditorFlow";
import { Overlays } from "./Overlays";
import { storedPlaces } from "./positions";
import { ToolsContext, useNewTools, useTools } from "./tools";
import { useCanvasKeys } from "./useCanvasKeys";
import { useScene } from "./useScene";
import "./canvas.css";

const Nothing = later(() => import("./Nothing"));

export function CanvasPane() {
  const tools = useNewTools();
  return (
    <ToolsContext value={tools}>
      <Pane />
      <Overlays />
    </ToolsContext>
  );
}

function Pane() {
  const tools = useTools();
  const { texts, editor, ui, commands, flow } = tools;
  const shape = useMessages(shapes);
  const scene = useScene();
  const isChecked = useEditor(({ check, checkError }) => check !== null || checkError !== null);
  const isNew = useEditor(({ saved, text }) => saved === null && text === "");
  const goTo = useCallback(
    (key: string) => {
      editor.getState().select([{ kind: "node", key }]);
      ui.setState({ cursor: key, wanted: key });
      const node = ui.getState().scene?.byKey.get(key);
      if (node && flow.current) void flow.current.setCenter(node.box.x + node.box.width / 2, node.box.y + Math.min(60, node.box.height / 2), { zoom: flow.current.getZoom() });
    },
    [editor, ui, flow],
  );
  useCanvasKeys(goTo);
  const fit = () => {
    const box = document.querySelector(".editor-canvas");
    if (!box || flow.current === null || scene === null) return;
    const size = { width: box.clientWidth, height: box.clientHeight };
    const wide = fitWidth(scene, size);
    const now = flow.current.getViewport();
    const isWide = Math.abs(now.zoom - wide.zoom) < 0.005 && Math.abs(now.y - wide.y) < 1 && Math.abs(now.x - wide.x) < 1;
    // Pressed again it shows everything, however small.
    void flow.current.setViewport(isWide ? fitAll(scene, size) : wide);
  };
  return (
    <div className="canvas-pane">
      <header className="canvas-header">
        <h2>{texts.canvas}</h2>
        {scene && <Counts scene={scene} />}
        <div className="canvas-header-tools">
          <AlignButtons />
          <Tidy />
        </div>
      </header>
      <div className="canvas-body" {...dropOf(tools, scene)}>
        <Broken />
        {scene && <EditorFlow scene={scene} />}
        <Later>{isChecked && !scene && <Nothing texts={texts} mayEdit={commands.mayEdit} isNew={isNew} />}</Later>
        {scene && (
          <div className="canvas-tools">
            <Button icon="minus" aria-label={shape.zoomOut} title={shape.zoomOut} onClick={() => void flow.current?.zoomOut()} />
            <Button icon="plus" aria-label={shape.zoomIn} title={shape.zoomIn} onClick={() => void flow.current?.zoomIn()} />
            <Button icon="fit" aria-label={shape.fit} title={shape.fit} onClick={fit} />
          </div>
        )}
        {scene && commands.mayEdit && <p className="hidden-text">{texts.band}</p>}
      </div>
    </div>
  );
}

/** Collapsed nodes count with all that is inside them. */
function Counts({ scene }: { scene: Scene }) {
  const { texts } = useTools();
  const whole = useEditor((state) => state.drawing);
  const { nodes, edges, regions } = whole?.nodes.length ? whole : scene.drawing;
  const lines = edges.filter((edge) => edge.kind === "edge").length;
  return <span className="canvas-counts ellipsis">{texts.counts(nodes.filter((node) => !node.missing).length, lines, regions.filter((region) => region.repeats).length)}</span>;
}

function Tidy() {
  const { texts, commands } = useTools();
  const isMoved = useEditor((state) => storedPlaces(state.lastGood).size > 0);
  if (!commands.mayEdit) return null;
  return (
    <Button kind="quiet" icon="fit" title={texts.tidyHelp} disabled={!isMoved} onClick={commands.tidy}>
      {texts.tidy}
    </Button>
  );
}

const ALIGN_ICONS = { left: "alignLeft", centre: "alignCentre", top: "alignTop", distribute: "distribute" } as const;

/** Only while several nodes are selected. */
function AlignButtons() {
  const { texts, commands } = useTools();
  const isSeveral = useEditor((state) => state.selection.filter((target) => target.kind === "node").length > 1);
  if (!isSeveral || !commands.mayEdit) return null;
  return (
    <div className="canvas-align" role="group" aria-label={texts.alignGroup}>
      {ALIGNMENTS.map((how) => (
        <Button key={how} kind="quiet" icon={ALIGN_ICONS[how]} aria-label={texts[how]} title={texts[how]} onClick={() => commands.align(how)} />
      ))}
    </div>
  );
}
