"""Small workflows to draw, and what every drawing has to keep to."""

from __future__ import annotations

import io
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from itertools import combinations, pairwise, product, repeat
from typing import Any

from rich.console import Console

from roundel.drawing.assembly import draw
from roundel.drawing.drawing import Drawing, DrawnEdge, DrawnNode, Rect, Region
from roundel.drawing.layout import MEASURES, title_height, title_width
from roundel.drawing.svg import svg
from roundel.drawing.tree import tree
from roundel.nodes import TYPES
from roundel.plan.graph import Plan, compile_workflow
from roundel.workflow.diagnostics import Finding
from roundel.workflow.loader import from_mapping


def node(name: str, kind: str = "literal", **config: Any) -> dict[str, Any]:
    return {"id": name, "type": kind, "config": config or {"content": "x"}}


def repeated(name: str, body: dict[str, Any] | None = None, rounds: int = 5) -> dict[str, Any]:
    return node(name, "loop_agent", strategy={"mode": "count", "max": rounds}, body=body or node("Editor"))


def council(name: str, *participants: dict[str, Any], rounds: int = 4) -> dict[str, Any]:
    people = participants or (node("Ada"), node("Bo"))
    return node(name, "debate", participants=list(people), max_rounds=rounds)


def held(name: str, inner: dict[str, Any]) -> dict[str, Any]:
    """A subgraph."""
    return node(name, "subgraph", type="config", config=inner)


def edge(source: str, target: str, **more: Any) -> dict[str, Any]:
    return {"from": source, "to": target, **more}


def keyword(**config: list[str] | bool) -> dict[str, Any]:
    return {"condition": {"type": "keyword", "config": config}}


def graph(nodes: list[dict[str, Any]], edges: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    return {"id": "sample", "nodes": nodes, "edges": edges, "start": [nodes[0]["id"]], **more}


def plan_of(described: dict[str, Any]) -> Plan:
    return compile_workflow(from_mapping({"graph": described}, TYPES))


def shown(plan: Plan, width: int = 200, findings: Sequence[Finding] = ()) -> str:
    file = io.StringIO()
    Console(file=file, width=width).print(tree(plan, findings))
    return file.getvalue()


def texts(drawing: str) -> list[str]:
    return [element.text or "" for element in ET.fromstring(drawing).iter("{http://www.w3.org/2000/svg}text")]


def picture(plan: Plan) -> str:
    return svg(draw(plan))


def solid(drawing: Drawing) -> list[Rect]:
    nodes = [node.box for node in drawing.nodes if not node.region]
    return nodes + [mark.box for mark in drawing.marks]


def placed(drawing: Drawing, name: str) -> DrawnNode:
    """The node with this id, which must be unique."""
    [found] = [node for node in drawing.nodes if node.id == name]
    return found


def assert_unbroken(edge: DrawnEdge) -> None:
    """It goes sideways only in bends, also where it crosses the border of a loop.

    A line that has to lead upwards, if only to get to a loop beside its own, may run level between two
    rounded corners, and at the side of a node.
    """
    heights = [y for piece in edge.route for _, y in piece]
    downwards = all(above < below + 0.2 for above, below in pairwise(heights))
    for number, (before, piece) in enumerate(pairwise(edge.route), 1):
        (x, y), (to_x, to_y) = before[-1], piece[-1]
        if len(piece) == 1 and abs(x - to_x) > 0.7:
            assert not downwards and abs(y - to_y) < 0.7
            assert number == 1 or len(before) == 3
            assert number == len(edge.route) - 1 or len(edge.route[number + 1]) == 3


def assert_tidy(drawing: Drawing) -> None:
    """Nothing lies on anything else, and each region holds just what is in it."""
    boxes = solid(drawing)
    labels = [edge.label.box for edge in drawing.edges if edge.label]
    for one, other in combinations([*boxes, *labels], 2):
        assert not one.overlaps(other)
    for title, box in product(map(title_box, repeat(drawing), drawing.regions), [*boxes, *labels]):
        assert not title.overlaps(box)
    whole = Rect(0, 0, drawing.width, drawing.height)
    assert all(whole.holds(box) for box in [*boxes, *labels])
    around = parents(drawing)
    for region, node in product(drawing.regions, drawing.nodes):
        inside = region.key in around[node.key] or node.region == region.key
        assert region.box.holds(node.box) == inside
    for outer, inner in combinations(drawing.regions, 2):  # outer ones first
        if outer.key in around[inner.key]:
            assert outer.box.holds(inner.box)
        else:
            assert not outer.box.overlaps(inner.box)


def title_box(drawing: Drawing, region: Region) -> Rect:
    """Where the words at the top of a frame stand; they lie inside it."""
    m, lines = MEASURES[drawing.density], (region.title, *region.captions)
    top, width = region.box.y + m.pad - 4, title_width(lines, m, region.repeats)
    assert region.box.x < region.title_x and region.title_x + width < region.box.right
    return Rect(region.title_x, top, width, title_height(lines, m, region.repeats))


def parents(drawing: Drawing) -> dict[str, set[str]]:
    """For each node and region the regions around it."""
    parent = {region.key: region.parent for region in drawing.regions}
    found: dict[str, set[str]] = {"": set()}
    for region in drawing.regions:  # outer ones first
        found[region.key] = {*found[region.parent], region.parent} - {""}
    for node in drawing.nodes:
        found[node.key] = {*found[node.parent], node.parent} - {""}
    assert all(key in found for key in parent.values())
    return found
