"""A memory that fails, is slow or is full never fails a node, and changes nothing of what it gives."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import roundel
from roundel.journal.sqlite import SqliteStore
from roundel.journal.sqlite_memory import SqliteMemoryStore
from roundel.memory import run_memory
from roundel.memory.process_store import ProcessMemoryStore
from roundel.memory.store import Item, Match, Shelf
from tests.events import node_status
from tests.journal.stores import query
from tests.memory.memory_runs import Group, agents, do, run_reply, stored_entries, texts, troubles

ROOT = Path(__file__).parents[2]
NOTES = [{"name": "notes", "type": "simple"}, {"name": "board", "type": "blackboard"}]
ALL = ("working", "long_term", "notes", "board")
WRITTEN = ("working", "notes", "board")


class Broken(ProcessMemoryStore):
    """Raises whatever is asked of it."""

    error: Exception = RuntimeError("the shelf has come down")

    async def remember(self, *given: Any, **named: Any) -> list[int]:
        raise self.error

    async def newest(self, *given: Any, **named: Any) -> list[Match]:
        raise self.error

    async def search(self, *given: Any, **named: Any) -> list[Match]:
        raise self.error


def use(monkeypatch: pytest.MonkeyPatch, memories: type[ProcessMemoryStore]) -> None:
    """Runs use these memories, with a store and without one."""
    monkeypatch.setattr(run_memory, "ProcessMemoryStore", memories)
    monkeypatch.setattr(SqliteStore, "memory", lambda _self: memories())


class Hanging(ProcessMemoryStore):
    """Never answers."""

    async def remember(self, *given: Any, **named: Any) -> list[int]:
        await asyncio.Event().wait()
        raise AssertionError

    async def newest(self, *given: Any, **named: Any) -> list[Match]:
        await asyncio.Event().wait()
        raise AssertionError

    async def search(self, *given: Any, **named: Any) -> list[Match]:
        await asyncio.Event().wait()
        raise AssertionError


def flow(**settings: Any) -> dict[str, Any]:
    made = agents(*ALL, memory=NOTES, group="team")
    made["memory"] |= settings
    return made


def names(events: list[roundel.Event], error: str) -> list[str]:
    found = troubles(events)
    assert all(error in data["error"] for data in found), found
    return [data["store"] for data in found]


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("gone"),
        OSError("gone"),
        sqlite3.OperationalError("gone"),
        ValueError("gone"),
        TimeoutError("gone"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_failing_memory_store_does_not_fail_the_run(
    store: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    use(monkeypatch, Broken)
    monkeypatch.setattr(Broken, "error", error)
    events = run_reply(flow(), "tea", store)
    assert sorted(names(events, "gone")) == sorted((*ALL, *WRITTEN))
    assert [event.fields()["output"] for event in events if node_status(event) == "completed"] == ["tea"]


@pytest.mark.parametrize("keep", [True, False], ids=["kept", "not kept"])
def test_hanging_memory_store_does_not_block_the_run(
    store: Path, monkeypatch: pytest.MonkeyPatch, keep: bool
) -> None:
    use(monkeypatch, Hanging)
    events: list[roundel.Event] = []
    place = store if keep else None
    result = roundel.run(flow(timeout=0.01), "go", script={"A": ["tea"]}, store=place, on_event=events.append)
    assert (result.status, result.output) == ("completed", "tea")
    assert sorted(names(events, "no answer within 0.01 seconds")) == sorted((*ALL, *WRITTEN))


def test_agent_with_tools_continues_without_memory(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, Broken)
    graph = roundel.Graph(start="A", end="A", memory=NOTES)
    graph.node("A", "agent", memories=["notes"], tools=[_look], thinking=_REFLECTION)
    script = {"A": [{"tool_calls": [{"name": "_look", "arguments": {}}]}, "tea", "milk"]}
    events: list[roundel.Event] = []
    result = roundel.run(graph, "go", script=script, store=store, on_event=events.append)
    assert (result.status, result.output) == ("completed", "milk")
    # At the first call, at the reflection, and when it is written.
    assert names(events, "the shelf has come down") == ["notes", "notes", "notes"]


_REFLECTION = {"type": "reflection", "config": {"reflection_prompt": "Sure?"}}


def _look() -> str:
    """Looks."""
    return "seen"


def refuse(store: Path, sql: str) -> None:
    """Somebody has changed the file by hand."""
    with closing(sqlite3.connect(store, isolation_level=None)) as database:
        database.executescript(sql)


@pytest.mark.parametrize(
    ("sql", "error"),
    [
        ("CREATE TRIGGER no BEFORE INSERT ON memories BEGIN SELECT RAISE(ABORT, 'no room'); END", "no room"),
        (
            "CREATE TRIGGER no BEFORE INSERT ON memories BEGIN SELECT RAISE(ROLLBACK, 'no room'); END",
            "no room",
        ),
        ("CREATE TRIGGER no BEFORE INSERT ON memories BEGIN SELECT RAISE(FAIL, 'no room'); END", "no room"),
        ("DROP TABLE memory_words", "no such table"),
        ("DROP TABLE memories", "no such table"),
    ],
)
def test_run_is_stored_when_memory_writes_fail(store: Path, sql: str, error: str) -> None:
    run_reply(agents(), "first", store)
    refuse(store, sql)
    events = run_reply(flow(), "tea", store)
    assert set(names(events, error)) >= set(WRITTEN)
    assert query(store, "SELECT status FROM runs") == [("completed",), ("completed",)]


def test_full_disk_loses_only_the_memory_entry(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is room for the journal, and none for a large entry: in one batch, each has what it deserves."""

    async def story() -> None:
        opened = SqliteStore(store, sync="off")
        memories = opened.memory()
        await memories.newest(Shelf("a", "x"), 1, 1)  # the file is there
        await opened._writer.read(_limited)
        big = [Item(os.urandom(40_000).hex(), 1.0)]
        writing = memories.remember(Shelf("a", "x"), big)
        noted = opened._writer.write(
            lambda db: db.execute("INSERT INTO controls VALUES (NULL, 1, 'x', '', '')")
        )
        lost, done = await asyncio.gather(writing, noted, return_exceptions=True)
        assert "full" in str(lost)
        assert not isinstance(done, BaseException)
        assert await memories.entries("a", 1) == []
        await opened.close()

    do(story())
    assert query(store, "SELECT kind FROM controls") == [("x",)]


