"""A failing store gives a clear error, loses nothing that was acknowledged, and the run can be
resumed."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

import roundel
from roundel.hosts import control
from roundel.hosts.control import Resume
from roundel.hosts.engine import Attachment, RunSpec
from roundel.hosts.local import LocalEngine
from roundel.hosts.local_run import LocalRun
from roundel.hosts.stored_run import create, open_run, pin, read_events
from roundel.journal.sqlite import SqliteStore
from roundel.journal.store import Fenced, StoreError
from roundel.llm.script import script_from
from roundel.workflow.message import Message
from tests.journal.stores import query, resumed, using

ROUNDS = 30


class Loop:
    """A loop that says 2 KB a round, and counts how often it was asked to."""

    def __init__(self, rounds: int = ROUNDS, disturb: Callable[[int], Any] = lambda _round: None) -> None:
        self.said: list[int] = []
        self.shown: list[roundel.Event] = []
        self.disturb = disturb
        self.graph = graph = roundel.Graph(start="Say", end="Out")

        @graph.function("Say")
        async def say(round: int) -> str:
            self.said.append(round)
            await asyncio.sleep(0)
            self.disturb(round)
            return os.urandom(1000).hex()

        graph.node("Guard", "loop_counter", max_iterations=rounds).node("Out", "passthrough")
        graph.edge("Say", "Guard").edge("Say", "Say").edge("Guard", "Say").edge("Guard", "Out")

    async def run(self, store: SqliteStore) -> roundel.Result:
        return await roundel.run_async(self.graph, "go", store=store, on_event=self.shown.append)

    async def resumed(self, store: SqliteStore) -> roundel.Result:
        (row,) = await store.rows()
        return await resumed(store, row.id, workflow=self.graph, on_event=self.shown.append)

    async def check(self, store: SqliteStore, repeated: int = 1) -> None:
        """It is over; what was shown is what happened; only what was cut off was asked for again."""
        (row,) = await store.rows()
        assert row.status == "completed"
        events = await read_events(store, row.id)
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        assert all(events[event.seq - 1] == event for event in self.shown)
        assert events[-1].fields()["nodes"]["Say"] == len(set(self.said)) >= len(self.said) - repeated


@contextmanager
def limited_pages(monkeypatch: pytest.MonkeyPatch, pages: int) -> Iterator[None]:
    """A disk with room for so many pages."""
    plain: Any = sqlite3.connect

    def connect(*given: Any, **named: Any) -> sqlite3.Connection:
        made: sqlite3.Connection = plain(*given, **named)
        made.execute(f"PRAGMA max_page_count = {pages}")
        return made

    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", connect)
        yield


def test_full_disk_ends_the_run_and_it_can_be_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = Loop()
    path = tmp_path / "runs.db"
    reported = r"runs.db: database or disk is full; make room; .* continues with `roundel resume`"
    with limited_pages(monkeypatch, 36), pytest.raises(StoreError, match=reported):
        asyncio.run(using(path, loop.run))
    rounds = len(loop.said)
    assert 3 < rounds < ROUNDS

    async def later(store: SqliteStore) -> None:
        result = await loop.resumed(store)
        assert result.loops["Say"]["rounds"] == ROUNDS
        assert loop.said[rounds - 1] == loop.said[rounds]  # what the full disk did not take
        await loop.check(store)

    asyncio.run(using(path, later))


def test_full_disk_fails_all_runs_and_each_can_be_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them says so, none hangs, and each goes on."""
    loop = Loop(5)
    path = tmp_path / "runs.db"

    async def appenders(store: SqliteStore) -> list[Any]:
        return await asyncio.gather(*(loop.run(store) for _ in range(30)), return_exceptions=True)

    with limited_pages(monkeypatch, 56):
        done = asyncio.run(using(path, appenders))
    failed = [str(one) for one in done if isinstance(one, StoreError)]
    assert failed
    assert all("database or disk is full; make room" in text for text in failed)

    async def later(store: SqliteStore) -> None:
        for row in await store.rows():
            if row.status != "completed":
                assert (await resumed(store, row.id, workflow=loop.graph)).completed
        assert all(row.status == "completed" for row in await store.rows())

    asyncio.run(using(path, later))


SMALL_FILES = """
import os, resource, sys, tempfile
import roundel
from roundel.journal.store import StoreError

graph = roundel.Graph(start="Say", end="Say", limits={"rounds": 1000})

@graph.function("Say", ports=["more"])
async def say(round: int) -> str:
    return roundel.to("more", os.urandom(1000).hex()) if round < 100 else "done"

graph.edge("Say", "Say", port="more")
plan = roundel.prepare(graph)
with tempfile.TemporaryDirectory() as folder:  # what it needs is imported while it may be read
    roundel.run(plan, "go", store=folder + "/runs.db")
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
try:
    print(roundel.run(plan, "go", store=sys.argv[1]).status)
except StoreError as error:
    print(error)
"""


