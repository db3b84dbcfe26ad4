"""Time limits on code that does not let itself be interrupted."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

import roundel
from roundel.nodes.user_code import TimeLimit, TimeLimitExceeded
from tests.nodes.conversations import run_conversation, wants

BLOCKED = "no answer after 0.05 seconds: the event loop was blocked until "


async def blocks(_message: Any) -> str:
    time.sleep(0.2)  # noqa: ASYNC251 (that is the point)
    return "late"


async def goes_on(_message: Any) -> str:
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        return "late"
    return "never"


async def raises_on_cancellation(_message: Any) -> str:
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        raise ValueError("interrupted") from None
    return "never"


def test_coroutine_blocking_past_its_timeout_fails_with_an_explanation() -> None:
    result = roundel.run(roundel.Graph(start="A", end="A").node("A", "python", function=blocks, timeout=0.05))
    assert (result.status, result.output) == ("failed", "")
    assert str(result.error).startswith(f"A: {BLOCKED}")
    assert "make it a plain function" in str(result.error)


@pytest.mark.parametrize("function", [goes_on, raises_on_cancellation])
def test_coroutine_ignoring_its_timeout_fails(function: Any) -> None:
    result = roundel.run(
        roundel.Graph(start="A", end="A").node("A", "python", function=function, timeout=0.05)
    )
    assert result.status == "failed"
    assert str(result.error) == "A: no answer after 0.05 seconds; it did not end when it was cancelled"


def test_timed_out_node_is_retried() -> None:
    calls = []

    async def slow_at_first(_message: Any) -> str:
        calls.append(1)
        if len(calls) == 1:
            time.sleep(0.5)  # noqa: ASYNC251
        return f"call {len(calls)}"

    graph = roundel.Graph(start="A", end="A")
    retry = {"max_attempts": 2, "min_wait_seconds": 0, "max_wait_seconds": 0}
    graph.node("A", "python", function=slow_at_first, timeout=0.4, retry=retry)
    assert roundel.run(graph).output == "call 2"


def test_tool_blocking_past_its_timeout_fails() -> None:
    tools = {"blocks": {"python": blocks, "timeout": 0.05}, "goes_on": {"python": goes_on, "timeout": 0.05}}
    graph = roundel.Graph(start="A", end="A", tools=tools).node("A", "agent", tools=list(tools))
    one, other = wants("blocks", _message=1), wants("goes_on", _message=1)
    story = run_conversation(graph, {"A": [one, other, "done"]})
    first, second = story.results()
    assert first.startswith(BLOCKED)
    assert second == "no answer after 0.05 seconds; it did not end when it was cancelled"


def test_time_limit_raises_only_after_expiry() -> None:
    async def story() -> tuple[str, str]:
        async with TimeLimit(None):
            first = "without a limit"
        async with TimeLimit(60):
            await asyncio.sleep(0)
            second = "in time"
        with pytest.raises(TimeoutError):  # the body's own
            async with TimeLimit(60):
                raise TimeoutError
        with pytest.raises(TimeLimitExceeded):
            async with TimeLimit(0.01):
                await asyncio.sleep(60)
        return first, second

    assert asyncio.run(story()) == ("without a limit", "in time")
