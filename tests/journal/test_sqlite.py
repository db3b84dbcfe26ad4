"""Runs in one SQLite file."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from roundel.journal import sqlite
from roundel.journal.sqlite import SqliteStore
from roundel.journal.store import StoreError
from roundel.kernel.facts import Waited
from tests.journal.stores import STARTED, chunk, new, query, shorten_log, using, waits


def test_many_runs_at_once_share_commits(tmp_path: Path) -> None:
    async def story(store: SqliteStore) -> None:
        async def one(number: int) -> None:
            claim = await store.create(new(f"run {number}"), chunk(STARTED))
            for first in range(1, 11):
                await store.append(claim, first, chunk(Waited(first)), "running", None)

        await asyncio.gather(*(one(number) for number in range(200)))
        assert store.commits < 200 * 11 / 5
        for number in (0, 99, 199):
            assert len(await store.facts(f"run {number}")) == 11

    asyncio.run(using(tmp_path / "runs.db", story))


@pytest.mark.parametrize("runs", [1, 2])
def test_briefly_locked_database_is_waited_for(runs: int, tmp_path: Path) -> None:
    async def story(store: SqliteStore) -> None:
        claims = [await store.create(new(f"run{number}"), chunk(STARTED)) for number in range(runs)]
        await store.append(claims[0], 1, chunk(Waited(1)), "running", None)
        holder = sqlite3.connect(tmp_path / "runs.db", isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        writing = asyncio.create_task(store.append(claims[0], 2, chunk(Waited(2)), "running", None))
        await asyncio.sleep(0.05)
        assert not writing.done()
        holder.execute("ROLLBACK")
        holder.close()
        await writing
        await store.append(claims[0], 3, chunk(Waited(3)), "running", None)
        assert await store.facts("run0") == [STARTED, *waits(1, 2, 3)]

    asyncio.run(using(tmp_path / "runs.db", story))


def test_write_ahead_log_of_a_single_run_stays_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shorten_log(monkeypatch)

    async def story(store: SqliteStore) -> None:
        claim = await store.create(new(), chunk(STARTED))
        before = store.commits
        for first in range(1, 3001):
            await store.append(claim, first, chunk(Waited(first)), "running", None)
        assert store.commits == before + 3000
        assert len(await store.facts("run")) == 3001
        assert log.stat().st_size < 3000 * 8192 / 2

    log = tmp_path / "runs.db-wal"
    asyncio.run(using(tmp_path / "runs.db", story))


@pytest.mark.parametrize(
    ("damage", "reported"),
    [
        ("DELETE FROM chunks WHERE first = 1", "at fact 1: 1 facts are missing"),
        ("DELETE FROM chunks WHERE first = 3", "at fact 3: 2 facts are missing"),
        (
            "UPDATE chunks SET body = substr(body, 1, length(body) - 3) WHERE first = 1",
            "at fact 1: a fact cannot be decoded: Input data",
        ),
        ("UPDATE chunks SET body = X'6400112233' WHERE first = 2", "at fact 2: the facts are damaged"),
        ("UPDATE chunks SET count = 2 WHERE first = 2", "at fact 2: there are 1 facts in place of 2"),
        (
            "UPDATE chunks SET version = 7 WHERE first = 0",
            "at fact 0: a fact of version 7: this program knows",
        ),
    ],
)
def test_damage_is_reported_with_its_location(damage: str, reported: str, tmp_path: Path) -> None:
    async def write(store: SqliteStore) -> None:
        claim = await store.create(new(), chunk(STARTED))
        for first in (1, 2):
            await store.append(claim, first, chunk(Waited(first)), "running", None)
        await store.append(claim, 3, chunk(*waits(3, 4)), "waiting", None)

    async def read(store: SqliteStore) -> Any:
        return await store.facts("run")

    path = tmp_path / "runs.db"
    asyncio.run(using(path, write))
    query(path, damage.replace("first", "place % (1 << 32)"))
    with pytest.raises(StoreError, match=f"runs.db: run run cannot be read {reported}.*use a copy of it"):
        asyncio.run(using(path, read))


def test_pruned_run_reports_its_kept_rounds(tmp_path: Path) -> None:
    async def story(store: SqliteStore) -> None:
        await store.release(await store.create(new(), chunk(STARTED)))
        await store.prune("run", [], "last")
        assert await store.kept("run") == []
        with pytest.raises(StoreError, match="run run was pruned to its rounds 'last'; its facts"):
            await store.facts("run")
        with pytest.raises(StoreError, match="was pruned to its rounds 'last', and cannot be resumed"):
            await store.claim("run")
        await store.delete("run")
        assert await store.rows() == []
        await store.compact()

    asyncio.run(using(tmp_path / "runs.db", story))


def test_unknown_sync_mode_is_rejected() -> None:
    with pytest.raises(StoreError, match="sync is one of full, normal, off, not 'often'"):
        SqliteStore("x", sync="often")  # type: ignore[arg-type]


@pytest.mark.parametrize("runs", [1, 2])
def test_an_append_of_this_process_wakes_waiters_without_a_poll(
    runs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "POLL_SECONDS", 1e6)

    async def story(store: SqliteStore) -> None:
        claim, *_ = [await store.create(new(f"run {number}"), chunk(STARTED)) for number in range(runs)]
        position = await store.wait_for_append(0)
        for first in range(1, 5):
            waiting = asyncio.create_task(store.wait_for_append(position))
            await asyncio.wait([waiting], timeout=0.01)
            await store.append(claim, first, chunk(Waited(first)), "running", None, quiet=True)
            position = await asyncio.wait_for(waiting, 60)

    asyncio.run(using(tmp_path / "runs.db", story))
