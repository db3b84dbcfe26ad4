"""The timer: silent, then it speaks; every time anew if it resets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import roundel
from roundel.hosts.local_run import LocalRun
from roundel.workflow.message import Message


def clock(step: float) -> Callable[[], float]:
    """A clock that goes on by so much each time somebody looks at it."""
    times = iter(range(1, 10**9))
    return lambda: 1_000_000 + next(times) * step


def loop(**timer: Any) -> roundel.Graph:
    graph = roundel.Graph(start="A", end="Out", limits={"rounds": 50}, breaker=False)
    graph.node("A", "literal", content="tick").node("B", "passthrough").node("Out", "passthrough")
    graph.node("Timer", "loop_timer", **timer)
    graph.edge("A", "B").edge("B", "Timer").edge("Timer", "A").edge("Timer", "Out")
    return graph if timer.get("passthrough") else graph.edge("B", "A")


def run(graph: roundel.Graph, seconds_a_look: float) -> tuple[roundel.Result, list[roundel.Event]]:
    events: list[roundel.Event] = []
    host = LocalRun(roundel.prepare(graph), on_event=events.append, clock=clock(seconds_a_look))
    return asyncio.run(host.run((Message("go"),))), events


def test_timer_ends_the_loop_after_max_duration() -> None:
    # The clock is looked at four times a round: once for each node, and once by the timer itself.
    result, _ = run(loop(max_duration=10), seconds_a_look=1)
    assert result.output == "Time limit reached (10 seconds)"
    assert result.loops["A"] == {"rounds": 4, "exit_reason": "max_duration_reached", "entries": 1}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"max_duration": 0.5, "duration_unit": "minutes"}, "Time limit reached (0.5 minutes)"),
        ({"max_duration": 1, "duration_unit": "hours"}, "Time limit reached (1 hours)"),
        ({"max_duration": 5, "message": "enough"}, "enough"),
    ],
)
def test_units_and_message(settings: dict[str, Any], expected: str) -> None:
    result, _ = run(loop(**settings), seconds_a_look=1000)
    assert (result.output, result.loops["A"]["rounds"]) == (expected, 2)


@pytest.mark.parametrize(("timer", "is_notice"), [({}, True), ({"message": "enough"}, False)])
def test_its_own_sentence_is_a_notice_and_that_of_the_workflow_is_not(
    timer: dict[str, Any], is_notice: bool
) -> None:
    graph, seen = loop(max_duration=5, **timer), []

    @graph.function("Seen")
    def look(message: Message) -> None:
        seen.append((message.role, message.is_notice))

    run(graph.edge("Timer", "Seen"), seconds_a_look=1000)
    assert seen == [("user", is_notice)]


def test_the_first_trigger_only_starts_the_clock() -> None:
    result, _ = run(loop(max_duration=0.001), seconds_a_look=5)
    assert result.loops["A"]["rounds"] == 2


def test_passthrough_below_the_limit_reaches_only_targets_inside_the_loop() -> None:
    result, events = run(loop(max_duration=20, passthrough=True), seconds_a_look=1)
    assert result.nodes["Out"] == 1
    assert result.loops["A"]["rounds"] > 3
    inside = [
        event for event in events if event.address == "A[2]/A" and event.fields()["status"] == "running"
    ]
    assert len(inside) == 1


def test_clock_going_backwards_counts_as_no_time() -> None:
    times = iter([100.0, 100.0, 100.0, 100.0, *[50.0] * 40, *[99.0] * 40, *[200.0] * 40])
    host = LocalRun(roundel.prepare(loop(max_duration=60)), clock=lambda: next(times))
    result = asyncio.run(host.run((Message("go"),)))
    assert result.loops["A"]["exit_reason"] == "max_duration_reached"


def outer_loop(reset: bool) -> dict[str, int]:
    """A timer in an inner loop that is entered three times; how often its node ran each time."""
    graph = roundel.Graph(start="Outer", end="End", limits={"rounds": 40})
    graph.node("Outer", "literal", content="o").node("Body", "literal", content="b")
    graph.node("Timer", "loop_timer", max_duration=20, reset_on_emit=reset)
    graph.node("Check", "passthrough").node("End", "passthrough")
    graph.node("Counter", "loop_counter", max_iterations=3)
    graph.edge("Outer", "Body").edge("Body", "Body").edge("Body", "Timer").edge("Timer", "Body")
    graph.edge("Timer", "Check").edge("Check", "Outer").edge("Check", "Counter")
    graph.edge("Counter", "Outer").edge("Counter", "End")
    result, events = run(graph, seconds_a_look=1)
    assert result.status == "completed"
    exits = [event for event in events if event.event == "loop_exit" and event.fields()["loop"] == "Body"]
    return {str(event.address).split(".")[0]: event.fields()["rounds"] for event in exits}


def test_timer_resets_on_every_entry() -> None:
    rounds = outer_loop(reset=True)
    assert len(set(rounds.values())) == 1
    assert all(count > 2 for count in rounds.values())


def test_timer_without_reset_fires_immediately_on_reentry() -> None:
    rounds = outer_loop(reset=False)
    assert rounds["Outer[1]"] > 2
    assert rounds["Outer[2]"] == rounds["Outer[3]"] == 1
