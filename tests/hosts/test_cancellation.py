"""A task that runs a workflow is cancelled after any number of turns of the event loop: the run is stopped,
or was never there, and nobody holds it any more."""

from __future__ import annotations

import asyncio
import gc
import signal
import threading
import time
from collections.abc import Awaitable, Coroutine
from pathlib import Path
from typing import Any

import pytest

import roundel
from roundel.hosts.stored_run import open_run
from roundel.journal.sqlite import SqliteStore
from roundel.kernel.facts import Stopped
from tests.journal.stores import using

TURNS = 300


def endless(width: int = 1) -> roundel.Graph:
    """A loop that needs many turns of the event loop for each round, and never ends by itself."""
    names = [f"A{number}" for number in range(width)]
    graph = roundel.Graph(start="In", end="Out", limits={"rounds": 10**6})
    graph.node("In", "passthrough").node("Out", "passthrough")
    for name in names:

        @graph.function(name)
        async def work(text: str) -> str:
            await asyncio.sleep(0)
            return text

        graph.edge("In", name).edge(name, "In")
    return graph.edge("In", "Out", condition={"cel": "text == 'never'"})


async def turns(count: int, store: SqliteStore | None = None) -> None:
    """With a store, each turn ends when its thread has nothing left to write: then what is written takes the
    same number of turns on any machine."""
    for _ in range(count):
        await asyncio.sleep(0)
        if store is not None:
            written(store)


def written(store: SqliteStore) -> None:
    """Holds up the event loop until the thread of the store has nothing left to write."""
    while store._writer._batches_queued != store._writer._batches_done:
        time.sleep(0.0001)


async def left(store: SqliteStore) -> str:
    """How the newest run was left, `absent` if there is none; it is taken away, to make room for another."""
    rows = await store.rows()
    for row in rows:
        facts = await store.facts(row.id)
        assert row.owner == "", "the lease was not released"
        assert (row.status, type(facts[-1]), row.facts) == ("stopped", Stopped, len(facts))
        await store.claim(row.id)  # Busy if this process believed that it still holds the run
        await store.delete(row.id)
    return rows[0].status if rows else "absent"


async def cancelled(
    store: SqliteStore, work: Coroutine[Any, Any, Any], count: int, again: int = 0, *, in_step: bool = False
) -> str:
    task = asyncio.create_task(work)
    await turns(count, store if in_step else None)
    task.cancel()
    if again:
        await turns(again)
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    return await left(store)


@pytest.mark.parametrize("in_step", [True, False], ids=["written", "being written"])
@pytest.mark.parametrize("width", [1, 3])
def test_run_cancelled_at_any_loop_turn_is_stopped_or_absent(
    tmp_path: Path, width: int, in_step: bool
) -> None:
    plan = roundel.prepare(endless(width))

    async def story(store: SqliteStore) -> list[str]:
        return [
            await cancelled(store, roundel.run_async(plan, "go", store=store), k, in_step=in_step)
            for k in range(0, TURNS + 1, width)
        ]

    found = asyncio.run(using(tmp_path / "runs.db", story))
    assert found[0] == "absent"
    if in_step:
        assert found[-1] == "stopped"
    assert not [thread for thread in threading.enumerate() if thread.name == "roundel-journal"]


def test_second_cancellation_leaves_a_consistent_store(tmp_path: Path) -> None:
    plan = roundel.prepare(endless(2))

    async def story(store: SqliteStore) -> None:
        for k in range(0, 120, 3):
            for again in range(1, 12, 2):
                await cancelled(store, roundel.run_async(plan, "go", store=store), k, again)

    asyncio.run(using(tmp_path / "runs.db", story))


def test_a_time_limit_around_a_run_stops_it(tmp_path: Path) -> None:
    async def story(store: SqliteStore) -> str:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(roundel.run_async(endless(), "go", store=store), 0.05)
        return await left(store)

    assert asyncio.run(using(tmp_path / "runs.db", story)) in ("stopped", "absent")


async def others_are_done() -> None:
    """What is still to be done when nobody iterates any more: the event loop closes the generator, once
    nothing refers to it."""
    turns = 0
    while len(asyncio.all_tasks()) > 1:
        if turns % 200 == 0:  # it takes long where much has been imported
            gc.collect()
        turns += 1
        await asyncio.sleep(0)


@pytest.mark.parametrize("how", ["aclose", "break", "cancelled"])
@pytest.mark.parametrize("count", [1, 2, 3, 10, 40])
def test_closing_a_stream_early_stops_its_run(tmp_path: Path, how: str, count: int) -> None:
    async def iterate(store: SqliteStore) -> None:
        events = roundel.stream(endless(2), "go", store=store)
        seen = 0
        async for _ in events:
            seen += 1
            if seen == count:
                if how == "aclose":
                    await events.aclose()
                elif how == "cancelled":
                    task = asyncio.current_task()
                    assert task is not None
                    task.cancel()
                    await asyncio.sleep(0)
                break

    async def story(store: SqliteStore) -> str:
        await asyncio.gather(asyncio.create_task(iterate(store)), return_exceptions=True)
        await others_are_done()
        return await left(store)

    assert asyncio.run(using(tmp_path / "runs.db", story)) == "stopped"


async def waiting_run(store: SqliteStore) -> str:
    graph = roundel.Graph(start="H", end="B").node("H", "human", description="Well?")
    graph.node("B", "passthrough").edge("H", "B")
    return (await roundel.run_async(graph, "go", store=store)).run_id


@pytest.mark.parametrize("what", ["resume", "answer", "fork", "pause"])
def test_a_cancelled_control_request_releases_the_run(tmp_path: Path, what: str) -> None:
    async def never(_question: roundel.Question) -> str:
        await asyncio.Event().wait()
        return ""

    def changed(store: SqliteStore, run_id: str) -> Awaitable[Any]:
        runs = roundel.Runs(store)
        if what == "resume":
            return runs.resume(run_id, ask=never)
        if what == "answer":
            return runs.answer(run_id, "yes", execute=False)
        return runs.fork(run_id) if what == "fork" else runs.pause(run_id)

    async def story(store: SqliteStore) -> None:
        for count in range(120):
            run_id = await waiting_run(store)
            task = asyncio.ensure_future(changed(store, run_id))
            await turns(count, store)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            for row in await store.rows():
                assert (row.owner, row.facts) == ("", len(await store.facts(row.id)))
                assert row.status == (await open_run(store, row.id)).state.status
                await store.claim(row.id)
                await store.delete(row.id)

    asyncio.run(using(tmp_path / "runs.db", story))


def test_a_keyboard_interrupt_in_python_stops_the_run(tmp_path: Path) -> None:
    """Whether it comes as Python's own handler sends it, or a node raises it."""
    for number, (width, how) in enumerate([(1, "signal"), (2, "signal"), (1, "raise"), (2, "raise")]):
        graph = endless(width)

        @graph.function("Last")
        async def last(how: str = how) -> str:
            if how == "raise":
                raise KeyboardInterrupt
            signal.raise_signal(signal.SIGINT)
            await asyncio.Event().wait()
            return ""

        graph.edge("In", "Last")
        place = tmp_path / f"{number}.db"
        with pytest.raises(KeyboardInterrupt):
            roundel.run(graph, "go", store=place)

        assert asyncio.run(using(place, left)) == "stopped"
