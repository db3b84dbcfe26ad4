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

from roundel.journal.database import SYNCED_WAL_PAGES, WAL_PAGES
from roundel.journal.store import StoreError

T = TypeVar("T")
Job = Callable[[sqlite3.Connection], T]
Row = tuple[Any, ...]
ExplainRefusal = Callable[[sqlite3.Connection, Any], "StoreError | None"]
"""Why a row changed nothing, by what the caller gave with it; None if nothing had to change."""
Explain = Callable[[Exception], StoreError]


class RowRefused(StoreError):
    """One row of many changed nothing, and it is not known yet which."""


class _RetryIsolated(Exception):
    """Something failed that the others in the transaction should not suffer from."""


@dataclass(slots=True)
class QueuedJob:
    """One job, and who waits for it."""

    job: Job[Any]
    writes: bool
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    separate: bool = False
    """In a transaction of its own kind, behind the other one."""

    def run(self, db: sqlite3.Connection, isolated: bool) -> Any:
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
    separate: bool = False

    def run(self, db: sqlite3.Connection, isolated: bool) -> Any:
        return self.job(db)

    def settle(self, value: Any, failure: StoreError | None) -> None:
        if failure is None:
            self.done()


class RowBatch:
    """Rows that one statement adds, each of which has to change exactly one row of the file."""

    writes, separate = True, False

    def __init__(
        self, statement: str, explain_refusal: ExplainRefusal, loop: asyncio.AbstractEventLoop
    ) -> None:
        self.statement = statement
        self.explain_refusal = explain_refusal
        self.loop = loop
        self._items: list[tuple[Row, Any, asyncio.Future[None]]] = []
        """Each row, what `refused` needs to know of it, and who waits for it."""

    def add(self, row: Row, context: Any) -> asyncio.Future[None]:
        # Each has its own future: a caller that is cancelled must not cancel those of the others.
        future: asyncio.Future[None] = self.loop.create_future()
        self._items.append((row, context, future))
        return future

    def __len__(self) -> int:
        return len(self._items)

    def run(self, db: sqlite3.Connection, isolated: bool) -> dict[int, StoreError]:
        """What is wrong with which of them."""
        if not isolated:
            rows = [row for row, _, _ in self._items]
            if db.executemany(self.statement, rows).rowcount != len(rows):
                raise RowRefused("a row was refused")
            return {}
        failures: dict[int, StoreError] = {}
        for number, (row, context, _) in enumerate(self._items):
            if db.execute(self.statement, row).rowcount != 1:
                failure = self.explain_refusal(db, context)
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


Batch = list[QueuedJob | RowBatch | Timer]
Done = tuple[QueuedJob | RowBatch | Timer, Any, StoreError | None]


def run_batch(db: sqlite3.Connection, batch: Batch, explain: Explain) -> tuple[list[Done], int]:
    """What became of each, and how many commits were made."""
    separate = [work for work in batch if work.separate]
    if separate and len(separate) < len(batch):
        done, commits = run_batch(db, [work for work in batch if not work.separate], explain)
        behind, more = run_batch(db, separate, explain)
        return done + behind, commits + more
    if not any(work.writes for work in batch):
        return [_run_job(db, work, explain) for work in batch], 0
    try:
        return _commit_batch(db, batch, explain), 1
    except (sqlite3.Error, StoreError) as error:
        failure = error if isinstance(error, StoreError) else explain(error)
        return [(work, None, failure) for work in batch], 0


def _commit_batch(db: sqlite3.Connection, batch: Batch, explain: Explain) -> list[Done]:
    """What became of each, in one transaction; sqlite3.Error or StoreError if nothing was written."""
    try:
        try:
            return _run_transaction(db, batch, explain)
        except _RetryIsolated:
            # Seldom: once more from the beginning, so that the others do without the one that failed.
            db.execute("ROLLBACK")
            return _run_transaction(db, batch, explain, isolated=True)
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            db.rollback()
        raise


def _run_transaction(
    db: sqlite3.Connection, batch: Batch, explain: Explain, *, isolated: bool = False
) -> list[Done]:
    db.execute("BEGIN IMMEDIATE")
    done = []
    for work in batch:
        done.append(_run_job(db, work, explain, isolated=isolated))
        failure = done[-1][2]
        if failure is None or (isolated and db.in_transaction):
            continue
        if db.in_transaction and (len(batch) > 1 or isinstance(failure, RowRefused)):
            raise _RetryIsolated
        raise failure
    db.execute("COMMIT")
    return done


def _run_job(
    db: sqlite3.Connection, work: QueuedJob | RowBatch | Timer, explain: Explain, *, isolated: bool = False
) -> Done:
    if isolated:
        db.execute("SAVEPOINT job")
    try:
        value, failure = work.run(db, isolated), None
    except StoreError as error:
        value, failure = None, error
    except Exception as error:  # whatever it is, the others must not wait for ever
        value, failure = None, explain(error)
    # A disk that is full, say, has ended the whole transaction already.
    if isolated and db.in_transaction:
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


