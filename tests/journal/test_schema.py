"""The tables, and files of other formats."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from roundel.cli import cli
from roundel.journal import schema
from roundel.journal.database import APPLICATION_ID
from roundel.journal.run_rows import select_row
from roundel.journal.schema import FORMAT, create_tables
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


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_empty_file_gets_the_tables(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    path.touch()
    asyncio.run(using(path, add))
    assert version(path) == FORMAT
    assert asyncio.run(using(path, look)).facts == 1


def test_a_store_gets_tables_that_were_added_to_its_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "runs.db"
    asyncio.run(using(path, add))
    monkeypatch.setitem(schema.ADDED_TABLES, "added", "CREATE TABLE added (run INTEGER PRIMARY KEY)")
    assert asyncio.run(using(path, look)).facts == 1  # opened for reading and writing
    with closing(sqlite3.connect(path)) as connection:
        assert schema.has_table(connection, "added")
    assert version(path) == FORMAT


def old_store(path: Path, number: int, *, marked: bool) -> None:
    """What is the same in all stores of older formats; the oldest had no mark."""
    with closing(sqlite3.connect(path, isolation_level=None)) as old:
        if marked:
            old.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        old.execute("PRAGMA journal_mode = WAL")
        for table in ("runs", "chunks", "snapshots", "kept", "controls"):
            old.execute(f"CREATE TABLE {table} (run INTEGER)")
        old.execute(f"PRAGMA user_version = {number}")


@pytest.mark.parametrize(("number", "marked"), [(1, False), (3, True)])
def test_a_file_of_an_older_format_is_refused_and_not_changed(
    tmp_path: Path, number: int, marked: bool
) -> None:
    path = tmp_path / "runs.db"
    old_store(path, number, marked=marked)
    before = files(tmp_path)
    for work in (add, look):
        with pytest.raises(StoreError) as refused:
            asyncio.run(using(path, work))
        assert str(refused.value) == (
            f"{path} was written by an older version of roundel (its format is {number}, this one needs "
            f"{FORMAT}) and cannot be converted; use another --store, or delete the file if you no longer "
            "need its runs. It was not changed"
        )
    done = CliRunner().invoke(cli, ["runs", "--store", str(path)])
    assert done.exit_code == 1
    assert "was written by an older version of roundel" in done.stderr
    assert files(tmp_path) == before


def test_newer_format_is_rejected_and_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    asyncio.run(using(path, add))
    query(path, "PRAGMA user_version = 99")
    before = files(tmp_path)
    with pytest.raises(
        StoreError, match=r"runs.db was written by a newer version .* is 99, .* use that version"
    ):
        asyncio.run(using(path, look))
    assert files(tmp_path) == before


def test_tables_are_created_all_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "runs.db"
    monkeypatch.setattr(schema, "SCHEMA", schema.SCHEMA + "NONSENSE;")
    with pytest.raises(StoreError, match="syntax error"):
        asyncio.run(using(path, add))
    monkeypatch.undo()
    assert version(path) == 0
    assert query(path, "SELECT name FROM sqlite_master") == []
    asyncio.run(using(path, add))
    assert asyncio.run(using(path, look)).facts == 1


def test_two_processes_may_create_the_tables_at_once(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    connections = [sqlite3.connect(path, isolation_level=None) for _ in range(2)]
    with closing(connections[0]) as one, closing(connections[1]) as other:
        seen = other.execute("PRAGMA user_version").fetchone()
        create_tables(one, "here")
        assert seen == (0,)
        create_tables(other, "here")
    assert version(path) == FORMAT


def without_columns(path: Path) -> None:
    """Makes a store as a version of Roundel left it that did not know the columns of ADDED_COLUMNS."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for table, columns in schema.ADDED_COLUMNS.items():
            for column in columns:
                db.execute(f"ALTER TABLE {table} DROP COLUMN {column.split()[0]}")


def test_a_store_gets_columns_that_were_added_to_its_format(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    asyncio.run(using(path, add))
    without_columns(path)
    assert asyncio.run(using(path, look)).saved_as == ""
    assert version(path) == FORMAT
    with closing(sqlite3.connect(path)) as connection:
        assert schema.has_column(connection, "runs", "saved_as")


def test_a_store_that_lacks_added_columns_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    asyncio.run(using(path, add))
    without_columns(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        query_of = select_row(db, excerpt=False)
        rows = db.execute(f"{query_of} WHERE saved_as = ''").fetchall()
        assert len(rows) == 1
        assert db.execute(f"{query_of} WHERE saved_as = 'tea'").fetchall() == []