def test_memory_write_that_aborts_its_transaction_is_isolated(store: Path) -> None:
    run_reply(agents(), "first", store)
    refuse(store, "CREATE TRIGGER no BEFORE INSERT ON memories BEGIN SELECT RAISE(ROLLBACK, 'no room'); END")

    async def story() -> None:
        opened = SqliteStore(store, sync="off")
        memories = opened.memory()
        writing = memories.remember(Shelf("a", "x"), [Item("tea", 1.0)])
        noted = [
            opened._writer.write(lambda db: db.execute("INSERT INTO controls VALUES (NULL, 1, 'x', '', '')"))
            for _ in range(3)
        ]
        lost, *done = await asyncio.gather(writing, *noted, return_exceptions=True)
        assert "no room" in str(lost)
        assert not [error for error in done if isinstance(error, BaseException)]
        await opened.close()

    do(story())
    assert query(store, "SELECT count(*) FROM controls") == [(3,)]


def _limited(database: sqlite3.Connection) -> None:
    (pages,) = database.execute("PRAGMA page_count").fetchone()
    database.execute(f"PRAGMA max_page_count = {pages + 4}")


def test_run_completes_when_memories_do_not_fit_on_the_disk(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a real disk says when it is full, at every write of an entry."""
    run_reply(agents(), "first", store)
    plain = SqliteMemoryStore.remember

    async def full(self: SqliteMemoryStore, shelf: Shelf, items: Any, newest: int | None = None) -> list[int]:
        await self._writer.read(_limited)
        try:
            return await plain(self, shelf, [Item(os.urandom(40_000).hex(), 1.0), *items], newest)
        finally:
            await self._writer.read(lambda db: db.execute("PRAGMA max_page_count = 1000000").fetchone())

    monkeypatch.setattr(SqliteMemoryStore, "remember", full)
    events = run_reply(flow(), "tea", store)
    assert sorted(names(events, "full")) == sorted(WRITTEN)
    assert texts(store, "team") == []
    assert query(store, "SELECT status FROM runs") == [("completed",), ("completed",)]


def test_full_namespace_evicts_the_oldest_entries(store: Path) -> None:
    board = agents("board", memory=[{"name": "board", "type": "blackboard", "config": {"max_items": 3}}])
    for number in range(5):
        assert troubles(run_reply(board, f"text {number}", store)) == []
    assert texts(store, "") == ["text 4", "text 3", "text 2"]


def test_errors_show_no_keys(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "sk-0123456789abcdef")
    use(monkeypatch, Broken)
    monkeypatch.setattr(Broken, "error", RuntimeError("refused sk-0123456789abcdef"))
    assert set(names(run_reply(flow(), "tea", store), "refused ***")) == set(ALL)


def test_cancellation_is_not_a_memory_failure(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, Hanging)

    async def story() -> None:
        began = asyncio.Event()
        work = roundel.run_async(
            flow(), "go", script={"A": ["tea"]}, store=store, on_event=lambda _event: began.set()
        )
        task = asyncio.create_task(work)
        await began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    do(story())
    assert query(store, "SELECT status FROM runs") == [("stopped",)]


# A process that dies


DYING = """
import os, signal, sys
import roundel
from roundel.journal.sqlite_memory import SqliteMemoryStore

plain = SqliteMemoryStore.remember

async def remember(self, *given, **named):
    {before}
    await plain(self, *given, **named)
    os.kill(os.getpid(), signal.SIGKILL)

SqliteMemoryStore.remember = remember
roundel.run("flow.yaml", "go", script={{"A": ["tea"], "B": ["milk"]}}, store="runs.db")
"""
FLOW = """
memory: {group_id: team}
graph:
  start: A
  nodes: [{id: A, type: agent}, {id: B, type: agent, config: {memories: working}}]
  edges: [{from: A, to: B}]
"""


@pytest.mark.parametrize("before", ["pass", "os.kill(os.getpid(), signal.SIGKILL)"], ids=["after", "before"])
def test_crash_during_a_memory_write_leaves_one_entry(store: Path, before: str) -> None:
    Path("flow.yaml").write_text(FLOW, encoding="utf-8")
    died = subprocess.run([sys.executable, "-c", DYING.format(before=before)], check=False)
    assert died.returncode == -signal.SIGKILL
    assert texts(store, "team") == (["tea"] if before == "pass" else [])
    (row,) = query(store, "SELECT id FROM runs")
    result = roundel.resume(row[0], store=store)
    assert (result.status, result.output) == ("completed", "milk")
    assert texts(store, "team") == ["milk", "tea"]
    assert [entry.address for entry in stored_entries(store, "team")] == ["B", "A"]


async def _answer(_question: roundel.Question) -> str:
    return "tea"


def test_resumed_run_keeps_its_group(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = FLOW.replace("team", '"${TEAM}"').replace("{id: A, type: agent}", "{id: A, type: human}")
    Path("flow.yaml").write_text(text, encoding="utf-8")
    monkeypatch.setenv("TEAM", "north")
    result = roundel.run("flow.yaml", "go", script={"B": ["milk"]}, store=store, group="west")
    assert result.status == "waiting"
    monkeypatch.setenv("TEAM", "south")
    result = roundel.resume(result.run_id, store=store, ask=_answer)
    assert result.completed
    assert texts(store, "west") == ["milk", "tea"]
    assert texts(store, "north") == texts(store, "south") == []


def test_repeated_execution_writes_no_duplicate() -> None:
    async def story() -> None:
        group = Group()
        await group.give("tea", key="run:A")
        await group.give("milk")
        group.time += 10
        visit = await group.give("tea", key="run:A")
        assert visit.events == []
        assert await group.working() == ["milk", "tea"]
        await group.memory.close()

    do(story())


def test_repeated_execution_replaces_its_earlier_entry() -> None:
    """What a crash cut off before it was in the journal was never said."""

    async def story() -> None:
        group = Group()
        await group.give("tea", key="run:A[1]")
        await group.give("oolong", key="run:A[2]")
        await group.give("milk", key="run:A[2]")
        assert await group.working() == ["milk", "tea"]
        await group.memory.close()

    do(story())


def test_memory_does_not_consume_the_timeout_of_an_agent(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, Hanging)
    made = agents("board", memory=NOTES)
    made["graph"]["nodes"][0]["timeout"] = 0.4
    made["memory"]["timeout"] = 0.5
    assert set(names(run_reply(made, "tea", store), "seconds")) == {"board"}
