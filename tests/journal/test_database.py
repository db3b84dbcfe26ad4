"""The file of a store: what is one, what can only be read, and what happens to it while it is in use."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import roundel
from roundel.journal.database import APPLICATION_ID
from roundel.journal.schema import FORMAT, SCHEMA
from roundel.journal.sqlite import SqliteStore
from roundel.journal.store import Claim, Gone, RunRow, Snapshot, StoreError
from tests.journal.other_user import NOBODY, roundel_as_other_user
from tests.journal.stores import STARTED, chunk, new, query, resumed, using, waits

SCRIPT = "Say: [a short text]\n"
FLOW = """
graph:
  id: short
  start: Say
  end: Say
  nodes: [{id: Say, type: agent}]
"""


async def add(store: SqliteStore) -> None:
    claim = await store.create(new(), chunk(STARTED))
    await store.release(claim)


async def look(store: SqliteStore) -> list[RunRow]:
    return await store.rows()


def snapshot(folder: Path) -> dict[str, bytes]:
    """Every file of a folder, byte by byte."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


# Paths that lead to no store.


def refused(path: Path, work: Callable[[SqliteStore], Any] = add) -> str:
    with pytest.raises(StoreError) as caught:
        asyncio.run(using(path, work))
    return str(caught.value)


def test_store_path_that_is_a_directory_is_rejected(tmp_path: Path) -> None:
    assert refused(tmp_path) == (
        f"{tmp_path} is a directory; a store is a file, for example {tmp_path}/runs.db"
    )


def test_store_below_a_regular_file_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "notes").touch()
    for path in (tmp_path / "notes/runs.db", tmp_path / "notes/deep/runs.db"):
        assert refused(path) == f"{path}: {tmp_path}/notes is a file, not a folder; use another --store"
        with pytest.raises(StoreError, match="is a file, not a folder"):
            asyncio.run(SqliteStore(path).exists())


def test_store_below_a_dangling_link_is_rejected(tmp_path: Path) -> None:
    """A link to where it would be mounted, for its folder and for the file itself."""
    (tmp_path / "drive").symlink_to("/missing/drive")
    path = tmp_path / "drive/runs.db"
    reported = (
        f"{path}: {tmp_path}/drive is a link to /missing/drive, which does not exist; use another --store"
    )
    assert refused(path) == reported
    (tmp_path / "runs.db").symlink_to("/missing/drive/runs.db")
    assert "is a link to /missing/drive/runs.db, which does not exist" in refused(tmp_path / "runs.db")
    assert not Path("/missing").exists()


def test_store_in_an_uncreatable_folder_is_rejected() -> None:
    """Linux has a place where even root may not: no folder can be made there."""
    path = Path("/proc/self/nothing/runs.db" if Path("/proc/self").exists() else "/dev/null/x/runs.db")
    reported = refused(path)
    assert reported.startswith(f"{path}: ")
    assert reported.endswith("use another --store")


def test_pipes_and_devices_are_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")  # to open it would last for ever
    assert "is a pipe, not a file; use another --store, or --no-store" in refused(tmp_path / "pipe")
    assert "is a device, not a file" in refused(Path(os.devnull))


def test_impossible_store_path_is_rejected(tmp_path: Path) -> None:
    assert "file name too long" in refused(tmp_path / ("x" * 300))
    assert "null" in refused(tmp_path / "a\0b")


# Rights.


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder that other users may enter, and write to."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


def without_hint(stderr: str) -> str:
    """What a command reports, without the line that says what to do next."""
    return "".join(line for line in stderr.splitlines(keepends=True) if not line.startswith("next: "))


