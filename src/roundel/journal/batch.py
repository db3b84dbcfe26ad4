"""What is written in one transaction: jobs, rows that many runs add with the same statement, and timers.

Everything in a batch shares one commit. A job that fails must not make the others fail: the batch is then
rolled back and repeated with a savepoint around each job. Savepoints in each batch would cost more than the
rare repetition. If the file itself is at fault (a full disk ends the whole transaction), all jobs of the
batch fail.

Rows of one statement are one call of `executemany`: two hundred runs cost little more than two hundred rows.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from roundel.journal.store import StoreError

T = TypeVar("T")
Job = Callable[[sqlite3.Connection], T]
Row = tuple[Any, ...]
Refused = Callable[[sqlite3.Connection, Any], "StoreError | None"]
"""Why a row changed nothing, by what the caller gave with it; None if nothing had to change."""
Explain = Callable[[Exception], StoreError]


class RowRefused(StoreError):
    """One row of many changed nothing, and it is not known yet which."""


class _Again(Exception):
    """Something failed that the others in the transaction should not suffer from."""


@dataclass(slots=True)
class Work:
    """One job, and who waits for it."""

    job: Job[Any]
    writes: bool
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    aside: bool = False
    """In a transaction of its own kind, behind the other one."""

    def do(self, db: sqlite3.Connection, apart: bool) -> Any:
        return self.job(db)

    def settle(self, value: Any, failure: StoreError | None) -> None:
        _settle(self.future, value, failure)


@dataclass(slots=True)
class Timer:
    """A job that the writing thread repeats by itself, as long as it is active. Nobody awaits it, and a
    failure changes nothing: the next attempt follows."""

    every: float
    job: Job[Any]
    writes: bool
    active: Callable[[], bool]
    done: Callable[[], None] = lambda: None
    """Called in the writing thread when the job was committed."""
    due: float = 0.0
    """When to run it next, on the monotonic clock."""
    loop: None = None
    aside: bool = False

    def do(self, db: sqlite3.Connection, apart: bool) -> Any:
        return self.job(db)

    def settle(self, value: Any, failure: StoreError | None) -> None:
        if failure is None:
            self.done()


class Rows:
    """Rows that one statement adds, each of which has to change exactly one row of the file."""

    writes, aside = True, False

    def __init__(self, statement: str, refused: Refused, loop: asyncio.AbstractEventLoop) -> None:
        self.statement = statement
        self.refused = refused
        self.loop = loop
        self._items: list[tuple[Row, Any, asyncio.Future[None]]] = []
        """Each row, what `refused` needs to know of it, and who waits for it."""

    def add(self, row: Row, about: Any) -> asyncio.Future[None]:
        # Each has its own future: a caller that is cancelled must not cancel those of the others.
        future: asyncio.Future[None] = self.loop.create_future()
        self._items.append((row, about, future))
        return future

    def __len__(self) -> int:
        return len(self._items)

    def do(self, db: sqlite3.Connection, apart: bool) -> dict[int, StoreError]:
        """What is wrong with which of them."""
        if not apart:
            rows = [row for row, _, _ in self._items]
            if db.executemany(self.statement, rows).rowcount != len(rows):
                raise RowRefused("a row was refused")
            return {}
        failures: dict[int, StoreError] = {}
        for number, (row, about, _) in enumerate(self._items):
            if db.execute(self.statement, row).rowcount != 1:
                failure = self.refused(db, about)
                if failure is not None:
                    failures[number] = failure
        return failures

    def settle(self, value: dict[int, StoreError] | None, failure: StoreError | None) -> None:
        if not value and failure is None:
            for _, _, future in self._items:
                if not future.done():
                    future.set_result(None)
            return
        failures = value or {}
        for number, (_, _, future) in enumerate(self._items):
            _settle(future, None, failures.get(number, failure))


Batch = list[Work | Rows | Timer]
Done = tuple[Work | Rows | Timer, Any, StoreError | None]


def carry_out(db: sqlite3.Connection, batch: Batch, explain: Explain) -> tuple[list[Done], int]:
    """What became of each, and how many commits were made."""
    aside = [work for work in batch if work.aside]
    if aside and len(aside) < len(batch):
        done, commits = carry_out(db, [work for work in batch if not work.aside], explain)
        behind, more = carry_out(db, aside, explain)
        return done + behind, commits + more
    if not any(work.writes for work in batch):
        return [_one(db, work, explain) for work in batch], 0
    try:
        return _commit_batch(db, batch, explain), 1
    except (sqlite3.Error, StoreError) as error:
        failure = error if isinstance(error, StoreError) else explain(error)
        return [(work, None, failure) for work in batch], 0


def _commit_batch(db: sqlite3.Connection, batch: Batch, explain: Explain) -> list[Done]:
    """What became of each, in one transaction; sqlite3.Error or StoreError if nothing was written."""
    try:
        try:
            return _transaction(db, batch, explain)
        except _Again:
            # Seldom: once more from the beginning, so that the others do without the one that failed.
            db.execute("ROLLBACK")
            return _transaction(db, batch, explain, apart=True)
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            db.rollback()
        raise


def _transaction(
    db: sqlite3.Connection, batch: Batch, explain: Explain, *, apart: bool = False
) -> list[Done]:
    db.execute("BEGIN IMMEDIATE")
    done = []
    for work in batch:
        done.append(_one(db, work, explain, apart=apart))
        failure = done[-1][2]
        if failure is None or (apart and db.in_transaction):
            continue
        if db.in_transaction and (len(batch) > 1 or isinstance(failure, RowRefused)):
            raise _Again
        raise failure
    db.execute("COMMIT")
    return done


def _one(db: sqlite3.Connection, work: Work | Rows | Timer, explain: Explain, *, apart: bool = False) -> Done:
    if apart:
        db.execute("SAVEPOINT job")
    try:
        value, failure = work.do(db, apart), None
    except StoreError as error:
        value, failure = None, error
    except Exception as error:  # whatever it is, the others must not wait for ever
        value, failure = None, explain(error)
    # A disk that is full, say, has ended the whole transaction already.
    if apart and db.in_transaction:
        if failure is not None:
            db.execute("ROLLBACK TO job")
        db.execute("RELEASE job")
    return work, value, failure


def wake_callers(done: list[Done]) -> None:
    """Those who wait, each in its loop, which is woken once."""
    loops: dict[asyncio.AbstractEventLoop, list[Done]] = {}
    for item in done:
        if item[0].loop is None:
            item[0].settle(*item[1:])
        else:
            loops.setdefault(item[0].loop, []).append(item)
    for loop, items in loops.items():
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(_settle_all, items)


def _settle_all(done: list[Done]) -> None:
    for work, value, failure in done:
        work.settle(value, failure)


def _settle(future: asyncio.Future[T], value: T, failure: StoreError | None) -> None:
    if future.done():
        return
    if failure is None:
        future.set_result(value)
    else:
        future.set_exception(failure)
