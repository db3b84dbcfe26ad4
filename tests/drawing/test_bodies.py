"""Nodes with graphs inside, in each format: loop agents and debates, which are loops, and votes."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import pytest

from roundel.drawing.assembly import draw
from roundel.drawing.mermaid import mermaid
from roundel.plan.graph import Plan
from roundel.plan.proof import prove
from tests.drawing.drawings import (
    assert_tidy,
    assert_unbroken,
    council,
    edge,
    graph,
    held,
    node,
    picture,
    placed,
    plan_of,
    repeated,
    shown,
    texts,
)

PEOPLE = ("Ann", "Bob", "Cat", "Dan", "Eve")


def batch() -> dict[str, Any]:
    body = graph([node("Writer"), node("Editor")], [edge("Writer", "Editor")], end=["Editor"])
    nodes = [node("Planner"), repeated("Sections", body, rounds=20), node("Final")]
    return graph(nodes, [edge("Planner", "Sections"), edge("Sections", "Final")])


def debate() -> dict[str, Any]:
    return graph([council("Council"), node("Secretary")], [edge("Council", "Secretary")])


def vote() -> dict[str, Any]:
    board = node("Board", "vote", participants=[node(name) for name in PEOPLE])
    edges = [edge("Board", "Out", port="approved"), edge("Board", "Dropped", port="rejected")]
    return graph([board, node("Out"), node("Dropped")], edges)


def nested() -> dict[str, Any]:
    """A loop agent in a free loop, in a debate, in a subgraph."""
    nodes = [repeated("Refine"), node("Guard", "loop_counter", max_iterations=3), node("Out")]
    edges = [
        edge("Refine", "Refine"),
        edge("Refine", "Guard"),
        edge("Guard", "Refine"),
        edge("Guard", "Out"),
    ]
    participants = (node("Ada"), held("Bo", graph(nodes, edges, end=["Out"])))
    return graph([held("Team", graph([council("Council", *participants)], []))], [])


ALL = (batch, debate, vote, nested)


def lines(plan: Plan) -> list[str]:
    return [line.rstrip() for line in shown(plan).splitlines()]


# The tree.


def test_the_tree_marks_a_loop_agent_with_its_bound_and_counts_it() -> None:
    assert lines(plan_of(batch())) == [
        "sample  5 nodes, 3 edges, 1 loop",
        "├── ▶ Planner  literal  (start)",
        "│   └── → Sections",
        "├── Sections  loop_agent  at most 20 rounds, by Sections",
        "│   ├── → Final",
        "│   ├── ▶ Writer  literal  (start)",
        "│   │   └── → Editor",
        "│   └── Editor  literal  (end)",
        "└── Final  literal  (end)",
    ]


def test_tree_shows_the_participants_of_a_debate() -> None:
    assert lines(plan_of(debate())) == [
        "sample  4 nodes, 1 edge, 1 loop",
        "├── ▶ Council  debate  (start)  at most 4 rounds, by Council",
        "│   ├── → Secretary",
        "│   ├── Ada  literal",
        "│   └── Bo  literal",
        "└── Secretary  literal  (end)",
    ]


def test_tree_shows_the_participants_of_a_vote_without_a_loop() -> None:
    title, board, *rest = lines(plan_of(vote()))
    assert title == "sample  8 nodes, 2 edges, 0 loops"
    assert board == "├── ▶ Board  vote  (start)"
    assert rest[:7] == [
        "│   ├── → Out [port approved]",
        "│   ├── → Dropped [port rejected]",
        *(f"│   ├── {name}  literal" for name in PEOPLE[:-1]),
        "│   └── Eve  literal",
    ]


def test_the_tree_nests_loops_of_all_kinds() -> None:
    assert lines(plan_of(nested())) == [
        "sample  8 nodes, 4 edges, 3 loops",
        "└── ▶ Team  subgraph  (start, end)",
        "    └── ▶ Council  debate  (start, end)  at most 4 rounds, by Council",
        "        ├── Ada  literal",
        "        └── Bo  subgraph",
        "            ├── loop Refine: Refine, Guard  at most 3 rounds, by Guard",
        "            │   ├── ▶ Refine  loop_agent  (start)  at most 5 rounds, by Refine",
        "            │   │   ├── ↺ Refine",
        "            │   │   ├── → Guard",
        "            │   │   └── ▶ Editor  literal  (start, end)",
        "            │   └── Guard  loop_counter, 3 times",
        "            │       ├── ↺ Refine",
        "            │       └── ⇥ Out",
        "            └── Out  literal  (end)",
    ]


# All formats.


@pytest.mark.parametrize("described", ALL)
def test_every_format_shows_the_proven_bound_of_each_loop(described: Any) -> None:
    plan = plan_of(described())
    proofs = prove(plan)
    tree, chart, said = shown(plan), mermaid(plan), texts(picture(plan))
    assert f", {len(proofs)} loop" in tree.splitlines()[0]
    for proof in proofs:
        assert proof.per_entry in tree and proof.per_entry in chart and proof.per_entry in said
    assert picture(plan).count('<rect class="loop"') == len(proofs)


@pytest.mark.parametrize("described", ALL)
def test_every_format_shows_every_node(described: Any) -> None:
    plan = plan_of(described())
    names = set(re.findall(r"'id': '(\w+)', 'type'", str(described())))
    assert len(names) > 3
    for name in names:
        assert re.search(rf"[─▶] {name}  ", shown(plan))
        assert re.search(rf'"(▶ )?{name}\b', mermaid(plan))
        assert name in texts(picture(plan))


def test_loop_agent_with_zero_rounds_shows_a_bound_of_zero() -> None:
    plan = plan_of(graph([repeated("Idle", rounds=0)], []))
    assert "Idle  loop_agent  (start, end)  at most 0 rounds, by Idle" in shown(plan)


# Mermaid.


def test_mermaid_draws_a_debate_as_a_block_with_its_participants() -> None:
    text = mermaid(plan_of(debate()))
    block = """\
    subgraph n0["▶ Council · debate · at most 4 rounds, by Council"]
        direction TB
        n1["Ada<br/>literal"]
        n2["Bo<br/>literal"]
    end