@pytest.fixture
def stored_file(public: Path) -> Path:
    """A store with one run, in such a folder."""
    (public / "short.yaml").write_text(FLOW)
    (public / "script.yaml").write_text(SCRIPT)
    flow, script, store = (public / name for name in ("short.yaml", "script.yaml", "runs.db"))
    assert roundel.run(flow, "go", script=script, store=store).completed
    return store


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_new_store_is_private_and_an_old_one_keeps_its_mode(tmp_path: Path, mask: int) -> None:
    (tmp_path / "short.yaml").write_text(FLOW)
    (tmp_path / "script.yaml").write_text(SCRIPT)
    code = """
import asyncio, os, stat, sys
from pathlib import Path
from roundel.journal.registry import open_store

async def use(place):
    store = open_store(place)
    await store.set_room_aside()  # a server begins with it, when there is not even a folder
    await store.documents().put("things", "a", {})
    files = sorted(Path(place).parent.iterdir())
    print(*(f"{file.name}:{stat.S_IMODE(file.stat().st_mode):o}" for file in files))
    await store.close()

os.umask(int(sys.argv[1]))
asyncio.run(use(".roundel/runs.db"))
print(f"{stat.S_IMODE(os.stat('.roundel').st_mode):o}")
os.chmod(".roundel/runs.db", 0o640)
asyncio.run(use(".roundel/runs.db"))
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(mask)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    private = "runs.db:{0} runs.db-room:600 runs.db-shm:{0} runs.db-wal:{0}"
    assert done.stdout.splitlines() == [private.format("600"), "700", private.format("640")]


def test_unreadable_store_or_folder_is_reported(stored_file: Path) -> None:
    stored_file.chmod(0o000)
    done = roundel_as_other_user(stored_file, "runs")
    assert done.returncode == 1
    assert (
        without_hint(done.stderr)
        == f"Error: {stored_file}: permission denied: runs.db may not be read; use another --store\n"
    )
    stored_file.chmod(0o644)
    stored_file.parent.chmod(0o000)
    for command in (("runs",), ("log", "last"), ("stop", "last")):
        done = roundel_as_other_user(stored_file, *command)
        assert (done.returncode, done.stdout) == (1, "")
        problem = f"permission denied: {stored_file.parent} may not be entered"
        reported = f"Error: {stored_file}: {problem}; use another --store\n"
        assert without_hint(done.stderr) == reported


def test_unwritable_folder_is_reported(public: Path) -> None:
    (public / "short.yaml").write_text(FLOW)
    (public / "script.yaml").write_text(SCRIPT)
    public.chmod(0o555)
    run = ("run", str(public / "short.yaml"), "-i", "go", "--script", str(public / "script.yaml"))
    for path, named in ((public / "runs.db", f"the folder {public}"), (public / "deep/runs.db", public)):
        done = roundel_as_other_user(path, *run)
        assert done.returncode == 1, done.stderr
        assert f"Error: {path}: permission denied" in done.stderr
        assert str(named) in done.stderr
        assert "Traceback" not in done.stderr


# Limits of the system.

EXHAUSTS = """
import asyncio, os, resource, sys
import roundel
from roundel.journal.sqlite import SqliteStore
from roundel.journal.store import StoreError

held, run_async = [], roundel.run_async

def exhaust():
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    try:
        while True:
            held.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        pass

graph = roundel.Graph(start="Say", end="Out")

@graph.function("Say")
async def say(round):
    if round == 3 and sys.argv[2] == "later":
        exhaust()
    return "word"

graph.node("Guard", "loop_counter", max_iterations=50).node("Out", "passthrough")
graph.edge("Say", "Guard").edge("Say", "Say").edge("Guard", "Say").edge("Guard", "Out")

async def main():
    store = SqliteStore(sys.argv[1], sync=sys.argv[3])
    if sys.argv[2] == "first":
        exhaust()
    try:
        print((await run_async(graph, "go", store=store)).status)
    except StoreError as error:
        print(error)

