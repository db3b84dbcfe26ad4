"""Requests to a provider besides the conversation, and control of a call in flight."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest

import roundel
from roundel.kernel.events import encode_event
from roundel.kernel.payloads import TRANSIENT
from tests.llm.story import KEY, asking, every_provider, every_way, profile, run_story, workflow
from tests.llm.wire import Recorded, Reply, Wire
from tests.llm.wire.connection import Connection

MINE = (
    "max_tool_calls",
    "input_mode",
    "on_limit",
    "on_error",
    "max_repairs",
    "profile_id",
    "base_url",
    "api_key",
    "fallback",
    "cache",
    "retry",
)
"""Names in a workflow that are nobody else's business."""


# Parameters.


@every_provider
@every_way
def test_only_parameters_reach_the_provider(wire: Wire, provider: str, stream: bool) -> None:
    wire.replies(Reply(text="Quiet."))
    params = {"temperature": 0.5, "max_tokens": 64, "top_p": 0.25}
    config = {"on_limit": "error", "on_error": "message", "max_repairs": 1, "input_mode": "messages"}
    run_story(asking(wire, provider, params=params, stream=stream, **config))
    expected: dict[str, dict[str, Any]] = {
        "openai": {"temperature": 0.5, "max_completion_tokens": 64, "top_p": 0.25},
        "anthropic": params,
        "google": {
            "temperature": 0.5,
            "maxOutputTokens": 64,
            "topP": 0.25,
            "responseModalities": ["TEXT"],
        },
    }
    (requests_seen,) = wire.requests
    assert requests_seen.parameters() == expected[provider]
    assert requests_seen.key == KEY
    assert not any(name in json.dumps(requests_seen.body) for name in MINE)


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_unknown_parameters_are_sent_in_the_body(wire: Wire, provider: str) -> None:
    wire.replies(Reply(text="Quiet."))
    strange = {"response_format": {"type": "json_object"}, "x_custom": [1, 2]}
    run_story(asking(wire, provider, params=strange, parameters={"another": True}))
    sent = wire.requests[0].body
    assert {name: sent[name] for name in (*strange, "another")} == {**strange, "another": True}


def test_agent_parameters_override_the_profile(wire: Wire) -> None:
    wire.replies(Reply(text="Quiet."))
    params = {"temperature": 0, "seed": 7}
    run_story(workflow({"default": profile(wire, params=params)}, params={"temperature": 1}))
    assert wire.requests[0].parameters() == {"temperature": 1, "seed": 7}


def test_client_library_parameters_are_passed_by_name(wire: Wire) -> None:
    wire.replies(Reply(text="Quiet."))
    run_story(asking(wire, params={"openai_reasoning_effort": "low", "extra_body": {"one": 1}, "two": 2}))
    assert wire.requests[0].parameters() == {"reasoning_effort": "low", "one": 1, "two": 2}


@every_provider
def test_profile_headers_are_sent(wire: Wire, provider: str) -> None:
    wire.replies(Reply(text="Quiet."))
    run_story(workflow({"default": profile(wire, provider, headers={"X-Team": "north"})}))
    assert wire.requests[0].headers["x-team"] == "north"
    assert wire.requests[0].key == KEY


def test_header_overrides_the_key(wire: Wire) -> None:
    wire.replies(Reply(text="Quiet."))
    run_story(workflow({"default": profile(wire, headers={"Authorization": "Basic of-a-gateway"})}))
    assert wire.requests[0].headers["authorization"] == "Basic of-a-gateway"


@pytest.mark.parametrize(
    "config",
    [
        {"profile_id": "other"},
        {"profileId": "other"},
        {"model": "openai:gpt-x"},
        {"provider": "openai", "name": "gpt-x"},
        {"name": "gpt-x"},
    ],
    ids=str,
)
def test_agent_selects_its_model(wire: Wire, config: dict[str, Any]) -> None:
    wire.replies(Reply(text="Quiet."))
    models = {"default": profile(wire), "other": profile(wire, model="openai:gpt-x")}
    if "profile_id" not in config and "profileId" not in config:
        config = {**config, "base_url": wire.openai_url, "api_key": "sk-of-the-agent"}
    run_story(workflow(models, **config))
    assert wire.requests[0].model == "gpt-x"
    assert wire.requests[0].key == config.get("api_key", KEY)


def test_an_agent_may_name_another_model_of_its_profile(wire: Wire) -> None:
    wire.replies(Reply(text="Quiet."))
    run_story(workflow({"house": profile(wire, params={"seed": 7})}, profile_id="house", name="gpt-x"))
    (requests_seen,) = wire.requests
    assert (requests_seen.model, requests_seen.key, requests_seen.parameters()) == ("gpt-x", KEY, {"seed": 7})


@every_provider
def test_custom_server_needs_no_key(wire: Wire, provider: str) -> None:
    wire.replies(Reply(text="Quiet."))
    run_story(workflow({"default": profile(wire, provider, api_key="")}))
    assert wire.requests[0].key == "none"


# What is said while it is said.


