"""The result of a run."""

from __future__ import annotations

from typing import Any

import pytest

import roundel


def branches(**fields: Any) -> roundel.Graph:
    graph = roundel.Graph(start="In", **fields).node("In", "passthrough")
    for name, word in (("Left", "left"), ("Right", "right")):
        graph.node(name, "literal", content=word)
        graph.edge("In", name, condition={"type": "keyword", "config": {"any": [word]}})
    return graph


@pytest.mark.parametrize(
    ("end", "text", "output"),
    [
        (["Left", "Right"], "left right", "left"),
        (["Right", "Left"], "left right", "right"),
        (["Left", "Right"], "right", "right"),
        ([], "right", "right"),
        ([], "left right", "left"),
    ],
)
def test_output_comes_from_the_first_end_with_output(end: list[str], text: str, output: str) -> None:
    assert roundel.run(branches(end=end), text).output == output


def test_unreached_end_is_reported_with_the_edges_that_did_not_fire() -> None:
    events: list[roundel.Event] = []
    result = roundel.run(branches(end="Left"), "right", on_event=events.append)
    assert (result.status, result.output) == ("completed", "")
    missed = next(event for event in events if event.event == "end_not_reached")
    assert missed.fields() == {"edges": ["In → Left"]}


@pytest.mark.parametrize(
    ("replies", "output"),
    [
        (["A", "B", "B"], "B"),
        (["B", "A", "C"], "B"),
        (["", "A", ""], "A"),
        (["x ", "x", "y"], "x "),
        (["", "", ""], ""),
    ],
)
def test_majority_voting(replies: list[str], output: str) -> None:
    graph = roundel.Graph(is_majority_voting=True)
    for number, _ in enumerate(replies):
        graph.node(f"N{number}", "agent")
    script = {
        f"N{number}": [{"text": text, "delay": 0.01 * (3 - number)}] for number, text in enumerate(replies)
    }
    result = roundel.run(graph, "vote", script=script)
    assert (result.status, result.output) == ("completed", output)
    assert result.nodes == {"N0": 1, "N1": 1, "N2": 1}


def test_step_limit_locks_the_run() -> None:
    graph = roundel.Graph(start="A", end="C", limits={"steps": 2})
    for name in "ABC":
        graph.node(name, "passthrough")
    graph.edge("A", "B").edge("B", "C")
    events: list[roundel.Event] = []
    result = roundel.run(graph, "x", on_event=events.append)
    events = [event for event in events if event.seq]
    assert (result.status, result.nodes) == ("suspended_locked", {"A": 1, "B": 1})
    assert [event.event for event in events[-2:]] == ["limit_reached", "run_state_change"]
    assert events[-2].fields() == {
        "what": "steps",
        "limit": 2,
        "address": "C",
        "locks": True,
        "scope": "the graph",
        "spent": 2,
        "reserved": 0,
        "wanted": 1,
    }


def test_limit_finishes_calls_in_flight_and_starts_no_new_ones() -> None:
    graph = roundel.Graph(start=["A", "Slow"], end="Next", limits={"rounds": 2})
    graph.node("A", "literal", content="a").node("Out", "passthrough").node("Slow", "agent")
    graph.node("Next", "passthrough").edge("Slow", "Next").edge("A", "A")
    graph.edge("A", "Out", condition={"type": "keyword", "config": {"any": ["z"]}})
    result = roundel.run(graph, script={"Slow": [{"text": "slow", "delay": 0.05}]})
    assert result.status == "suspended_locked"
    assert result.nodes == {"A": 2, "Slow": 1}


def test_two_entries_at_once_fail_the_run() -> None:
    graph = roundel.Graph(start="In", end="B").node("In", "passthrough")
    for name in ("A", "B"):
        graph.node(name, "passthrough")
        graph.edge("In", name, condition={"type": "keyword", "config": {"any": ["x"]}})
    graph.edge("A", "B").edge("B", "A", condition={"type": "keyword", "config": {"any": ["again"]}})
    result = roundel.run(graph, "x")
    assert result.status == "failed"
    assert "entered at 'A' and 'B' at once" in str(result.error)
