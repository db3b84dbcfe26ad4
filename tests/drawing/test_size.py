"""How the effort of a drawing grows with the workflow."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from roundel.drawing.assembly import MOST_ITEMS, draw
from roundel.drawing.labels import Labels
from roundel.drawing.layout import MEASURES, Layout
from roundel.drawing.nesting import nest
from roundel.drawing.ranks import FULL_EFFORT, effort_for
from tests.drawing.drawings import edge, graph, node, plan_of
from tests.effort import calls_of

Dict = dict[str, Any]


def names(count: int) -> list[str]:
    return [f"N{number}" for number in range(count)]


def all_to_later(count: int) -> Dict:
    """Each node leads to all after it, so edges pass through nearly all ranks: a cube of points."""
    known = names(count)
    edges = [edge(one, other) for number, one in enumerate(known) for other in known[number + 1 :]]
    return graph([node(name, "passthrough") for name in known], edges)


def chain(count: int) -> Dict:
    known = names(count)
    edges = [edge(one, other) for one, other in pairwise(known)]
    return graph([node(name, "passthrough") for name in known], edges)


def fan(count: int) -> Dict:
    known = names(count)
    return graph([node(name, "passthrough") for name in known], [edge("N0", name) for name in known[1:]])


def lanes(count: int) -> Dict:
    """As many edges lead down as up, each of these in a lane of its own."""
    known = names(count)
    up = [edge(name, "N0", trigger=False) for name in known[1:]]
    return graph([node(name, "passthrough") for name in known], [*fan(count)["edges"], *up])


def effort(described: Dict) -> int:
    plan = plan_of(described)
    return calls_of(lambda: draw(plan))


@pytest.mark.parametrize("shape", [chain, fan, lanes])
def test_effort_is_linear_in_nodes_and_edges(shape: Callable[[int], Dict]) -> None:
    assert effort(shape(400)) < 2.6 * effort(shape(200))


def test_a_dense_graph_is_not_drawn() -> None:
    """120 nodes have 600,000 points, which would take minutes."""
    small = effort(all_to_later(16))
    for count in (60, 120):
        plan = plan_of(all_to_later(count))
        [problem] = draw(plan).problems
        assert problem.code == "too-large-to-draw"
        assert "nodes and bends of edges, more than 60,000, are too many to draw" in problem.message
    assert effort(all_to_later(60)) < 4 * small


def test_a_larger_drawing_gets_fewer_sweeps() -> None:
    assert effort_for(FULL_EFFORT) == 1
    assert MOST_ITEMS * effort_for(MOST_ITEMS) == FULL_EFFORT


def test_points_are_counted_before_the_layout() -> None:
    for described in (all_to_later(12), lanes(9), chain(30)):
        plan = plan_of(described)
        layout = Layout(Labels(str, draft=plan.draft), MEASURES["normal"])
        group = nest(plan.graph)
        frame = layout.frame(group)
        frames = [frame, *frame.inner.values()]
        assert layout.wiring(group).items == sum(len(rank) for one in frames for rank in one.ranks)
