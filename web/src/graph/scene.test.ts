import { describe, expect, it } from "vitest";
import { neighbour } from "./navigation";
import { outlineOf } from "./outline_rows";
import { cardBox, fitAll, fitWidth, kindOf, pathOf, regionId, reveal, sceneOf } from "./scene";
import { edge, plan } from "./testing";

const scene = sceneOf(plan(), (from, to) => `${from} to ${to}`);

describe("the scene", () => {
  it("writes routes as paths", () => {
    expect(pathOf([[[1, 2]], [[1, 9]], [[1, 12], [4, 12], [4, 15.5]]])).toBe("M1 2L1 9C1 12 4 12 4 15.5");
  });

  it("tells lines apart", () => {
    const kinds = [{}, { back: true }, { leaves: true }, { triggers: false, leaves: true }, { explicit: true, port: "error" }];
    expect(kinds.map((more) => kindOf(edge("A", "B", more)))).toEqual(["plain", "back", "leave", "data", "failure"]);
  });

  it("ties a line that runs beside its ends to the region around it, so that it is not left out", () => {
    const ends = scene.edges.map((one) => [one.source, one.target]);
    expect(ends[0]).toEqual(["Planner", "Coder"]);
    expect(ends[2]).toEqual([regionId("Coder[]"), regionId("Coder[]")]);
    expect(ends[4]).toEqual([regionId("Planner[]"), regionId("Planner[]")]);
    for (const key of ends.flat()) expect(scene.nodes.some((one) => one.id === key)).toBe(true);
  });

  it("knows which loop a back edge repeats, and what bounds it", () => {
    expect(scene.lines.map((one) => one.loop)).toEqual(["", "", "Coder[]", "", "Planner[]", "", ""]);
    expect(scene.loops.get("Coder[]")?.most).toBe(10);
    expect(scene.loops.get("Each/")?.most).toBe(6);
  });

  it("draws a node with graphs inside once, as its frame", () => {
    expect(scene.nodes.filter((one) => one.type === "card").map((one) => one.id)).not.toContain("Each");
    expect(cardBox(scene.byKey.get("Each")!).height).toBe(44);
  });

  it("labels its lines", () => {
    expect(scene.edges[0]?.ariaLabel).toBe("Planner to Coder");
  });
});

describe("the view", () => {
  const extent = (width: number, height: number, middle = width / 2) => ({ bounds: { x: 0, y: 20, width, height }, middle });
  const pane = { width: 456, height: 600 };

  it("shows everything if that is readable", () => {
    expect(fitWidth(extent(400, 660), pane).zoom).toBeCloseTo(576 / 660);
    expect(fitWidth(extent(200, 200), pane).zoom).toBe(1.2);
  });

  it("fits the width of a tall graph, from its top", () => {
    expect(fitWidth(extent(432, 9000), pane)).toEqual({ x: 12, y: -8, zoom: 1 });
  });

  it("shows the beginning of one that is too wide, and nothing beyond its border", () => {
    const { x, zoom } = fitWidth(extent(1300, 9000, 900), pane);
    expect(zoom).toBe(0.6);
    expect(900 * zoom + x).toBeCloseTo(228);
    expect(fitWidth(extent(1300, 9000, 10), pane).x).toBe(12);
    expect(fitWidth(extent(1300, 9000, 1290), pane).x).toBeCloseTo(456 - 12 - 1300 * 0.6);
  });

  it("can show the whole of it", () => {
    expect(fitAll(extent(400, 1200), pane).zoom).toBeCloseTo(576 / 1200);
  });

  it("moves only as far as it has to", () => {
    const view = { x: 0, y: 0, zoom: 1 };
    expect(reveal(view, { x: 100, y: 100, width: 136, height: 40 }, pane)).toEqual(view);
    expect(reveal(view, { x: 100, y: 700, width: 136, height: 40 }, pane)).toEqual({ x: 0, y: -152, zoom: 1 });
    expect(reveal(view, { x: -50, y: 100, width: 136, height: 40 }, pane)).toEqual({ x: 62, y: 0, zoom: 1 });
  });
});

describe("arrow keys", () => {
  it("follow the lines down and up", () => {
    expect(neighbour(scene, "Planner", "down")).toBe("Coder");
    expect(neighbour(scene, "Gate", "down")).toBe("Review");
    expect(neighbour(scene, "Gate", "up")).toBe("Coder");
    expect(neighbour(scene, "Final", "down")).toBe("Final");
  });

  it("do not follow back edges, which lead the other way", () => {
    const branching = plan();
    // As far to the side as the gate is below: the line counts, and not the shorter way.
    for (const one of branching.drawing.nodes) if (one.key === "Coder") one.box.x = 90;
    branching.drawing.edges = branching.drawing.edges.map((one) =>
      one.source === "Gate" && one.back ? { ...one, target: "Planner" } : one,
    );
    expect(neighbour(sceneOf(branching, () => ""), "Planner", "down")).toBe("Coder");
  });

  it("reach what is beside, and what is inside", () => {
    expect(neighbour(scene, "Planner", "right")).toBe("Each");
    expect(neighbour(scene, "Each", "left")).toBe("Planner");
    expect(neighbour(scene, "Each", "down")).toBe("Each/Say");
    expect(neighbour(scene, "Each/Say", "up")).toBe("Each");
  });
});

describe("the outline", () => {
  it("nests loops and nodes, from the top down", () => {
    expect(outlineOf(scene).map((row) => `${"-".repeat(row.level)}${row.key}`)).toEqual([
      "loop Planner[]",
      "-Planner",
      "-loop Coder[]",
      "--Coder",
      "--Gate",
      "-Review",
      "Each",
      "-Each/Say",
      "Final",
    ]);
  });
});
