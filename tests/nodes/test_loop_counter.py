"""The counter: each trigger counts; at its limit it speaks."""

from __future__ import annotations

from typing import Any

import pytest

import roundel


def loop(limit: int, **counter: Any) -> roundel.Graph:
    graph = roundel.Graph(start="A", end="Out", limits={"rounds": 30})
    graph.node("A", "literal", content="x").node("B", "passthrough").node("Out", "passthrough")
    graph.node("Gate", "loop_counter", max_iterations=limit, **counter)
    return graph.edge("A", "B").edge("B", "A").edge("B", "Gate").edge("Gate", "A").edge("Gate", "Out")


@pytest.mark.parametrize("limit", [1, 2, 29, 30])
def test_max_iterations_is_exact(limit: int) -> None:
    result = roundel.run(loop(limit))
    assert result.status == "completed"
    assert result.loops["A"] == {"rounds": limit, "exit_reason": "max_iterations_reached", "entries": 1}
    assert result.output == f"Loop limit reached ({limit})"
    assert result.data == {"count": limit, "max_iterations": limit}


def test_counter_above_the_cap_locks_the_run() -> None:
    events: list[roundel.Event] = []
    result = roundel.run(loop(31), on_event=events.append)
    assert result.status == "suspended_locked"
    assert result.nodes == {"A": 30, "B": 30, "Gate": 30}
    reached = next(event for event in events if event.event == "limit_reached")
    assert (reached.address, reached.fields()["what"], reached.fields()["limit"]) == ("A[30]", "rounds", 30)


def test_message_can_be_configured() -> None:
    assert roundel.run(loop(2, message="enough")).output == "enough"


@pytest.mark.parametrize(("counter", "is_notice"), [({}, True), ({"message": "enough"}, False)])
def test_its_own_sentence_is_a_notice_and_that_of_the_workflow_is_not(
    counter: dict[str, Any], is_notice: bool
) -> None:
    graph, seen = loop(2, **counter), []

    @graph.function("Seen")
    def look(message: roundel.Message) -> None:
        seen.append((message.role, message.is_notice))

    roundel.run(graph.edge("Gate", "Seen"))
    assert seen == [("user", is_notice)]


def entered_twice(**counter: Any) -> dict[str, int]:
    """An inner loop with a counter of 3, left early by a word in its first entry."""
    graph = roundel.Graph(start="Outer", end="End", limits={"rounds": 20})
    graph.node("Outer", "literal", content="o").node("Body", "agent")
    graph.node("Gate", "loop_counter", max_iterations=3, **counter)
    graph.node("Check", "passthrough").node("End", "passthrough")
    graph.node("Twice", "loop_counter", max_iterations=2)
    go_on = {"type": "keyword", "config": {"none": ["OUT"]}}
    graph.edge("Outer", "Body").edge("Body", "Body", condition=go_on).edge("Body", "Gate", condition=go_on)
    graph.edge("Body", "Check", condition={"type": "keyword", "config": {"any": ["OUT"]}})
    graph.edge("Gate", "Body").edge("Gate", "Check").edge("Check", "Outer").edge("Check", "Twice")
    graph.edge("Twice", "Outer").edge("Twice", "End")
    events: list[roundel.Event] = []
    script = {"Body": ["on", "on", "OUT", "on", "on", "on", "on"]}
    roundel.run(graph, script=script, on_event=events.append)
    exits = [event for event in events if event.event == "loop_exit" and event.fields()["loop"] == "Body"]
    return {str(event.address).split(".")[0]: event.fields()["rounds"] for event in exits}


def test_count_continues_when_the_loop_is_entered_again() -> None:
    assert entered_twice() == {"Outer[1]": 3, "Outer[2]": 1}


def test_loop_scope_resets_the_count_on_entry() -> None:
    assert entered_twice(scope="loop") == {"Outer[1]": 3, "Outer[2]": 3}


def test_each_call_of_a_subgraph_has_its_own_count() -> None:
    inner = loop(2, reset_on_emit=False)
    outer = roundel.Graph(start="Sub", end="Out")
    outer.node("Sub", "subgraph", graph=inner).node("Out", "passthrough")
    outer.node("Gate", "loop_counter", max_iterations=3)
    outer.edge("Sub", "Sub").edge("Sub", "Gate").edge("Gate", "Sub").edge("Gate", "Out")
    result = roundel.run(outer)
    assert result.nodes["B"] == 6
