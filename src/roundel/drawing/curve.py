"""The ways as curves: downwards they flow from rank to rank, upwards they turn corners."""

from __future__ import annotations

from itertools import pairwise

from roundel.drawing.frame import BULGE, PAD, Frame
from roundel.drawing.nesting import Part
from roundel.drawing.routes import Way

Point = tuple[float, float]
Curve = list[tuple[Point, ...]]
"""Pieces: one point to move or to draw a line to, three for a cubic curve."""
RADIUS = 16
KAPPA = 0.55
"""How far a cubic curve's handles reach to look like a quarter of a circle."""


def flow(frame: Frame, way: Way) -> Curve:
    """Down through the ranks; only between ranks, where nothing stands, does it go sideways."""
    items = frame.strands[way]
    points: list[Point] = []
    cells = {cell: part for part, cell in frame.cells.items()}
    for number, item in enumerate(items):
        top, bottom, x = frame.tops[item.rank], frame.bottoms[item.rank], item.x
        if item not in cells:
            if top < bottom or number in (0, len(items) - 1):
                points += [(x, top), (x, bottom)]
            continue
        part = cells[item]
        low, high = frame.middle(item.rank) + item.height / 2, frame.middle(item.rank) - item.height / 2
        x += frame.port(part, way, out=number == 0)
        points += [(x, low), (x, bottom)] if number == 0 else [(x, top), (x, high)]
    if items[0] not in cells:
        points.insert(0, (points[0][0], 0))
    if items[-1] not in cells:
        points.append((points[-1][0], frame.height))
    return _smooth([_placed(frame, PAD + x, y) for x, y in points])


def lane(frame: Frame, way: Way) -> Curve:
    source, target = frame.part(way.source), frame.part(way.target)
    x = frame.lanes[way]
    points = _to_lane(frame, way, source, x) + _from_lane(frame, way, target, x)
    return _rounded([_placed(frame, PAD + x, y) for x, y in points])


def self_curve(frame: Frame, way: Way) -> Curve:
    part = frame.part(way.source)
    cell = frame.cells[part]
    ways = frame.selves[part]
    number = ways.index(way)
    reach = sum(BULGE + other.label_width for other in ways[:number]) + BULGE
    x, y = cell.x + cell.left, frame.middle(cell.rank)
    high = min(cell.height / 2 - 8, 10.0 + 5 * number)
    start, end = _placed(frame, PAD + x, y + high), _placed(frame, PAD + x, y - high)
    out = _placed(frame, PAD + x + reach * 1.2, y)[0]
    return [(start,), ((out, start[1] + 6), (out, end[1] - 6), end)]


def _to_lane(frame: Frame, way: Way, part: Part, x: float) -> list[Point]:
    cell = frame.cells[part]
    if way in frame.below:
        at = cell.x + _foot(frame, frame.below, way, part)
        y = frame.below[way]
        return [(at, frame.middle(cell.rank) + cell.height / 2), (at, y), (x, y)]
    y = frame.middle(cell.rank) + _stagger(frame, way, part, leaving=True)
    return [(cell.x + cell.left, y), (x, y)]


def _from_lane(frame: Frame, way: Way, part: Part, x: float) -> list[Point]:
    cell = frame.cells[part]
    if way in frame.above:
        at = cell.x + _foot(frame, frame.above, way, part)
        y = frame.above[way]
        return [(x, y), (at, y), (at, frame.middle(cell.rank) - cell.height / 2)]
    y = frame.middle(cell.rank) - _stagger(frame, way, part, leaving=False)
    return [(x, y), (cell.x + cell.left, y)]


def _foot(frame: Frame, tracks: dict[Way, float], way: Way, part: Part) -> float:
    """Where it meets a loop's border; at a node beside the middle, where the way down begins or ends."""
    if part in frame.inner:
        return frame.port(part, way, out=tracks is frame.below)
    same = [other for other in tracks if _end(frame, other, tracks is frame.below) is part]
    cell = frame.cells[part]
    return min(cell.left - 12, 14.0 * (len(same) - same.index(way)))


def _stagger(frame: Frame, way: Way, part: Part, leaving: bool) -> float:
    """Ways that meet the same side keep apart; the outer lane takes the outer place."""
    tracks = frame.below if leaving else frame.above
    same = [other for other in frame.lanes if other not in tracks and _end(frame, other, leaving) is part]
    room = frame.size(part)[1] / 2 - 6
    return min(room, 6.0) + (room - 6) * same.index(way) / max(1, len(same) - 1) if room > 6 else room


def _end(frame: Frame, way: Way, leaving: bool) -> Part:
    return frame.part(way.source if leaving else way.target)


def _placed(frame: Frame, x: float, y: float) -> Point:
    return frame.x + x, frame.y + y


def _smooth(points: list[Point]) -> Curve:
    curve: Curve = [(points[0],)]
    for (x, y), (to_x, to_y) in pairwise(points):
        if abs(x - to_x) + abs(y - to_y) < 0.1:
            continue  # a line of no length would give the arrow head no direction
        if abs(x - to_x) < 0.5:
            curve.append(((to_x, to_y),))
        else:
            half = (y + to_y) / 2
            curve.append(((x, half), (to_x, half), (to_x, to_y)))
    return curve


def _rounded(points: list[Point]) -> Curve:
    curve: Curve = [(points[0],)]
    for before, corner, after in zip(points, points[1:], points[2:], strict=False):
        radius = min(RADIUS, _distance(before, corner) / 2, _distance(corner, after) / 2)
        start, end = _towards(corner, before, radius), _towards(corner, after, radius)
        reach = radius * KAPPA
        curve += [(start,), (_towards(start, corner, reach), _towards(end, corner, reach), end)]
    return [*curve, (points[-1],)]


def _distance(one: Point, other: Point) -> float:
    return abs(one[0] - other[0]) + abs(one[1] - other[1])


def _towards(point: Point, other: Point, distance: float) -> Point:
    whole = _distance(point, other) or 1
    share = distance / whole
    return point[0] + (other[0] - point[0]) * share, point[1] + (other[1] - point[1]) * share
