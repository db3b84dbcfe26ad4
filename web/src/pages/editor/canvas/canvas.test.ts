import { describe, expect, it } from "vitest";
import { addEdge, addNode } from "../../../document/edits";
import { applied } from "../../../document/model";
import { readDocument } from "../../../document/read";
import { sceneOf } from "../../../graph/scene";
import { edge, node, plan, region } from "../../../graph/testing";
import { fixOf } from "../proof/fix";
import { aligned } from "./align";
import { combined } from "./combine";
import { ghostOf, isOnlyCapped, regionToFix } from "./fix";
import { matching, portsOf, type NodeType } from "./node_types";
import { isExpanded, rowsOf, step } from "./outline";
import { curve, middle, placed, storedPlaces } from "./positions";
import { idFor, starter } from "./starters";
import { edgeTargets } from "./targets";
import { reused } from "./useScene";
import { anchored, needsOverview } from "./view";

const TEXT = `graph:
  id: w
  nodes:
    - {id: Planner, type: agent}
    - {id: Coder, type: agent, position: [10, 120]}
    - {id: Gate, type: loop}
    - {id: Review, type: human}
    - {id: Final, type: passthrough}
    - id: Each
      type: loop_agent
      config: {strategy: {mode: count, max: 6}, body: {nodes: [{id: Say, type: agent}], start: Say}}
  edges:
    - {from: Planner, to: Coder}
    - {from: Coder, to: Gate}
    - {from: Gate, to: Coder, port: continue}
    - {from: Gate, to: Review}
    - {from: Review, to: Planner}
    - {from: Review, to: Final}
    - {from: Planner, to: Final, trigger: false}
  start: Planner
`;
const document = readDocument(TEXT);
const drawn = plan();
const { drawing } = drawn;
const scene = sceneOf(drawn, () => "");
const box = (x: number, y: number, width = 100, height = 40) => ({ x, y, width, height });

describe("positions", () => {
  it("are read from the text", () => {
    expect([...storedPlaces(document)]).toEqual([["Coder", { x: 10, y: 120 }]]);
  });

  it("leave a drawing as it is if nothing has moved", () => {
    expect(placed(drawing, new Map())).toBe(drawing);
    expect(placed(drawing, new Map([["Planner", { x: 0, y: 0 }]]))).toBe(drawing);
  });

  it("move a card, let the regions around it grow, and turn only its lines into curves", () => {
    const moved = placed(drawing, new Map([["Gate", { x: 400, y: 160 }]]));
    const find = (key: string) => moved.nodes.find((one) => one.key === key);
    expect(find("Gate")?.box).toEqual({ ...box(400, 160), width: 136 });
    expect(find("Planner")).toBe(drawing.nodes[0]);
    const [outer, inner] = moved.regions;
    expect(inner?.box).toMatchObject({ x: -10, y: 40, width: 400 + 136 + 12 + 10 });
    expect((outer?.box.x ?? 0) + (outer?.box.width ?? 0)).toBe(400 + 136 + 24);
    expect(moved.edges[0]).toBe(drawing.edges[0]);
    expect(moved.edges[1]?.route).toEqual(curve(box(0, 100, 136), box(400, 160, 136)));
    expect(moved.edges[4]).toBe(drawing.edges[4]);
  });

  it("move what is inside a node along with it", () => {
    const moved = placed(drawing, new Map([["Each", { x: 600, y: 50 }]]));
    expect(moved.nodes.find((one) => one.key === "Each/Say")?.box).toMatchObject({ x: 620, y: 150 });
    expect(moved.regions.find((one) => one.key === "Each/")?.box).toMatchObject({ x: 600, y: 50, width: 200, height: 200 });
  });

  it("draw curves down, across and back", () => {
    expect(curve(box(0, 0), box(0, 100))[0]).toEqual([[50, 40]]);
    expect(curve(box(0, 0), box(200, 0))[0]).toEqual([[100, 20]]);
    expect(curve(box(200, 0), box(0, 0))[0]).toEqual([[200, 20]]);
    expect(middle(curve(box(0, 0), box(0, 100), true)).x).toBeGreaterThan(100);
  });
});

