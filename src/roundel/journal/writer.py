"""Writes to the SQLite file of a store: one thread, a shortcut on the event loop, and what shares a
transaction.

*One thread writes.* SQLite has one writer at a time, so more threads would only wait for each other.
Whatever is queued while the thread writes goes into its next transaction: a run alone has its own
commit, and two hundred runs at once share one. Everything that is queued in one iteration of an event
loop is handed over together (`Writer._batch`).

*Batches.* A job that fails must not make the others in its transaction fail. The batch is then rolled
back and repeated with a savepoint around each job; savepoints in each batch would cost more than the
rare repetition. If the file itself is at fault (a full disk ends the whole transaction), all jobs of the
batch fail. Rows of one statement are one call of `executemany` (RowBatch): two hundred runs cost little
more than two hundred rows.

*Inline.* Where a commit does not wait for the disk (`sync` is not full), it takes less time than to hand
rows to a thread and to wake up again. With many runs the thread costs even more: SQLite releases the
interpreter lock with each row, and has to get it back from a busy event loop each time. So InlineWriter
writes such rows on the event loop, with a second connection. Where a commit waits for the disk, it is
written inline only for a run that is alone and has nothing else to do. The event loop must not be
blocked for long, and must never wait for another process. So

- nothing inline waits for a lock: what cannot be written at once is left to the thread;
- an event loop is blocked by MAX_BLOCK_SECONDS in each of its iterations, then the thread writes;
- a checkpoint, which moves the write-ahead log into the file, waits for the disk, so only the thread
  makes one; it gets a batch to write after MAX_INLINE_ROWS at the latest.

*Order.* Rows are written inline only while the thread has nothing to write (`Writer._is_idle`), so they
are written in the order in which callers requested them.

*Timers.* The thread also runs jobs that it repeats by itself, such as the heartbeat of a store's leases.
They do not depend on an event loop, so a loop that user code blocks for a minute does not lose its
leases. A process that is suspended as a whole (SIGSTOP) does, which is the purpose of a lease.

*Threads.* Futures belong to event loops and are resolved only there (`wake_callers`). What both sides
touch is the queue, `_thread` and `_batches_queued` under `_lock`, and `_batches_done`, which only the
thread writes.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat
from time import perf_counter
from typing import Any, Protocol, TypeVar

from roundel.journal.database import SYNCED_WAL_PAGES, WAL_PAGES
from roundel.journal.store import StoreError

T = TypeVar("T")
Job = Callable[[sqlite3.Connection], T]
Row = tuple[Any, ...]
ExplainRefusal = Callable[[sqlite3.Connection, Any], "StoreError | None"]
"""Explains why a row changed nothing, given the caller's context; None if nothing had to change, as when
an append is repeated."""
Explain = Callable[[Exception], StoreError]
"""Makes an error of SQLite or of the system one that tells the user what to do (faults.py)."""


RowResult = int | StoreError
"""The id of a new row, 0 if nothing had to change, or why it was refused."""


class RowRefused(StoreError):
    """One row of many changed nothing, and it is not known yet which."""


class _RetryIsolated(Exception):
    """A job failed whose failure the others in the transaction must not share."""


@dataclass(slots=True)
class QueuedJob:
    """One job, and the future of its caller. Created by Writer."""

    job: Job[Any]
    writes: bool
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    separate: bool = False
    """Written in a second transaction, after that of all other jobs."""

    def run(self, db: sqlite3.Connection, isolated: bool) -> Any:
        return self.job(db)

    def settle(self, value: Any, failure: StoreError | None) -> None:
        _settle(self.future, value, failure)


@dataclass(slots=True)
class Timer:
    """A job that the writing thread repeats by itself, as long as it is active. Nobody awaits it, and a
    failure has no consequence but the next attempt: a lease survives a few missed heartbeats."""

    every: float
    job: Job[Any]
    writes: bool
    active: Callable[[], bool]
    done: Callable[[], None] = lambda: None
    """Called in the writing thread after the job was committed, never after a failure."""
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
    """Rows that one statement adds, each of which has to change exactly one row of the file. The count
    is how a refusal (an old fence, a gap) is noticed without a second query per row. Created by
    Writer."""

    writes, separate = True, False

    def __init__(
        self, statement: str, explain_refusal: ExplainRefusal, loop: asyncio.AbstractEventLoop
    ) -> None:
        self.statement = statement
        self.explain_refusal = explain_refusal
        self.loop = loop
        self._items: list[tuple[Row, Any, asyncio.Future[int]]] = []
        """Each row, the context for `explain_refusal`, and the future of the caller."""

    def add(self, row: Row, context: Any) -> asyncio.Future[int]:
        # Each caller has its own future: one that is cancelled must not cancel the others.
        future: asyncio.Future[int] = self.loop.create_future()
        self._items.append((row, context, future))
        return future

    def __len__(self) -> int:
        return len(self._items)

    def run(self, db: sqlite3.Connection, isolated: bool) -> Sequence[RowResult]:
        """Returns the result of each row. Optimistic at first: all rows in one call, and only if the
        count is wrong, which is rare, one by one to find out which row was refused and why."""
        if not isolated:
            rows = [row for row, _, _ in self._items]
            if db.executemany(self.statement, rows).rowcount != len(rows):
                raise RowRefused("a row was refused")
            # Nobody else adds rows within this transaction, so the ids of new rows follow each other.
            (last,) = db.execute("SELECT last_insert_rowid()").fetchone()
            return range(last - len(rows) + 1, last + 1)
        return [self._add_row(db, row, context) for row, context, _ in self._items]

    def _add_row(self, db: sqlite3.Connection, row: Row, context: Any) -> RowResult:
        cursor = db.execute(self.statement, row)
        if cursor.rowcount == 1:
            return cursor.lastrowid or 0
        return self.explain_refusal(db, context) or 0

    def settle(self, value: Sequence[RowResult] | None, failure: StoreError | None) -> None:
        results: Iterable[RowResult] = value or () if failure is None else repeat(failure)
        for (_, _, future), result in zip(self._items, results, strict=False):
            if future.done():  # the caller was cancelled; its row was added all the same
                continue
            if isinstance(result, StoreError):
                future.set_exception(result)
            else:
                future.set_result(result)


Batch = list[QueuedJob | RowBatch | Timer]
Done = tuple[QueuedJob | RowBatch | Timer, Any, StoreError | None]


def run_batch(db: sqlite3.Connection, batch: Batch, explain: Explain) -> tuple[list[Done], int]:
    """Executes a batch. Returns the result or failure of each job, and how many commits were made; never
    raises for a failure of a job or of the file."""
    separate = [work for work in batch if work.separate]
    if separate and len(separate) < len(batch):
        done, commits = run_batch(db, [work for work in batch if not work.separate], explain)
        behind, more = run_batch(db, separate, explain)
        return done + behind, commits + more
    # Reads alone need no transaction. A read that shares a batch with writes is executed inside of
    # theirs, and sees those before it.
    if not any(work.writes for work in batch):
        return [_run_job(db, work, explain) for work in batch], 0
    try:
        return _commit_batch(db, batch, explain), 1
    except (sqlite3.Error, StoreError) as error:
        failure = error if isinstance(error, StoreError) else explain(error)
        return [(work, None, failure) for work in batch], 0


def _commit_batch(db: sqlite3.Connection, batch: Batch, explain: Explain) -> list[Done]:
    """Executes a batch in one transaction; sqlite3.Error or StoreError if nothing was written."""
    try:
        try:
            return _run_transaction(db, batch, explain)
        except _RetryIsolated:
            # Rare: once more from the beginning, with the failing jobs rolled back to their savepoints.
            # All jobs run a second time, so what one does outside of the database has to be repeatable.
            db.execute("ROLLBACK")
            return _run_transaction(db, batch, explain, isolated=True)
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            db.rollback()
        raise


def _run_transaction(
    db: sqlite3.Connection, batch: Batch, explain: Explain, *, isolated: bool = False
) -> list[Done]:
    # IMMEDIATE takes the write lock at once. A transaction that begins by reading and wants to write
    # later fails with SQLITE_BUSY, without waiting, if another process has written in between.
    db.execute("BEGIN IMMEDIATE")
    done = []
    for work in batch:
        done.append(_run_job(db, work, explain, isolated=isolated))
        failure = done[-1][2]
        if failure is None or (isolated and db.in_transaction):
            continue
        # A job that is alone has nobody to protect, so its failure is final; only rows still have to be
        # told apart. Outside of a transaction SQLite has rolled back everything, and a retry would fail
        # again.
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
    except Exception as error:  # anything, also a defect of the job: an exception would end the thread
        value, failure = None, explain(error)
    # SQLite itself may have ended the whole transaction already, on a full disk for example; then there
    # is no savepoint to return to.
    if isolated and db.in_transaction:
        if failure is not None:
            db.execute("ROLLBACK TO job")
        db.execute("RELEASE job")
    return work, value, failure


def wake_callers(done: list[Done]) -> None:
    """Resolves the futures of the callers, each in its own event loop. Each loop is woken once per
    batch, since each `call_soon_threadsafe` writes to the loop's socket."""
    loops: dict[asyncio.AbstractEventLoop, list[Done]] = {}
    for item in done:
        if item[0].loop is None:
            item[0].settle(*item[1:])
        else:
            loops.setdefault(item[0].loop, []).append(item)
    for loop, items in loops.items():
        with contextlib.suppress(RuntimeError):  # the loop is closed, so nobody awaits them any more
            loop.call_soon_threadsafe(_settle_all, items)


