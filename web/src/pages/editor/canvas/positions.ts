// Where the user has moved nodes. The rule: a stored position is the top left corner of a card, in the coordinates
// of the drawing. What is inside a node moves with it; regions grow around what has moved, and never shrink; lines
// between things that moved differently become simple curves.
import type { Drawing, DrawnEdge, DrawnNode, Label, Mark, Rect, Region } from "../../../api/schema";
import type { WorkflowDocument } from "../../../document/model";
import { union, type Point } from "../../../graph/scene";

export type Places = ReadonlyMap<string, Point>;

/** The room between what is in a region and its frame, and above it for the title. */
const PAD = 12;
const HEAD = 60;
/** How far the arc of a back edge reaches. */
const REACH = 64;

/** The positions that the text has, by key. */
export function storedPlaces(document: WorkflowDocument): Places {
  const places = new Map<string, Point>();
  for (const [key, node] of document.nodes) {
    const { position } = node.value;
    if (!Array.isArray(position) || position.length !== 2) continue;
    const [x, y]: unknown[] = position;
    if (typeof x === "number" && typeof y === "number" && Number.isFinite(x) && Number.isFinite(y)) places.set(key, { x, y });
  }
  return places;
}

const STILL: Point = { x: 0, y: 0 };
const moved = (box: Rect, by: Point): Rect => (by === STILL ? box : { ...box, x: box.x + by.x, y: box.y + by.y });
const isSame = (one: Point, other: Point) => one.x === other.x && one.y === other.y;

/** The drawing with these nodes where they were moved to. What has not moved stays the same object. */
export function placed(drawing: Drawing, places: Places): Drawing {
  const shifts = shiftsOf(drawing, places);
  if (shifts === null) return drawing;
  const boxes = grown(drawing, shifts);
  const nodes = drawing.nodes.map((node): DrawnNode => {
    const box = (node.region ? boxes.get(node.region) : undefined) ?? moved(node.box, shifts.node(node.key));
    return isSameBox(box, node.box) ? node : { ...node, box };
  });
  const regions = drawing.regions.map((region): Region => {
    const box = boxes.get(region.key) ?? region.box;
    const by = shifts.region(region.key);
    if (isSameBox(box, region.box)) return region;
    // A frame that grows to the left takes its title along, beside the edges that enter.
    return { ...region, box, title_x: Math.max(box.x + PAD, region.title_x + by.x) };
  });
  const marks = drawing.marks.map((mark): Mark => {
    const by = shifts.mark(mark.key);
    return by === STILL ? mark : { ...mark, box: moved(mark.box, by) };
  });
  const ends = new Map<string, Rect>([...nodes, ...marks].map((one) => [one.key, one.box]));
  const edges = drawing.edges.map((edge): DrawnEdge => {
    const [from, to] = [shifts.end(edge.source), shifts.end(edge.target)];
    if (from === STILL && to === STILL) return edge;
    if (isSame(from, to)) return { ...edge, route: shifted(edge.route, from), label: shiftedLabel(edge.label, from) };
    const [source, target] = [ends.get(edge.source), ends.get(edge.target)];
    if (source === undefined || target === undefined) return edge;
    const route = curve(source, target, edge.back);
    return { ...edge, route, label: labelOn(edge.label, middle(route)) };
  });
  const bounds = union([...nodes, ...regions, ...marks].map((one) => one.box));
  return {
    ...drawing,
    nodes,
    regions,
    marks,
    edges,
    width: Math.max(drawing.width, bounds.x + bounds.width),
    height: Math.max(drawing.height, bounds.y + bounds.height),
  };
}

interface Shifts {
  node: (key: string) => Point;
  region: (key: string) => Point;
  mark: (key: string) => Point;
  /** Of a node or a mark. */
  end: (key: string) => Point;
}

