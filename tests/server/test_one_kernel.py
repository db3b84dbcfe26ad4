"""Who follows a run in the process that executes it does not make its steps again, and nobody reads the store
for the appends of others. Counted in steps of the kernel and in reads, not in seconds."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import roundel
from roundel.hosts import live_events
from roundel.hosts.core import RunLog
from roundel.hosts.live_events import CommitCache, Committed
from roundel.hosts.stored_run import follow
from roundel.journal.in_memory import InMemoryStore
from roundel.journal.sqlite import SqliteStore
from roundel.journal.store import Store
from roundel.kernel.events import Event
from roundel.kernel.facts import Entry
from roundel.kernel.step import step as kernel_step
from roundel.nodes.loading import draft_text_plan
from roundel.plan.graph import Plan
from roundel.runs.runs import Runs
from roundel.runs.store_feed import EventBatch, StoreFeed
from roundel.server.cursors import EventCursor
from roundel.server.feed import EventHub
from tests.server.live import SseReader, loop_text

STORES: dict[str, Callable[[Path], Store]] = {
    "memory": lambda _folder: InMemoryStore(),
    "file": lambda folder: SqliteStore(folder / "runs.db", sync="off"),
    "safe file": lambda folder: SqliteStore(folder / "runs.db", sync="full"),
}
LINES = {"Writer": ["one", "two", "three"]}
CATCH_UP = 10
"""Steps that are made again when a run is resumed and when somebody comes in."""


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return STORES[request.param](tmp_path)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts the steps of all kernels that replay, and those of the ones that execute."""
    counted = Counter[str]()

    def counting(kind: str, function: Any) -> Any:
        def step(*given: Any) -> Any:
            counted[kind] += 1
            return function(*given)

        return step

    monkeypatch.setattr("roundel.journal.run_journal.step", counting("replayed", kernel_step))
    monkeypatch.setattr(RunLog, "apply", counting("executed", RunLog.apply))
    return counted


def using(store: Store, story: Callable[[Runs], Awaitable[None]]) -> None:
    async def work() -> None:
        async with Runs(store) as runs:
            await story(runs)
        await store.close()

    asyncio.run(asyncio.wait_for(work(), 120))


def looping(rounds: int) -> Plan:
    plan, report = draft_text_plan(loop_text(rounds), {}, "<text>")
    assert plan is not None and report.ok, report.diagnostics
    return plan


async def read_page(hub: EventHub, run_id: str, seqs: list[int]) -> None:
    """Adds the numbers of what the page of a run gets."""
    reader = SseReader()
    async with contextlib.aclosing(hub.stream(run_id, EventCursor(0))) as stream:  # type: ignore[type-var]
        async for chunk in stream:
            seqs += [json.loads(data)["seq"] for number, _, data in reader.feed(chunk) if number]


async def seqs_of_all(hub: EventHub, wanted: dict[str, list[int]], runs: int) -> None:
    """What the list of runs gets, until so many runs are over."""
    reader = SseReader()
    async with contextlib.aclosing(hub.stream_all(None, None)) as stream:  # type: ignore[type-var]
        async for chunk in stream:
            for number, name, data in reader.feed(chunk):
                if number:
                    event = json.loads(data)
                    wanted.setdefault(event["run_id"], []).append(event["seq"])
                    runs -= name == "run_finished"
            if not runs:
                return


async def in_store(store: Store) -> list[EventBatch]:
    """The events of all runs, made by replays."""
    return [batch async for batch in StoreFeed(store).follow(live=False)]


async def until(ready: Callable[[], Any]) -> None:
    while not ready():  # noqa: ASYNC110 (what it waits for has no event)
        await asyncio.sleep(0)


def test_the_page_and_the_list_of_a_live_run_make_none_of_its_steps_again(
    store: Store, steps: Counter[str]
) -> None:
    async def story(runs: Runs) -> None:
        hub = EventHub(runs)
        found: dict[str, list[int]] = {}
        everything = asyncio.create_task(seqs_of_all(hub, found, 2))
        await until(lambda: hub._feeds and next(iter(hub._feeds.values())).started.done())
        paused = await runs.start(looping(100), script=LINES, paused=True)
        await runs.wait(paused)
        seen: list[list[int]] = [[], [], []]
        pages = [asyncio.create_task(read_page(hub, paused, seqs)) for seqs in seen]
        await until(lambda: seen == [found.get(paused)] * 3)
        steps.clear()
        await runs.resume_in_background(paused)
        other = await runs.start(looping(100), script=LINES)
        await asyncio.gather(*pages, everything)
        assert steps["executed"] >= 400
        assert steps["replayed"] <= CATCH_UP
        for run_id in (paused, other):
            assert found[run_id] == [event.seq for event in await runs.events(run_id)]
        assert seen == [found[paused]] * 3
        await hub.close()

    using(store, story)


