"""Nodes with graphs inside that a reader has collapsed to single cards."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

from roundel.drawing.assembly import MOST_PIECES, draw
from roundel.drawing.drawing import Contents, Drawing
from roundel.drawing.svg import svg
from roundel.nodes.loading import draft_text_plan
from tests.drawing.drawings import assert_tidy, edge, graph, held, node, placed, plan_of, repeated
from tests.drawing.test_bodies import ALL, batch, debate, nested

BROKEN = """
graph:
  nodes:
    - id: Team
      type: subgraph
      config:
        type: config
        config:
          nodes:
            - {id: A, type: literal, config: {content: x}}
            - {id: B, type: pasthrough}
            - {id: C, type: literal, config: {content: x}}
          edges:
            - {from: A, to: B}
            - {from: B, to: Nobody}
          start: A
    - {id: Final, type: passthrough}
  edges:
    - {from: Team, to: Final}
  start: Team
"""


def drawn(described: dict[str, Any], *collapsed: str) -> Drawing:
    drawing = draw(plan_of(described), collapsed=collapsed, density="compact")
    assert_tidy(drawing)
    return drawing


def keys(drawing: Drawing) -> set[str]:
    return {found.key for found in drawing.nodes}


def openable(drawing: Drawing) -> list[str]:
    return [found.key for found in drawing.nodes if found.region]


def test_a_collapsed_node_is_a_card_that_says_how_much_is_inside() -> None:
    whole, drawing = drawn(batch()), drawn(batch(), "Sections")
    card = placed(drawing, "Sections")
    assert card.inside == Contents(nodes=2, edges=1, loops=0) and card.region == ""
    assert card.caption == "loop_agent, 2 nodes"
    assert keys(whole) - keys(drawing) == {"Sections/Writer", "Sections/Editor"}
    assert drawing.regions == () and [mark.key for mark in drawing.marks] == ["#start"]
    assert card.box.height == placed(drawing, "Planner").box.height < placed(whole, "Sections").box.height
    assert drawing.height < whole.height


def test_the_contents_count_graphs_inside_of_graphs() -> None:
    assert placed(drawn(nested(), "Team"), "Team").inside == Contents(nodes=7, edges=4, loops=3)
    assert placed(drawn(debate(), "Council"), "Council").caption == "debate, 2 nodes"
    inner = graph([held("One", graph([node("A")], []))], [])
    assert placed(drawn(inner, "One"), "One").caption == "subgraph, 1 node"


@pytest.mark.parametrize("described", ALL)
def test_only_the_keys_below_a_collapsed_node_are_missing(described: Any) -> None:
    whole = drawn(described())
    assert openable(whole)
    for key in openable(whole):
        drawing = drawn(described(), key)
        assert keys(drawing) == {one for one in keys(whole) if not one.startswith(f"{key}/")}
        shown = {(one.source, one.target, one.port) for one in drawing.edges}
        assert shown == {
            (one.source, one.target, one.port) for one in whole.edges if not one.source.startswith(f"{key}/")
        }


def test_equal_ids_in_several_bodies_keep_their_numbered_keys() -> None:
    """Participants may have the same ids inside; their keys are numbered."""
    bodies = [held("X", graph([held("Y", graph([node("Z")], []))], [])) for _ in range(2)]
    described = graph(
        [node("Vote", "vote", participants=[{**one, "id": f"P{n}"} for n, one in enumerate(bodies)])], []
    )
    whole = drawn(described)
    assert {"Vote/P0/Y/Z", "Vote/P1/Y/Z"} <= keys(whole)
    drawing = drawn(described, "Vote/P1/Y")
    assert keys(whole) - keys(drawing) == {"Vote/P1/Y/Z"}


def test_a_collapsed_node_inside_of_another_one_stays_collapsed() -> None:
    both = drawn(nested(), "Team", "Team/Council/Bo")
    assert keys(both) == {"Team"}
    inner = drawn(nested(), "Team/Council/Bo")
    assert keys(inner) == {"Team", "Team/Council", "Team/Council/Ada", "Team/Council/Bo"}
    assert placed(inner, "Bo").inside is not None


@pytest.mark.parametrize(
    "collapsed", [("Nobody",), ("Planner",), ("Sections/",), ("Sections/Writer",), ("",)]
)
def test_keys_of_other_things_are_ignored(collapsed: Collection[str]) -> None:
    assert drawn(batch(), *collapsed) == drawn(batch())


def test_what_is_wrong_inside_shows_at_the_card_once() -> None:
    plan, report = draft_text_plan(BROKEN)
    assert plan is not None
    whole = draw(plan, report.findings)
    inside = {
        one for items in (whole.nodes, whole.edges, whole.regions) for item in items for one in item.problems
    }
    assert {one.code for one in inside} >= {"unknown-type", "unknown-node"}
    drawing = draw(plan, report.findings, collapsed=["Team"])
    problems = placed(drawing, "Team").problems
    assert set(problems) == inside and len(problems) == len(set(problems))
    assert placed(drawing, "Final").problems == ()


def test_a_loop_without_a_guard_shows_at_the_card_around_it() -> None:
    text = """
graph:
  nodes:
    - id: Team
      type: subgraph
      config:
        type: config
        config:
          nodes: [{id: A, type: agent, config: {}}, {id: B, type: human}, {id: C, type: passthrough}]
          edges:
            - {from: A, to: B}
            - {from: B, to: A, condition: {type: keyword, config: {none: [OK]}}}
            - {from: B, to: C, condition: {type: keyword, config: {any: [OK]}}}
          start: A
          end: C
  edges: []
  start: Team
"""
    plan, report = draft_text_plan(text)
    assert plan is not None
    found = placed(draw(plan, report.findings, collapsed=["Team"]), "Team")
    assert [one.code for one in found.problems] == ["only-capped"]


def test_a_moved_node_stays_at_its_position() -> None:
    described = graph([node("A"), {**held("Team", batch()), "position": [300, 200]}], [edge("A", "Team")])
    box = placed(drawn(described, "Team"), "Team").box
    assert (box.x, box.y) == (300, 200)


def test_a_picture_shows_a_card_behind_the_collapsed_one() -> None:
    whole, collapsed = (svg(draw(plan_of(batch()), collapsed=one)) for one in ((), ("Sections",)))
    assert collapsed.count('<rect class="card') == 3 + 1
    assert "2 nodes" in collapsed and "2 nodes" not in whole


def test_a_workflow_that_is_too_large_is_drawn_if_what_is_large_is_collapsed() -> None:
    names = [f"N{number}" for number in range(210)]
    edges = [edge(one, other) for at, one in enumerate(names) for other in names[at + 1 :]]
    described = graph([held("Large", graph([node(name) for name in names], edges)), repeated("Each")], [])
    plan = plan_of(described)
    assert [one.code for one in draw(plan).problems] == ["too-large-to-draw"]
    drawing = draw(plan, collapsed=["Large"])
    assert {one.key for one in drawing.nodes} == {"Large", "Each", "Each/Editor"}
    inside = placed(drawing, "Large").inside
    assert inside is not None and inside.edges == len(edges) > MOST_PIECES
