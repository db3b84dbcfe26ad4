// A loop that only its cap ends: where it is, and how the counter that is missing would look.
import type { Rect, Region } from "../../../api/schema";
import type { WorkflowDocument } from "../../../document/model";
import { pathOf, type Scene } from "../../../graph/scene";
import type { Fix } from "../proof/fix";
import { curve } from "./positions";
import { keyIn } from "./targets";

export const isOnlyCapped = (region: Region) => region.problems.some((problem) => problem.code === "only-capped");

/** The first region that can be fixed: one around a node, or any. */
export function regionToFix(scene: Scene, key: string): Region | undefined {
  const open = scene.drawing.regions.filter(isOnlyCapped);
  const near = new Set<string>();
  for (let at = scene.byKey.get(key)?.parent ?? ""; at; at = scene.regions.get(at)?.parent ?? "") near.add(at);
  return open.findLast((region) => near.has(region.key)) ?? open[0];
}

export interface Ghost {
  box: Rect;
  paths: readonly { path: string; kind: "plain" | "back" | "leave" }[];
}

const GAP = 24;

/** The counter and its lines as they would be drawn, beside where the last way back begins; null without free room. */
export function ghostOf(scene: Scene, document: WorkflowDocument, region: Region, { graph, loop }: Fix): Ghost | null {
  const drawn = (id: string | null | undefined) => (id ? scene.byKey.get(keyIn(document, graph, id) ?? "") : undefined);
  const source = drawn(document.graphs.get(graph)?.edges[loop.back.at(-1) ?? -1]?.from);
  const entry = scene.byKey.get(region.entry);
  const exit = drawn(loop.exit);
  if (source === undefined || entry === undefined) return null;
  const { width, height } = entry.region ? source.box : entry.box;
  const taken = [
    ...scene.drawing.nodes.filter((node) => !node.region).map((node) => node.box),
    ...scene.drawing.edges.flatMap((edge) => (edge.label ? [edge.label.box] : [])),
  ];
  const below = source.box.y + source.box.height + GAP;
  const beside = source.box.x + source.box.width + GAP;
  const places = [
    { x: source.box.x + source.box.width * 0.75, y: below },
    { x: beside, y: below },
    { x: beside, y: source.box.y + source.box.height / 2 + GAP },
  ];
  const box = places.map((at) => ({ ...at, width, height })).find((one) => !taken.some((other) => touches(one, other)));
  if (box === undefined) return null;
  // Back along the frame of the loop, to a place of its own on the entry.
  const lane = Math.max(region.box.x + region.box.width, box.x + width) - 10;
  const [from, to] = [box.y + height / 2, entry.box.y + Math.min(10, entry.box.height / 4)];
  const back = `M${box.x + width} ${from}H${lane - 10}Q${lane} ${from} ${lane} ${from - 10}V${to + 10}Q${lane} ${to} ${lane - 10} ${to}H${entry.box.x + entry.box.width}`;
  return {
    box,
    paths: [
      { kind: "plain", path: pathOf(curve(source.box, box)) },
      { kind: "back", path: back },
      ...(exit ? [{ kind: "leave" as const, path: pathOf(curve(box, exit.box)) }] : []),
    ],
  };
}

function touches(one: Rect, other: Rect): boolean {
  const room = 6;
  return (
    one.x < other.x + other.width + room &&
    other.x < one.x + one.width + room &&
    one.y < other.y + other.height + room &&
    other.y < one.y + one.height + room
  );
}