def _settle_all(done: list[Done]) -> None:
    for work, value, failure in done:
        work.settle(value, failure)


def _settle(future: asyncio.Future[T], value: T, failure: StoreError | None) -> None:
    if future.done():  # the caller was cancelled; its job was done all the same
        return
    if failure is None:
        future.set_result(value)
    else:
        future.set_exception(failure)


MAX_INLINE_ROWS, MAX_SYNCED_INLINE_ROWS = WAL_PAGES // 2, SYNCED_WAL_PAGES // 2
"""How many rows are written inline, each in a transaction of its own and with two pages of the log,
before the thread writes again and makes a checkpoint. Without a bound the log would grow as long as the
thread is idle."""
SHARED_PAGES = 0.5
"""What a row that shares its transaction counts for. The rows fill pages together, but the entries of the
index of places, which are sorted by runs, are in about one page for two runs."""
MAX_BLOCK_SECONDS = 0.005
"""How long an event loop may be blocked in one of its iterations."""


class InlineWriter:
    """Writes rows on the event loop, or declines. Created by Writer.

    Everything here is optional: to decline is always correct, since the thread can write everything. The
    lock is for event loops in several threads that share a store; it is never waited for."""

    def __init__(self, connect: Callable[[], sqlite3.Connection], explain: Explain, synced: bool) -> None:
        self._max_rows = MAX_SYNCED_INLINE_ROWS if synced else MAX_INLINE_ROWS
        self._connect = connect
        self._explain = explain
        self._connection: sqlite3.Connection | None = None
        self._lock = threading.Lock()
        self._rows = 0
        self._seconds = 0.0

    def add(self, statement: str, row: Row, explain_refusal: ExplainRefusal, context: Any) -> int | None:
        """Adds one row, in a transaction of its own, and returns its row id (0 if nothing had to
        change). Returns None if that is not possible immediately. Raises if the row was refused, or the
        file fails."""
        if not self._may_begin():
            return None
        started = perf_counter()
        try:
            db = self._connection or self._open_connection()
            if db is None:
                return None
            # A single statement is a transaction by itself, which saves BEGIN and COMMIT.
            cursor = db.execute(statement, row)
            added = cursor.lastrowid or 0
            if cursor.rowcount != 1:
                added = 0
                failure = explain_refusal(db, context)
                if failure is not None:
                    raise failure
        except (sqlite3.Error, OSError) as error:
            if _is_busy(error):  # the thread, or another process, writes: the thread can wait for it
                return None
            raise self._explain(error) from error
        finally:
            self._lock.release()
            self._charge(perf_counter() - started)
        self._rows += 1
        return added

    def add_batch(self, rows: RowBatch) -> Sequence[RowResult] | None:
        """Adds rows in one transaction. None as for `run`."""
        return self.run(lambda db: rows.run(db, isolated=False), 1 + int(len(rows) * SHARED_PAGES))

    def run(self, job: Job[T], pages: int = 1) -> T | None:
        """Does a job that writes a few rows, in one transaction. None if that is not possible now, or fails;
        then nothing was written, and the thread repeats it, waits if necessary, and reports what failed.
        `pages` is what the job counts for."""
        if not self._may_begin():
            return None
        started = perf_counter()
        db: sqlite3.Connection | None = None
        try:
            db = self._connection or self._open_connection()
            if db is None:
                return None
            db.execute("BEGIN IMMEDIATE")
            result = job(db)
            db.execute("COMMIT")
        except (sqlite3.Error, StoreError, OSError):
            if db is not None and db.in_transaction:
                db.rollback()
            return None
        finally:
            self._lock.release()
            self._charge(perf_counter() - started)
        self._rows += pages
        return result

    @property
    def is_over_budget(self) -> bool:
        """The event loop was blocked long enough in this iteration."""
        return self._seconds > MAX_BLOCK_SECONDS

    def _may_begin(self) -> bool:
        return (
            self._seconds <= MAX_BLOCK_SECONDS
            and self._rows < self._max_rows
            and self._lock.acquire(blocking=False)
        )

    def reset_budget(self) -> None:
        """For when the thread writes: it may make a checkpoint, so the rows in the log count from zero,
        and its callers suspend, so other tasks get the event loop."""
        self._rows = 0
        self._seconds = 0.0

    def _charge(self, seconds: float) -> None:
        if not self._seconds:  # the first in this iteration: `call_soon` runs in the next one
            asyncio.get_running_loop().call_soon(self._next_turn)
        self._seconds += seconds

    def _next_turn(self) -> None:
        self._seconds = 0.0

    def _open_connection(self) -> sqlite3.Connection | None:
        """None if no second connection can be opened: the thread has one, and its error is the better
        one if that does not work either."""
        try:
            connection = self._connect()
        except (sqlite3.Error, StoreError):
            return None
        connection.execute("PRAGMA busy_timeout = 0")  # the event loop must not wait for other processes
        connection.execute("PRAGMA wal_autocheckpoint = 0")  # nor for the disk
        self._connection = connection
        return connection

    def close(self) -> None:
        with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()