"""
    assert block in text
    assert "n0 --> n3" in text
    assert "class n0 loop\n" in text and "class n0 first\n" in text and "class n3 last" in text


def test_mermaid_draws_a_vote_as_a_block_without_a_loop() -> None:
    text = mermaid(plan_of(vote()))
    assert 'subgraph n0["▶ Board · vote"]' in text
    assert "classDef loop" not in text
    assert 'n0 -->|"port approved"| n6' in text


def test_mermaid_nests_blocks_and_marks_each_loop() -> None:
    text = mermaid(plan_of(nested()))
    titles = re.findall(r'subgraph (\w+)\["(.*)"\]', text)
    assert titles == [
        ("n0", "▶ Team ■ · subgraph"),
        ("n1", "▶ Council ■ · debate · at most 4 rounds, by Council"),
        ("n3", "Bo · subgraph"),
        ("loop0", "loop Refine · at most 3 rounds, by Guard"),
        ("n4", "▶ Refine · loop_agent · at most 5 rounds, by Refine"),
    ]
    assert "class n1,loop0,n4 loop\n" in text
    assert 'n4 -->|"↺"| n4' in text


# SVG.


@pytest.mark.parametrize("described", ALL)
def test_bodies_are_drawn_inside_their_nodes(described: Any) -> None:
    drawing = draw(plan_of(described()))
    assert_tidy(drawing)
    for drawn in drawing.edges:
        assert_unbroken(drawn)


def test_participants_are_drawn_in_order_four_per_row() -> None:
    drawing = draw(plan_of(vote()))
    *first, last = (placed(drawing, name).box for name in PEOPLE)
    assert all(one.right < other.x and one.y == other.y for one, other in pairwise(first))
    assert last.x == first[0].x and last.y > first[0].bottom


def test_participants_have_no_start_or_end_marks() -> None:
    drawing = draw(plan_of(debate()))
    assert [mark.text for mark in drawing.marks] == ["start"]
    assert [found.id for found in drawing.nodes if found.end] == ["Secretary"]


def test_frames_nest_like_the_loops() -> None:
    drawing = draw(plan_of(nested()))
    [loop] = [region.box for region in drawing.regions if region.kind == "loop"]
    frames = [*(placed(drawing, name).box for name in ("Team", "Council", "Bo")), loop]
    frames += [placed(drawing, name).box for name in ("Refine", "Editor")]
    assert all(outer.holds(inner) for outer, inner in pairwise(frames))
    assert not placed(drawing, "Bo").box.holds(placed(drawing, "Ada").box)


def test_frame_notes_majority_voting_inside_a_node() -> None:
    voting = {"nodes": [node("A"), node("B")], "is_majority_voting": True}
    said = texts(picture(plan_of(graph([held("Jury", voting)], []))))
    assert "majority voting: the most common answer of 2 nodes wins" in said
