"""One thread that writes: whatever is asked for while it writes goes into its next transaction.

So a run alone has its own commit, and two hundred at once share one. A job that fails takes only itself back,
unless the file itself is at fault: then the transaction is gone, and with it all that was in it.

Where a commit does not wait for the disk, it takes less time than to wake a thread. So a job may be done at
once, where it is asked for, if the thread has nothing to do; never if somebody else holds the file.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import sqlite3
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from roundel.journal.store import StoreError

T = TypeVar("T")
Job = Callable[[sqlite3.Connection], Any]
MOST_AT_ONCE = 1000
MOST_HERE = 300
"""So many commits are made at once, then the thread makes one: now and then it moves the log to the file."""
_READS, _WRITES, _ASIDE = range(3)
_Waiting = tuple[Job, int, asyncio.AbstractEventLoop, "asyncio.Future[Any]"]
_Jobs = queue.SimpleQueue["list[_Waiting] | None"]


class Writer:
    def __init__(self, connect: Callable[[], sqlite3.Connection], explain: Callable[[Exception], StoreError]):
        self._connect = connect
        self._explain = explain
        self._jobs: _Jobs = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._gathered: dict[asyncio.AbstractEventLoop, list[_Waiting]] = {}
        self._handed = self._finished = 0
        """Batches that were given to the thread, and those that it is done with."""
        self._here: sqlite3.Connection | None = None
        self._here_lock = threading.Lock()
        self._made_here = 0
        self.commits = 0

    async def write(self, job: Callable[[sqlite3.Connection], T]) -> T:
        """Done, and safe, when it returns."""
        return await self._do(job, _WRITES)

    async def write_aside(self, job: Callable[[sqlite3.Connection], T]) -> T:
        """The same, but behind what others want written and in another transaction: whatever becomes of it,
        theirs is safe."""
        return await self._do(job, _ASIDE)

    async def read(self, job: Callable[[sqlite3.Connection], T]) -> T:
        return await self._do(job, _READS)

    def write_at_once(self, job: Job) -> bool:
        """Does a job before it returns, if nothing stands in the way of that."""
        if self._gathered or self._handed != self._finished or not self._finished:
            return False
        if self._made_here >= MOST_HERE:
            self._made_here = 0
            return False
        if not self._here_lock.acquire(blocking=False):
            return False
        try:
            return self._done_here(job)
        except StoreError:
            raise
        except Exception as error:
            raise self._explain(error) from error
        finally:
            self._here_lock.release()

    def _done_here(self, job: Job) -> bool:
        try:
            connection = self._here = self._here or self._connect_here()
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return False  # somebody holds the file: the thread may wait for it
        try:
            job(connection)
            connection.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                connection.rollback()
            raise
        self.commits += 1
        self._made_here += 1
        return True

    def _connect_here(self) -> sqlite3.Connection:
        connection = self._connect()
        connection.execute("PRAGMA busy_timeout = 0")
        connection.execute("PRAGMA wal_autocheckpoint = 0")  # to move the log is to wait for the disk
        return connection

    async def _do(self, job: Callable[[sqlite3.Connection], T], way: int) -> T:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        gathered = self._gathered.get(loop)
        if gathered is None:
            # All that is asked for in one turn of the loop is handed over at once.
            gathered = self._gathered[loop] = []
            loop.call_soon(self._hand_over, loop)
        gathered.append((job, way, loop, future))
        # What has been asked for is not called back: whoever waited may go, the thread finishes its work.
        return await future

    def _hand_over(self, loop: asyncio.AbstractEventLoop) -> None:
        gathered = self._gathered.pop(loop, None)
        if gathered:
            with self._lock:
                if self._thread is None:
                    self._start()
                self._handed += 1
                self._jobs.put(gathered)

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
        with self._here_lock:
            here, self._here = self._here, None
            if here is not None:
                here.close()
        with self._lock:
            thread, self._thread = self._thread, None
            self._jobs.put(None)
        if thread is not None:
            await asyncio.get_running_loop().run_in_executor(None, thread.join)

    def _work(self, jobs: _Jobs) -> None:
        connection: sqlite3.Connection | None = None
        more = True
        while more and (first := jobs.get()) is not None:
            batch, taken = first, 1
            while len(batch) < MOST_AT_ONCE and not jobs.empty():
                following = jobs.get()
                if following is None:
                    more = False
                    break
                batch += following
                taken += 1
            try:
                connection = connection or self._connect()
            except (sqlite3.Error, OSError, StoreError) as error:
                told = error if isinstance(error, StoreError) else self._explain(error)
                self._finished += taken
                _tell([(waiting, None, told) for waiting in batch])
                continue
            done = self._carry_out(connection, batch)
            self._finished += taken
            _tell(done)
        if connection is not None:
            with contextlib.suppress(sqlite3.Error):
                connection.close()

    def _carry_out(self, connection: sqlite3.Connection, batch: list[_Waiting]) -> list[_Done]:
        aside = [waiting for waiting in batch if waiting[1] == _ASIDE]
        if aside and len(aside) < len(batch):
            rest = [waiting for waiting in batch if waiting[1] != _ASIDE]
            return self._carry_out(connection, rest) + self._carry_out(connection, aside)
        if not any(way for _, way, _, _ in batch):
            return [self._one(connection, waiting) for waiting in batch]
        try:
            return self._transaction(connection, batch)
        except (sqlite3.Error, StoreError) as error:
            with contextlib.suppress(sqlite3.Error):
                connection.rollback()
            told = error if isinstance(error, StoreError) else self._explain(error)
            return [(waiting, None, told) for waiting in batch]

    def _transaction(
        self, connection: sqlite3.Connection, batch: list[_Waiting], *, apart: bool = False
    ) -> list[_Done]:
        connection.execute("BEGIN IMMEDIATE")
        done = []
        for waiting in batch:
            done.append(self._one(connection, waiting, apart=apart))
            failure = done[-1][2]
            if failure is None or (apart and connection.in_transaction):
                continue
            if apart or len(batch) == 1 or not connection.in_transaction:
                raise failure
            # Seldom: once more from the beginning, so that the others do without this one.
            connection.execute("ROLLBACK")
            return self._transaction(connection, batch, apart=True)
        connection.execute("COMMIT")
        self.commits += 1
        return done

    def _one(self, connection: sqlite3.Connection, waiting: _Waiting, *, apart: bool = False) -> _Done:
        if apart:
            connection.execute("SAVEPOINT job")
        try:
            value, failure = waiting[0](connection), None
        except StoreError as error:
            value, failure = None, error
        except Exception as error:  # whatever it is, the others must not wait for ever
            value, failure = None, self._explain(error)
        # A disk that is full, say, has ended the whole transaction already.
        if apart and connection.in_transaction:
            if failure is not None:
                connection.execute("ROLLBACK TO job")
            connection.execute("RELEASE job")
        return waiting, value, failure


_Done = tuple[_Waiting, Any, StoreError | None]


def _tell(done: list[_Done]) -> None:
    """Each loop is woken once."""
    loops: dict[asyncio.AbstractEventLoop, list[_Done]] = {}
    for item in done:
        loops.setdefault(item[0][2], []).append(item)
    for loop, items in loops.items():
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(_settle, items)


def _settle(items: list[_Done]) -> None:
    for (_, _, _, future), value, failure in items:
        if future.done():
            continue
        if failure is None:
            future.set_result(value)
        else:
            future.set_exception(failure)