asyncio.run(main())
"""


def exhausted(path: Path, when: str, sync: str = "off") -> str:
    command = [sys.executable, "-c", EXHAUSTS, str(path), when, sync]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert not done.returncode, done.stderr
    return done.stdout.strip()


def test_too_many_open_files_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    assert exhausted(path, "first").startswith(
        f"{path}: too many open files; raise the limit (ulimit -n), or run less at the same time"
    )
    assert not asyncio.run(using(path, look))


@pytest.mark.parametrize("sync", ["off", "full"])
def test_too_many_open_files_during_a_run_do_not_fail_it(tmp_path: Path, sync: str) -> None:
    assert exhausted(tmp_path / "runs.db", "later", sync) == "completed"
    (row,) = asyncio.run(using(tmp_path / "runs.db", look))
    assert row.status == "completed"


def test_reading_a_store_writes_nothing(tmp_path: Path) -> None:
    """So it can be done when the disk is full."""
    asyncio.run(using(tmp_path / "runs.db", add))
    before = snapshot(tmp_path)
    assert len(asyncio.run(using(tmp_path / "runs.db", look))) == 1
    assert snapshot(tmp_path) == before


# Files of other programs.


def foreign(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        for statement in statements:
            database.execute(statement)


OTHERS = {
    "tables": ("CREATE TABLE runs (id INTEGER)", "INSERT INTO runs VALUES (7)"),
    "tables and a version": ("CREATE TABLE places (url TEXT)", "PRAGMA user_version = 3"),
    "a log": ("PRAGMA journal_mode = WAL", "CREATE TABLE places (url TEXT)"),
    "an application": (f"PRAGMA application_id = {0x0F055112}",),
    "a version": ("PRAGMA user_version = 2",),
    "an application with our tables": (
        *(f"CREATE TABLE {name} (n)" for name in ("runs", "chunks", "snapshots", "kept", "controls")),
        "PRAGMA user_version = 1",
        "PRAGMA application_id = 99",
    ),
}


@pytest.mark.parametrize("statements", OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize("work", [look, add])
def test_the_database_of_another_program_is_refused_and_not_changed(
    tmp_path: Path, statements: tuple[str, ...], work: Callable[[SqliteStore], Any]
) -> None:
    path = tmp_path / "places.db"
    foreign(path, *statements)
    before = snapshot(tmp_path)
    assert refused(path, work) == (
        f"{path} is not a Roundel store: it is the database of another program, and was not changed; "
        "use another --store"
    )
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("with_index", [True, False])
def test_write_ahead_log_of_a_foreign_database_is_not_touched(tmp_path: Path, with_index: bool) -> None:
    """Its process was killed: what it wrote last is in the log alone."""
    folder = tmp_path / "copy"
    folder.mkdir()
    with closing(sqlite3.connect(tmp_path / "places.db", isolation_level=None)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("CREATE TABLE places (url TEXT)")
        for end in ("", "-wal", "-shm") if with_index else ("", "-wal"):
            shutil.copy(tmp_path / f"places.db{end}", folder)
    before = snapshot(folder)
    assert "is not a Roundel store" in refused(folder / "places.db")
    after = snapshot(folder)
    assert after.keys() == before.keys()
    assert all(after[name] == before[name] for name in before if not name.endswith("-shm"))


@pytest.mark.parametrize("content", [b"This is a letter, not a database. " * 200, b"\x00" * 5000, b"short"])
def test_file_that_is_not_a_database_is_rejected(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "letter.txt"
    path.write_bytes(content)
    for work in (look, add):
        assert refused(path, work).startswith(f"{path} is not a Roundel store: file is not a database")
        assert snapshot(tmp_path) == {"letter.txt": content}


def test_an_empty_database_becomes_a_store(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    foreign(path, "CREATE TABLE t (n)", "DROP TABLE t", "VACUUM")
    assert path.stat().st_size
    asyncio.run(using(path, add))
    assert query(path, "PRAGMA application_id") == [(APPLICATION_ID,)]


def test_new_store_sets_its_application_id(tmp_path: Path) -> None:
    """Not only in its log, which may be all that a killed process leaves."""

    async def story(store: SqliteStore) -> None:
        await add(store)
        header = (tmp_path / "runs.db").read_bytes()[:100]
        assert int.from_bytes(header[68:72]) == APPLICATION_ID

    asyncio.run(using(tmp_path / "runs.db", story))


def unmarked(path: Path) -> None:
    """A store as it was before stores were marked."""
    asyncio.run(using(path, add))
    query(path, "PRAGMA application_id = 0")


def test_unmarked_store_opens_and_gets_the_application_id(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    unmarked(path)
    assert len(asyncio.run(using(path, look))) == 1
    assert query(path, "PRAGMA application_id") == [(APPLICATION_ID,)]
    assert query(path, "PRAGMA user_version") == [(FORMAT,)]


@pytest.mark.parametrize("with_index", [True, False])
def test_unmarked_store_with_tables_only_in_the_wal_opens(tmp_path: Path, with_index: bool) -> None:
    path, copy = tmp_path / "runs.db", tmp_path / "copy"
    copy.mkdir()
    with closing(sqlite3.connect(path, isolation_level=None)) as old:
        old.execute("PRAGMA journal_mode = WAL")
        old.executescript(SCHEMA)
        old.execute(f"PRAGMA user_version = {FORMAT}")
        for end in ("", "-wal", "-shm") if with_index else ("", "-wal"):
            shutil.copy(f"{path}{end}", copy)
    asyncio.run(using(copy / "runs.db", add))
    assert len(asyncio.run(using(copy / "runs.db", look))) == 1


# Stores that can only be read.

LOOKS = (
    ("runs",),
    ("log", "last"),
    ("replay", "last"),
    ("memory", "list", "--group", "team"),
    ("memory", "quarantine", "last"),
)


def close_to_others(store: Path) -> None:
    for file in store.parent.iterdir():
        file.chmod(0o444)
    store.parent.chmod(0o555)


def test_read_only_store_can_be_read(stored_file: Path) -> None:
    close_to_others(stored_file)
    before = snapshot(stored_file.parent)
    for command in LOOKS:
        done = roundel_as_other_user(stored_file, *command)
        assert not done.returncode, done.stderr
    assert "completed" in roundel_as_other_user(stored_file, "runs").stdout
    assert snapshot(stored_file.parent) == before


def test_read_only_store_rejects_writes(stored_file: Path) -> None:
    close_to_others(stored_file)
    before = snapshot(stored_file.parent)
    files = (str(stored_file.parent / "short.yaml"), "--script", str(stored_file.parent / "script.yaml"))
    forget = ("memory", "forget", "--group", "a", "--all")
    for command in (("run", *files, "-i", "go"), ("prune", "last", "--keep", "nothing"), forget):
        done = roundel_as_other_user(stored_file, *command)
        assert (done.returncode, done.stdout) == (1, "")
        assert (
            f"Error: {stored_file}: permission denied: runs.db may not be written; use another --store"
            in done.stderr
        )
        assert "Traceback" not in done.stderr
    assert snapshot(stored_file.parent) == before


def left_open(stored_file: Path, *, index: bool) -> Path:
    """A copy of a store whose process was killed, so that its newest run is in the log alone."""
    folder = Path(tempfile.mkdtemp(dir=stored_file.parent))
    folder.chmod(0o777)

    async def story(store: SqliteStore) -> None:
        await store.create(new("newest"), chunk(STARTED))
        for end in ("", "-wal", "-shm") if index else ("", "-wal"):
            shutil.copy(f"{stored_file}{end}", folder)

    asyncio.run(using(stored_file, story))
    return folder / stored_file.name


@pytest.mark.parametrize("index", [True, False])
def test_read_only_store_includes_its_write_ahead_log(stored_file: Path, index: bool) -> None:
    store = left_open(stored_file, index=index)
    close_to_others(store)
    before = snapshot(store.parent)
    done = roundel_as_other_user(store, "runs")
    store.parent.chmod(0o755)
    assert "newest" in done.stdout, done.stderr
    assert snapshot(store.parent) == before


def test_read_only_store_without_tables_reads_as_empty(stored_file: Path) -> None:
    """The process that created it was killed between the mark and the tables."""
    stored_file.unlink()
    query(stored_file, f"PRAGMA application_id = {APPLICATION_ID}")
    close_to_others(stored_file)
    before = snapshot(stored_file.parent)
    done = roundel_as_other_user(stored_file, "runs", "--json")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert snapshot(stored_file.parent) == before
    assert not list(Path(tempfile.gettempdir()).glob("roundel-*/runs.db"))


def test_read_only_reader_sees_concurrent_writes(stored_file: Path) -> None:
    """It may not write; another user may, and does."""
    code = f"""
