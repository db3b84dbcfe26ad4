"""The events of all runs in commit order: complete, once each, from any position, with several writers."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import roundel
from roundel.journal import run_journal
from roundel.journal.in_memory import InMemoryStore
from roundel.journal.sqlite import SqliteStore
from roundel.journal.store import Appended, Store
from roundel.kernel.events import Event
from roundel.runs.store_feed import EventBatch, ReplayPool, StoreFeed
from tests.journal.stores import query
from tests.runs.loop_process import LOOP, SCRIPT
from tests.runs.polish_workflow import ALONE, POLISH

STORES = ["memory", "file"]


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return InMemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "runs.db", sync="off")


def using(store: Store, story: Callable[[roundel.Runs], Awaitable[None]]) -> None:
    async def main() -> None:
        async with roundel.Runs(store) as runs:
            await story(runs)
        await store.close()

    asyncio.run(main())


async def loops(runs: roundel.Runs, count: int, **options: Any) -> list[str]:
    """Executes runs of a loop at the same time."""
    ids = [await runs.start(LOOP, str(number), script=SCRIPT, **options) for number in range(count)]
    for run_id in ids:
        assert (await runs.result(run_id)).completed
    return ids


async def read(store: Store, after: int = 0, **options: Any) -> list[EventBatch]:
    return [batch async for batch in StoreFeed(store, **options).follow(after, live=False)]


def by_run(batches: list[EventBatch]) -> dict[str, list[Event]]:
    found: dict[str, list[Event]] = {}
    for _, events in batches:
        for event in events:
            found.setdefault(event.run_id, []).append(event)
    return found


def test_a_feed_has_all_events_of_all_runs_in_commit_order(store: Store) -> None:
    async def story(runs: roundel.Runs) -> None:
        ids = await loops(runs, 5)
        batches = [batch async for batch in runs.follow_all(live=False)]
        positions = [position for position, _ in batches]
        assert positions == sorted(set(positions))
        assert all(len({event.run_id for event in events}) == 1 for _, events in batches)
        assert any(len(events) > 1 for _, events in batches)
        assert by_run(batches) == {run_id: await runs.events(run_id) for run_id in ids}
        assert positions[-1] <= await runs.position()
        assert [batch async for batch in runs.follow_all(after=await runs.position(), live=False)] == []

    using(store, story)


@pytest.mark.parametrize("snapshots", [False, True])
@pytest.mark.parametrize("replays", [1, 200])
def test_a_reader_continues_from_any_position(
    store: Store, monkeypatch: pytest.MonkeyPatch, snapshots: bool, replays: int
) -> None:
    if snapshots:
        monkeypatch.setattr(run_journal, "SNAPSHOT_FACTS", 3)
        monkeypatch.setattr(run_journal, "SNAPSHOT_SHARE", 0)

    async def story(runs: roundel.Runs) -> None:
        ids = await loops(runs, 3)
        assert (await store.snapshot(ids[0]) is not None) is snapshots
        everything = await read(store)
        for number, (position, _) in enumerate(everything):
            assert await read(store, position, pool=ReplayPool(replays)) == everything[number + 1 :]

    using(store, story)


def test_a_feed_follows_waiting_retried_forked_and_revised_runs(store: Store) -> None:
    async def story(runs: roundel.Runs) -> None:
        waiting = await runs.start(POLISH, "tea", script=ALONE)
        await runs.wait(waiting)
        feed = StoreFeed(store)
        seen = [batch async for batch in feed.follow(live=False)]
        await runs.answer(waiting, "go on", execute=False)
        await runs.resume(waiting)
        fork = await runs.fork(waiting, "Writer[2]")
        await runs.resume(fork)
        failed = await runs.start(LOOP, "go", script={"Say": ["one", {"error": "no network"}]})
        assert (await runs.wait(failed)).status == "failed"
        seen += [batch async for batch in feed.follow(seen[-1][0], live=False)]
        assert (await runs.retry(failed, script=SCRIPT)).completed
        seen += [batch async for batch in feed.follow(seen[-1][0], live=False)]
        expected = {run_id: await runs.events(run_id) for run_id in (waiting, fork, failed)}
        assert by_run(seen) == expected
        assert seen == await read(store) == await read(store, pool=ReplayPool(1))

    using(store, story)


def test_a_feed_shows_only_the_groups_that_were_asked_for(store: Store) -> None:
    async def story(runs: roundel.Runs) -> None:
        red = await loops(runs, 2, group="red")
        blue = await loops(runs, 2, group="blue")
        plain = await loops(runs, 1)

        async def found(*groups: str) -> list[str]:
            feed = runs.follow_all(groups=groups, live=False)
            return list(by_run([batch async for batch in feed]))

        assert await found("red") == red
        assert await found("blue", "") == [*blue, *plain]
        assert await found() == []
        assert await found("green") == []

    using(store, story)


class Counted(InMemoryStore):
    """Counts how often the appends are read."""

    reads = 0

    async def appended(self, after: int = 0, limit: int = 1000) -> list[Appended]:
        self.reads += 1
        return await super().appended(after, limit)


def test_deleted_runs_leave_no_gap_in_which_a_reader_spins() -> None:
    store = Counted()

    async def story(runs: roundel.Runs) -> None:
        first, second, pruned = await loops(runs, 3)
        await runs.prune(pruned, keep="last")
        await store.delete(second)
        assert list(by_run(await read(store))) == [first]
        await store.delete(first)
        store.reads = 0
        feed = runs.follow_all()
        reading = asyncio.ensure_future(anext(feed))
        for _ in range(200):
            await asyncio.sleep(0)
        assert store.reads <= 3, "the newest position belongs to no run, and the reader waits all the same"
        (fourth,) = await loops(runs, 1)
        _, events = await reading
        assert events[0].run_id == fourth
        await feed.aclose()  # type: ignore[attr-defined]

    using(store, story)


def test_a_run_that_is_deleted_while_it_is_read_is_left_out(store: Store) -> None:
    async def story(runs: roundel.Runs) -> None:
        first, second = await loops(runs, 2)
        page = await store.appended()
        await store.delete(first)
        assert list(by_run(await StoreFeed(store)._read(page))) == [second]
        await runs.prune(second, keep="last")
        assert await StoreFeed(store)._read(page) == []

    using(store, story)


def test_a_damaged_run_does_not_end_the_feed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "runs.db"

    async def story(runs: roundel.Runs) -> None:
        first, second = await loops(runs, 2)
        query(
            path, "UPDATE chunks SET body = 'x' WHERE place >> 32 = (SELECT no FROM runs WHERE id = ?)", first
        )
        with caplog.at_level(logging.WARNING, "roundel"):
            assert list(by_run(await read(runs.store))) == [second]
        (record,) = caplog.records
        assert f"the events of run {first} are left out" in record.getMessage()

    using(SqliteStore(path, sync="off"), story)


def test_a_reader_that_restarts_gets_everything_of_several_writers_once(tmp_path: Path) -> None:
    path, count = tmp_path / "runs.db", 8
    command = [sys.executable, "-m", "tests.runs.loop_process", str(path)]
    writers = [
        subprocess.Popen(
            [*command, group, str(count)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for group in ("red", "blue")
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"

    async def read_some(after: int, batches: int) -> list[EventBatch]:
        """A reader with a store of its own, which stops after some batches."""
        async with roundel.Runs(SqliteStore(path, sync="off")) as runs:
            found: list[EventBatch] = []
            async with contextlib.aclosing(runs.follow_all(after=after)) as feed:  # type: ignore[type-var]
                async for batch in feed:
                    found.append(batch)
                    if len(found) == batches or is_over(seen + found):
                        break
            await runs.store.close()
            return found

    def is_over(batches: list[EventBatch]) -> bool:
        ends = [event for _, events in batches for event in events if event.event == "run_finished"]
        return len(ends) == 2 * count

    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    seen: list[EventBatch] = []
    for batches in itertools.cycle((1, 2, 5, 13)):
        if is_over(seen):
            break
        seen += asyncio.run(read_some(seen[-1][0] if seen else 0, batches))
    assert [writer.communicate()[0] for writer in writers] == ["done\n", "done\n"]

    async def story(runs: roundel.Runs) -> None:
        assert by_run(seen) == {row.id: await runs.events(row.id) for row in await runs.list()}
        assert seen == await read(runs.store)

    using(SqliteStore(path, sync="off"), story)


def test_feeds_that_share_a_pool_have_no_more_replays_than_one(store: Store) -> None:
    async def story(runs: roundel.Runs) -> None:
        await loops(runs, 3)
        everything = await read(store)
        pool = ReplayPool(2)
        readers = [StoreFeed(store, pool=pool).follow(live=False) for _ in range(5)]
        seen: list[list[EventBatch]] = [[] for _ in readers]
        for _ in everything:  # in turns, so that they take the replays of each other away
            for reader, own in zip(readers, seen, strict=True):
                own.append(await anext(reader))
                assert len(pool) <= 2
        assert seen == [everything] * len(readers)

    using(store, story)
