// What the canvas draws, made once from the drawing of the server: places, paths and who is connected to whom.
// Events never change it; components select their own state.
import { Position, type Edge, type Node } from "@xyflow/react";
import type { Drawing, DrawnEdge, DrawnNode, Label, Mark, Proof, Rect, Region } from "../api/schema";

export type EdgeKind = "plain" | "back" | "leave" | "failure" | "data";

export interface Line {
  id: string;
  drawn: DrawnEdge;
  kind: EdgeKind;
  path: string;
  /** A point near its end, where waiting messages are counted. */
  near: Point;
  /** Where a padlock stands if its loop is locked. */
  lock: Point;
  /** The key of the loop whose next round it begins; empty if it begins none. */
  loop: string;
  /** All triggering lines to the same target, and this one. */
  rivals: readonly Line[];
}

export interface Point {
  x: number;
  y: number;
}

export interface Loop {
  region: Region;
  /** The most rounds of one entry; null if only a clock or the cap ends it. */
  most: number | null;
  proof: Proof | undefined;
}

export type CardNode = Node<{ drawn: DrawnNode }, "card">;
export type RegionNode = Node<{ region: Region; owner: DrawnNode | null; loop: Loop | null }, "region">;
export type MarkNode = Node<{ mark: Mark }, "mark">;
export type LabelNode = Node<{ label: Label; line: Line }, "label">;
export type PaperNode = Node<Record<string, never>, "paper">;
export type SceneNode = CardNode | RegionNode | MarkNode | LabelNode | PaperNode;
export type SceneEdge = Edge<{ line: Line }, "line">;

/** A drawing, and what is proved about its loops. */
export interface Drawn {
  drawing: Drawing;
  loops: readonly Proof[];
}

export interface Scene {
  drawing: Drawing;
  nodes: SceneNode[];
  edges: SceneEdge[];
  lines: readonly Line[];
  /** By key; what can be selected. */
  byKey: ReadonlyMap<string, DrawnNode>;
  regions: ReadonlyMap<string, Region>;
  /** What repeats, by the key of its region. */
  loops: ReadonlyMap<string, Loop>;
  bounds: Rect;
  /** The x of the first node. */
  middle: number;
  /** The key at which the keyboard begins. */
  first: string;
  /** The key of the lowest node. */
  last: string;
}

export const HEADER = 44;
const PAPER = "#paper";

export function pathOf(route: number[][][]): string {
  return route
    .map((points, at) => {
      const command = at === 0 ? "M" : points.length === 3 ? "C" : "L";
      return command + points.map(([x, y]) => `${x} ${y}`).join(" ");
    })
    .join("");
}

export function kindOf(edge: DrawnEdge): EdgeKind {
  if (!edge.triggers) return "data";
  if (edge.explicit && edge.port === "error") return "failure";
  if (edge.back) return "back";
  return edge.leaves ? "leave" : "plain";
}

export function groupBy<T>(items: readonly T[], key: (item: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const item of items) {
    const group = groups.get(key(item));
    if (group === undefined) groups.set(key(item), [item]);
    else group.push(item);
  }
  return groups;
}

const last = (points: number[][] | undefined): Point => {
  const [x = 0, y = 0] = points?.at(-1) ?? [];
  return { x, y };
};

/** The middle of the longest upright piece, which is the lane of a back edge; else where it begins. */
function middleOf(route: number[][][]): Point {
  let longest = -1;
  let found = last(route[0]);
  for (let at = 1; at < route.length; at++) {
    const piece = route[at] ?? [];
    const from = last(route[at - 1]);
    const to = last(piece);
    const length = Math.abs(from.y - to.y);
    if (piece.length === 1 && from.x === to.x && length > longest) {
      longest = length;
      found = { x: (from.x + to.x) / 2, y: (from.y + to.y) / 2 };
    }
  }
  return found;
}

/** A point so far before the end of a route, on its last piece. */
function beforeEnd(route: number[][][], distance: number): Point {
  const end = last(route.at(-1));
  const before = last(route.at(-2)?.length ? route.at(-2) : undefined);
  const piece = route.at(-1) ?? [];
  // The last handle of a curve says from where the line comes.
  const [fromX = before.x, fromY = before.y] = piece.length === 3 ? (piece[1] ?? []) : [before.x, before.y];
  const length = Math.hypot(end.x - fromX, end.y - fromY) || 1;
  const share = Math.min(1, distance / length);
  return { x: end.x + (fromX - end.x) * share, y: end.y + (fromY - end.y) * share };
}

function around(points: readonly number[][]): Rect {
  const xs = points.map(([x = 0]) => x);
  const ys = points.map(([, y = 0]) => y);
  const [x, y] = [Math.min(...xs), Math.min(...ys)];
  return { x, y, width: Math.max(...xs) - x, height: Math.max(...ys) - y };
}