describe("alignment", () => {
  const boxes = new Map([["A", box(0, 0)], ["B", box(30, 100)], ["C", box(10, 400)]]);
  it("moves only what is not yet on the line", () => {
    expect([...aligned(boxes, "left")]).toEqual([["B", { x: 0, y: 100 }], ["C", { x: 0, y: 400 }]]);
    expect([...aligned(boxes, "top").keys()]).toEqual(["B", "C"]);
    expect(aligned(boxes, "centre").get("A")).toEqual({ x: 15, y: 0 });
  });
  it("makes gaps equal", () => {
    expect([...aligned(boxes, "distribute")]).toEqual([["B", { x: 30, y: 200 }]]);
    expect(aligned(new Map([["A", box(0, 0)]]), "left").size).toBe(0);
  });
});

describe("edges of the text", () => {
  it("are found by their ends and ports, in order", () => {
    const targets = edgeTargets(document, drawing);
    expect([...targets.values()].map((one) => one.index)).toEqual([0, 1, 2, 3, 4, 5, 6]);
    const twice = { ...drawing, edges: [edge("A", "B"), edge("A", "B"), edge("A", "C", { kind: "start" })] };
    const text = readDocument("graph:\n  nodes: [{id: A, type: agent}, {id: B, type: agent}]\n  edges: [{from: A, to: B}, {from: A, to: B}]\n");
    expect([...edgeTargets(text, twice)].map(([place, one]) => [place, one.index])).toEqual([[0, 0], [1, 1]]);
  });
});

describe("the fix", () => {
  const problem = { code: "only-capped", severity: "warning" as const, file: "", line: 1, column: 1, message: "", hint: "" };
  const open = sceneOf(
    { ...drawn, drawing: { ...drawing, regions: drawing.regions.map((one) => (one.key === "Planner[]" ? { ...one, problems: [problem] } : one)) } },
    () => "",
  );
  it("is offered for the loop around a node", () => {
    expect(regionToFix(open, "Gate")?.key).toBe("Planner[]");
    expect(regionToFix(scene, "Gate")).toBeUndefined();
    expect(isOnlyCapped(region("X[]", "X"))).toBe(false);
  });
  it("is shown where there is room", () => {
    const found = open.regions.get("Planner[]")!;
    const fix = fixOf(document, open.drawing, found)!;
    const ghost = ghostOf(open, document, found, fix);
    expect(ghost?.paths.map((one) => one.kind)).toEqual(["plain", "back", "leave"]);
    expect(ghost?.box.y).toBeGreaterThan(340);
    const full = sceneOf({ ...drawn, drawing: { ...open.drawing, nodes: [...open.drawing.nodes, node("Wall", 0, 320, { box: box(60, 320, 400, 200) })] } }, () => "");
    expect(ghostOf(full, document, found, fix)).toBeNull();
  });
});

describe("the outline", () => {
  const rows = rowsOf(scene, document, edgeTargets(document, drawing));
  it("lists graphs, loops, nodes and edges", () => {
    expect(rows.slice(0, 6).map((row) => `${row.level} ${row.kind} ${row.id}`)).toEqual([
      "0 graph graph ",
      "1 loop loop Planner[]",
      "2 node Planner",
      "3 edge edge  0",
      "3 edge edge  6",
      "2 loop loop Coder[]",
    ]);
    expect(rowsOf(null, document, new Map())).toHaveLength(1);
  });
  it("hides all that is below a collapsed node", () => {
    const find = (list: typeof rows, id: string) => list.find((row) => row.id === id);
    expect(isExpanded(find(rows, "Each"))).toBe(true);
    expect(isExpanded(find(rows, "Planner"))).toBeUndefined();
    const nodes = drawing.nodes.flatMap((one) => {
      if (one.key === "Each") return [{ ...one, region: "", inside: { nodes: 1, edges: 0, loops: 0 } }];
      return one.key.startsWith("Each/") ? [] : [one];
    });
    const regions = drawing.regions.filter((one) => one.key !== "Each/");
    const edges = [...drawing.edges, edge("Each", "Final")];
    const closed = sceneOf({ ...drawn, drawing: { ...drawing, nodes, regions, edges } }, () => "");
    const after = rowsOf(closed, document, new Map([[drawing.edges.length, { kind: "edge", graph: "", index: 9 }]]));
    expect(isExpanded(find(after, "Each"))).toBe(false);
    expect(find(after, "Each/Say")).toBeUndefined();
    expect(find(after, "edge  9")).toBeUndefined();
  });
  it("is walked by keys", () => {
    expect(step(rows, 0, "ArrowUp")).toBe(0);
    expect(step(rows, 3, "ArrowLeft")).toBe(2);
    expect(step(rows, 2, "ArrowRight")).toBe(3);
    expect(step(rows, 3, "ArrowRight")).toBe(3);
    expect(step(rows, 1, "End")).toBe(rows.length - 1);
    expect(step(rows, 1, "x")).toBeUndefined();
  });
});