MAX_INLINE_ROWS, MAX_SYNCED_INLINE_ROWS = WAL_PAGES // 2, SYNCED_WAL_PAGES // 2
"""How many rows are written here, each in a transaction of its own and with two pages of the log, before the
thread writes again."""
SHARED_PAGES = 0.5
"""What a row that shares its transaction counts for. The rows fill pages together, but the entries of the
index of places, which are sorted by runs, lie in about one page for two runs."""
MAX_BLOCK_SECONDS = 0.005
"""How long an event loop may be held up in one of its turns."""


class InlineWriter:
    def __init__(self, connect: Callable[[], sqlite3.Connection], explain: Explain, synced: bool) -> None:
        self._max_rows = MAX_SYNCED_INLINE_ROWS if synced else MAX_INLINE_ROWS
        self._connect = connect
        self._explain = explain
        self._connection: sqlite3.Connection | None = None
        self._lock = threading.Lock()
        self._rows = 0
        self._seconds = 0.0

    def add(self, statement: str, row: Row, explain_refusal: ExplainRefusal, context: Any) -> int | None:
        """Adds one row, in a transaction of its own, and returns its row id (0 if nothing had to change);
        None if it cannot be done at once."""
        if not self._may_begin():
            return None
        started = perf_counter()
        try:
            db = self._connection or self._open_connection()
            if db is None:
                return None
            # A statement alone is a transaction of its own: that saves two more of them.
            cursor = db.execute(statement, row)
            added = cursor.lastrowid or 0
            if cursor.rowcount != 1:
                added = 0
                failure = explain_refusal(db, context)
                if failure is not None:
                    raise failure
        except (sqlite3.Error, OSError) as error:
            if _is_busy(error):
                return None
            raise self._explain(error) from error
        finally:
            self._lock.release()
            self._charge(perf_counter() - started)
        self._rows += 1
        return added

    def add_batch(self, rows: RowBatch) -> bool:
        """Adds rows in one transaction. False if that cannot be done now, or not for all of them: the thread
        repeats it, waits if it has to, and finds out which one is refused and why."""
        if not self._may_begin():
            return False
        started = perf_counter()
        db: sqlite3.Connection | None = None
        try:
            db = self._connection or self._open_connection()
            if db is None:
                return False
            db.execute("BEGIN IMMEDIATE")
            rows.run(db, isolated=False)
            db.execute("COMMIT")
        except (sqlite3.Error, StoreError, OSError):
            if db is not None and db.in_transaction:
                db.rollback()
            return False
        finally:
            self._lock.release()
            self._charge(perf_counter() - started)
        self._rows += 1 + int(len(rows) * SHARED_PAGES)
        return True

    @property
    def connection(self) -> sqlite3.Connection | None:
        return self._connection

    @property
    def is_over_budget(self) -> bool:
        """The event loop has waited long enough in this turn."""
        return self._seconds > MAX_BLOCK_SECONDS

    def _may_begin(self) -> bool:
        return (
            self._seconds <= MAX_BLOCK_SECONDS
            and self._rows < self._max_rows
            and self._lock.acquire(blocking=False)
        )

    def reset_budget(self) -> None:
        """The thread writes now, and may move the log; its callers leave the loop to others."""
        self._rows = 0
        self._seconds = 0.0

    def _charge(self, seconds: float) -> None:
        if not self._seconds:
            asyncio.get_running_loop().call_soon(self._next_turn)
        self._seconds += seconds

    def _next_turn(self) -> None:
        self._seconds = 0.0

    def _open_connection(self) -> sqlite3.Connection | None:
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


def _is_busy(error: Exception) -> bool:
    """Somebody else writes to the file."""
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF == sqlite3.SQLITE_BUSY


MAX_BATCH = 1000
_Jobs = queue.SimpleQueue["Batch | None"]


class WritableDatabase(Protocol):
    """What the writer needs to know of the database that it writes to."""

    def open(self) -> sqlite3.Connection:
        """The first connection, which the thread uses."""

    def open_second(self) -> sqlite3.Connection:
        """Another one to the same database, while the first is open."""

    def is_current(self, connection: sqlite3.Connection) -> bool:
        """False if the connection has to be opened again, to see what others have written."""

    def loss(self) -> StoreError | None:
        """Why what is written now would be lost."""

    def explain(self, error: Exception) -> StoreError: ...