@every_provider
def test_slow_answer_is_streamed_in_parts(wire: Wire, provider: str) -> None:
    wire.replies(Reply(text="one two three", chunk_delay=0.06))
    story = run_story(asking(wire, provider))
    parts = story.of("token_stream")
    assert len(parts) > 1
    assert "".join(data["text"] for data in parts) == story.result.output == "one two three"
    assert {data["attempt"] for data in parts} == {1}
    lengths = [len(data["text"]) for data in parts]
    assert [data["offset"] for data in parts] == [sum(lengths[:number]) for number in range(len(parts))]
    assert {event.seq for event in story.events if event.event == "token_stream"} == {0}
    addresses = {event.address for event in story.events if event.event == "token_stream"}
    assert addresses == {"A"}


def test_stream_parts_are_transient(wire: Wire, tmp_path: Path) -> None:
    """They have no number, and the stored run does not know of them."""
    wire.replies(Reply(text="one two three", chunk_delay=0.06))
    shown: list[roundel.Event] = []
    store = tmp_path / "runs.db"
    result = roundel.run(asking(wire), store=store, on_event=shown.append)
    numbered = [event for event in shown if event.event not in TRANSIENT]
    assert len(numbered) < len(shown)
    assert [event.seq for event in numbered] == list(range(1, len(numbered) + 1))
    assert b'"seq"' not in encode_event(next(event for event in shown if event.event == "token_stream"))

    async def read() -> list[roundel.Event]:
        async with roundel.Runs(store) as runs:
            return await runs.events(result.run_id)

    assert asyncio.run(read()) == numbered


# Many at once, and none.


def crowd(wire: Wire, size: int) -> dict[str, Any]:
    """One agent that answers for every item of a list at once."""
    nodes = [
        {"id": "Items", "type": "literal", "config": {"content": "\n".join(map(str, range(size)))}},
        {"id": "A", "type": "agent", "config": {}},
    ]
    split = {"type": "regex", "config": {"pattern": r"\d+"}}
    spread = {"type": "map", "split": split, "config": {"max_parallel": size}}
    edge = {"from": "Items", "to": "A", "dynamic": spread}
    graph = {"start": ["Items"], "end": ["A"], "nodes": nodes, "edges": [edge]}
    return {"models": {"default": profile(wire)}, "graph": graph}


class Together(Wire):
    """Answers nobody before all have asked."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size = size
        self._complete = asyncio.Event()

    async def _exchange(self, request: Recorded, connection: Connection) -> None:
        if len(self.requests) + 1 == self._size:
            self._complete.set()
        await super()._exchange(request, Held(connection, self._complete))


class Held(Connection):
    def __init__(self, connection: Connection, until: asyncio.Event) -> None:
        super().__init__(connection._reader, connection._writer)
        self._until = until

    async def answer(self, request: Recorded, reply: Reply) -> None:
        await asyncio.wait_for(self._until.wait(), 60)
        await super().answer(request, reply)


def test_two_hundred_agents_stream_at_once() -> None:
    def answer(request: Recorded) -> Reply:
        return Reply(text=f"item {request.messages()[-1]['content']} done")

    with Together(200) as wire:
        wire.replies(answer)
        story = run_story(crowd(wire, 200))
    assert story.result.status == "completed"
    assert story.result.nodes["A"] == 200
    assert len(wire.requests) == wire.peak == 200
    spoken: dict[str | None, str] = {}
    for event in story.events:
        if event.event == "token_stream":
            spoken[event.address] = spoken.get(event.address, "") + event.fields()["text"]
    assert sorted(spoken.values()) == sorted(f"item {number} done" for number in range(200))


def client_disconnects(wire: Wire) -> bool:
    """Whether the client goes away; it may take the server a moment to see."""
    deadline = time.monotonic() + 10
    while not wire.hung_up and time.monotonic() < deadline:
        time.sleep(0.01)
    return len(wire.hung_up) == 1


@every_provider
@every_way
def test_stopped_run_closes_the_connection(wire: Wire, provider: str, stream: bool) -> None:
    slow = Reply(text="one two three", chunk_delay=30) if stream else Reply(text="late", delay=30)
    wire.replies(slow)
    events: list[roundel.Event] = []

    async def stop() -> None:
        task = asyncio.create_task(
            roundel.run_async(asking(wire, provider, stream=stream), on_event=events.append)
        )
        while not wire.requests:  # noqa: ASYNC110 (the wire is in another thread)
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(stop())
    assert client_disconnects(wire)
    assert (events[-1].event, events[-1].fields()["status"]) == ("run_finished", "stopped")


def test_keyboard_interrupt_closes_the_connection(wire: Wire) -> None:
    wire.replies(Reply(text="one two three", chunk_delay=0.06), Reply(text="never"))
    events: list[roundel.Event] = []

    def watch(event: roundel.Event) -> None:
        events.append(event)
        if event.event == "token_stream" and len(wire.requests) == 1:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        roundel.run(asking(wire), on_event=watch)
    assert client_disconnects(wire)
    assert (events[-1].event, events[-1].fields()["status"]) == ("run_finished", "stopped")


def test_stopping_a_run_stops_its_running_tool(wire: Wire) -> None:
    wire.replies(Reply(tool_calls=(("a1", "sleep", {}),)))

    async def stop() -> list[str]:
        seen = []
        async for event in roundel.stream(asking(wire, "openai", "sleep"), "?"):
            seen.append(event.event)
            if event.event == "tool_call":
                break
        return seen

    assert asyncio.run(stop())[-1] == "tool_call"
    assert len(wire.requests) == 1