describe("types of nodes", () => {
  const port = (name: string) => ({ name, title: name });
  const types: NodeType[] = [
    { name: "agent", title: "Agent", description: "Calls a model.", ports: [port("error")] },
    { name: "loop", title: "Loop", description: "Decides.", ports: [port("continue"), port("exit"), port("error")] },
    { name: "human", title: "Person", description: "Asks.", ports: [port("error")] },
  ];
  it("are found by name before description", () => {
    expect(matching(types, "pers").map((one) => one.name)).toEqual(["human"]);
    expect(matching(types, "model").map((one) => one.name)).toEqual(["agent"]);
    expect(matching(types, "").length).toBe(3);
  });
  it("have ports", () => {
    const names = (key: string) => portsOf(types, document.nodes.get(key)!, "plain").map((one) => one.name);
    expect(names("Planner")).toEqual(["", "error"]);
    expect(names("Gate")).toEqual(["continue", "exit", "error"]);
    expect(names("Review")).toEqual(["", "timeout", "error"]);
  });
  it("begin with a name and what they need", () => {
    expect(idFor("loop_counter")).toBe("Loop Counter");
    expect(starter("agent", "A")).toEqual({ id: "A", type: "agent" });
    expect(starter("loop_counter", "G")).toEqual({ id: "G", type: "loop_counter", config: { max_iterations: 3 } });
  });
});

describe("several edits", () => {
  it("are one", () => {
    const text = "graph:\n  nodes:\n    - {id: A, type: agent}\n  edges: []\n  start: A\n";
    const start = readDocument(text);
    const edit = combined(start, [
      (now) => addNode(now, "", { id: "B", type: "agent" }, "A"),
      (now) => addEdge(now, "", { from: "A", to: "B" }),
    ]);
    const after = readDocument(applied(text, edit.changes));
    expect([...after.nodes.keys()]).toEqual(["A", "B"]);
    expect(after.graphs.get("")?.edges).toHaveLength(1);
  });
});

describe("the view", () => {
  it("keeps one node where it is", () => {
    const after = sceneOf({ ...drawn, drawing: { ...drawing, nodes: drawing.nodes.map((one) => ({ ...one, box: { ...one.box, y: one.box.y + 50 } })) } }, () => "");
    const view = { x: 0, y: 0, zoom: 2 };
    expect(anchored(scene, after, ["Coder"], view, { width: 500, height: 500 })).toEqual({ x: 0, y: -100, zoom: 2 });
    expect(needsOverview(scene, view, { width: 500, height: 500 })).toBe(true);
    expect(needsOverview(scene, { ...view, zoom: 0.5 }, { width: 500, height: 500 })).toBe(false);
    expect(needsOverview(scene, view, { width: 300, height: 500 })).toBe(false);
  });
  it("draws again only what has changed", () => {
    const again = structuredClone(drawing);
    again.nodes[1]!.box.x += 5;
    const next = reused(scene, sceneOf({ ...drawn, drawing: again }, () => ""));
    const changed = next.nodes.filter((one) => !scene.nodes.includes(one));
    expect(changed.map((one) => one.id)).toEqual(["Coder"]);
    expect(next.edges.every((one) => scene.edges.includes(one))).toBe(true);
  });
});
