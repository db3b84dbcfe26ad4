"""Moves the nodes that the user has placed: `position: [x, y]` on a node.

The layout places everything first; then these nodes move to their positions, with all that is inside them.
Loops keep their margins around their nodes, so they grow or shrink with them. An edge with only one end that
has moved gets a plain route. Whatever the user has not moved stays where the layout put it.

A position is the upper left corner of a node in a compact drawing. A normal drawing is larger by the scale of
its measures.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from roundel.drawing.drawing import Drawing, DrawnEdge, DrawnNode, Label, Rect, Region
from roundel.drawing.layout import DensityMeasures

Shift = tuple[float, float]
Route = tuple[tuple[tuple[float, float], ...], ...]
NOWHERE: Shift = (0.0, 0.0)
REACH = 22.0
"""How far the route of a moved back edge runs beside its nodes."""


def move(drawing: Drawing, positions: Mapping[str, tuple[float, float]], m: DensityMeasures) -> Drawing:
    """The drawing with some nodes at other places; `positions` has them by key."""
    if not positions:
        return drawing
    shifts = _shifts(drawing, positions, m.position_scale)
    nodes = {node.key: _shifted(node.box, shifts[node.key]) for node in drawing.nodes}
    regions = _regions(drawing, nodes, shifts)
    for node in drawing.nodes:
        if node.region:
            nodes[node.key] = regions[node.region]  # it grows with what is inside
    marks = {mark.key: mark.box for mark in drawing.marks}
    boxes, old = nodes | marks, {node.key: node.box for node in drawing.nodes} | marks
    edges = tuple(_edge(edge, old, boxes) for edge in drawing.edges)
    width, height = _extent([*boxes.values(), *regions.values()], edges, m.pad)
    return msgspec.structs.replace(
        drawing,
        width=width,
        height=height,
        nodes=tuple(msgspec.structs.replace(node, box=nodes[node.key]) for node in drawing.nodes),
        regions=tuple(_region(region, regions[region.key]) for region in drawing.regions),
        edges=edges,
    )


def _shifts(drawing: Drawing, positions: Mapping[str, tuple[float, float]], scale: Shift) -> dict[str, Shift]:
    """How far each node moves. Nodes inside a node precede none that contains them, so a shift is known
    before those inside need it."""
    regions = {region.key: region for region in drawing.regions}
    owners = {node.region: node.key for node in drawing.nodes if node.region}
    shifts: dict[str, Shift] = {}
    for node in drawing.nodes:
        if node.key in positions:
            x, y = positions[node.key]
            shifts[node.key] = x * scale[0] - node.box.x, y * scale[1] - node.box.y
        else:
            shifts[node.key] = shifts.get(_owner(node, regions, owners), NOWHERE)
    return shifts


def _owner(node: DrawnNode, regions: Mapping[str, Region], owners: Mapping[str, str]) -> str:
    """The key of the node that contains a node; empty if none does."""
    parent = node.parent
    while parent and parent not in owners:
        parent = regions[parent].parent
    return owners.get(parent, "")


def _regions(drawing: Drawing, nodes: Mapping[str, Rect], shifts: Mapping[str, Shift]) -> dict[str, Rect]:
    """The new boxes of all regions, inner ones first."""
    old: dict[str, Rect] = {region.key: region.box for region in drawing.regions}
    new: dict[str, Rect] = {}
    owners = {node.region: node for node in drawing.nodes if node.region}
    for region in reversed(drawing.regions):  # a region precedes those inside it
        inside = [node for node in drawing.nodes if node.parent == region.key and not node.region]
        within = [other.key for other in drawing.regions if other.parent == region.key]
        before = [*(node.box for node in inside), *(old[key] for key in within)]
        after = [*(nodes[node.key] for node in inside), *(new[key] for key in within)]
        owner = owners.get(region.key)
        box = _shifted(region.box, shifts[owner.key]) if owner is not None else region.box
        if after:
            framed = _framed(region.box, _around(before), _around(after))
            # A node has its own place, and only grows; a loop is where its nodes are.
            box = framed if owner is None else _around([box, framed])
        new[region.key] = box
    return new


def _framed(frame: Rect, before: Rect, after: Rect) -> Rect:
    """A frame around its moved content, with the same margins; nothing is left of or above the drawing."""
    x, y = max(0.0, after.x - (before.x - frame.x)), max(0.0, after.y - (before.y - frame.y))
    right, bottom = after.right + (frame.right - before.right), after.bottom + (frame.bottom - before.bottom)
    return _rect(x, y, right, bottom)


def _region(region: Region, box: Rect) -> Region:
    title_x = _round(region.title_x + box.x - region.box.x)
    return msgspec.structs.replace(region, box=box, title_x=title_x)


def _edge(edge: DrawnEdge, old: Mapping[str, Rect], new: Mapping[str, Rect]) -> DrawnEdge:
    shifts = {_shift(old[key], new[key]) for key in (edge.source, edge.target)}
    if shifts == {NOWHERE}:
        return edge
    shift = shifts.pop()
    if shift is not None and not shifts:
        label = edge.label and Label(edge.label.lines, _shifted(edge.label.box, shift))
        route = tuple(tuple(_moved(point, shift) for point in piece) for piece in edge.route)
    else:
        route, (x, y) = _route(new[edge.source], new[edge.target])
        label = edge.label and Label(edge.label.lines, _centred(edge.label.box, x, y))
    return msgspec.structs.replace(edge, route=route, label=label)


def _shift(old: Rect, new: Rect) -> Shift | None:
    """How far a box has moved; None if it has another size too."""
    if (old.width, old.height) != (new.width, new.height):
        return None
    return _round(new.x - old.x), _round(new.y - old.y)


def _route(source: Rect, target: Rect) -> tuple[Route, tuple[float, float]]:
    """A plain route, and its middle: down from one node to the other, or beside them if the target is not
    below the source."""
    if source.bottom + 8 <= target.y:
        x, to_x = _round(source.x + source.width / 2), _round(target.x + target.width / 2)
        half = _round((source.bottom + target.y) / 2)
        curve = ((x, half), (to_x, half), (to_x, target.y))
        return (((x, source.bottom),), curve), ((x + to_x) / 2, half)
    y, to_y = _round(source.y + source.height / 2), _round(target.y + target.height / 2)
    beside = _round(max(source.right, target.right) + REACH)
    curve = ((beside, y), (beside, to_y), (target.right, to_y))
    return (((source.right, y),), curve), (beside - REACH / 4, (y + to_y) / 2)


def _extent(boxes: Iterable[Rect], edges: Iterable[DrawnEdge], pad: float) -> tuple[float, float]:
    corners = [(box.right, box.bottom) for box in boxes]
    corners += [point for edge in edges for piece in edge.route for point in piece]
    corners += [(edge.label.box.right, edge.label.box.bottom) for edge in edges if edge.label]
    return _round(max(x for x, _ in corners) + pad), _round(max(y for _, y in corners) + pad)


def _around(boxes: list[Rect]) -> Rect:
    left, top = min(box.x for box in boxes), min(box.y for box in boxes)
    return _rect(left, top, max(box.right for box in boxes), max(box.bottom for box in boxes))


def _rect(left: float, top: float, right: float, bottom: float) -> Rect:
    return Rect(_round(left), _round(top), _round(right - left), _round(bottom - top))


def _centred(box: Rect, x: float, y: float) -> Rect:
    return Rect(_round(x - box.width / 2), _round(y - box.height / 2), box.width, box.height)


def _shifted(box: Rect, shift: Shift) -> Rect:
    return Rect(_round(box.x + shift[0]), _round(box.y + shift[1]), box.width, box.height)


def _moved(point: tuple[float, float], shift: Shift) -> tuple[float, float]:
    return _round(point[0] + shift[0]), _round(point[1] + shift[1])


def _round(value: float) -> float:
    return round(value, 1) + 0.0