/** How far each thing moves; null if nothing does. */
function shiftsOf(drawing: Drawing, places: Places): Shifts | null {
  const nodes = new Map(drawing.nodes.map((node) => [node.key, node]));
  const regions = new Map(drawing.regions.map((region) => [region.key, region]));
  const owners = new Map(drawing.nodes.flatMap((node) => (node.region ? [[node.region, node.key]] : [])));
  const known = new Map<string, Point>();
  const region = (key: string): Point => {
    const found = regions.get(key);
    if (found === undefined) return STILL;
    const owner = owners.get(key);
    return owner === undefined ? region(found.parent) : node(owner);
  };
  const node = (key: string): Point => {
    const before = known.get(key);
    if (before !== undefined) return before;
    const found = nodes.get(key);
    if (found === undefined) return STILL;
    const place = places.get(key);
    const by = place === undefined ? region(found.parent) : { x: place.x - found.box.x, y: place.y - found.box.y };
    const shift = isSame(by, STILL) ? STILL : by;
    known.set(key, shift);
    return shift;
  };
  if (drawing.nodes.every((one) => node(one.key) === STILL)) return null;
  // A mark goes with the node that it leads to, or comes from.
  const beside = new Map<string, string>();
  for (const edge of drawing.edges) {
    if (edge.kind === "start" && !beside.has(edge.source)) beside.set(edge.source, edge.target);
    if (edge.kind === "vote" && !beside.has(edge.target)) beside.set(edge.target, edge.source);
  }
  const mark = (key: string): Point => node(beside.get(key) ?? "");
  return { node, region, mark, end: (key) => (nodes.has(key) ? node(key) : mark(key)) };
}

/** The boxes of all regions, around what is inside them. */
function grown(drawing: Drawing, shifts: Shifts): Map<string, Rect> {
  const boxes = new Map(drawing.regions.map((region) => [region.key, moved(region.box, shifts.region(region.key))]));
  const grow = (key: string, inside: Rect, above: number) => {
    const box = boxes.get(key);
    if (box === undefined) return;
    const around = { x: inside.x - PAD, y: inside.y - above, width: inside.width + 2 * PAD, height: inside.height + above + PAD };
    const whole = union([box, around]);
    if (!isSameBox(whole, box)) boxes.set(key, whole);
  };
  for (const node of drawing.nodes) {
    // Without a shift of its own it lies where its region expects it.
    if (!node.region && !isSame(shifts.node(node.key), shifts.region(node.parent))) {
      grow(node.parent, moved(node.box, shifts.node(node.key)), HEAD);
    }
  }
  // From the inside out: a region follows the regions around it in the drawing.
  for (const region of drawing.regions.toReversed()) {
    const box = boxes.get(region.key);
    if (box !== undefined && !isSameBox(box, moved(region.box, shifts.region(region.parent)))) grow(region.parent, box, HEAD);
  }
  return boxes;
}

function isSameBox(one: Rect, other: Rect): boolean {
  return one.x === other.x && one.y === other.y && one.width === other.width && one.height === other.height;
}

type Route = number[][][];

function shifted(route: Route, by: Point): Route {
  return route.map((piece) => piece.map(([x = 0, y = 0]) => [x + by.x, y + by.y]));
}

function shiftedLabel(label: Label | null, by: Point): Label | null {
  return label && { ...label, box: moved(label.box, by) };
}

function labelOn(label: Label | null, at: Point): Label | null {
  return label && { ...label, box: { ...label.box, x: at.x - label.box.width / 2, y: at.y - label.box.height / 2 } };
}

/** A line between two boxes: down to what is below, across to what is beside, and else in an arc at the right. */
export function curve(source: Rect, target: Rect, isBack = false): Route {
  const [fromX, fromY] = [source.x + source.width / 2, source.y + source.height / 2];
  const [toX, toY] = [target.x + target.width / 2, target.y + target.height / 2];
  const bottom = source.y + source.height;
  if (!isBack && target.y >= bottom + 8) {
    const pull = Math.max(16, (target.y - bottom) / 2);
    return [[[fromX, bottom]], [[fromX, bottom + pull], [toX, target.y - pull], [toX, target.y]]];
  }
  const [left, right] = [source.x, source.x + source.width];
  if (!isBack && target.x >= right + 8) {
    const pull = Math.max(16, (target.x - right) / 2);
    return [[[right, fromY]], [[right + pull, fromY], [target.x - pull, toY], [target.x, toY]]];
  }
  const end = target.x + target.width;
  if (!isBack && end + 8 <= left) {
    const pull = Math.max(16, (left - end) / 2);
    return [[[left, fromY]], [[left - pull, fromY], [end + pull, toY], [end, toY]]];
  }
  const lane = Math.max(right, end) + REACH;
  return [[[right, fromY]], [[lane, fromY], [lane, toY], [end, toY]]];
}

/** The middle of a curve. */
export function middle(route: Route): Point {
  const [fromX = 0, fromY = 0] = route[0]?.at(-1) ?? [];
  const [[ax = 0, ay = 0] = [], [bx = 0, by = 0] = [], [toX = 0, toY = 0] = []] = route[1] ?? [];
  return { x: (fromX + 3 * ax + 3 * bx + toX) / 8, y: (fromY + 3 * ay + 3 * by + toY) / 8 };
}
