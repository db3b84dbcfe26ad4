"""Rows that are added without the thread."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from roundel.journal import writer
from roundel.journal.sqlite import SqliteStore
from roundel.journal.store import Fenced
from roundel.kernel.facts import Waited
from tests.journal.stores import STARTED, chunk, new, shorten_log, using


def test_inline_writes_yield_to_the_event_loop_periodically(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def turns(store: SqliteStore) -> int:
        claim = await store.create(new(), chunk(STARTED))
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        beside = asyncio.create_task(other())
        for first in range(1, 101):
            await store.append(claim, first, chunk(Waited(first)), "running", None, True)
        beside.cancel()
        return turns

    monkeypatch.setattr(writer, "MAX_BLOCK_SECONDS", 1000.0)
    assert asyncio.run(using(tmp_path / "never.db", turns, clock=lambda: 1.0)) <= 1
    monkeypatch.setattr(writer, "MAX_BLOCK_SECONDS", 0.0)
    assert asyncio.run(using(tmp_path / "always.db", turns, clock=lambda: 1.0)) >= 50


def test_write_ahead_log_stays_bounded_with_concurrent_readers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who only reads does not move the log to the file."""
    shorten_log(monkeypatch)
    log = tmp_path / "runs.db-wal"

    async def story(store: SqliteStore) -> None:
        claim = await store.create(new(), chunk(STARTED))
        for first in range(1, 4001):
            await store.append(claim, first, chunk(Waited(first)), "running", None)
            if not first % (writer.MAX_INLINE_ROWS // 2):
                await store.requests([claim])
        assert log.stat().st_size < 4000 * 4096 / 2

    asyncio.run(using(tmp_path / "runs.db", story))


def test_store_can_be_reused_in_another_event_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "MAX_BLOCK_SECONDS", 0.0)
    store = SqliteStore(tmp_path / "runs.db", sync="off")
    claim = asyncio.run(store.create(new(), chunk(STARTED)))
    for first in range(1, 6):
        asyncio.run(store.append(claim, first, chunk(Waited(first)), "running", None))
    assert len(asyncio.run(store.facts("run"))) == 6
    asyncio.run(store.close())


def test_inline_write_waits_for_earlier_queued_writes(tmp_path: Path) -> None:
    async def story(store: SqliteStore) -> None:
        claim = await store.create(new(), chunk(STARTED))
        ended = asyncio.ensure_future(store.append(claim, 1, chunk(Waited(1)), "waiting", None))
        await asyncio.sleep(0)  # it is on its way to the thread
        await store.append(claim, 2, chunk(Waited(2)), "waiting", None, True)
        assert ended.done()
        assert len(await store.facts("run")) == 3

    asyncio.run(using(tmp_path / "runs.db", story))


@pytest.mark.parametrize(("sync", "inline"), [("off", True), ("normal", True), ("full", False)])
def test_batched_rows_are_written_inline_unless_sync_waits_for_the_disk(
    tmp_path: Path, sync: str, inline: bool
) -> None:
    async def story(store: SqliteStore) -> None:
        claims = [await store.create(new(f"run {number}"), chunk(STARTED)) for number in range(20)]
        commits, batches = store.commits, store._writer._batches_queued
        for first in range(1, 11):
            appends = (store.append(claim, first, chunk(Waited(first)), "running", None) for claim in claims)
            await asyncio.gather(*appends)
        assert store.commits == commits + 10
        assert (store._writer._batches_queued == batches) == inline
        for claim in claims:
            assert len(await store.facts(claim.run_id)) == 11

    asyncio.run(using(tmp_path / "runs.db", story, sync=sync, clock=lambda: 1.0, lease_seconds=1e6))


def test_rejected_row_in_an_inline_batch_fails_alone(tmp_path: Path) -> None:
    async def story(store: SqliteStore) -> None:
        claims = [await store.create(new(f"run {number}"), chunk(STARTED)) for number in range(3)]
        await store.claim("run 1", force=True)
        done = await asyncio.gather(
            *(store.append(claim, 1, chunk(Waited(1)), "running", None) for claim in claims),
            return_exceptions=True,
        )
        assert [type(one) for one in done] == [int, Fenced, int]
        assert [len(await store.facts(claim.run_id)) for claim in claims] == [2, 1, 2]

    asyncio.run(using(tmp_path / "runs.db", story, clock=lambda: 1.0))


def test_locked_database_is_written_by_the_thread(tmp_path: Path) -> None:
    async def story(store: SqliteStore) -> None:
        claims = [await store.create(new(f"run {number}"), chunk(STARTED)) for number in range(3)]
        with closing(sqlite3.connect(tmp_path / "runs.db", isolation_level=None)) as holder:
            holder.execute("BEGIN IMMEDIATE")
            writing = asyncio.gather(
                *(store.append(claim, 1, chunk(Waited(1)), "running", None) for claim in claims)
            )
            await asyncio.wait([writing], timeout=0.05)  # the loop is free meanwhile
            assert not writing.done()
            holder.execute("ROLLBACK")
        await writing
        assert [len(await store.facts(claim.run_id)) for claim in claims] == [2, 2, 2]

    asyncio.run(using(tmp_path / "runs.db", story, clock=lambda: 1.0))


def test_write_ahead_log_of_many_runs_stays_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shorten_log(monkeypatch)
    log = tmp_path / "runs.db-wal"

    async def story(store: SqliteStore) -> None:
        claims = [await store.create(new(f"run {number}"), chunk(STARTED)) for number in range(100)]
        for first in range(1, 201):
            await asyncio.gather(
                *(store.append(claim, first, chunk(Waited(first)), "running", None) for claim in claims)
            )
        assert log.stat().st_size < 2 * 1000 * 4096

    asyncio.run(using(tmp_path / "runs.db", story, clock=lambda: 1.0, lease_seconds=1e6))
