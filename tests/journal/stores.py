"""A store in a file of the test, and facts to put into it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Coroutine
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

import pytest

import roundel
from roundel.journal import database, writer
from roundel.journal.run_journal import pack
from roundel.journal.sqlite import SqliteStore
from roundel.journal.store import Chunk, NewRun, Pinned
from roundel.kernel.facts import Fact, Started, Waited, encode_fact
from roundel.plan.graph import SEMANTICS
from roundel.workflow.message import Message

T = TypeVar("T")
STARTED = Started("run", (Message("go"),), 1.0)


async def using(path: Path, work: Callable[[SqliteStore], Coroutine[Any, Any, T]], **options: Any) -> T:
    """Opens a store, works with it and closes it."""
    store = SqliteStore(path, **{"sync": "off", **options})
    try:
        return await work(store)
    finally:
        await store.close()


def new(
    run_id: str = "run", *, text: str = "go", name: str = "workflow", group: str = "", by: str = ""
) -> NewRun:
    return NewRun(run_id, name, text, Pinned("{}", SEMANTICS), 1.0, group=group, started_by=by)


def chunk(*facts: Fact) -> Chunk:
    return Chunk(len(facts), pack(encode_fact(fact) for fact in facts))


def waits(*times: float) -> list[Waited]:
    return [Waited(time) for time in times]


def shorten_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """The write-ahead log is moved after a quarter of its usual length, so that a test need not fill it."""
    monkeypatch.setattr(database, "WAL_PAGES", 1000)
    monkeypatch.setattr(writer, "MAX_INLINE_ROWS", 500)


def query(path: Path, sql: str, *values: Any) -> list[Any]:
    """What another program sees in the file."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        return connection.execute(sql, values).fetchall()


async def resumed(store: SqliteStore, run_id: str, **options: Any) -> roundel.Result:
    """Resumes a run and waits until it is idle."""
    return await roundel.Runs(store).resume(run_id, **options)