def test_the_stream_of_a_finished_run_costs_one_replay(store: Store, steps: Counter[str]) -> None:
    async def story(runs: Runs) -> None:
        run_id = await runs.start(looping(50), script=LINES)
        await runs.wait(run_id)
        hub = EventHub(runs)
        steps.clear()
        seen: list[int] = []
        await read_page(hub, run_id, seen)
        assert steps["replayed"] == (await runs.row(run_id)).facts
        assert seen == [event.seq for event in await runs.events(run_id)]
        await hub.close()

    using(store, story)


class Reads:
    """Counts the reads of facts by run."""

    reads: Counter[str]

    async def entries(self, run_id: str, after: int = 0) -> list[Entry]:
        self.reads[run_id] += 1
        return await super().entries(run_id, after)  # type: ignore[misc,no-any-return]

    async def entries_at(self, run_id: str, numbers: Sequence[int]) -> dict[int, Entry]:
        self.reads[run_id] += 1
        return await super().entries_at(run_id, numbers)  # type: ignore[misc,no-any-return]


class CountedFile(Reads, SqliteStore): ...


class CountedMemory(Reads, InMemoryStore): ...


@pytest.mark.parametrize("kind", ["memory", "file"])
def test_an_append_costs_each_follower_of_its_run_one_read_and_nobody_else(kind: str, tmp_path: Path) -> None:
    """The followers are in another process: they get nothing directly."""
    store = CountedMemory() if kind == "memory" else CountedFile(tmp_path / "runs.db", sync="off")
    store.reads = Counter()
    idle, followers, answers = 5, 3, 20

    async def story(runs: Runs) -> None:
        asked = roundel.Graph("asked", start="Ask", end="Ask").node("Ask", "human", description="Well?")
        waiting = [await runs.start(asked, "x") for _ in range(idle)]
        busy = await runs.start(looping(answers), script=LINES, paused=True)
        for run_id in (*waiting, busy):
            await runs.wait(run_id)
        store.reads.clear()
        others = [asyncio.create_task(collect(store, run_id)) for run_id in waiting]
        own = [asyncio.create_task(collect(store, busy)) for _ in range(followers)]
        every = Counter({**dict.fromkeys(waiting, 1), busy: followers})
        await until(lambda: store.reads == every and len(store._signal.runs()) == idle + 1)
        store.reads.clear()
        before = len(await store.appended())
        await runs.resume_in_background(busy)
        for events in await asyncio.gather(*own):
            assert events == await follow_all_of(store, busy)
        appends = len(await store.appended()) - before
        assert appends > answers
        assert not any(store.reads[run_id] for run_id in waiting)
        assert store.reads[busy] <= followers * (appends + 2) + CATCH_UP
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    using(store, story)


async def collect(store: Store, run_id: str) -> list[Event]:
    return [event async for event in follow(store, run_id)]


async def follow_all_of(store: Store, run_id: str) -> list[Event]:
    return [event async for event in follow(store, run_id, live=False)]


def test_followers_have_each_event_once_of_a_run_that_processes_execute_in_turn(tmp_path: Path) -> None:
    async def story() -> None:
        places = [Runs(SqliteStore(tmp_path / "runs.db", sync="off")) for _ in range(2)]
        graph = roundel.Graph("asked", start="Ask0", end="Ask5")
        for number in range(6):
            graph.node(f"Ask{number}", "human", description="Well?")
        for number in range(5):
            graph.edge(f"Ask{number}", f"Ask{number + 1}")
        feeds: list[list[EventBatch]] = [[], []]
        following = [
            asyncio.create_task(read_all(runs, feed)) for runs, feed in zip(places, feeds, strict=True)
        ]
        run_id = await places[0].start(graph, "x")
        pages = [asyncio.create_task(collect_from(runs, run_id)) for runs in places]
        for number in range(6):
            runs = places[number % 2]
            await asked(runs, run_id, f"Ask{number}")
            await runs.answer(run_id, f"answer {number}")
        for events in await asyncio.gather(*pages):
            assert events == await places[0].events(run_id)
        await asyncio.gather(*following)
        stored = await in_store(places[0].store)
        assert feeds == [stored, stored]
        for runs in places:
            await runs.close()
            await runs.store.close()

    asyncio.run(asyncio.wait_for(story(), 120))


