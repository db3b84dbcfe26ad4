"""Connectors: the frames that an edge passes through, and its curve in each of them.

A connector leaves every loop that it does not share with its target at the bottom, joins two parts of
the innermost group that contains both ends, and enters every loop around its target at the top.
Downwards it flows from rank to rank; upwards it runs in a lane and turns corners. Each frame draws its
own piece, and the pieces meet at the borders.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from roundel.drawing.labels import Labels
from roundel.drawing.nesting import Group, GroupPart, Wire, paths, wires
from roundel.drawing.text import text_width, wrap

if TYPE_CHECKING:
    from roundel.drawing.layout import DensityMeasures, Frame

Point = tuple[float, float]
Curve = list[tuple[Point, ...]]
"""Pieces: one point for a move or a line, three points for a cubic curve."""
START, VOTE = -1, -2
"""Numbers in place of node indexes: the source of the input, and the place where votes are counted."""
RADIUS = 16
KAPPA = 0.55
"""The length of a cubic curve's handles that makes it look like a quarter of a circle, as a share of the
radius."""


@dataclass(frozen=True, slots=True, eq=False)
class Connector:
    """An edge on its way through the frames of a graph; or a line from the start, or to the vote."""

    source: int
    target: int
    wire: Wire | None = None
    """None for a line from the start or to the vote."""
    label: tuple[str, ...] = ()
    label_width: float = 0
    label_height: float = 0


@dataclass(slots=True, eq=False)
class Wiring:
    """The connectors of one graph, by the groups that they pass through; `wiring_of` creates it."""

    group: Group
    homes: dict[int, list[Group]]
    connectors: list[Connector]
    ins: dict[Group, list[Connector]] = field(default_factory=dict)
    outs: dict[Group, list[Connector]] = field(default_factory=dict)
    within: dict[Group, list[Connector]] = field(default_factory=dict)

    @property
    def pieces(self) -> int:
        """The number of pieces to lay out: a connector has one in each frame that it crosses."""
        return sum(len(found) for kind in (self.ins, self.outs, self.within) for found in kind.values())

    @property
    def items(self) -> int:
        """The number of items in the ranks: the parts, and a point of each connector in each rank on its
        way. The time and the memory of a layout grow with it: with the cube of the nodes if each leads to
        all after it."""
        return sum(map(self._items_of, (self.group, *self.group.loops())))

    def _items_of(self, group: Group) -> int:
        parts = self.parts(group)
        first = min(part.layer for part in parts)
        ranks = {node: rank_of(part.layer - first) for part in parts for node in part.members}
        below = max(ranks.values()) + 2
        count = len(parts)
        count += sum(below - ranks[connector.source] - 1 for connector in self.outs.get(group, ()))
        count += sum(ranks[connector.target] for connector in self.ins.get(group, ()))
        for connector in self.within.get(group, ()):
            count += max(0, ranks[connector.target] - ranks[connector.source] - 1)
        return count

    def parts(self, group: Group) -> list[GroupPart]:
        """The parts of a group, in an order that does not depend on the file, and the marks of a whole
        graph."""
        place = group.order.place
        own = sorted(group.parts, key=lambda part: (part.layer, min(place[node] for node in part.members)))
        if group is not self.group:
            return own
        last = max((part.layer for part in own), default=-1)
        # A graph with errors may have no start; a mark without a line would only confuse.
        unmarked = group.bare or (own and not group.graph.start)
        marks = [] if unmarked else [GroupPart(-1, (START,), None)]
        if group.graph.graph.is_majority_voting:
            marks.append(GroupPart(last + 1, (VOTE,), None))
        return [*marks, *own]

    def groups_of(self, connector: Connector) -> tuple[list[Group], Group, list[Group]]:
        """The groups that it leaves, innermost first; the group whose parts it joins; the groups that it
        enters."""
        # Both paths begin at the whole graph, so they share at least one group.
        source, target = self.homes[connector.source], self.homes[connector.target]
        shared = sum(1 for one, other in zip(source, target, strict=False) if one is other)
        return source[shared:][::-1], source[shared - 1], target[shared:]


def rank_of(layer: int) -> int:
    """The rank of the parts of a layer, counted from the first one: a channel is above each."""
    return 2 * layer + 1


def wiring_of(group: Group, labels: Labels, measures: DensityMeasures) -> Wiring:
    homes = {**paths(group), START: [group], VOTE: [group]}
    wiring = Wiring(group, homes, _connectors(group, labels, measures))
    for connector in wiring.connectors:
        left, middle, entered = wiring.groups_of(connector)
        for inner in left:
            wiring.outs.setdefault(inner, []).append(connector)
        for inner in entered:
            wiring.ins.setdefault(inner, []).append(connector)
        wiring.within.setdefault(middle, []).append(connector)
    return wiring


def _connectors(group: Group, labels: Labels, measures: DensityMeasures) -> list[Connector]:
    """All connectors of a graph, in an order that does not depend on the file: it decides ties in the
    layout."""
    graph, order = group.graph, group.order
    first = sorted(set(graph.start), key=lambda node: order.place[node])
    starts = [] if group.bare else [Connector(START, node) for node in first]
    last = sorted(set(graph.ends), key=lambda node: order.place[node])
    votes = [Connector(node, VOTE) for node in last] if graph.graph.is_majority_voting else []
    drawn = sorted(wires(group), key=lambda wire: order.edge_key(wire.edge))
    return [*starts, *(_connector(wire, labels, measures) for wire in drawn), *votes]


def _connector(wire: Wire, labels: Labels, m: DensityMeasures) -> Connector:
    words = labels.edge(wire.edge.edge)
    if not words:
        return Connector(wire.edge.source, wire.edge.target, wire)
    lines = wrap(words, m.label_size, m.label_width, m.label_lines)
    width = max(text_width(line, m.label_size) for line in lines) + m.label_pad
    return Connector(wire.edge.source, wire.edge.target, wire, lines, width, m.text_height(len(lines)))


def flow(frame: Frame, connector: Connector) -> Curve:
    """The curve down through the ranks. It moves sideways only between ranks, where there is nothing to
    cross."""
    items = frame.strands[connector]
    points: list[Point] = []
    for number, item in enumerate(items):
        top, bottom, x = frame.tops[item.rank], frame.bottoms[item.rank], item.x
        if not item.solid:
            # A rank without height needs no point of its own, unless the flow begins or ends there.
            if top < bottom or number in (0, len(items) - 1):
                points += [(x, top), (x, bottom)]
            continue
        leaving = number == 0
        part = frame.part(connector.source if leaving else connector.target)
        # A part may be lower than its rank: the line continues straight to it, through the free space.
        low, high = frame.middle(item.rank) + item.height / 2, frame.middle(item.rank) - item.height / 2
        x += frame.port(part, connector, out=leaving)
        points += [(x, low), (x, bottom)] if leaving else [(x, top), (x, high)]
    # A flow that begins or ends at the border continues to it, where the piece of the other frame
    # begins.
    if not items[0].solid:
        points.insert(0, (points[0][0], 0))
    if not items[-1].solid:
        points.append((points[-1][0], frame.height))
    return _curved([_placed(frame, x, y) for x, y in points])


def lane(frame: Frame, connector: Connector) -> Curve:
    """The curve upwards: to the right into a lane, up, and to the left to its target."""
    source, target = frame.part(connector.source), frame.part(connector.target)
    x = frame.lanes[connector]
    points = _to_lane(frame, connector, source, x) + _from_lane(frame, connector, target, x)
    return _rounded([_placed(frame, x, y) for x, y in points])


def self_curve(frame: Frame, connector: Connector) -> Curve:
    """The curve of an edge from a node to itself, on its right; several are nested."""
    part = frame.part(connector.source)
    cell = frame.cells[part]
    number, inside = frame.beside[connector]
    reach = inside + frame.measures.bulge
    x, y = cell.x + cell.left, frame.middle(cell.rank)
    # Outer self-edges start further from the middle, so that they surround the inner ones.
    high = min(cell.height / 2 - 8, 10.0 + 5 * number)
    start, end = _placed(frame, x, y + high), _placed(frame, x, y - high)
    out = _placed(frame, x + reach * 1.2, y)[0]
    return [(start,), ((out, start[1] + 6), (out, end[1] - 6), end)]


def _to_lane(frame: Frame, connector: Connector, part: GroupPart, x: float) -> list[Point]:
    """From a part into a lane: down into a track if something is in the way, else straight to the
    right."""
    cell = frame.cells[part]
    if connector in frame.below:
        at = cell.x + _foot(frame, frame.below, connector, part)
        y = frame.below[connector]
        return [(at, frame.middle(cell.rank) + cell.height / 2), (at, y), (x, y)]
    y = frame.middle(cell.rank) + _stagger(frame, connector, part, leaving=True)
    return [(cell.x + cell.left, y), (x, y)]


def _from_lane(frame: Frame, connector: Connector, part: GroupPart, x: float) -> list[Point]:
    """From a lane to a part: through a track above it if something is in the way, else straight to the
    left."""
    cell = frame.cells[part]
    if connector in frame.above:
        at = cell.x + _foot(frame, frame.above, connector, part)
        y = frame.above[connector]
        return [(x, y), (at, y), (at, frame.middle(cell.rank) - cell.height / 2)]
    y = frame.middle(cell.rank) - _stagger(frame, connector, part, leaving=False)
    return [(x, y), (cell.x + cell.left, y)]


def _foot(frame: Frame, tracks: dict[Connector, float], connector: Connector, part: GroupPart) -> float:
    """Where it meets a loop's border; at a node, to the right of the centre, which is for lines
    downwards."""
    if part in frame.inner:
        return frame.port(part, connector, out=tracks is frame.below)
    number, count = frame.feet[connector, tracks is frame.below]
    return min(frame.cells[part].left - 12, 14.0 * (count - number))


def _stagger(frame: Frame, connector: Connector, part: GroupPart, leaving: bool) -> float:
    """Keeps connectors on the same side of a part apart; the outer lane takes the outer place, so none
    cross."""
    number, count = frame.feet[connector, leaving]
    room = frame.size(part)[1] / 2 - 6
    return min(room, 6.0) + (room - 6) * number / max(1, count - 1) if room > 6 else room


def _placed(frame: Frame, x: float, y: float) -> Point:
    return frame.x + frame.measures.pad + x, frame.y + y


def _curved(points: list[Point]) -> Curve:
    """A line through the points, with a curve wherever it moves sideways."""
    curve: Curve = [(points[0],)]
    for (x, y), (to_x, to_y) in pairwise(points):
        if abs(x - to_x) + abs(y - to_y) < 0.1:
            continue  # a line of no length would give the arrow head no direction
        if abs(x - to_x) < 0.5:
            curve.append(((to_x, to_y),))
        else:
            # Handles straight above and below the ends: the curve leaves and arrives vertically.
            half = (y + to_y) / 2
            curve.append(((x, half), (to_x, half), (to_x, to_y)))
    return curve


def simplified(curve: Curve) -> Curve:
    """The same curve with each straight line as one piece: a flow has points at the borders of each
    rank."""
    found = curve[:1]
    for piece in curve[1:]:
        x, y = piece[-1]
        end_x, end_y = found[-1][-1]
        if len(piece) == 1 and abs(x - end_x) + abs(y - end_y) < 0.1:
            continue
        if len(piece) == len(found[-1]) == 1 and len(found) > 1:
            begin_x, begin_y = found[-2][-1]
            level = abs(begin_y - end_y) < 0.05 and abs(end_y - y) < 0.05
            upright = abs(begin_x - end_x) < 0.05 and abs(end_x - x) < 0.05
            if level or upright:
                found[-1] = piece
                continue
        found.append(piece)
    return found


def _rounded(points: list[Point]) -> Curve:
    """Lines with round corners; short lines get a smaller radius, so that two corners do not overlap."""
    curve: Curve = [(points[0],)]
    for before, corner, after in zip(points, points[1:], points[2:], strict=False):
        radius = min(RADIUS, _distance(before, corner) / 2, _distance(corner, after) / 2)
        start, end = _towards(corner, before, radius), _towards(corner, after, radius)
        reach = radius * KAPPA
        curve += [(start,), (_towards(start, corner, reach), _towards(end, corner, reach), end)]
    return [*curve, (points[-1],)]


def _distance(one: Point, other: Point) -> float:
    """The distance along the axes, exact here: lanes and tracks are horizontal or vertical."""
    return abs(one[0] - other[0]) + abs(one[1] - other[1])


def _towards(point: Point, other: Point, distance: float) -> Point:
    whole = _distance(point, other) or 1
    share = distance / whole
    return point[0] + (other[0] - point[0]) * share, point[1] + (other[1] - point[1]) * share
