// What the editor shows, and how large: it is remembered in the browser, and is no part of a workflow.
import { create } from "zustand";

export const VIEWS = ["canvas", "outline", "yaml", "form"] as const;
export type View = (typeof VIEWS)[number];
/** On phones one of them fills the page. */
export type Tab = View | "proof";

export interface Sizes {
  /** Shares of the width that the panes in the middle have. */
  canvas: number;
  outline: number;
  yaml: number;
  /** Pixels: the width of the form, and its height where it is below another pane. */
  form: number;
  formHeight: number;
  /** The height of the proof, and of the pane that tries a workflow. */
  proof: number;
  trying: number;
}

export const DEFAULT_SIZES: Sizes = {
  canvas: 1.1,
  outline: 0.7,
  yaml: 1,
  form: 358,
  formHeight: 240,
  proof: 148,
  trying: 320,
};

interface UiValues {
  views: readonly View[];
  sizes: Sizes;
  tab: Tab;
  /** Whether the workflow is tried: the pane for it is at the bottom, in the place of the proof. */
  isTrying: boolean;
}

interface UiActions {
  /** Shows a view, or hides it; the last one stays. */
  toggle: (view: View) => void;
  show: (view: View) => void;
  resize: (sizes: Partial<Sizes>) => void;
  setTab: (tab: Tab) => void;
  setTrying: (isTrying: boolean) => void;
}

const KEY = "roundel.editor";

function stored(): Pick<UiValues, "views" | "sizes"> {
  const result = { views: ["canvas", "yaml", "form"] as readonly View[], sizes: DEFAULT_SIZES };
  try {
    const found = JSON.parse(localStorage.getItem(KEY) ?? "{}") as { views?: unknown; sizes?: Record<string, unknown> };
    const views = VIEWS.filter((view) => Array.isArray(found.views) && found.views.includes(view));
    const sizes = Object.entries(found.sizes ?? {}).filter(([name, size]) => name in DEFAULT_SIZES && typeof size === "number");
    if (views.length > 0) result.views = views;
    result.sizes = { ...DEFAULT_SIZES, ...Object.fromEntries(sizes) };
  } catch {
    // Storage is blocked, or an older version has written something else there.
  }
  return result;
}

export const useEditorUi = create<UiValues & UiActions>((set, get) => {
  const keep = (change: Partial<UiValues>) => {
    set(change);
    const { views, sizes } = get();
    try {
      localStorage.setItem(KEY, JSON.stringify({ views, sizes }));
    } catch {
      // It holds until the page is closed.
    }
  };
  return {
    ...stored(),
    tab: "canvas",
    isTrying: false,
    toggle: (view) => {
      const { views } = get();
      const next = VIEWS.filter((one) => (one === view ? !views.includes(one) : views.includes(one)));
      if (next.length > 0) keep({ views: next });
    },
    show: (view) => {
      set({ tab: view });
      if (!get().views.includes(view)) get().toggle(view);
    },
    resize: (sizes) => keep({ sizes: { ...get().sizes, ...sizes } }),
    setTab: (tab) => set({ tab }),
    setTrying: (isTrying) => set({ isTrying }),
  };
});