export function union(boxes: readonly Rect[]): Rect {
  if (!boxes.length) return { x: 0, y: 0, width: 0, height: 0 };
  const x = Math.min(...boxes.map((box) => box.x));
  const y = Math.min(...boxes.map((box) => box.y));
  return {
    x,
    y,
    width: Math.max(...boxes.map((box) => box.x + box.width)) - x,
    height: Math.max(...boxes.map((box) => box.y + box.height)) - y,
  };
}

function holds(outer: Rect, inner: Rect): boolean {
  return (
    outer.x <= inner.x &&
    outer.y <= inner.y &&
    inner.x + inner.width <= outer.x + outer.width &&
    inner.y + inner.height <= outer.y + outer.height
  );
}

/** The bound in a caption of the server, such as "at most 6 rounds, by Council". */
function boundIn(captions: readonly string[]): number | null {
  for (const caption of captions) {
    const found = /at most ([\d,]+) rounds?/.exec(caption);
    if (found?.[1]) return Number(found[1].replaceAll(",", ""));
  }
  return null;
}

function loopsOf(plan: Drawn, byKey: ReadonlyMap<string, DrawnNode>): Map<string, Loop> {
  const found = new Map<string, Loop>();
  for (const region of plan.drawing.regions) {
    if (!region.repeats) continue;
    const entry = byKey.get(region.entry);
    const proof =
      region.kind === "loop"
        ? plan.loops.find((one) => one.id === entry?.id)
        : plan.loops.find((one) => one.id === region.title);
    const most = proof === undefined ? boundIn(region.captions) : proof.worst_case_rounds;
    found.set(region.key, { region, most, proof });
  }
  return found;
}

/** The smallest thing that holds a whole line, so that the canvas leaves the line out only when it is out of
 * sight: React Flow judges by the boxes of its ends, and a back edge runs beside them. */
function ends(line: Line, boxes: ReadonlyMap<string, Rect>, regions: readonly Region[]): [string, string] {
  const { source, target, route } = line.drawn;
  const way = around(route.flat());
  const both = [boxes.get(source), boxes.get(target)].filter((box) => box !== undefined);
  if (both.length === 2 && holds(union(both), way)) return [source, target];
  const region = regions.findLast((one) => holds(one.box, way));
  const key = region === undefined ? PAPER : regionId(region.key);
  return [key, key];
}

export const regionId = (key: string) => `region ${key}`;

const HANDLES = [
  { type: "source" as const, position: Position.Bottom, x: 0, y: 0, width: 1, height: 1 },
  { type: "target" as const, position: Position.Top, x: 0, y: 0, width: 1, height: 1 },
];

function at(box: Rect) {
  const { x, y, width, height } = box;
  return { position: { x, y }, width, height, measured: { width, height }, handles: HANDLES };
}

export function sceneOf(plan: Drawn, edgeLabel: (from: string, to: string) => string): Scene {
  const { drawing } = plan;
  const byKey = new Map(drawing.nodes.map((node) => [node.key, node]));
  const regions = new Map(drawing.regions.map((region) => [region.key, region]));
  const owners = new Map(drawing.nodes.filter((node) => node.region).map((node) => [node.region, node]));
  const loops = loopsOf(plan, byKey);
  const loopByEntry = new Map<string, string>();
  for (const { region } of loops.values()) if (region.entry) loopByEntry.set(region.entry, region.key);

  const lines: Line[] = drawing.edges.map((drawn, number) => ({
    id: `edge ${number}`,
    drawn,
    kind: kindOf(drawn),
    path: pathOf(drawn.route),
    near: beforeEnd(drawn.route, 15),
    lock: drawn.label
      ? { x: drawn.label.box.x + drawn.label.box.width / 2, y: drawn.label.box.y - 13 }
      : middleOf(drawn.route),
    loop: drawn.back ? (loopByEntry.get(drawn.target) ?? "") : "",
    rivals: [],
  }));
  const byTarget = groupBy(
    lines.filter((line) => line.drawn.triggers),
    (line) => line.drawn.target,
  );
  for (const line of lines) line.rivals = byTarget.get(line.drawn.target) ?? [];

  const boxes = new Map<string, Rect>([
    ...drawing.nodes.map((node) => [node.key, node.box] as const),
    ...drawing.marks.map((mark) => [mark.key, mark.box] as const),
  ]);
  const name = (key: string) => byKey.get(key)?.id ?? drawing.marks.find((mark) => mark.key === key)?.text ?? key;
  const bounds = union([
    ...boxes.values(),
    ...drawing.regions.map((region) => region.box),
    ...drawing.edges.map((edge) => around(edge.route.flat())),
  ]);
  // Words of the library that no reader should hear: each card says itself what it is.
  const quiet = { "aria-roledescription": undefined, "aria-describedby": undefined };
  const nodes: SceneNode[] = [
    { id: PAPER, type: "paper", data: {}, zIndex: 0, domAttributes: quiet, ...at(bounds) },
    ...drawing.regions.map((region): RegionNode => {
      const data = { region, owner: owners.get(region.key) ?? null, loop: loops.get(region.key) ?? null };
      return { id: regionId(region.key), type: "region", data, zIndex: 0, domAttributes: quiet, ...at(region.box) };
    }),
    ...lines.flatMap((line): LabelNode[] => {
      const { label } = line.drawn;
      if (label === null) return [];
      const data = { label, line };
      return [{ id: `label ${line.id}`, type: "label", data, zIndex: 2, domAttributes: quiet, ...at(label.box) }];
    }),
    ...drawing.marks.map(
      (mark): MarkNode => ({ id: mark.key, type: "mark", data: { mark }, zIndex: 3, domAttributes: quiet, ...at(mark.box) }),
    ),
    ...drawing.nodes.map((drawn): SceneNode => {
      const data = { drawn };
      // Its region is the card of a node with graphs inside; here it is only an end for lines.
      if (drawn.region) return { id: drawn.key, type: "paper", data: {}, zIndex: 0, domAttributes: quiet, ...at(drawn.box) };
      return { id: drawn.key, type: "card", data, zIndex: 3, domAttributes: quiet, ...at(drawn.box) };
    }),
  ];
  const edges = lines.map((line): SceneEdge => {
    const [source, target] = ends(line, boxes, drawing.regions);
    return {
      id: line.id,
      type: "line",
      source,
      target,
      data: { line },
      zIndex: 1,
      ariaLabel: edgeLabel(name(line.drawn.source), name(line.drawn.target)),
      domAttributes: quiet,
    };
  });
  const first = drawing.nodes.find((node) => node.start && !node.key.includes("/")) ?? drawing.nodes[0];
  const lowest = drawing.nodes.reduce<DrawnNode | undefined>((low, node) => (low && low.box.y >= node.box.y ? low : node), undefined);
  const middle = first ? first.box.x + first.box.width / 2 : bounds.x + bounds.width / 2;
  return { drawing, nodes, edges, lines, byKey, regions, loops, bounds, middle, first: first?.key ?? "", last: lowest?.key ?? "" };
}

