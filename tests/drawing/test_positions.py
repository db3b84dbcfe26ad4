"""Nodes that the user has placed: they are where the file says, and everything around them follows."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roundel.drawing.assembly import draw
from roundel.drawing.drawing import Density, Drawing, DrawnNode, Rect
from roundel.drawing.svg import svg
from roundel.nodes.loading import draft_text_plan
from tests.drawing.drawings import edge, graph, held, node, placed, plan_of

NAMES = ("Writer", "Reviewer", "Guard", "Body", "Body/Inner", "Final")
Places = dict[str, tuple[float, float]]


def _described(places: Places) -> dict[str, Any]:
    inner = node("Inner")
    nodes = [
        node("Writer"),
        node("Reviewer"),
        node("Guard", "loop_counter", max_iterations=3),
        held("Body", graph([inner], [])),
        node("Final"),
    ]
    for one in (*nodes, inner):
        key = "Body/Inner" if one is inner else one["id"]
        if key in places:
            one["position"] = list(places[key])
    edges = [
        edge("Writer", "Reviewer"),
        edge("Reviewer", "Writer"),
        edge("Reviewer", "Guard"),
        edge("Guard", "Body"),
        edge("Body", "Final"),
    ]
    return graph(nodes, edges, end=["Final"])


def _drawing(places: Places | None = None, density: Density = "compact") -> Drawing:
    return draw(plan_of(_described(places or {})), density=density)


def _node(drawing: Drawing, key: str) -> DrawnNode:
    return placed(drawing, key.rpartition("/")[2])


def _touches(box: Rect, point: tuple[float, float]) -> bool:
    return box.x - 0.2 <= point[0] <= box.right + 0.2 and box.y - 0.2 <= point[1] <= box.bottom + 0.2


def test_without_positions_the_layout_decides() -> None:
    assert _drawing() == _drawing()
    assert _node(_drawing(), "Writer").box != Rect(300, 10, 136, 40)


def test_a_node_is_where_the_file_puts_it_and_the_others_stay() -> None:
    before, after = _drawing(), _drawing({"Final": (400, 300)})
    box = _node(after, "Final").box
    assert (box.x, box.y) == (400, 300)
    for one in before.nodes:
        if one.key != "Final":
            assert _node(after, one.key).box == one.box
    assert after.width >= box.right and after.height >= box.bottom


def test_a_loop_grows_with_its_node() -> None:
    before, after = _drawing(), _drawing({"Reviewer": (320, 200)})
    (old,), (new,) = ([one for one in each.regions if one.kind == "loop"] for each in (before, after))
    assert new.box.holds(_node(after, "Reviewer").box) and new.box.holds(_node(after, "Writer").box)
    assert new.box.width > old.box.width


def test_what_is_inside_a_node_moves_with_it() -> None:
    before, after = _drawing(), _drawing({"Body": (300, 50)})
    region = next(one for one in after.regions if one.key == _node(after, "Body").region)
    assert (region.box.x, region.box.y) == (300, 50)
    inner, body = _node(after, "Body/Inner").box, _node(before, "Body/Inner").box
    moved = 300 - _node(before, "Body").box.x, 50 - _node(before, "Body").box.y
    assert (inner.x, inner.y) == pytest.approx((body.x + moved[0], body.y + moved[1]))


def test_a_node_grows_around_what_is_moved_inside_it() -> None:
    after = _drawing({"Body/Inner": (330, 420)})
    body, inner = _node(after, "Body").box, _node(after, "Body/Inner").box
    assert (inner.x, inner.y) == (330, 420) and body.holds(inner)
    assert body == next(one for one in after.regions if one.kind == "node").box


places = st.tuples(st.integers(0, 900), st.integers(0, 900))


@settings(deadline=None, max_examples=60)
@given(st.dictionaries(st.sampled_from(NAMES), places))
def test_edges_meet_their_nodes_and_the_drawing_holds_everything(chosen: Places) -> None:
    drawing = _drawing(chosen)
    boxes = {node.key: node.box for node in drawing.nodes} | {mark.key: mark.box for mark in drawing.marks}
    for line in drawing.edges:
        assert _touches(boxes[line.source], line.route[0][0])
        assert _touches(boxes[line.target], line.route[-1][-1])
    whole = Rect(0, 0, drawing.width, drawing.height)
    assert all(whole.holds(box) for box in boxes.values())
    assert all(whole.holds(region.box) for region in drawing.regions)
    regions = {region.key: region.box for region in drawing.regions}
    for one in drawing.nodes:
        assert not one.parent or regions[one.parent].holds(one.box)
    assert "<svg" in svg(drawing)


def test_a_normal_drawing_is_larger() -> None:
    box = _node(_drawing({"Final": (400, 300)}, "normal"), "Final").box
    assert (box.x, box.y) == (460, 420)


def test_a_draft_keeps_positions() -> None:
    text = "graph:\n  nodes: [{id: A, type: passthrough, position: [70, 80], config: 3}]\n"
    plan, report = draft_text_plan(text)
    assert not report.ok and plan is not None
    box = _node(draw(plan, density="compact"), "A").box
    assert (box.x, box.y) == (70, 80)
