"""Warnings about loops whose end is decided by a word that an agent mentions."""

from __future__ import annotations

from typing import Any

import pytest

import roundel
from roundel.nodes import loading


def keyword(**config: Any) -> dict[str, Any]:
    return {"type": "keyword", "config": config}


def review(kind: str = "agent", condition: Any = None, **config: Any) -> roundel.Graph:
    """A writer and a reviewer, whose answer ends the loop under a condition."""
    graph = (
        roundel.Graph(start="Writer", end="Final").node("Writer", "agent").node("Reviewer", kind, **config)
    )
    graph.node("Final", "passthrough").edge("Writer", "Reviewer").edge("Reviewer", "Writer")
    graph.node("Guard", "loop_counter").edge("Reviewer", "Guard").edge("Guard", "Writer")
    graph.edge("Guard", "Final")
    return graph.edge("Reviewer", "Final", condition=condition or keyword(any=["ACCEPT"]))


def loose(graph: roundel.Graph) -> list[str]:
    _, report = loading.check(graph)
    assert report.ok
    return [found.message for found in report.diagnostics if found.code == "loose-verdict"]


def test_loop_that_ends_when_an_agent_mentions_a_word() -> None:
    _, report = loading.check(review())
    (found,) = report.diagnostics
    assert (found.severity, found.code) == ("warning", "loose-verdict")
    assert found.message == (
        "the loop 'Writer' ends as soon as 'Reviewer' mentions 'ACCEPT', also in \"I can't say ACCEPT yet\""
    )
    assert "`begins: [ACCEPT]`" in found.hint
    assert "`output_schema`" in found.hint


@pytest.mark.parametrize(
    "condition",
    [
        keyword(any=["ACCEPT"], word=True),
        keyword(any=["ACCEPT"], none=["not"]),
        keyword(any=["ACCEPT"], regex=["ok$"]),
        keyword(none=["ACCEPT"], negate=True),
    ],
)
def test_other_ways_to_look_for_a_word_are_as_loose(condition: Any) -> None:
    assert len(loose(review(condition=condition))) == 1


@pytest.mark.parametrize(
    "condition",
    [
        keyword(begins=["ACCEPT"]),
        keyword(only=["ACCEPT"]),
        keyword(any=["SHIP"], begins=["ACCEPT"]),
        keyword(none=["REVISE"]),
        keyword(any=["REVISE"], negate=True),
        keyword(regex=["^ACCEPT"]),
        {"cel": "data.score > 90"},
    ],
)
def test_other_conditions_are_not_loose(condition: Any) -> None:
    assert loose(review(condition=condition)) == []


@pytest.mark.parametrize(
    ("kind", "config"), [("human", {}), ("passthrough", {}), ("literal", {"content": "x"})]
)
def test_only_agents_talk_about_a_verdict(kind: str, config: dict[str, Any]) -> None:
    assert loose(review(kind, **config)) == []


def test_agent_with_a_schema_does_not_talk() -> None:
    assert loose(review(output_schema={"type": "object"})) == []


def test_edges_inside_of_a_loop_and_behind_it_decide_no_end() -> None:
    graph = review(condition=keyword(begins=["ACCEPT"])).node("Other", "agent")
    graph.edge("Writer", "Other", condition=keyword(any=["help"])).edge("Other", "Writer")
    graph.node("Last", "agent").node("End", "passthrough").edge("Final", "Last")
    assert loose(graph.edge("Last", "End", condition=keyword(any=["bye"]))) == []


def test_one_warning_for_each_edge_however_many_loops_it_leaves() -> None:
    """The inner loop is entered at two nodes, and the edge leaves the outer one as well."""
    graph = (
        roundel.Graph(start="Outer", end="Final").node("Outer", "agent").node("A", "agent").node("B", "agent")
    )
    graph.node("Final", "passthrough")
    graph.edge("Outer", "A", condition=keyword(any=["a"])).edge("Outer", "B", condition=keyword(none=["a"]))
    graph.edge("A", "B").edge("B", "A", condition=keyword(none=["ACCEPT", "back"]))
    graph.edge("B", "Outer", condition=keyword(begins=["back"]))
    graph.edge("B", "Final", condition=keyword(any=["ACCEPT", "OK"]))
    (message,) = loose(graph)
    assert "'B' mentions 'ACCEPT' or 'OK'" in message


def test_loops_in_subgraphs_are_checked_too() -> None:
    graph = roundel.Graph(start="Part", end="Part").node("Part", "subgraph", graph=review())
    assert len(loose(graph)) == 1