/** Where a card is; of a node with graphs inside, its header. */
export function cardBox(node: DrawnNode): Rect {
  return node.region ? { ...node.box, height: Math.min(HEADER, node.box.height) } : node.box;
}

export interface View {
  x: number;
  y: number;
  zoom: number;
}

export interface Size {
  width: number;
  height: number;
}

/** What is to be seen: everything, and the middle of where the run begins. */
export type Extent = Pick<Scene, "bounds" | "middle">;

export const LEAST_ZOOM = 0.1;
export const MOST_ZOOM = 2;
const MARGIN = 12;

function clamp(value: number, least: number, most: number): number {
  return Math.min(most, Math.max(least, value));
}

/** Below this, small text is hard to read, and scrolling is better than seeing everything. */
const READABLE = 0.84;

/** As wide as the pane, and readable: a tall graph begins at the top, and scrolls. */
export function fitWidth({ bounds, middle }: Extent, pane: Size): View {
  const zoom = clamp((pane.width - 2 * MARGIN) / Math.max(1, bounds.width), 0.6, 1.2);
  const whole = fitAll({ bounds, middle }, pane);
  return whole.zoom >= READABLE && whole.zoom < zoom ? whole : placed({ bounds, middle }, pane, zoom);
}

/** The whole graph at once. */
export function fitAll({ bounds, middle }: Extent, pane: Size): View {
  const wide = (pane.width - 2 * MARGIN) / Math.max(1, bounds.width);
  const high = (pane.height - 2 * MARGIN) / Math.max(1, bounds.height);
  return placed({ bounds, middle }, pane, clamp(Math.min(wide, high), LEAST_ZOOM, 1.2));
}

function placed({ bounds, middle }: Extent, pane: Size, zoom: number): View {
  const spareX = pane.width - bounds.width * zoom;
  const spareY = pane.height - bounds.height * zoom;
  // One that is too wide shows where the run begins.
  const shift = spareX / 2 - (middle - bounds.x - bounds.width / 2) * zoom;
  return {
    x: (spareX > 0 ? spareX / 2 : clamp(shift, spareX - MARGIN, MARGIN)) - bounds.x * zoom,
    // Slightly above the middle, but never far from the header.
    y: (spareY > 0 ? Math.max(MARGIN, Math.min(spareY / 2, 64)) : MARGIN) - bounds.y * zoom,
    zoom,
  };
}

/** The view moved as little as possible, so that a box is inside it. */
export function reveal(view: View, box: Rect, pane: Size): View {
  const shift = (from: number, to: number, size: number) => {
    if (from < MARGIN || to - from > size - 2 * MARGIN) return MARGIN - from;
    return to > size - MARGIN ? size - MARGIN - to : 0;
  };
  const left = box.x * view.zoom + view.x;
  const top = box.y * view.zoom + view.y;
  return {
    x: view.x + shift(left, left + box.width * view.zoom, pane.width),
    y: view.y + shift(top, top + box.height * view.zoom, pane.height),
    zoom: view.zoom,
  };
}
