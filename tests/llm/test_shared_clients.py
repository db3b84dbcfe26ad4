"""Runs of one process share the sessions with MCP servers and the connections to models."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import roundel
from tests.llm.story import asking
from tests.llm.test_mcp import TOOLBOX, becomes_true, is_alive
from tests.llm.wire.reply import Reply
from tests.llm.wire.server import Wire


def with_toolbox(wire: Wire, **server: Any) -> dict[str, Any]:
    source = asking(wire, "openai")
    source["tools"] = {"box": {"mcp": {"command": sys.executable, "args": [TOOLBOX, "stdio"], **server}}}
    source["graph"]["nodes"][0]["config"]["tools"] = ["box"]
    return source


def answers(wire: Wire, runs: int) -> None:
    """Each run asks for the id of the server's process once."""
    ask = Reply(tool_calls=(("a1", "pid", {}),))
    wire.replies(*(reply for _ in range(runs) for reply in (ask, Reply(text="done"))))


async def pid_of(source: dict[str, Any]) -> int:
    events: list[roundel.Event] = []
    result = await roundel.run_async(source, "go", on_event=events.append)
    assert result.completed, result.error
    (call,) = [
        event for event in events if event.event == "tool_call" and event.fields()["status"] == "completed"
    ]
    return int(call.fields()["result"])


def test_two_runs_share_a_server_that_ends_with_the_event_loop(wire: Wire) -> None:
    answers(wire, 2)

    async def story() -> int:
        first, second = await pid_of(with_toolbox(wire)), await pid_of(with_toolbox(wire))
        assert first == second
        assert is_alive(first)
        return first

    pid = asyncio.run(story())
    assert asyncio.run(becomes_true(lambda: not is_alive(pid)))


def test_runs_with_different_environments_use_different_servers(wire: Wire) -> None:
    """What a server may see of one run is not for the next."""
    answers(wire, 2)

    async def story() -> None:
        first = await pid_of(with_toolbox(wire, env={"TOKEN": "first-secret-1"}))
        assert first != await pid_of(with_toolbox(wire, env={"TOKEN": "other-secret-2"}))

    asyncio.run(story())


def test_two_runs_share_the_connection_to_a_model(wire: Wire) -> None:
    wire.replies(Reply(text="one"), Reply(text="two"))

    async def story() -> list[str]:
        return [(await roundel.run_async(asking(wire, "openai"), "go")).output for _ in range(2)]

    assert asyncio.run(story()) == ["one", "two"]
    assert (len(wire.requests), wire.accepted) == (2, 1)