class Writer:
    def __init__(
        self,
        database: WritableDatabase,
        *,
        waits_for_disk: bool = True,
        timers: Sequence[Timer] = (),
        on_commit: Callable[[sqlite3.Connection | None, int], None] = lambda _db, _added: None,
    ) -> None:
        self._database = database
        self._timers = timers
        """What makes one active also wakes the thread, by a job or by `start`."""
        self._on_commit = on_commit
        """Called after each commit, in the thread that made it: with a connection to look at what is new, or
        with the id of the one row that was added in place."""
        self._waits_for_disk = waits_for_disk
        """A commit waits for the disk."""
        self.appenders = 0
        """How many there are who add rows."""
        self._jobs: _Jobs = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._gathering: dict[asyncio.AbstractEventLoop, Batch] = {}
        self._batches_queued = self._batches_done = 0
        """Batches that were given to the thread, and those that it is done with."""
        self._inline = InlineWriter(database.open_second, database.explain, waits_for_disk)
        self.commits = 0

    async def write(self, job: Job[T]) -> T:
        """Done, and safe, when it returns."""
        return await self._do(job, True)

    async def write_separately(self, job: Job[T]) -> T:
        """The same, but behind what others want written and in another transaction: whatever becomes of it,
        theirs is safe."""
        return await self._do(job, True, separate=True)

    async def read(self, job: Job[T]) -> T:
        return await self._do(job, False)

    async def add(
        self,
        statement: str,
        row: Row,
        explain_refusal: ExplainRefusal,
        context: Any = None,
        *,
        can_wait: bool = False,
        appends: bool = True,
    ) -> None:
        """Adds a row with a statement that changes one row or nothing; in the latter case, `refused` says
        why by `about`, or returns None if nothing had to change. A statement always comes with the same
        `refused`. `patient`: the caller has nothing else to do than to wait for the disk. `appends`: the id
        of the row is a position, for which others may wait."""
        alone = self.appenders == 1 and (can_wait or not self._waits_for_disk)
        added = (
            self._inline.add(statement, row, explain_refusal, context) if alone and self._is_idle() else None
        )
        if added is not None:
            self.commits += 1
            if appends:
                self._on_commit(None, added)
            if self._inline.is_over_budget:
                # Others on the loop have their turn, which is quicker than to let the thread write the next
                # row. Not before the row is written: a caller that is cancelled here must not lose it.
                await asyncio.sleep(0)
            return
        batch = self._batch()
        rows = batch[-1] if batch else None
        if not isinstance(rows, RowBatch) or rows.statement != statement:
            rows = RowBatch(statement, explain_refusal, asyncio.get_running_loop())
            batch.append(rows)
        await rows.add(row, context)

    async def _do(self, job: Job[T], writes: bool, separate: bool = False) -> T:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._batch().append(QueuedJob(job, writes, loop, future, separate))
        # If the caller is cancelled, the job is done all the same: the thread may have begun it.
        return await future

    def _batch(self) -> Batch:
        """All that is asked for in one turn of the loop is handed over at once."""
        loop = asyncio.get_running_loop()
        gathered = self._gathering.get(loop)
        if gathered is None:
            gathered = self._gathering[loop] = []
            loop.call_soon(self._hand_over, loop)
        return gathered

    def _hand_over(self, loop: asyncio.AbstractEventLoop) -> None:
        gathered = self._gathering.pop(loop, None)
        if gathered and not self._write_inline(gathered):
            if any(work.writes for work in gathered):
                self._inline.reset_budget()
            with self._lock:
                if self._thread is None:
                    self._start()
                self._batches_queued += 1
                self._jobs.put(gathered)

    def _write_inline(self, gathered: Batch) -> bool:
        """Writes the rows of many runs on the event loop, where that takes less than to wake the thread."""
        rows = gathered[0]
        if self._waits_for_disk or len(gathered) > 1 or not isinstance(rows, RowBatch) or not self._is_idle():
            return False
        if not self._inline.add_batch(rows):
            return False
        self.commits += 1
        rows.settle({}, None)
        self._on_commit(self._inline.connection, 0)
        return True

    def start(self, timer: Timer) -> None:
        """Lets the thread notice that a timer has become active; it runs for the first time after `every`."""
        timer.due = time.monotonic() + timer.every
        with self._lock:
            if self._thread is not None:
                self._jobs.put([])  # nothing to do, so the writer stays idle for those who write in place

    def _is_idle(self) -> bool:
        """Nothing is on its way to the thread, which has found the file in order."""
        return not self._gathering and self._batches_queued == self._batches_done and self._batches_done > 0

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
                first, batches = [], 0
            else:
                batches = 1 if first else 0
            if first is None:
                break
            batch = first
            while len(batch) < MAX_BATCH and not jobs.empty():
                following = jobs.get()
                if following is None:
                    more = False
                    break
                batch += following
                batches += 1 if following else 0
            batch += self._due_timers()
            if batch:
                done, connection = self._process_batch(batch, connection)
            else:
                done = []
            self._batches_done += batches
            wake_callers(done)
            if connection is not None and any(item[0].writes for item in done):
                self._on_commit(connection, 0)
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

    def _process_batch(
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
            failure = database.loss()
            if failure is None:
                done, commits = run_batch(connection, batch, database.explain)
                self.commits += commits
                failure = database.loss()  # once more: what is acknowledged has to be there
        except Exception as error:
            done, failure = [], error if isinstance(error, StoreError) else database.explain(error)
        return ([(work, None, failure) for work in batch] if failure is not None else done), connection


def _close(connection: sqlite3.Connection) -> None:
    # What was committed is in the log, whether or not it could be moved to the file now.
    with contextlib.suppress(sqlite3.Error):
        connection.close()
