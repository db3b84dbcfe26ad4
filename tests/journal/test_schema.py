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
from roundel.journal.store import Claim, RunRow, StoreError
from tests.journal.stores import STARTED, chunk, new, query, using


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
