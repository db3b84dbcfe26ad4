// Where the panes are: one grid, whose rows and columns depend on the width of the page and on what is shown.
import type { Sizes, Tab, View } from "./ui";

export type Room = "wide" | "narrow" | "phone";

/** An edge between two panes that can be dragged. */
export interface Edge {
  area: string;
  orientation: "vertical" | "horizontal";
  /** The size that changes. With two names it goes from the one to the other; else it grows to the left or upwards. */
  sizes: readonly [keyof Sizes] | readonly [keyof Sizes, keyof Sizes];
}

export interface Layout {
  columns: string;
  rows: string;
  areas: string;
  /** The panes that are shown, by the name of their area. */
  panes: ReadonlySet<"palette" | "bottom" | View>;
  edges: readonly Edge[];
}

const LINE = "1px";
const REST = "minmax(0, 1fr)";

export function roomOf(width: number): Room {
  return width >= 1180 ? "wide" : width >= 720 ? "narrow" : "phone";
}

export function layoutOf(room: Room, views: readonly View[], sizes: Sizes, tab: Tab, isTrying: boolean): Layout {
  if (room === "phone") return phoneLayout(tab);
  const middle = views.filter((view) => view !== "form") as Exclude<View, "form">[];
  const hasForm = views.includes("form");
  const bottom: keyof Sizes = isTrying ? "trying" : "proof";
  // Two panes leave no room for a third one beside them: it goes below the last.
  const isBelow = room === "narrow" && hasForm && middle.length > 1;

  const columns: string[] = [];
  const top: string[] = [];
  const edges: Edge[] = [];
  if (views.includes("canvas")) {
    columns.push("158px");
    top.push("palette");
  }
  middle.forEach((view, index) => {
    const before = middle[index - 1];
    if (before !== undefined) {
      columns.push(LINE);
      top.push(`${before}-edge`);
      edges.push({ area: `${before}-edge`, orientation: "vertical", sizes: [before, view] });
    }
    columns.push(`minmax(0, ${sizes[view]}fr)`);
    top.push(view);
  });
  const sides = (row: readonly string[]) => {
    if (!hasForm || isBelow) return row;
    return middle.length > 0 ? [...row, "form-edge", "form"] : ["form"];
  };
  const under = (area: string) => top.map((one) => (one === "palette" ? one : area));
  const rows: [string, readonly string[]][] = [[REST, sides(top)]];
  if (isBelow) {
    const last = top.at(-1) ?? "";
    const below = (area: string) => top.map((one) => (one === last ? area : one));
    rows.push([LINE, below("form-edge")], [`${sizes.formHeight}px`, below("form")]);
    edges.push({ area: "form-edge", orientation: "horizontal", sizes: ["formHeight"] });
  } else if (hasForm && middle.length > 0) {
    columns.push(LINE, `${room === "wide" ? sizes.form : Math.min(sizes.form, 320)}px`);
    edges.push({ area: "form-edge", orientation: "vertical", sizes: ["form"] });
  } else if (hasForm) columns.push(REST);
  const wide = middle.length > 0 ? (area: string) => sides(under(area)) : (area: string) => [area];
  rows.push([LINE, wide("bottom-edge")], [`${sizes[bottom]}px`, wide("bottom")]);
  edges.push({ area: "bottom-edge", orientation: "horizontal", sizes: [bottom] });
  return {
    columns: columns.join(" "),
    rows: rows.map(([size]) => size).join(" "),
    areas: rows.map(([, names]) => `"${names.join(" ")}"`).join(" "),
    panes: new Set([...views, "bottom" as const, ...(views.includes("canvas") ? (["palette"] as const) : [])]),
    edges,
  };
}

function phoneLayout(tab: Tab): Layout {
  if (tab === "canvas") {
    const panes = new Set(["palette", "canvas"] as const);
    return { columns: REST, rows: `auto ${REST}`, areas: '"palette" "canvas"', panes, edges: [] };
  }
  const area = tab === "proof" ? "bottom" : tab;
  return { columns: REST, rows: REST, areas: `"${area}"`, panes: new Set([area]), edges: [] };
}
