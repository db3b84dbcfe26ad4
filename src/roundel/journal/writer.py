"""One thread that writes: whatever is asked for while it writes goes into its next transaction.

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
from typing import Any, Protocol, TypeVar

from roundel.journal.batch import Batch, Done, Job, Refused, Row, Rows, Timer, Work, carry_out, wake_callers
from roundel.journal.inline_writer import InlineWriter
from roundel.journal.store import StoreError

T = TypeVar("T")
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