def _is_busy(error: Exception) -> bool:
    """Whether another connection has the write lock."""
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF == sqlite3.SQLITE_BUSY


MAX_BATCH = 1000
"""No further queued batch joins a transaction that has this many jobs."""
_Jobs = queue.SimpleQueue["Batch | None"]


class WritableDatabase(Protocol):
    """What the writer needs of the database that it writes to; Database (database.py) implements it."""

    def open(self) -> sqlite3.Connection:
        """The first connection, which the thread uses."""

    def open_second(self) -> sqlite3.Connection:
        """Another one to the same database, while the first is open."""

    def is_current(self, connection: sqlite3.Connection) -> bool:
        """False if the connection has to be opened again to see what other processes have written."""

    def loss(self) -> StoreError | None:
        """The reason why everything that is written now would be lost; None if there is none."""

    def explain(self, error: Exception) -> StoreError: ...


class Writer:
    """Executes jobs on the connection of one thread, and adds rows inline where that is quicker.

    Created by SqliteStore. The thread starts with the first job and ends with `close`; a job after that
    starts another thread. Several event loops, in several threads, may use one writer."""

    def __init__(
        self,
        database: WritableDatabase,
        *,
        waits_for_disk: bool = True,
        timers: Sequence[Timer] = (),
    ) -> None:
        self._database = database
        self._timers = timers
        """The thread computes its next wake-up when it goes to sleep. So code that makes a timer active
        has to wake the thread, by a job or by `start`."""
        self._waits_for_disk = waits_for_disk
        """A commit waits for the disk."""
        self.appenders = 0
        """How many runs add rows. With more than one, rows wait for the end of the iteration to share a
        commit."""
        self._jobs: _Jobs = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._gathering: dict[asyncio.AbstractEventLoop, Batch] = {}
        """What was requested in the current iteration of each event loop."""
        self._batches_queued = self._batches_done = 0
        """Batches that were handed to the thread, and those that it has completed."""
        self._inline = InlineWriter(database.open_second, database.explain, waits_for_disk)
        self.commits = 0

    async def write(self, job: Job[T]) -> T:
        """Executes a job in a transaction; it is committed when this returns."""
        return await self._do(job, True)

    async def write_separately(self, job: Job[T]) -> T:
        """Like `write`, but in another transaction, after that of the other jobs: whatever happens to
        this job, theirs is committed. For memories, which must not endanger the facts of runs."""
        return await self._do(job, True, separate=True)

    async def read(self, job: Job[T]) -> T:
        """Executes a job that only reads. It sees everything that this process has written before."""
        return await self._do(job, False)

    async def add(
        self,
        statement: str,
        row: Row,
        explain_refusal: ExplainRefusal,
        context: Any = None,
        *,
        can_wait: bool = False,
    ) -> int:
        """Adds a row with a statement that changes one row or nothing. In the latter case
        `explain_refusal` gets `context` and returns the error to raise, or None if nothing had to
        change. A statement always comes with the same `explain_refusal`, since rows of one statement
        share a RowBatch. `can_wait`: the caller has nothing else in flight, so blocking the event loop
        for the disk delays nobody in its run. Returns the id of a row that was inserted, and 0 if nothing
        had to change."""
        if self._is_alone(can_wait):
            added = self._inline.add(statement, row, explain_refusal, context)
            if added is not None:
                await self._written_inline()
                return added
        batch = self._batch()
        rows = batch[-1] if batch else None
        if not isinstance(rows, RowBatch) or rows.statement != statement:
            rows = RowBatch(statement, explain_refusal, asyncio.get_running_loop())
            batch.append(rows)
        return await rows.add(row, context)

    async def write_rows(self, job: Job[T], *, can_wait: bool = False) -> T:
        """Like `write`, for a job that adds a few rows: inline if that is possible, as in `add`."""
        if self._is_alone(can_wait):
            done = self._inline.run(job)
            if done is not None:
                await self._written_inline()
                return done
        return await self.write(job)

    def _is_alone(self, can_wait: bool) -> bool:
        return self.appenders == 1 and (can_wait or not self._waits_for_disk) and self._is_idle()

    async def _written_inline(self) -> None:
        self.commits += 1
        if self._inline.is_over_budget:
            # Other tasks on the loop run now, which is quicker than to let the thread write the next row. Not
            # before the row is written: a caller that is cancelled here must not lose it.
            await asyncio.sleep(0)

    async def _do(self, job: Job[T], writes: bool, separate: bool = False) -> T:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._batch().append(QueuedJob(job, writes, loop, future, separate))
        # If the caller is cancelled, the job is executed all the same: the thread may have begun it, and
        # a job that is sometimes executed could not be undone by the caller.
        return await future

    def _batch(self) -> Batch:
        """The batch of this iteration of the event loop; handed over at the end of it, as a whole."""
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
            # Under the lock, so that `close` cannot end the thread between the look at it and the put.
            with self._lock:
                try:
                    if self._thread is None:
                        self._start()
                except RuntimeError as error:  # the system gives this process no more threads
                    failure = self._database.explain(error)
                    _settle_all([(work, None, failure) for work in gathered])
                    return
                self._batches_queued += 1
                self._jobs.put(gathered)

    def _write_inline(self, gathered: Batch) -> bool:
        """Writes the rows of many runs on the event loop, where that takes less than to wake the thread.
        Only if nothing else was gathered, so that the order of jobs and rows stays."""
        rows = gathered[0]
        if self._waits_for_disk or len(gathered) > 1 or not isinstance(rows, RowBatch) or not self._is_idle():
            return False
        added = self._inline.add_batch(rows)
        if added is None:
            return False
        self.commits += 1
        rows.settle(added, None)
        return True

    def start(self, timer: Timer) -> None:
        """Makes the thread notice that a timer has become active; it runs for the first time after
        `every`."""
        timer.due = time.monotonic() + timer.every
        with self._lock:
            if self._thread is not None:
                self._jobs.put([])  # wakes the thread, but counts as no batch, so rows stay inline

    @property
    def waiting(self) -> int:
        """How many batches the thread has not completed."""
        return self._batches_queued - self._batches_done

    def _is_idle(self) -> bool:
        """Whether the thread has nothing to write, and has written before, so that the file is known to
        be in order. Without the second condition the first row could go to a file that is no store."""
        return not self._gathering and self._batches_queued == self._batches_done and self._batches_done > 0

    def _start(self) -> None:
        # Each thread has its own queue: a thread that is ending must not take the jobs of the next one.
        jobs: _Jobs = queue.SimpleQueue()
        thread = threading.Thread(target=self._work, args=(jobs,), name="roundel-journal", daemon=True)
        thread.start()
        # Only a thread that has started gets jobs: one that cannot start is tried again with the next job.
        self._jobs, self._thread = jobs, thread

    async def close(self) -> None:
        """Completes everything that was requested, and closes the file. `join` runs in an executor,
        since the thread may wait seconds for another process."""
        self._hand_over(asyncio.get_running_loop())
        self._inline.close()
        with self._lock:
            thread, self._thread = self._thread, None
            self._jobs.put(None)
        if thread is not None:
            await asyncio.get_running_loop().run_in_executor(None, thread.join)

    def _work(self, jobs: _Jobs) -> None:
        """The body of the thread: batches until `close` puts None into the queue."""
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
            # Everything that has arrived meanwhile joins this transaction.
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
            # Before the callers wake up: the next row of a run alone can then be written inline.
            self._batches_done += batches
            wake_callers(done)
        if connection is not None:
            _close(connection)

    def _until_next_timer(self) -> float | None:
        """How long the thread may sleep; None is until the next job."""
        due = min((timer.due for timer in self._timers if timer.active()), default=None)
        return None if due is None else max(due - time.monotonic(), 0)

    def _due_timers(self) -> list[Timer]:
        now = time.monotonic()
        due = [timer for timer in self._timers if timer.due <= now and timer.active()]
        for timer in due:
            timer.due = now + timer.every  # from now: no burst after a suspension
        return due

    def _process_batch(
        self, batch: Batch, connection: sqlite3.Connection | None
    ) -> tuple[list[Done], sqlite3.Connection | None]:
        """Executes a batch; returns its results, and the connection for the next one.

        Every failure becomes the result of the jobs: an exception would end the thread, and its callers
        would wait for ever."""
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
                # Once more after the commit: the file may have been deleted meanwhile, and what is
                # acknowledged has to be there.
                failure = database.loss()
        except Exception as error:
            done, failure = [], error if isinstance(error, StoreError) else database.explain(error)
        return ([(work, None, failure) for work in batch] if failure is not None else done), connection


def _close(connection: sqlite3.Connection) -> None:
    # Closing makes a checkpoint, which may fail. What was committed is in the log in any case.
    with contextlib.suppress(sqlite3.Error):
        connection.close()