import asyncio, codecs, os, sys
from roundel.journal.sqlite import SqliteStore

async def main():
    store = SqliteStore(sys.argv[1])
    warm = SqliteStore(sys.argv[1] + ".warm")
    await warm.rows(); await warm.close(); codecs.lookup("ascii")
    if os.getuid() == 0:
        os.setgroups([]), os.setgid({NOBODY}), os.setuid({NOBODY})
    for _ in range(3):
        print(len(await store.rows()), flush=True)
        sys.stdin.readline()
    await store.close()

asyncio.run(main())
"""
    with closing(sqlite3.connect(f"{stored_file}.warm")):
        pass
    stored_file.chmod(0o644 if os.getuid() == 0 else 0o444)
    stored_file.parent.chmod(0o755)
    with subprocess.Popen(
        [sys.executable, "-c", code, str(stored_file)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as reader:
        assert reader.stdin is not None and reader.stdout is not None
        assert reader.stdout.readline() == "1\n"

        async def story(store: SqliteStore) -> None:
            await store.create(new("second"), chunk(STARTED))
            assert reader.stdin is not None and reader.stdout is not None
            reader.stdin.write("\n")
            reader.stdin.flush()
            assert await asyncio.to_thread(reader.stdout.readline) == "2\n"

        stored_file.chmod(0o644)
        asyncio.run(using(stored_file, story))
        asyncio.run(using(stored_file, lambda store: store.create(new("third"), chunk(STARTED))))
        reader.stdin.write("\n")
        reader.stdin.flush()
        assert reader.stdout.readline() == "3\n"
        reader.stdin.write("\n")


# While it is in use.


class Loop:
    """A run that does something to its store in its fifth round."""

    def __init__(self, disturb: Callable[[], object], rounds: int = 30) -> None:
        self.rounds = 0
        self.shown: list[roundel.Event] = []
        self.graph = graph = roundel.Graph(start="Say", end="Out")

        @graph.function("Say")
        async def say(round: int) -> str:
            self.rounds += 1
            if round == 5:
                disturb()
            return "word"

        graph.node("Guard", "loop_counter", max_iterations=rounds).node("Out", "passthrough")
        graph.edge("Say", "Guard").edge("Say", "Say").edge("Guard", "Say").edge("Guard", "Out")

    async def run(self, store: SqliteStore) -> roundel.Result:
        return await roundel.run_async(self.graph, "go", store=store, on_event=self.shown.append)


def move(path: Path) -> None:
    path.rename(path.with_name("moved.db"))


def replace(path: Path) -> None:
    """Another store takes its place, as an old copy does that is put back."""
    other = path.with_name("other.db")
    with closing(sqlite3.connect(other)) as made:
        made.executescript(SCHEMA)
    other.replace(path)


def delete_folder(path: Path) -> None:
    shutil.rmtree(path.parent)


def put_a_file_in_place_of_its_folder(path: Path) -> None:
    shutil.rmtree(path.parent)
    path.parent.touch()


LOST = [Path.unlink, move, replace, delete_folder, put_a_file_in_place_of_its_folder]


@pytest.mark.parametrize("sync", ["off", "full"])
@pytest.mark.parametrize("disturb", LOST, ids=lambda disturb: disturb.__name__)
def test_run_raises_when_its_store_disappears(
    tmp_path: Path, disturb: Callable[[Path], object], sync: str
) -> None:
    path = tmp_path / "store" / "runs.db"
    loop = Loop(lambda: disturb(path))
    with pytest.raises(Gone, match="the store was deleted, moved or replaced while it was in use"):
        asyncio.run(using(path, loop.run, sync=sync))
    assert not any(event.event == "run_finished" for event in loop.shown), "nobody is told that it is over"
    if disturb is delete_folder:
        assert not path.parent.exists(), "nothing makes it again"


def test_deleted_write_ahead_log_ends_the_run(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    loop = Loop(path.with_name("runs.db-wal").unlink)
    with pytest.raises(Gone, match=r"the write-ahead log of the store, runs\.db-wal, was deleted"):
        asyncio.run(using(path, loop.run))


def test_restored_store_resumes_the_run(tmp_path: Path) -> None:
    path, aside = tmp_path / "runs.db", tmp_path / "aside.db"
    loop = Loop(lambda: path.rename(aside))
    with pytest.raises(Gone):
        asyncio.run(using(path, loop.run))
    aside.rename(path)

    async def later(store: SqliteStore) -> None:
        (row,) = await store.rows()
        assert row.status == "running"
        again = Loop(lambda: None)
        assert (await resumed(store, row.id, workflow=again.graph)).completed
        assert again.rounds < 30

    asyncio.run(using(path, later))


def test_waiting_run_notices_a_missing_store(tmp_path: Path) -> None:
    """Whatever a call in flight may still cost, it is not worth waiting for."""
    path = tmp_path / "runs.db"
    graph = roundel.Graph(start="Wait", end="Wait")

    @graph.function("Wait")
    async def wait() -> str:
        path.unlink()
        await asyncio.Event().wait()
        return "never"

    async def story(store: SqliteStore) -> None:
        async with asyncio.timeout(30):
            with pytest.raises(Gone):
                await roundel.run_async(graph, "go", store=store)

    asyncio.run(using(path, story))


def back_up(path: Path) -> None:
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(f"{path}.backup")) as copy:
        source.backup(copy)


def copy_atomically(path: Path) -> None:
    shutil.copy(path, f"{path}.new")
    Path(f"{path}.new").replace(f"{path}.copy")


def checkpoint(path: Path) -> None:
    query(path, "PRAGMA wal_checkpoint(TRUNCATE)")


def vacuum(path: Path) -> None:
    query(path, "VACUUM")


def link(path: Path) -> None:
    os.link(path, f"{path}.link")


def touch(path: Path) -> None:
    os.utime(path)
    path.chmod(stat.S_IRUSR | stat.S_IWUSR)


def leave(path: Path) -> None:
    os.chdir(path.parent.parent)


HARMLESS = [back_up, copy_atomically, checkpoint, vacuum, link, touch, leave]


@pytest.mark.parametrize("disturb", HARMLESS, ids=lambda disturb: disturb.__name__)
def test_backup_checkpoint_and_vacuum_do_not_disturb_a_run(
    tmp_path: Path, disturb: Callable[[Path], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "runs.db"
    loop = Loop(lambda: disturb(path))
    assert asyncio.run(using(Path("runs.db"), loop.run)).completed
    assert not (tmp_path.parent / "runs.db").exists()
    (row,) = asyncio.run(using(path, look))
    assert row.status == "completed"


def test_append_to_a_deleted_run_raises_gone_not_fenced(tmp_path: Path) -> None:
    async def story(store: SqliteStore) -> None:
        claim = await store.create(new(), chunk(STARTED))
        await store.delete("run")
        with pytest.raises(Gone, match="run run is no longer in the store"):
            await store.append(claim, 1, chunk(*waits(1)), "running", None)
        assert await store.lost([claim]) == [claim]
        with pytest.raises(Gone, match="run run is no longer in the store"):
            await store.save_snapshot(claim, Snapshot(1, 1, b""), {})

    asyncio.run(using(tmp_path / "runs.db", story))


# What a damaged file holds.


@pytest.mark.parametrize(
    ("damage", "work", "said"),
    [
        ("UPDATE runs SET summary = 'x'", lambda store: store.rows(), "run run cannot be read"),
        ("UPDATE pins SET body = 'x'", lambda store: store.pinned("run"), "was started with cannot be read"),
        (
            "INSERT INTO kept VALUES (1, 1, 'x')",
            lambda store: store.kept("run"),
            "is left of run run cannot be read",
        ),
        (
            "INSERT INTO controls (run, kind, body) VALUES (1, 'stop', 'x')",
            lambda store: store.requests([Claim("run", 1, 1, 1)]),
            "JSON is malformed",
        ),
        (
            "INSERT INTO memories VALUES (1, 'a', 'b', '', '', 1, 'text', 1, NULL, '', '', '', NULL, 'x')",
            lambda store: store.memory().entries("a", 0),
            "JSON is malformed",
        ),
    ],
)
def test_damaged_file_raises_store_error(tmp_path: Path, damage: str, work: Any, said: str) -> None:
    path = tmp_path / "runs.db"
    asyncio.run(using(path, add))
    query(path, damage)
    reported = refused(path, work)
    assert said in reported
    assert "the file is damaged" in reported
