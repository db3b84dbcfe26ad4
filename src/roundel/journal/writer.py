"""What is written in one transaction: jobs, rows that many runs add with the same statement, and timers.

Everything in a batch shares one commit. A job that fails must not make the others fail: the batch is then
rolled back and repeated with a savepoint around each job. Savepoints in each batch would cost more than the
rare repetition. If the file itself is at fault (a full disk ends the whole transaction), all jobs of the
batch fail.

Rows of one statement are one call of `executemany`: two hundred runs cost little more than two hundred rows.

Writes rows on the event loop, without the thread.

Where a commit does not wait for the disk (`sync` is not full), it takes less time than to hand rows to a
thread and to wake up again. With many runs the thread costs even more: SQLite gives up the interpreter lock
with each row, and has to get it back from a busy event loop each time. Where a commit waits for the disk, it
is written here only for a run that is alone and has nothing else to do.

The event loop must not be held up for long, and must never wait for another process. So

- nothing here waits for a lock: what cannot be written at once is left to the thread;
- an event loop is held up by MOST_SECONDS in each of its turns, then the thread writes;
- moving the write-ahead log into the file waits for the disk, so only the thread does it; it gets a batch to
  write after MOST_ROWS at the latest.

Rows are written here only while the thread has nothing to write (writer.py), so they keep their order.

One thread that writes: whatever is asked for while it writes goes into its next transaction.

So a run alone has its own commit, and two hundred at once share one. Where that is quicker, rows are written
on the event loop, without the thread (inline_writer.py); the order in which they were asked for is kept.

The thread also runs timers: jobs that it repeats by itself, such as the heartbeat of a store's leases. They
do not depend on an event loop, so a loop that user code blocks for a minute does not lose its leases. A
process that is stopped (SIGSTOP) does, which is the purpose of a lease.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Protocol, TypeVar

from roundel.journal.database import LOG_PAGES, SYNCED_LOG_PAGES
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


MOST_ROWS, MOST_SYNCED_ROWS = LOG_PAGES // 2, SYNCED_LOG_PAGES // 2
"""How many rows are written here, each in a transaction of its own and with two pages of the log, before the
thread writes again."""
SHARED_PAGES = 0.5
"""What a row that shares its transaction counts for. The rows fill pages together, but the entries of the
index of places, which are sorted by runs, lie in about one page for two runs."""
MOST_SECONDS = 0.005
"""How long an event loop may be held up in one of its turns."""


class InlineWriter:
    def __init__(self, connect: Callable[[], sqlite3.Connection], explain: Explain, synced: bool) -> None:
        self._most_rows = MOST_SYNCED_ROWS if synced else MOST_ROWS
        self._connect = connect
        self._explain = explain
        self._connection: sqlite3.Connection | None = None
        self._lock = threading.Lock()
        self._rows = 0
        self._seconds = 0.0

    def add(self, statement: str, row: Row, refused: Refused, about: Any) -> int | None:
        """Adds one row, in a transaction of its own, and returns its row id (0 if nothing had to change);
        None if it cannot be done at once."""
        if not self._may_begin():
            return None
        started = perf_counter()
        try:
            db = self._connection or self._connected()
            if db is None:
                return None
            # A statement alone is a transaction of its own: that saves two more of them.
            cursor = db.execute(statement, row)
            added = cursor.lastrowid or 0
            if cursor.rowcount != 1:
                added = 0
                failure = refused(db, about)
                if failure is not None:
                    raise failure
        except (sqlite3.Error, OSError) as error:
            if _is_held(error):
                return None
            raise self._explain(error) from error
        finally:
            self._lock.release()
            self._hold_up(perf_counter() - started)
        self._rows += 1
        return added

    def add_all(self, rows: Rows) -> bool:
        """Adds rows in one transaction. False if that cannot be done now, or not for all of them: the thread
        repeats it, waits if it has to, and finds out which one is refused and why."""
        if not self._may_begin():
            return False
        started = perf_counter()
        db: sqlite3.Connection | None = None
        try:
            db = self._connection or self._connected()
            if db is None:
                return False
            db.execute("BEGIN IMMEDIATE")
            rows.do(db, apart=False)
            db.execute("COMMIT")
        except (sqlite3.Error, StoreError, OSError):
            if db is not None and db.in_transaction:
                db.rollback()
            return False
        finally:
            self._lock.release()
            self._hold_up(perf_counter() - started)
        self._rows += 1 + int(len(rows) * SHARED_PAGES)
        return True

    @property
    def connection(self) -> sqlite3.Connection | None:
        return self._connection

    @property
    def held_up(self) -> bool:
        """The event loop has waited long enough in this turn."""
        return self._seconds > MOST_SECONDS

    def _may_begin(self) -> bool:
        return (
            self._seconds <= MOST_SECONDS
            and self._rows < self._most_rows
            and self._lock.acquire(blocking=False)
        )

    def begin_anew(self) -> None:
        """The thread writes now, and may move the log; its callers leave the loop to others."""
        self._rows = 0
        self._seconds = 0.0

    def _hold_up(self, seconds: float) -> None:
        if not self._seconds:
            asyncio.get_running_loop().call_soon(self._next_turn)
        self._seconds += seconds

    def _next_turn(self) -> None:
        self._seconds = 0.0

    def _connected(self) -> sqlite3.Connection | None:
        """None if there is no second connection to be had: the thread has one, and says what is wrong if
        that is of no use either."""
        try:
            connection = self._connect()
        except (sqlite3.Error, StoreError):
            return None
        connection.execute("PRAGMA busy_timeout = 0")
        connection.execute("PRAGMA wal_autocheckpoint = 0")  # to move the log is to wait for the disk
        self._connection = connection
        return connection

    def close(self) -> None:
        with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()


def _is_held(error: Exception) -> bool:
    """Somebody else writes to the file."""
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF == sqlite3.SQLITE_BUSY


MOST_AT_ONCE = 1000
_Jobs = queue.SimpleQueue["Batch | None"]


class Database(Protocol):
    """What the writer needs to know of the database that it writes to."""

    def open(self) -> sqlite3.Connection:
        """The first connection, which the thread uses."""

    def second(self) -> sqlite3.Connection:
        """Another one to the same database, while the first is open."""

    def is_current(self, connection: sqlite3.Connection) -> bool:
        """False if the connection has to be opened again, to see what others have written."""

    def lost(self) -> StoreError | None:
        """Why what is written now would be lost."""

    def explain(self, error: Exception) -> StoreError: ...


class Writer:
    def __init__(
        self,
        database: Database,
        *,
        waits: bool = True,
        timers: Sequence[Timer] = (),
        committed: Callable[[sqlite3.Connection | None, int], None] = lambda _db, _added: None,
    ) -> None:
        self._database = database
        self._timers = timers
        """What makes one active also wakes the thread, by a job or by `start`."""
        self._committed = committed
        """Called after each commit, in the thread that made it: with a connection to look at what is new, or
        with the id of the one row that was added in place."""
        self._waits = waits
        """A commit waits for the disk."""
        self.crowd = 0
        """How many there are who add rows."""
        self._jobs: _Jobs = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._gathered: dict[asyncio.AbstractEventLoop, Batch] = {}
        self._handed = self._finished = 0
        """Batches that were given to the thread, and those that it is done with."""
        self._inline = InlineWriter(database.second, database.explain, waits)
        self.commits = 0

    async def write(self, job: Job[T]) -> T:
        """Done, and safe, when it returns."""
        return await self._do(job, True)

    async def write_aside(self, job: Job[T]) -> T:
        """The same, but behind what others want written and in another transaction: whatever becomes of it,
        theirs is safe."""
        return await self._do(job, True, aside=True)

    async def read(self, job: Job[T]) -> T:
        return await self._do(job, False)

    async def add(
        self,
        statement: str,
        row: Row,
        refused: Refused,
        about: Any = None,
        *,
        patient: bool = False,
        appends: bool = True,
    ) -> None:
        """Adds a row with a statement that changes one row or nothing; in the latter case, `refused` says
        why by `about`, or returns None if nothing had to change. A statement always comes with the same
        `refused`. `patient`: the caller has nothing else to do than to wait for the disk. `appends`: the id
        of the row is a position, for which others may wait."""
        alone = self.crowd == 1 and (patient or not self._waits)
        added = self._inline.add(statement, row, refused, about) if alone and self._is_idle() else None
        if added is not None:
            self.commits += 1
            if appends:
                self._committed(None, added)
            if self._inline.held_up:
                # Others on the loop have their turn, which is quicker than to let the thread write the next
                # row. Not before the row is written: a caller that is cancelled here must not lose it.
                await asyncio.sleep(0)
            return
        batch = self._batch()
        rows = batch[-1] if batch else None
        if not isinstance(rows, Rows) or rows.statement != statement:
            rows = Rows(statement, refused, asyncio.get_running_loop())
            batch.append(rows)
        await rows.add(row, about)

    async def _do(self, job: Job[T], writes: bool, aside: bool = False) -> T:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._batch().append(Work(job, writes, loop, future, aside))
        # If the caller is cancelled, the job is done all the same: the thread may have begun it.
        return await future

    def _batch(self) -> Batch:
        """All that is asked for in one turn of the loop is handed over at once."""
        loop = asyncio.get_running_loop()
        gathered = self._gathered.get(loop)
        if gathered is None:
            gathered = self._gathered[loop] = []
            loop.call_soon(self._hand_over, loop)
        return gathered

    def _hand_over(self, loop: asyncio.AbstractEventLoop) -> None:
        gathered = self._gathered.pop(loop, None)
        if gathered and not self._written_inline(gathered):
            if any(work.writes for work in gathered):
                self._inline.begin_anew()
            with self._lock:
                if self._thread is None:
                    self._start()
                self._handed += 1
                self._jobs.put(gathered)

    def _written_inline(self, gathered: Batch) -> bool:
        """Writes the rows of many runs on the event loop, where that takes less than to wake the thread."""
        rows = gathered[0]
        if self._waits or len(gathered) > 1 or not isinstance(rows, Rows) or not self._is_idle():
            return False
        if not self._inline.add_all(rows):
            return False
        self.commits += 1
        rows.settle({}, None)
        self._committed(self._inline.connection, 0)
        return True

    def start(self, timer: Timer) -> None:
        """Lets the thread notice that a timer has become active; it runs for the first time after `every`."""
        timer.due = time.monotonic() + timer.every
        with self._lock:
            if self._thread is not None:
                self._jobs.put([])  # nothing to do, so the writer stays idle for those who write in place

    def _is_idle(self) -> bool:
        """Nothing is on its way to the thread, which has found the file in order."""
        return not self._gathered and self._handed == self._finished and self._finished > 0

    def _start(self) -> None:
        # Each thread has jobs of its own: one that is ending must not be left with those of the next.
        self._jobs = queue.SimpleQueue()
        self._thread = threading.Thread(
            target=self._work, args=(self._jobs,), name="roundel-journal", daemon=True
        )
        self._thread.start()

    async def close(self) -> None:
        """Everything that was asked for is done, and the file is closed."""
        self._hand_over(asyncio.get_running_loop())
        self._inline.close()
        with self._lock:
            thread, self._thread = self._thread, None
            self._jobs.put(None)
        if thread is not None:
            await asyncio.get_running_loop().run_in_executor(None, thread.join)

    def _work(self, jobs: _Jobs) -> None:
        connection: sqlite3.Connection | None = None
        more = True
        while more:
            try:
                first = jobs.get(timeout=self._until_next_timer())
            except queue.Empty:
                first, taken = [], 0
            else:
                taken = 1 if first else 0
            if first is None:
                break
            batch = first
            while len(batch) < MOST_AT_ONCE and not jobs.empty():
                following = jobs.get()
                if following is None:
                    more = False
                    break
                batch += following
                taken += 1 if following else 0
            batch += self._due_timers()
            if batch:
                done, connection = self._carried_out(batch, connection)
            else:
                done = []
            self._finished += taken
            wake_callers(done)
            if connection is not None and any(item[0].writes for item in done):
                self._committed(connection, 0)
        if connection is not None:
            _close(connection)

    def _until_next_timer(self) -> float | None:
        due = min((timer.due for timer in self._timers if timer.active()), default=None)
        return None if due is None else max(due - time.monotonic(), 0)

    def _due_timers(self) -> list[Timer]:
        now = time.monotonic()
        due = [timer for timer in self._timers if timer.due <= now and timer.active()]
        for timer in due:
            timer.due = now + timer.every
        return due

    def _carried_out(
        self, batch: Batch, connection: sqlite3.Connection | None
    ) -> tuple[list[Done], sqlite3.Connection | None]:
        """What became of each job, and the connection for the next ones.

        Whatever goes wrong is an answer to those who wait: an exception would end the thread, and nobody
        would hear from it again."""
        database = self._database
        try:
            if connection is not None and not database.is_current(connection):
                _close(connection)
                connection = None
            connection = connection or database.open()
            done: list[Done] = []
            failure = database.lost()
            if failure is None:
                done, commits = carry_out(connection, batch, database.explain)
                self.commits += commits
                failure = database.lost()  # once more: what is acknowledged has to be there
        except Exception as error:
            done, failure = [], error if isinstance(error, StoreError) else database.explain(error)
        return ([(work, None, failure) for work in batch] if failure is not None else done), connection


def _close(connection: sqlite3.Connection) -> None:
    # What was committed is in the log, whether or not it could be moved to the file now.
    with contextlib.suppress(sqlite3.Error):
        connection.close()