async def asked(runs: Runs, run_id: str, address: str) -> None:
    """Waits until a question is open and nobody executes the run."""
    while (row := await runs.row(run_id)).owner or row.status != "waiting":  # noqa: ASYNC110 (released later)
        await asyncio.sleep(0.001)
    assert [question.address for question in await runs.questions(run_id)] == [address]


async def collect_from(runs: Runs, run_id: str) -> list[Event]:
    return [event async for event in runs.follow(run_id) if event.seq]


async def read_all(runs: Runs, batches: list[EventBatch]) -> None:
    async for position, events in runs.follow_all():
        batches.append((position, list(events)))
        if events[-1].event == "run_finished":
            return


class Late(SqliteStore):
    """A store whose appends are written before the caller learns of it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "runs.db", sync="off")
        self.may_return, self.is_written = asyncio.Event(), asyncio.Event()
        self.may_return.set()

    async def append(self, *given: Any) -> int:
        position = await super().append(*given)
        self.is_written.set()
        await self.may_return.wait()
        return position


def test_who_hears_of_an_append_before_its_events_waits_for_them(tmp_path: Path, steps: Counter[str]) -> None:
    async def story() -> None:
        store = Late(tmp_path)
        runs = Runs(store)
        batches: list[EventBatch] = []
        following = asyncio.create_task(read_all(runs, batches))
        run_id = await runs.start(looping(5), script=LINES, paused=True)
        await runs.wait(run_id)
        page = asyncio.create_task(collect_from(runs, run_id))
        await until(lambda: run_id in store._signal.runs())
        for _ in range(5):
            store.may_return.clear()
            store.is_written.clear()
            stepping = asyncio.create_task(runs.step_in_background(run_id))
            await store.is_written.wait()
            newest = await store.wait_for_append(0)
            for _ in range(100):  # everybody has been told, and has had time to read what there is
                await store.appended()
            shown = batches[-1][0]
            store.may_return.set()
            assert shown < newest, "they must not show what the run itself does not know"
            await stepping
            await runs.engine.wait_until_idle(run_id)
        await runs.resume(run_id)
        assert await page == await runs.events(run_id)
        await following
        assert batches == await in_store(store)
        await runs.close()
        await store.close()

    asyncio.run(asyncio.wait_for(story(), 120))


def test_what_was_committed_for_a_caller_who_was_cancelled_is_seen_once(tmp_path: Path) -> None:
    async def story() -> None:
        store = Late(tmp_path)
        runs = Runs(store)
        batches: list[EventBatch] = []
        following = asyncio.create_task(read_all(runs, batches))
        run_id = await runs.start(looping(5), script=LINES, paused=True)
        await runs.wait(run_id)
        page = asyncio.create_task(collect_from(runs, run_id))
        store.may_return.clear()
        store.is_written.clear()
        resuming = asyncio.create_task(runs.resume_in_background(run_id))
        await store.is_written.wait()
        runs.interrupt(run_id)
        store.may_return.set()
        await asyncio.gather(resuming, return_exceptions=True)
        await runs.engine.wait_until_idle(run_id)
        await runs.resume(run_id)
        assert await page == await runs.events(run_id)
        await following
        assert batches == await in_store(store)
        await runs.close()
        await store.close()

    asyncio.run(asyncio.wait_for(story(), 120))


def test_a_follower_that_reads_late_misses_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_events, "MAX_COMMITS", 2)

    async def story(runs: Runs) -> None:
        run_id = await runs.start(looping(20), script=LINES, paused=True)
        await runs.wait(run_id)
        events: list[Event] = []
        async with contextlib.aclosing(runs.follow(run_id)) as following:  # type: ignore[type-var]
            async for event in following:
                events.append(event)
                if event.event == "run_state_change" and event.fields()["status"] == "paused":
                    await runs.resume(run_id)
        assert events == await runs.events(run_id)

    using(store, story)


def test_a_cache_keeps_the_newest_commits_and_waits_for_the_write_in_flight() -> None:
    async def story() -> None:
        waited: list[str] = []

        async def settled(run_id: str) -> None:
            waited.append(run_id)
            cache.add(Committed(run_id, 9, events[:1], False))

        runs = Runs(InMemoryStore())
        run_id = await runs.start(looping(2), script=LINES)
        await runs.wait(run_id)
        events = list(await runs.events(run_id))
        cache = CommitCache(settled, 600)
        for position, event in enumerate(events, 1):
            cache.add(Committed(run_id, position, [event], False))
        assert await cache.find(len(events), run_id) == [events[-1]]
        assert not waited
        assert await cache.find(1, run_id) is None
        assert await cache.find(9, run_id) == events[:1]
        await runs.close()

    asyncio.run(story())