def test_file_size_limit_ends_the_run(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SMALL_FILES, str(tmp_path / "runs.db")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    assert "runs.db: file too large; raise the limit for the size of a file (ulimit -f)" in done.stdout

    async def look(store: SqliteStore) -> None:
        (row,) = await store.rows()
        assert row.status == "running"
        assert not row.owner
        assert 1 < row.facts == len(await store.facts(row.id))

    asyncio.run(using(tmp_path / "runs.db", look))


def test_newer_format_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    asyncio.run(using(path, Loop(1).run))
    query(path, "PRAGMA user_version = 1000")
    with pytest.raises(StoreError, match="written by a newer version of roundel"):
        asyncio.run(using(path, Loop().run))


def test_locked_database_ends_the_run_and_it_can_be_resumed(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    asyncio.run(using(path, Loop(1).run))
    query(path, "DELETE FROM chunks")
    query(path, "DELETE FROM runs")
    with closing(sqlite3.connect(path, isolation_level=None)) as holder:

        def hold(round_: int) -> None:
            if round_ == 5:
                holder.execute("BEGIN IMMEDIATE")

        loop = Loop(disturb=hold)
        reported = "runs.db: database is locked; another program has locked it; try again when it is done"
        with pytest.raises(StoreError, match=reported):
            asyncio.run(using(path, loop.run, busy_seconds=0.05))
        assert loop.said == [1, 2, 3, 4, 5]
        holder.execute("ROLLBACK")
        loop.disturb = lambda _round: None

        async def later(store: SqliteStore) -> None:
            await loop.resumed(store)
            assert loop.said == [1, 2, 3, 4, 5, *range(5, ROUNDS + 1)]
            await loop.check(store)

        asyncio.run(using(path, later))


# Files that were damaged.


def hot_copy(path: Path, folder: Path) -> Path:
    """The file and its log as a machine that lost its power leaves them: nobody has closed them."""
    folder.mkdir()
    for file in path.parent.glob(f"{path.name}*"):
        shutil.copy(file, folder)
    return folder / path.name


@pytest.mark.parametrize("tail", ["garbage", "cut in a page", "cut in a header"])
def test_truncated_write_ahead_log_is_recovered(tail: str, tmp_path: Path) -> None:
    copy = Path()

    async def story(store: SqliteStore) -> None:
        await loop.run(store)

    def power_cut(round_: int) -> None:
        nonlocal copy
        if round_ == 10:
            copy = hot_copy(tmp_path / "runs.db", tmp_path / "copy")
            seen.extend(loop.shown)

    seen: list[roundel.Event] = []
    loop = Loop(disturb=power_cut)
    asyncio.run(using(tmp_path / "runs.db", story))
    log = copy.with_name("runs.db-wal")
    content = log.read_bytes()
    corrupted = {"garbage": content + os.urandom(3000), "cut in a page": content[:-1000]}
    log.write_bytes(corrupted.get(tail, content[: -(4096 + 10)]))

    async def later(store: SqliteStore) -> None:
        (row,) = await store.rows()
        lost = tail != "garbage"  # the last commit was not whole
        again = Loop()
        before = await read_events(store, row.id)
        assert all(before[event.seq - 1] == event for event in seen if event.seq <= len(before))
        assert (len(before) < len(seen)) == lost
        result = await resumed(store, row.id, workflow=again.graph)
        assert result.completed
        assert again.said == list(range(9 if lost else 10, ROUNDS + 1))

    asyncio.run(using(copy, later))


def test_damaged_page_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    loop = Loop()
    asyncio.run(using(path, loop.run))
    whole = path.read_bytes()
    path.write_bytes(whole[:-4096] + os.urandom(4096))

    async def read(store: SqliteStore) -> Any:
        (row,) = await store.rows()
        return await read_events(store, row.id)

    with pytest.raises(StoreError, match=r"runs.db: .*the file is damaged"):
        asyncio.run(using(path, read))
    path.write_bytes(whole)
    assert asyncio.run(using(path, read)) == loop.shown


# Clocks.


def test_clock_going_backwards_keeps_timestamps_monotonic(tmp_path: Path) -> None:
    """Within a run, and in the process that goes on with it."""
    graph = roundel.Graph(start="Say", end="Out", limits={"rounds": 1000})
    times = iter([1000.0, *(1000.0 - step for step in range(20))])
    late = iter(float(step) for step in range(1, 3000))

    @graph.function("Say")
    async def say() -> str:
        return "something"

    graph.node("Timer", "loop_timer", max_duration=100).node("Out", "passthrough")
    graph.edge("Say", "Timer").edge("Say", "Say").edge("Timer", "Say").edge("Timer", "Out")
    plan = roundel.prepare(graph)

    async def story(store: SqliteStore) -> None:
        host = LocalRun(plan, clock=lambda: next(times))
        host.set_journal(
            await create(store, host.run_id, RunSpec(plan, (Message("go"),)), pin(plan), now=lambda: 1000.0)
        )
        with pytest.raises(RuntimeError):  # the clock has stopped, and so has the run
            await host.run((Message("go"),))
        engine = LocalEngine(lambda: store, clock=lambda: next(late))
        await engine.control(host.run_id, Resume(), execute=Attachment(), workflow=graph)
        result = await engine.wait(host.run_id)
        assert result.loops["Say"]["exit_reason"] == "max_duration_reached"
        events = await read_events(store, host.run_id)
        stamps = [event.timestamp for event in events]
        assert stamps == sorted(stamps)

    asyncio.run(using(tmp_path / "runs.db", story))


# Others who work on the same run.


def test_fenced_run_stops_without_writing(tmp_path: Path) -> None:
    async def story(store: SqliteStore) -> None:
        other = Loop()
        stolen: list[roundel.Result] = []

        async def steal() -> None:
            query(tmp_path / "runs.db", "UPDATE owners SET alive_until = 0")  # it seems to be dead
            stolen.append(await other.resumed(store))

        thief: list[asyncio.Task[None]] = []

        def disturb(round_: int) -> None:
            if round_ == 10:
                thief.append(asyncio.ensure_future(steal()))

        loop = Loop(disturb=disturb)
        with pytest.raises(Fenced, match=r"another process has taken over run \w+; this one has stopped"):
            await loop.run(store)
        await thief[0]
        assert stolen[0].completed
        (row,) = await store.rows()
        events = await read_events(store, row.id)
        assert all(events[event.seq - 1] == event for event in loop.shown + other.shown)
        assert not row.owner

    asyncio.run(using(tmp_path / "runs.db", story, lease_seconds=1000))


def test_waiting_run_notices_that_it_was_fenced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(control, "CLAIM_CHECKS", 1)
    graph = roundel.Graph(start="Wait", end="Wait")

    @graph.function("Wait")
    async def wait() -> str:
        query(tmp_path / "runs.db", "UPDATE runs SET fence = fence + 1")
        await asyncio.sleep(60)
        return "too late"

    async def story(store: SqliteStore) -> None:
        with pytest.raises(Fenced):
            await roundel.run_async(graph, "go", store=store)
        (row,) = await store.rows()
        assert (row.status, row.facts) == ("running", 1)

    asyncio.run(using(tmp_path / "runs.db", story))


RESUMES = """
import sys
import roundel
from roundel.journal.store import Busy
from roundel.api import resume

print("ready", flush=True)
sys.stdin.readline()
try:
    print(resume(sys.argv[2], store=sys.argv[1]).status)
except Busy as error:
    print(f"busy: {error}")
"""


def test_only_one_of_two_processes_resumes_a_run(tmp_path: Path) -> None:
    path, script = tmp_path / "runs.db", {"A": [{"text": "done", "delay": 0.5}]}
    workflow = {"graph": {"nodes": [{"id": "A", "type": "agent", "config": {}}], "start": "A", "end": "A"}}
    plan = roundel.prepare(workflow)
    pinned = pin(plan, script_from(script))

    async def prepare(store: SqliteStore) -> list[str]:
        names = [f"run{number}" for number in range(3)]
        for name in names:
            await (await create(store, name, RunSpec(plan, (Message("go"),)), pinned)).close()
        return names

    for name in asyncio.run(using(path, prepare)):
        command = [sys.executable, "-c", RESUMES, str(path), name]
        pipe = subprocess.PIPE
        both = [subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) for _ in range(2)]
        for process in both:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in both:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        reported = sorted(process.communicate()[0] for process in both)
        assert re.match(rf"busy: another process (owns|executes) run {name}\b", reported[0])
        assert reported[1] == "completed\n"

    async def look(store: SqliteStore) -> None:
        for row in await store.rows():
            assert (row.status, row.facts) == ("completed", 3)  # begun, reopened, answered

    asyncio.run(using(path, look))


def test_a_process_that_lost_its_store_releases_its_runs(tmp_path: Path) -> None:
    """A server lives on, and goes on with its run when the store is back."""
    path = tmp_path / "runs.db"
    asyncio.run(using(path, Loop(1).run))
    query(path, "DELETE FROM chunks")
    query(path, "DELETE FROM runs")
    with closing(sqlite3.connect(path, isolation_level=None)) as holder:

        async def story(store: SqliteStore) -> None:
            loop = Loop(disturb=lambda round_: round_ == 3 and holder.execute("BEGIN IMMEDIATE"))
            with pytest.raises(StoreError, match="locked"):
                await loop.run(store)
            holder.execute("ROLLBACK")
            loop.disturb = lambda _round: None
            (row,) = await store.rows()
            assert not row.owner
            assert (await open_run(store, row.id)).state.status == "running"
            await loop.resumed(store)
            await loop.check(store)

        asyncio.run(using(path, story, busy_seconds=0.05))
