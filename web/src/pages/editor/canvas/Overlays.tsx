// Where lists, menus and fields open above the panes, and what screen readers hear of the canvas.
import { useEffect, useId } from "react";
import { Later, later } from "../../../ui/later";
import { useTools } from "./tools";
import { close, useUi } from "./ui";

const OverlayView = later(() => import("./OverlayViews"));

/** What is open, and the live region. Each pane has it, so that one may be closed; only one shows it. */
export function Overlays() {
  const id = useId();
  const { ui } = useTools();
  useEffect(() => {
    ui.setState(({ hosts }) => ({ hosts: [...hosts, id] }));
    return () => ui.setState(({ hosts }) => ({ hosts: hosts.filter((one) => one !== id) }));
  }, [ui, id]);
  // After the editor, and before anybody can open one: what is typed at once must not get lost.
  useEffect(() => void OverlayView.load()?.catch(() => {}), []);
  return useUi((state) => state.hosts[0] === id) ? <Shown /> : null;
}

function Shown() {
  const { ui, texts } = useTools();
  const overlay = useUi((state) => state.overlay);
  const said = useUi((state) => state.said);
  return (
    <>
      <div className="hidden-text" role="status" aria-live="polite">
        {said}
      </div>
      <Later>
        {overlay && <OverlayView overlay={overlay} close={(isFocusKept) => close(ui, overlay, isFocusKept)} nothing={texts.nothing} />}
      </Later>
    </>
  );
}
