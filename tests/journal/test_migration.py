"""Files of older formats: which are converted when they are opened, and which by a command."""

from __future__ import annotations

import asyncio
import sqlite3
from collections import namedtuple
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from roundel.cli import cli
from roundel.journal import schema
from roundel.journal.schema import FORMAT, MIGRATIONS, Migration
from roundel.journal.sqlite import SqliteStore
from roundel.journal.store import RunRow, StoreError
from tests.journal.stores import STARTED, chunk, new, query, using


async def add(store: SqliteStore) -> None:
    await store.create(new(), chunk(STARTED))


async def look(store: SqliteStore) -> RunRow:
    return await store.row("run")


def version(path: Path) -> int:
    return int(query(path, "PRAGMA user_version")[0][0])


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """A store of format 7."""
    path = tmp_path / "runs.db"
    asyncio.run(using(path, add))
    query(path, "ALTER TABLE chunks DROP COLUMN seq")
    query(path, "PRAGMA user_version = 7")
    return path


@pytest.fixture
def larger_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last step is one that only the command makes."""
    monkeypatch.setitem(MIGRATIONS, 7, Migration("rewrites all", MIGRATIONS[7].apply))


def test_there_is_a_step_from_each_format_to_the_next() -> None:
    assert list(MIGRATIONS) == list(range(6, FORMAT))


def test_an_additive_step_is_made_on_opening(older: Path) -> None:
    assert asyncio.run(using(older, look)).facts == 1
    assert version(older) == FORMAT
    assert query(older, "SELECT seq FROM chunks") == [(None,)]
    assert not list(older.parent.glob("*.v7"))


def test_a_converted_store_has_the_columns_of_a_new_one(older: Path, tmp_path: Path) -> None:
    asyncio.run(using(older, look))
    asyncio.run(using(tmp_path / "new.db", add))
    for table in ("chunks", "runs"):
        old, fresh = (query(path, f"PRAGMA table_info({table})") for path in (older, tmp_path / "new.db"))
        assert old == fresh


def test_a_store_that_can_only_be_read_is_converted_in_a_copy(
    older: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("roundel.journal.database.Database._is_writable", lambda _database: False)
    before = older.read_bytes()

    async def story(store: SqliteStore) -> None:
        assert (await look(store)).facts == 1
        assert await store.last_event("run") is None

    asyncio.run(using(older, story))
    assert older.read_bytes() == before


@pytest.mark.usefixtures("larger_step")
def test_another_step_waits_for_the_command(older: Path) -> None:
    before = older.read_bytes()
    with pytest.raises(StoreError, match=f"`roundel store migrate --store {older}` keeps a copy"):
        asyncio.run(using(older, look))
    assert older.read_bytes() == before


def roundel(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["store", "migrate", *arguments])


@pytest.mark.usefixtures("larger_step")
def test_the_command_converts_the_store_and_keeps_a_copy(older: Path) -> None:
    copy = older.with_name("runs.db.v7")
    checked = roundel("--check", "--store", str(older))
    assert checked.exit_code == 0
    assert "format 7 to 8: rewrites all" in checked.stderr
    assert version(older) == 7
    assert not copy.exists()
    done = roundel("--store", str(older))
    assert done.exit_code == 0
    assert f"{older} was converted; {copy} is a copy in the old format" in done.stderr
    assert version(older) == FORMAT
    assert version(copy) == 7
    assert copy.stat().st_mode & 0o777 == 0o600
    assert query(copy, "SELECT id, facts FROM runs") == query(older, "SELECT id, facts FROM runs")
    assert asyncio.run(using(older, look)).facts == 1
    assert "has the current format" in roundel("--store", str(older)).stderr


def refused(path: Path, why: str) -> None:
    """Neither the store nor anything beside it changes."""
    before = {file.name: file.read_bytes() for file in path.parent.iterdir() if "-" not in file.name}
    for arguments in ((), ("--check",)):
        done = roundel(*arguments, "--store", str(path))
        assert done.exit_code == 1
        assert why in done.stderr
    after = {file.name: file.read_bytes() for file in path.parent.iterdir() if "-" not in file.name}
    assert after == before


@pytest.mark.usefixtures("larger_step")
def test_a_copy_that_is_there_is_not_overwritten(older: Path) -> None:
    older.with_name("runs.db.v7").write_text("precious")
    refused(older, "runs.db.v7 exists already")


@pytest.mark.usefixtures("larger_step")
def test_room_for_the_copy_is_checked_first(older: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr("shutil.disk_usage", lambda _folder: usage(1 << 40, 1 << 40, 1 << 20))
    refused(older, "there is not enough room")


def in_use(path: Path, work: Callable[[], None]) -> None:
    """Works while another process owns runs of the store, as far as its row says."""

    async def story() -> None:
        owner = SqliteStore(path, sync="off")
        await owner.create(new("other"), chunk(STARTED))
        copy = path.with_name("copy.db")
        with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(copy)) as target:
            source.backup(target)
        await owner.close()
        copy.replace(path)
        for end in ("-wal", "-shm"):
            path.with_name(path.name + end).unlink(missing_ok=True)

    asyncio.run(story())
    # Its lease was not given up in the copy; the owner itself is known to be closed in this process.
    query(path, "UPDATE owners SET owner_id = owner_id - 1, alive_until = alive_until + 1000")
    query(path, "ALTER TABLE chunks DROP COLUMN seq")
    query(path, "PRAGMA user_version = 7")
    work()
    query(path, "DELETE FROM owners")


def test_no_step_is_made_while_another_process_owns_runs(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"

    def work() -> None:
        with pytest.raises(StoreError, match=r"is in use by process \d+; end it first"):
            asyncio.run(using(path, look))
        refused(path, "is in use by process")
        assert version(path) == 7

    in_use(path, work)
    assert asyncio.run(using(path, lambda store: store.row("other"))).facts == 1


def test_a_step_that_fails_leaves_the_format_before_it(older: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(connection: sqlite3.Connection) -> None:
        MIGRATIONS_BEFORE[7].apply(connection)
        connection.execute("NONSENSE")

    monkeypatch.setitem(MIGRATIONS, 7, Migration("fails", fail, additive=True))
    with pytest.raises(StoreError, match="syntax error"):
        asyncio.run(using(older, look))
    assert version(older) == 7
    monkeypatch.undo()
    assert asyncio.run(using(older, look)).facts == 1


MIGRATIONS_BEFORE = dict(MIGRATIONS)


def test_two_processes_may_convert_at_once(older: Path) -> None:
    connections = [sqlite3.connect(older, isolation_level=None) for _ in range(2)]
    with closing(connections[0]) as one, closing(connections[1]) as other:
        assert schema.read_format(other) == 7
        schema.make_steps(one, "here", schema.no_owner)
        schema.make_steps(other, "here", schema.no_owner)
    assert version(older) == FORMAT


def test_stores_that_are_no_file_have_nothing_to_convert(tmp_path: Path) -> None:
    missing = roundel("--store", str(tmp_path / "none.db"))
    assert missing.exit_code == 2
    assert "there is no store" in missing.stderr
    other = tmp_path / "other.db"
    query(other, "CREATE TABLE bookmarks (url TEXT)")
    refused(other, "is not a Roundel store")
