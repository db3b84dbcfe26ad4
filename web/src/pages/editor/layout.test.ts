import { describe, expect, it } from "vitest";
import { layoutOf, roomOf } from "./layout";
import { DEFAULT_SIZES } from "./ui";

const sizes = DEFAULT_SIZES;

describe("layoutOf", () => {
  it("puts the form beside everything on wide pages", () => {
    const layout = layoutOf("wide", ["canvas", "yaml", "form"], sizes, "canvas", false);
    expect(layout.areas).toBe(
      '"palette canvas canvas-edge yaml form-edge form" ' +
        '"palette bottom-edge bottom-edge bottom-edge form-edge form" ' +
        '"palette bottom bottom bottom form-edge form"',
    );
    expect(layout.edges.map(({ area }) => area)).toEqual(["canvas-edge", "form-edge", "bottom-edge"]);
  });

  it("puts the form below the text on narrow pages", () => {
    const layout = layoutOf("narrow", ["canvas", "yaml", "form"], sizes, "canvas", false);
    expect(layout.areas.split('" "')[2]).toContain("palette canvas canvas-edge form");
  });

  it("has as many columns as each row has areas", () => {
    for (const room of ["wide", "narrow"] as const) {
      for (const views of [["form"], ["yaml"], ["canvas"], ["yaml", "form"], ["canvas", "outline", "yaml", "form"]] as const) {
        const { areas, columns, rows } = layoutOf(room, views, sizes, "canvas", true);
        const each = areas.slice(1, -1).split('" "');
        const count = columns.replaceAll(/minmax\([^)]*\)/g, "x").split(" ").length;
        expect(each.map((row) => row.split(" ").length)).toEqual(each.map(() => count));
        expect(rows.replaceAll(/minmax\([^)]*\)/g, "x").split(" ").length).toBe(each.length);
      }
    }
  });

  it("shows one pane on phones", () => {
    expect([...layoutOf("phone", ["canvas", "yaml"], sizes, "proof", false).panes]).toEqual(["bottom"]);
    expect(roomOf(390)).toBe("phone");
  });
});
