"""`Runs.follow` delivers tokens and progress between the stored events, where they belong."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import roundel
from roundel.hosts import live_events
from roundel.hosts.local import LocalEngine
from roundel.kernel.payloads import TRANSIENT
from tests.events import node_status

TEXT = "a long and winding text about tea, with enough words for several pieces of it"
STREAMED = {"Writer": [{"text": TEXT, "stream": True}], "Critic": [{"text": "good " * 20, "stream": True}]}


@pytest.fixture(params=["memory", "file"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return "memory:" if request.param == "memory" else tmp_path / "runs.db"


def using(place: Any, story: Callable[[roundel.Runs], Awaitable[None]]) -> None:
    async def work() -> None:
        async with roundel.Runs(place) as runs:
            await story(runs)
            assert isinstance(runs.engine, LocalEngine)
            assert not runs.engine._live._followers, "nobody follows any more"

    asyncio.run(work())


def written(human: bool = False) -> roundel.Graph:
    graph = roundel.Graph("text", start="Ask" if human else "Writer", end="Critic")
    graph.node("Writer", "agent").node("Critic", "agent").edge("Writer", "Critic")
    return graph.node("Ask", "human").edge("Ask", "Writer") if human else graph


async def collect(runs: roundel.Runs, run_id: str, **options: Any) -> list[roundel.Event]:
    return [event async for event in runs.follow(run_id, **options)]


def check(events: list[roundel.Event]) -> None:
    """Each piece of text is between the start and the end of its node, and together they are the text."""
    stored = [event for event in events if event.seq]
    assert [event.seq for event in stored] == list(range(stored[0].seq, stored[-1].seq + 1))
    for node_id, text in (("Writer", TEXT), ("Critic", "good " * 20)):
        own = [event for event in events if event.node_id == node_id and event.event != "model_call"]
        pieces = [event.fields()["text"] for event in own if event.event == "token_stream"]
        assert "".join(pieces) == text and len(pieces) > 1
        names = [node_status(event) or event.event for event in own]
        shown = [name for name in names if name in ("running", "token_stream", "completed")]
        assert shown == ["running", *["token_stream"] * len(pieces), "completed"]


def test_text_comes_as_it_is_written(place: Any) -> None:
    async def story(runs: roundel.Runs) -> None:
        run_id = await runs.start(written(), "tea", script=STREAMED, paused=True)
        await runs.result(run_id)
        followers = [asyncio.create_task(collect(runs, run_id)) for _ in range(3)]
        await asyncio.sleep(0)
        await runs.resume(run_id)
        for events in await asyncio.gather(*followers):
            check(events)
            assert [event for event in events if event.seq] == await runs.events(run_id)
        later = await collect(runs, run_id)
        assert not {event.event for event in later} & set(TRANSIENT), "they are not stored"

    using(place, story)


def test_a_follower_of_a_waiting_run_sees_what_follows_the_answer(place: Any) -> None:
    async def story(runs: roundel.Runs) -> None:
        run_id = await runs.start(written(human=True), "tea", script=STREAMED)
        events: list[roundel.Event] = []
        async for event in runs.follow(run_id):
            events.append(event)
            if event.event == "human_input_required":
                await runs.answer(run_id, "write it")
        check(events)

    using(place, story)


def test_a_follower_that_has_seen_more_than_there_is_gets_text_at_once(place: Any) -> None:
    async def story(runs: roundel.Runs) -> None:
        run_id = await runs.start(written(), "tea", script=STREAMED, paused=True)
        await runs.result(run_id)
        following = asyncio.create_task(collect(runs, run_id, after=10_000))
        await asyncio.sleep(0)
        await runs.resume(run_id)
        events = await following
        assert {event.event for event in events} == {"token_stream"}

    using(place, story)


def test_progress_and_waits_are_delivered(place: Any) -> None:
    graph = roundel.Graph("work", start="Work", end="Work")
    attempts: list[str] = []

    @graph.function("Work", retry={"min_wait_seconds": 0, "max_wait_seconds": 0})
    async def work(text: str) -> str:
        attempts.append(text)
        if len(attempts) == 1:
            raise OSError("busy")
        roundel.progress("half", 0.5)
        return text

    async def story(runs: roundel.Runs) -> None:
        run_id = await runs.start(graph, "tea", paused=True)
        await runs.result(run_id)
        following = asyncio.create_task(collect(runs, run_id))
        await asyncio.sleep(0)
        await runs.resume(run_id)
        events = await following
        shown = [(event.event, event.address) for event in events if not event.seq]
        assert shown == [("call_waiting", "Work"), ("progress", "Work")]

    using(place, story)


def test_another_process_gets_only_what_is_stored(place: Any, tmp_path: Path) -> None:
    async def story(runs: roundel.Runs) -> None:
        run_id = await runs.start(written(), "tea", script=STREAMED, paused=True)
        await runs.result(run_id)
        elsewhere = roundel.Runs(runs.store)  # with an engine of its own, as in another process
        following = asyncio.create_task(collect(elsewhere, run_id))
        await asyncio.sleep(0)
        await runs.resume(run_id)
        assert await following == await runs.events(run_id)

    using(place, story)


def test_a_follower_may_leave_at_any_time(place: Any) -> None:
    async def story(runs: roundel.Runs) -> None:
        run_id = await runs.start(written(human=True), "tea", script=STREAMED)
        await runs.result(run_id)
        waiting = asyncio.create_task(collect(runs, run_id))
        newest = (await runs.inspect(run_id)).state.seq
        async with contextlib.aclosing(runs.follow(run_id)) as events:  # type: ignore[type-var]
            async for event in events:
                if event.seq == newest:
                    break
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await runs.answer(run_id, "write it")
        assert (await runs.result(run_id)).completed

    using(place, story)


def test_a_follower_that_does_not_read_misses_the_oldest_text(
    place: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_events, "MAX_LIVE", 3)

    async def story(runs: roundel.Runs) -> None:
        run_id = await runs.start(written(), "tea", script=STREAMED, paused=True)
        await runs.result(run_id)
        events = runs.follow(run_id)
        seen = [await anext(events)]
        await runs.resume(run_id)
        seen += [event async for event in events]
        assert [event for event in seen if event.seq] == await runs.events(run_id)
        assert len([event for event in seen if not event.seq]) == 3

    using(place, story)
