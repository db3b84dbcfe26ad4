"""Small workflows to draw, and what every drawing has to keep to."""

from __future__ import annotations

import io
import xml.etree.ElementTree as ET
from itertools import combinations, pairwise, product
from typing import Any

from rich.console import Console

from roundel.drawing.curve import Curve
from roundel.drawing.layout import Box, Layout
from roundel.drawing.tree import tree
from roundel.nodes import TYPES
from roundel.plan.graph import Plan, compile_workflow
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


def keyword(**words: list[str]) -> dict[str, Any]:
    return {"condition": {"type": "keyword", "config": words}}


def graph(nodes: list[dict[str, Any]], edges: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    return {"id": "sample", "nodes": nodes, "edges": edges, "start": [nodes[0]["id"]], **more}


def plan_of(described: dict[str, Any]) -> Plan:
    return compile_workflow(from_mapping({"graph": described}, TYPES))


def shown(plan: Plan, width: int = 120) -> str:
    file = io.StringIO()
    Console(file=file, width=width).print(tree(plan))
    return file.getvalue()


def texts(drawing: str) -> list[str]:
    return [element.text or "" for element in ET.fromstring(drawing).iter("{http://www.w3.org/2000/svg}text")]


def solid(layout: Layout) -> list[Box]:
    nodes = [placed.box for placed in layout.nodes if not placed.holds_graph]
    return nodes + [mark.box for mark in layout.marks]


def inside(inner: Box, outer: Box) -> bool:
    return (
        outer.x <= inner.x
        and outer.y <= inner.y
        and inner.right <= outer.right
        and inner.bottom <= outer.bottom
    )


def assert_unbroken(curve: Curve) -> None:
    """It goes sideways only in bends, also where it crosses the border of a loop.

    A way that has to lead upwards, if only to get to a loop beside its own, may run level between two
    rounded corners, and at the side of a node.
    """
    heights = [y for piece in curve for _, y in piece]
    downwards = all(above < below + 0.1 for above, below in pairwise(heights))
    for number, (before, piece) in enumerate(pairwise(curve), 1):
        (x, y), (to_x, to_y) = before[-1], piece[-1]
        if len(piece) == 1 and abs(x - to_x) > 0.6:
            assert not downwards and abs(y - to_y) < 0.6
            assert number == 1 or len(before) == 3
            assert number == len(curve) - 1 or len(curve[number + 1]) == 3


def assert_tidy(layout: Layout) -> None:
    boxes = solid(layout)
    labels = [drawn.label_box for drawn in layout.edges if drawn.label_box]
    for one, other in combinations([*boxes, *labels], 2):
        assert not one.overlaps(other)
    whole = Box(0, 0, layout.width, layout.height)
    assert all(inside(box, whole) for box in [*boxes, *labels])
    for loop in layout.loops:
        members = loop.loop.scope.members
        for placed in layout.nodes:
            if placed.graph is loop.loop.graph:
                assert inside(placed.box, loop.box) == (placed.node.index in members)
    for holder, placed in product(layout.nodes, layout.nodes):
        if placed.graph in holder.node.bodies:
            assert inside(placed.box, holder.box)
