"""The tables, and files of other versions."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from roundel.journal import schema
from roundel.journal.schema import MIGRATIONS, migrate
from roundel.journal.sqlite import SqliteStore
from roundel.journal.store import Claim, Pinned, RunRow, StoreError
from tests.journal.stores import STARTED, chunk, new, query, using, waits


def version(path: Path) -> int:
    number: int = query(path, "PRAGMA user_version")[0][0]
    return number


async def add(store: SqliteStore) -> Claim:
    return await store.create(new(), chunk(STARTED))


async def look(store: SqliteStore) -> RunRow:
    return await store.row("run")


def test_an_empty_file_is_given_tables(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    path.touch()
    asyncio.run(using(path, add))
    assert version(path) == len(MIGRATIONS)
    assert asyncio.run(using(path, look)).facts == 1


def test_a_file_of_an_older_version_is_brought_up_to_date(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "runs.db"
    asyncio.run(using(path, add))
    later = (*MIGRATIONS, "ALTER TABLE runs ADD COLUMN colour TEXT; CREATE TABLE more (n INTEGER);")
    monkeypatch.setattr(schema, "MIGRATIONS", later)
    assert asyncio.run(using(path, look)).facts == 1
    assert version(path) == len(later)
    assert query(path, "SELECT colour FROM runs") == [(None,)]


def test_a_file_of_the_first_version_goes_on_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with closing(sqlite3.connect(path)) as old:
        old.executescript(MIGRATIONS[0])
        for number in (1, 2, 3):
            names = "id, name, status, created, updated, input, pinned, facts, fence, owner, summary"
            values = (
                f"run{number}",
                "old",
                "waiting",
                1,
                2,
                "go",
                b'{"workflow":"text","semantics":0}',
                3,
                5,
                "",
                b"{}",
            )
            old.execute(f"INSERT INTO runs ({names}) VALUES (?,?,?,?,?,?,?,?,?,?,?)", values)
            for first, facts in ((0, chunk(STARTED)), (1, chunk(*waits(number, 9)))):
                row = (number, first, facts.count, 1, facts.body)
                old.execute("INSERT INTO chunks VALUES (?,?,?,?,?)", row)
        for table in ("runs WHERE no", "chunks WHERE run"):
            old.execute(f"DELETE FROM {table} = 3")
        old.execute("PRAGMA user_version = 1")
        old.commit()

    async def story(store: SqliteStore) -> None:
        rows = await store.rows()
        assert [(row.id, row.status, row.facts, row.updated, row.summary) for row in rows] == [
            ("run2", "waiting", 3, 2.0, {}),
            ("run1", "waiting", 3, 2.0, {}),
        ]
        assert await store.pinned("run1") == Pinned("text", 0)
        assert await store.facts("run1") == [STARTED, *waits(1, 9)]
        claim = await store.claim("run2")
        assert (claim.fence, claim.facts) == (6, 3)
        await store.append(claim, 3, chunk(*waits(10)), "running", None)
        assert await store.facts("run2", 1) == waits(2, 9, 10)
        assert (await add(store)).run == 4  # the number of a run that was deleted is not given again

    asyncio.run(using(path, story))
    assert version(path) == len(MIGRATIONS)


def test_a_step_that_fails_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "runs.db"
    asyncio.run(using(path, add))
    monkeypatch.setattr(schema, "MIGRATIONS", (*MIGRATIONS, "CREATE TABLE more (n INTEGER); NONSENSE;"))
    with pytest.raises(StoreError, match="syntax error"):
        asyncio.run(using(path, look))
    monkeypatch.undo()
    assert version(path) == len(MIGRATIONS)
    assert asyncio.run(using(path, look)).facts == 1


def test_a_newer_file_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    asyncio.run(using(path, add))
    query(path, "PRAGMA user_version = 99")
    with pytest.raises(
        StoreError, match=r"runs.db was written by a newer version .* is 99, .* use that version"
    ):
        asyncio.run(using(path, look))
    assert version(path) == 99


def test_two_processes_may_bring_it_up_to_date_at_once(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    connections = [sqlite3.connect(path, isolation_level=None) for _ in range(2)]
    with closing(connections[0]) as one, closing(connections[1]) as other:
        seen = other.execute("PRAGMA user_version").fetchone()
        migrate(one, "here")
        assert seen == (0,)
        migrate(other, "here")
    assert version(path) == len(MIGRATIONS)
