"""`break` and `continue`, as nodes and from functions."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

import roundel
from roundel import LoopMode


def body(kind: str, word: str = "stop", then: Any = None) -> roundel.Graph:
    """Says something; if that has the word in it, jumps, and otherwise goes on."""
    graph = roundel.Graph(start="Say", end="Rest").node("Say", "agent").node("Jump", kind)
    if isinstance(then, roundel.Graph):
        graph.node("Rest", "subgraph", graph=then)
    else:
        graph.node("Rest", "passthrough")
    graph.edge("Say", "Jump", condition={"type": "keyword", "config": {"any": [word]}})
    return graph.edge("Say", "Rest", condition={"type": "keyword", "config": {"none": [word]}})


def repeated(graph: Any, strategy: LoopMode, name: str = "Loop") -> roundel.Graph:
    outer = roundel.Graph(start=name, end=name)
    return outer.node(name, "loop_agent", strategy=strategy.strategy, body=graph)


SAYS = {"Say": ["one", "two, stop", "three", "four, stop", "five"]}


@pytest.mark.parametrize(
    ("strategy", "results"),
    [
        (LoopMode.count(5), ["one", "two, stop"]),
        (LoopMode.condition("false", max=5), ["one", "two, stop"]),
        (LoopMode.condition(lambda messages: False, max=5), ["one", "two, stop"]),
        (LoopMode.array("[1, 2, 3, 4, 5]"), ["one", "two, stop"]),
        (LoopMode.custom(lambda state: True, max=5), ["one", "two, stop"]),
    ],
)
def test_break_ends_the_loop_and_its_input_is_the_last_result(strategy: LoopMode, results: list[str]) -> None:
    result = roundel.run(repeated(body("break"), strategy), "go", script=SAYS)
    assert result.data is not None
    assert (result.status, result.data["results"], result.data["rounds"]) == ("completed", results, 2)
    assert result.loops["Loop"]["exit_reason"] == "break"
    assert result.output in ("two, stop", json.dumps(results))


@pytest.mark.parametrize("strategy", [LoopMode.count(5), LoopMode.array("[1, 2, 3, 4, 5]")])
def test_continue_ends_the_round(strategy: LoopMode) -> None:
    result = roundel.run(repeated(body("continue"), strategy), "go", script=SAYS)
    assert result.data is not None
    assert result.data["results"] == SAYS["Say"]
    assert result.nodes["Rest"] == 3
    assert result.nodes["Jump"] == 2


def test_result_of_a_continued_round_is_the_input_of_the_next() -> None:
    seen: list[str] = []
    graph = roundel.Graph(start="Say", end="Say")

    @graph.function("Say")
    def say(text: str, round: int) -> Any:
        seen.append(text)
        return roundel.continue_loop(f"{text}{round}") if round < 3 else f"{text}!"

    assert roundel.run(repeated(graph, LoopMode.count(3)), "x").output == "x12!"
    assert seen == ["x", "x1", "x12"]


@pytest.mark.parametrize(
    ("value", "output", "last"),
    [
        ("done", "done", "done"),
        (None, "a", None),
        ({"content": "c", "data": {"n": 1}}, "c", "c"),
        (["p", "q"], "q", "q"),
    ],
)
def test_a_function_may_end_the_loop(value: Any, output: str, last: str | None) -> None:
    async def step(round: int) -> Any:
        return "a" if round == 1 else roundel.break_loop(value)

    result = roundel.run(roundel.LoopAgent("Loop", step, LoopMode.count(9)), "go")
    assert result.data is not None
    assert (result.output, result.data["results"]) == (output, ["a", last])
    assert result.nodes["step"] == 2


def test_a_jump_ends_the_innermost_loop_only() -> None:
    inner = repeated(body("break"), LoopMode.count(3), "Inner")
    result = roundel.run(repeated(inner, LoopMode.count(2), "Outer"), "go", script=SAYS)
    assert result.nodes == {"Outer": 1, "Inner": 2, "Say": 4, "Rest": 2, "Jump": 2}
    assert result.loops["Outer"]["exit_reason"] == "count_reached"
    assert result.data is not None
    assert result.data["results"] == ["two, stop", "four, stop"]


def test_a_jump_reaches_out_of_subgraphs_and_free_cycles() -> None:
    cycle = (
        roundel.Graph(start="Say", end="Out")
        .node("Say", "agent")
        .node("Jump", "break")
        .node("Out", "passthrough")
    )
    cycle.edge("Say", "Say").edge("Say", "Jump", condition={"type": "keyword", "config": {"any": ["stop"]}})
    cycle.edge("Say", "Out", condition={"type": "keyword", "config": {"any": ["never"]}})
    sub = roundel.Graph(start="Sub", end="Sub").node("Sub", "subgraph", graph=cycle)
    result = roundel.run(repeated(sub, LoopMode.count(5)), "go", script={"Say": ["on", "on", "stop"]})
    assert (result.status, result.output, result.nodes["Say"]) == ("completed", "stop", 3)


def test_jump_cancels_concurrent_nodes() -> None:
    calls: list[str] = []
    graph = roundel.Graph(start=["Quick", "Slow"], end="Slow")

    @graph.function("Quick")
    async def quick(round: int) -> Any:
        await asyncio.sleep(0.01)
        return roundel.break_loop("left") if round == 2 else None

    @graph.function("Slow")
    async def slow(round: int) -> str:
        try:
            await asyncio.sleep(0.03 if round == 1 else 30)
        except asyncio.CancelledError:
            calls.append("called off")
            raise
        return "slow"

    events: list[roundel.Event] = []
    result = roundel.run(repeated(graph, LoopMode.count(5)), "go", on_event=events.append)
    assert (result.output, calls) == ("left", ["called off"])
    assert result.data is not None
    assert result.data["results"] == ["slow", "left"]
    assert [event.seq for event in events] == list(range(1, len(events) + 1))


def test_break_cancels_later_elements_and_finishes_earlier_ones() -> None:
    ended: list[str] = []
    called_off = asyncio.Event()

    async def step(text: str) -> Any:
        number = int(text)
        try:
            await (called_off.wait() if number == 1 else asyncio.sleep(0.01 if number == 2 else 30))
        except asyncio.CancelledError:
            ended.append(f"{number} called off")
            if number == 4:
                called_off.set()
            raise
        ended.append(f"{number} done")
        return roundel.break_loop(text) if number == 2 else text

    agent = roundel.LoopAgent("Loop", step, LoopMode.array(max_parallel=4))
    result = roundel.run(agent, "[1, 2, 3, 4, 5, 6]")
    assert result.output == "[1, 2]"
    assert ended == ["2 done", "3 called off", "4 called off", "1 done"]
    assert result.loops["Loop"]["exit_reason"] == "break"


def test_break_arriving_together_with_other_results() -> None:
    async def step(text: str) -> Any:
        return roundel.break_loop(text) if text == "2" else text

    agent = roundel.LoopAgent("Loop", step, LoopMode.array(max_parallel=6))
    assert roundel.run(agent, "[1, 2, 3, 4, 5, 6]").output == "[1, 2]"


def test_break_cancels_open_questions() -> None:
    graph = roundel.Graph(start=["Ask", "Quick"], end="Ask").node("Ask", "human")
    graph.function("Quick")(lambda text: roundel.break_loop("left"))
    result = roundel.run(repeated(graph, LoopMode.count(5)), "go")
    assert (result.status, result.output) == ("completed", "left")


def test_jump_outside_of_a_loop_fails_the_node() -> None:
    graph = roundel.Graph(start="A", end="A")
    graph.function("A")(lambda text: roundel.break_loop("x"))
    result = roundel.run(graph, "go")
    error = "A: 'break' is not inside a loop agent or debate, and no edge with 'port: exit' leads from it"
    assert (result.status, result.error) == ("failed", error)


@pytest.mark.parametrize("kind", ["break", "continue"])
def test_check_reports_a_jump_outside_of_a_loop(kind: str) -> None:
    inner = roundel.Graph(start="A", end="A").node("A", kind)
    graph = roundel.Graph(start="Sub", end="Sub").node("Sub", "subgraph", graph=inner)
    _, report = roundel.check(graph)
    assert [found.code for found in report.errors] == ["misplaced-jump"]
    _, report = roundel.check(repeated(graph, LoopMode.count(2)))
    assert not report.errors
