// What the canvas and the outline share besides the text: where the keyboard is, what is open, what is dragged.
import { useStore } from "zustand";
import { createStore, type StoreApi } from "zustand/vanilla";
import type { Point, Scene } from "../../../graph/scene";
import type { IconName } from "../../../ui/Icon";
import { useEditorStore, type EditorStore } from "../store";
import type { Places } from "./positions";
import type { EdgeTarget } from "./targets";

export interface Item {
  id: string;
  text: string;
  hint?: string;
  group?: string;
  icon?: IconName;
  color?: string;
  isDanger?: boolean;
  isDisabled?: boolean;
  /** The key that does the same. */
  keys?: string;
}

/** Something open above the panes. It is placed by the window. */
export type Overlay =
  | { kind: "list"; label: string; items: readonly Item[]; at: Point; choose: (id: string) => void }
  | { kind: "menu"; label: string; items: readonly Item[]; at: Point; choose: (id: string) => void }
  | { kind: "prompt"; label: string; value: string; at: Point; isNumber?: boolean; done: (value: string) => void };

/** An end of an edge that is being drawn. */
export interface Wire {
  from: Point;
  to: Point;
  /** The node under the pointer. */
  over: string;
}

export interface Ui {
  scene: Scene | null;
  targets: ReadonlyMap<number, EdgeTarget>;
  /** The key of the node that takes part in the tab order. */
  cursor: string;
  /** The key of the node that gets the focus as soon as it is drawn. */
  wanted: string;
  /** The key of a node that was collapsed or opened, until it is drawn so. */
  toggled: string;
  /** Where the keyboard was last. */
  side: "canvas" | "outline";
  overlay: Overlay | null;
  /** What had the focus before the overlay. */
  before: HTMLElement | null;
  /** For the live region. */
  said: string;
  /** Where nodes are while they are dragged. */
  dragged: Places | null;
  wire: Wire | null;
  /** The region whose missing guard the pointer is at. */
  previewed: string;
  /** The panes that can show what is open; the first of them does. */
  hosts: readonly string[];
  /** Copied last, where the clipboard of the system cannot be read. */
  clipboard: string;
}

export type UiStore = StoreApi<Ui>;

const made = new WeakMap<EditorStore, UiStore>();

export function uiOf(editor: EditorStore): UiStore {
  let ui = made.get(editor);
  if (ui === undefined) {
    ui = createStore<Ui>(() => ({
      scene: null,
      targets: new Map(),
      cursor: "",
      wanted: "",
      toggled: "",
      side: "canvas",
      overlay: null,
      before: null,
      said: "",
      dragged: null,
      wire: null,
      previewed: "",
      hosts: [],
      clipboard: "",
    }));
    made.set(editor, ui);
  }
  return ui;
}

export function useUiStore(): UiStore {
  return uiOf(useEditorStore());
}

export function useUi<T>(select: (ui: Ui) => T): T {
  return useStore(useUiStore(), select);
}

export function open(ui: UiStore, overlay: Overlay): void {
  const { overlay: open, before } = ui.getState();
  const active = document.activeElement instanceof HTMLElement ? document.activeElement : null;
  ui.setState({ overlay, before: open === null ? active : before });
}

/** Closes what is open, and gives the focus back; an action may have opened something else meanwhile. */
export function close(ui: UiStore, overlay: Overlay | null, isFocusKept = false): void {
  const { overlay: now, before } = ui.getState();
  if (overlay !== null && now !== overlay) return;
  ui.setState({ overlay: null, before: null });
  if (!isFocusKept && before?.isConnected) before.focus({ preventScroll: true });
}
