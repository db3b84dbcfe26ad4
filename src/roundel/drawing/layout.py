"""Where everything of a drawing stands: boxes for nodes and frames, curves for edges, places for labels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from roundel.drawing.caption import graph_title, voting_words
from roundel.drawing.curve import Curve, flow, lane, self_curve
from roundel.drawing.frame import BULGE, PAD, Frame
from roundel.drawing.framing import frame_graph
from roundel.drawing.nesting import Group, Part, Wire, nest
from roundel.drawing.routes import Way, find_routes
from roundel.plan.graph import GraphPlan, NodePlan, Plan


@dataclass(frozen=True, slots=True)
class Box:
    x: float
    y: float
    width: float
    height: float

    @property
    def right(self) -> float:
        return self.x + self.width

    @property
    def bottom(self) -> float:
        return self.y + self.height

    def overlaps(self, other: Box) -> bool:
        return (
            self.x < other.right and other.x < self.right and self.y < other.bottom and other.y < self.bottom
        )


@dataclass(frozen=True, slots=True)
class NodeBox:
    node: NodePlan
    graph: GraphPlan
    box: Box
    ends: bool
    title: tuple[str, ...] = ()
    """Of a frame; a node without graphs inside has none."""

    @property
    def holds_graph(self) -> bool:
        return bool(self.title)


@dataclass(frozen=True, slots=True)
class MarkBox:
    text: str
    box: Box


@dataclass(frozen=True, slots=True)
class LoopBox:
    loop: Group
    box: Box
    title: tuple[str, ...]
    title_x: float


@dataclass(frozen=True, slots=True)
class EdgeCurve:
    wire: Wire | None
    """None from the start, and to the vote."""
    curve: Curve
    label: tuple[str, ...]
    label_box: Box | None


@dataclass(slots=True)
class Layout:
    width: float
    height: float
    title: tuple[str, ...]
    nodes: list[NodeBox] = field(default_factory=list)
    """A node that holds a graph comes before the nodes in it."""
    marks: list[MarkBox] = field(default_factory=list)
    loops: list[LoopBox] = field(default_factory=list)
    edges: list[EdgeCurve] = field(default_factory=list)


MOST_PIECES = 20_000
"""An edge has a piece in each frame that it crosses. So many are laid out in about ten seconds."""


class TooLarge(Exception):
    """It would take too long to lay out, and nobody could read it."""


def lay_out(plan: Plan) -> Layout:
    """TooLarge if there are too many edges that cross too many frames."""
    title = tuple(filter(None, (graph_title(plan), voting_words(plan.graph))))
    group = nest(plan.graph)
    pieces = sum(find_routes(inner).pieces for inner in group.graphs())
    if pieces > MOST_PIECES:
        raise TooLarge(f"{pieces:,} pieces of edges, more than {MOST_PIECES:,}, are too many to draw")
    frame = frame_graph(group, title)
    frame.shift(0, 0)
    layout = Layout(frame.width, frame.height, title)
    _add_graph(layout, frame)
    return layout


def _add_graph(layout: Layout, frame: Frame) -> None:
    frames = {inner.group: inner for inner in _frames(frame)}
    for inner in frames.values():
        _add_parts(layout, inner)
    for way in frame.routes.ways:
        layout.edges.append(_edge(way, frames, frame))


def _frames(frame: Frame) -> Iterator[Frame]:
    """The frames of one graph, outer ones first."""
    yield frame
    for inner in frame.inner.values():
        yield from _frames(inner)


def _add_parts(layout: Layout, frame: Frame) -> None:
    for part in frame.cells:
        box, inner = box_of(frame, part), frame.inner.get(part)
        if part.node is not None:
            _add_node(layout, frame, part, part.node)
        elif inner is not None:
            layout.loops.append(LoopBox(inner.group, box, inner.title, box.x + inner.title_x))
        else:
            layout.marks.append(MarkBox("start" if part.layer < 0 else "majority vote", box))


def _add_node(layout: Layout, frame: Frame, part: Part, node: NodePlan) -> None:
    row, group = frame.rows.get(part), frame.group
    ends = group.ends(node) and not group.graph.graph.is_majority_voting
    title = row.title if row else ()
    layout.nodes.append(NodeBox(node, group.graph, box_of(frame, part), ends, title))
    for inner in row.frames if row else ():
        _add_graph(layout, inner)


def box_of(frame: Frame, part: Part) -> Box:
    cell = frame.cells[part]
    width, height = frame.size(part)
    x, y = frame.x + PAD + cell.x, frame.y + frame.middle(cell.rank)
    return Box(x - width / 2, y - height / 2, width, height)


def _edge(way: Way, frames: dict[Group, Frame], top: Frame) -> EdgeCurve:
    left, middle, entered = top.routes.groups_of(way)
    curve: Curve = []
    for group in left:
        curve += flow(frames[group], way)
    curve += _joined(frames[middle], way)
    for group in entered:
        curve += flow(frames[group], way)
    home = frames[top.routes.homes[way.source][-1]]
    return EdgeCurve(way.wire, curve, way.label, _label_box(home, way, curve) if way.label else None)


def _joined(frame: Frame, way: Way) -> Curve:
    if way in frame.lanes:
        return lane(frame, way)
    return self_curve(frame, way) if way.source == way.target else flow(frame, way)


def _label_box(frame: Frame, way: Way, curve: Curve) -> Box:
    width, height = way.label_width, way.label_height
    if way in frame.labels:
        item = frame.labels[way]
        x, y = frame.x + PAD + item.x, frame.y + frame.middle(item.rank)
    elif way in frame.lanes:
        x = frame.x + PAD + frame.lanes[way]
        along = [point for points in curve for point in points if abs(point[0] - x) < 1]
        y = (min(y for _, y in along) + max(y for _, y in along)) / 2
    else:
        part = frame.part(way.source)
        before = frame.selves[part][: frame.selves[part].index(way)]
        box = box_of(frame, part)
        x = box.right + sum(BULGE + other.label_width for other in before) + BULGE - 4 + width / 2
        y = box.y + box.height / 2
    return Box(x - width / 2, y - height / 2, width, height)
