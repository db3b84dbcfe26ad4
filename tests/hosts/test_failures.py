"""Failures as a host reports them: what kind they are, and how often the call was made."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import roundel

AGENT = {"provider": "openai", "name": "m"}


class OutOfStock(Exception):
    pass


def handled(graph: roundel.Graph, source: str, **options: Any) -> dict[str, Any]:
    """The data of the failure that the error edge of a node carries."""
    graph.node("Catch", "passthrough").edge(source, "Catch", port="error")
    result = roundel.run(graph, "go", **options)
    assert result.status == "completed", result.error
    assert result.output == (result.data or {})["error"]
    return dict(result.data or {})


def calling(function: Any, **fields: Any) -> roundel.Graph:
    graph = roundel.Graph(start="Work", end="Catch")
    return graph.node("Work", "python", function=function, **fields)


def agent(**config: Any) -> roundel.Graph:
    return roundel.Graph(start="Work", end="Catch").node("Work", "agent", **AGENT, **config)


@pytest.mark.parametrize("coroutine", [False, True])
def test_class_of_an_exception_is_the_type(coroutine: bool) -> None:
    def plain(_text: str) -> str:
        raise OutOfStock("no tea")

    async def waiting(text: str) -> str:
        return plain(text)

    data = handled(calling(waiting if coroutine else plain), "Work")
    assert data == {
        "error": "OutOfStock: no tea",
        "type": "OutOfStock",
        "node": "Work",
        "address": "Work",
        "attempts": 1,
    }


def test_time_limit_of_a_node_is_a_timeout() -> None:
    async def slow(_text: str) -> None:
        await asyncio.Event().wait()

    data = handled(calling(slow, timeout=0.02), "Work")
    assert (data["type"], data["error"]) == ("Timeout", "no answer after 0.02 seconds")


def test_attempts_of_a_node_are_counted() -> None:
    calls: list[str] = []

    def fails(text: str) -> str:
        calls.append(text)
        raise ValueError("never")

    fields = {"max_attempts": 3, "min_wait_seconds": 0, "max_wait_seconds": 0}
    data = handled(calling(fails, retry=fields), "Work")
    assert (data["type"], data["attempts"], len(calls)) == ("ValueError", 3, 3)


def test_veto_of_middleware_is_handled() -> None:
    class Bouncer(roundel.Middleware):
        def applies(self, node: Any) -> bool:
            return bool(node.id == "Work")

        async def before(self, visit: roundel.Visit) -> None:
            raise roundel.Veto("not today")

    data = handled(agent(), "Work", script={"Work": "hello"}, middleware=[Bouncer()])
    assert "not today" in data["error"]


def test_answer_that_breaks_its_schema_is_a_validation_failure() -> None:
    schema = {"type": "object", "required": ["score"]}
    data = handled(agent(output_schema=schema, max_repairs=1), "Work", script={"Work": "none"})
    assert data["type"] == "Validation"
    assert data["error"].startswith("the answer does not fit output_schema")


def look(place: str) -> str:
    return f"nothing at {place}"


LOOK = {"tool_calls": [{"name": "look", "arguments": {"place": "here"}}]}


def test_too_many_rounds_of_tools_are_a_tool_limit() -> None:
    graph = agent(tools=[look], max_tool_calls=1, on_limit="error")
    assert handled(graph, "Work", script={"Work": [LOOK]})["type"] == "ToolLimit"


@pytest.mark.parametrize("tools", [[], [look]])
def test_type_of_a_scripted_failure(tools: list[Any]) -> None:
    script = {"Work": [{"error": "slow down", "type": "RateLimited"}]}
    assert handled(agent(tools=tools), "Work", script=script)["type"] == "RateLimited"
    assert handled(agent(tools=tools), "Work", script={"Work": [{"error": "?"}]})["type"] == "ModelError"


@pytest.mark.parametrize("tools", [[], [look]])
def test_error_as_an_answer_has_the_same_data(tools: list[Any]) -> None:
    graph = roundel.Graph(start="Work").node("Work", "agent", **AGENT, tools=tools, on_error="message")
    result = roundel.run(graph, "go", script={"Work": [{"error": "slow down", "type": "RateLimited"}]})
    assert result.status == "completed"
    assert "slow down" in result.output
    assert result.data == {
        "error": "slow down",
        "type": "RateLimited",
        "node": "Work",
        "address": "Work",
        "attempts": 1,
    }


def test_failing_tool_is_no_failure_of_the_agent() -> None:
    def broken() -> str:
        raise OSError("the disk is full")

    graph = roundel.Graph(start="Work", end="Done").node("Work", "agent", **AGENT, tools=[broken])
    graph.node("Catch", "passthrough").edge("Work", "Catch", port="error")
    graph.node("Done", "passthrough").edge("Work", "Done")
    result = roundel.run(graph, "go", script={"Work": [{"tool_calls": [{"name": "broken"}]}, "I give up."]})
    assert result.output == "I give up."


@pytest.mark.parametrize("caught", [True, False])
def test_function_on_an_error_edge_decides(caught: bool) -> None:
    def fails(_text: str) -> str:
        raise OutOfStock("no tea")

    graph = calling(fails).node("Catch", "passthrough")
    graph.edge(
        "Work",
        "Catch",
        port="error",
        condition=lambda message: caught and message.data["type"] == "OutOfStock",
    )
    result = roundel.run(graph, "go")
    assert result.status == ("completed" if caught else "failed")
    assert result.output == ("OutOfStock: no tea" if caught else "")


def test_calls_in_flight_are_cancelled_if_the_graph_says_so() -> None:
    started, ended = asyncio.Event(), list[str]()

    async def slow(_text: str) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    async def fails(_text: str) -> None:
        await started.wait()
        raise OutOfStock("no tea")

    graph = roundel.Graph(start=["Slow", "Fails"], on_failure="cancel")
    graph.node("Slow", "python", function=slow).node("Fails", "python", function=fails)
    result = roundel.run(graph, "go")
    assert (result.status, result.error, ended) == ("failed", "Fails: OutOfStock: no tea", ["cancelled"])
