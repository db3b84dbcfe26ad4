"""An exception of user code of any kind reaches the caller, with the name of its type."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import roundel
from roundel import LoopMode
from tests.deadline import Deadline
from tests.nodes.conversations import run_conversation, wants

RAISED: dict[str, BaseException] = {
    "StopIteration": StopIteration("no more"),
    "StopAsyncIteration": StopAsyncIteration("no more"),
    "SystemExit": SystemExit("no more"),
    "CancelledError": asyncio.CancelledError("no more"),
    "GeneratorExit": GeneratorExit("no more"),
    "ValueError": ValueError("no more"),
}


def raising(name: str, coroutine: bool) -> Callable[..., Any]:
    def plain(_value: Any) -> Any:
        raise RAISED[name]

    async def waiting(_value: Any) -> Any:
        await asyncio.sleep(0)
        raise RAISED[name]

    return waiting if coroutine else plain


def looped(strategy: Any) -> roundel.Graph:
    body = {"id": "Step", "type": "passthrough", "config": {}}
    graph = roundel.Graph(start="A", end="A")
    return graph.node("A", "loop_agent", strategy=strategy.strategy, body=body)


def on_edge(**edge: Any) -> roundel.Graph:
    graph = roundel.Graph(start="A", end="B").node("A", "passthrough").node("B", "passthrough")
    return graph.edge("A", "B", **edge)


class Broken(roundel.Middleware):
    def __init__(self, call: Callable[..., Any], hook: str) -> None:
        self.call, self.hook = call, hook

    def before(self, visit: roundel.Visit) -> Any:
        return self.call(visit) if self.hook == "before" else None

    def after(self, visit: roundel.Visit, messages: tuple[roundel.Message, ...]) -> Any:
        return self.call(visit) if self.hook == "after" else None

    def begin(self, *_arguments: Any) -> None:
        if self.hook == "begin":
            self.call(None)

    def observe(self, event: roundel.Event) -> None:
        if self.hook == "observe":
            self.call(event)

    async def close(self, run_id: str) -> None:
        if self.hook == "close":
            self.call(run_id)


def source(kind: str, call: Callable[..., Any]) -> roundel.Graph:
    if kind == "node":
        return roundel.Graph(start="A", end="A").node("A", "python", function=call)
    if kind == "condition":
        return on_edge(condition=call)
    if kind == "processor":
        return on_edge(process=call)
    if kind == "predicate":
        return looped(LoopMode.condition(call))
    if kind == "converter":
        return looped(LoopMode.array(call))
    if kind == "strategy":
        return looped(LoopMode.custom(call))
    return roundel.Graph(start="A", end="A").node("A", "passthrough")


def outcome(kind: str, name: str, coroutine: bool) -> tuple[str, str]:
    call = raising(name, coroutine)
    if kind == "tool":
        graph = roundel.Graph(start="A", end="A", tools={"try": {"python": call}})
        story = run_conversation(
            graph.node("A", "agent", tools=["try"]), {"A": [wants("try", _value=1), "done"]}
        )
        assert story.result.completed, story.result.error
        return "failed", story.results()[0]
    middleware = [Broken(call, kind)] if kind in HOOKS else []
    result = roundel.run(source(kind, call), "text", middleware=middleware)
    if kind == "converter":  # the run goes on, without a round
        return "failed", result.output
    return result.status, str(result.error)


def pure(kind: str, name: str) -> tuple[str, str]:
    register = roundel.condition if kind == "condition" else roundel.processor
    register("raises", pure=True)(raising(name, coroutine=False))
    edge = {"condition": "raises"}
    if kind == "processor":
        edge = {"process": {"type": "function", "config": {"name": "raises"}}}  # type: ignore[dict-item]
    nodes = [{"id": "A", "type": "passthrough"}, {"id": "B", "type": "passthrough"}]
    result = roundel.run(
        {"graph": {"nodes": nodes, "edges": [{"from": "A", "to": "B", **edge}], "start": "A"}}
    )
    return result.status, str(result.error)


KINDS = ("node", "condition", "processor", "predicate", "converter", "strategy", "tool")
HOOKS = ("before", "after", "begin", "observe", "close")
within, inside = Deadline(outcome), Deadline(pure)


@pytest.mark.parametrize("name", RAISED)
@pytest.mark.parametrize("kind", KINDS)
def test_raising_function_fails_the_node_and_is_named(kind: str, name: str) -> None:
    status, error = within(kind, name, False)
    assert status == "failed" and f"{name}: no more" in error


@pytest.mark.parametrize("name", RAISED)
@pytest.mark.parametrize("kind", KINDS)
def test_raising_coroutine_fails_the_node_and_is_named(kind: str, name: str) -> None:
    status, error = within(kind, name, True)
    assert status == "failed" and name in error


@pytest.mark.parametrize("name", RAISED)
@pytest.mark.parametrize("moment", ["before", "after"])
def test_middleware_that_raises_is_named_too(moment: str, name: str) -> None:
    status, error = within(moment, name, False)
    assert (status, error) == (
        "failed",
        f"A: the middleware Broken failed {moment} the node: {name}: no more",
    )


@pytest.mark.parametrize("name", RAISED)
@pytest.mark.parametrize("hook", ["begin", "observe", "close"])
def test_failing_observer_middleware_does_not_fail_the_run(hook: str, name: str) -> None:
    assert within(hook, name, False) == ("completed", "None")


@pytest.mark.parametrize("name", RAISED)
@pytest.mark.parametrize("kind", ["condition", "processor"])
def test_a_pure_function_that_raises_fails_its_node(kind: str, name: str) -> None:
    assert inside(kind, name) == ("failed", f"A: a function on A → B failed: {name}: no more")


def test_cancelling_a_run_cancels_its_edge_functions() -> None:
    async def story() -> str:
        started = asyncio.Event()
        graph = roundel.Graph(start="A", end="B").node("A", "passthrough").node("B", "passthrough")

        async def waits(_message: Any) -> bool:
            started.set()
            await asyncio.sleep(60)
            return True

        graph.edge("A", "B", condition=waits)
        task = asyncio.create_task(roundel.run_async(graph, "text"))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return "cancelled"

    assert asyncio.run(story()) == "cancelled"
