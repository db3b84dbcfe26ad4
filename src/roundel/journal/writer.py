"""One thread that writes: whatever is asked for while it writes goes into its next transaction.

So a run alone has its own commit, and two hundred at once share one. A job that fails takes only itself back.
"""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from roundel.journal.store import StoreError

T = TypeVar("T")
Job = Callable[[sqlite3.Connection], Any]
MOST_AT_ONCE = 1000
_Waiting = tuple[Job, bool, asyncio.AbstractEventLoop, "asyncio.Future[Any]"]


class Writer:
    def __init__(self, connect: Callable[[], sqlite3.Connection], explain: Callable[[Exception], StoreError]):
        self._connect = connect
        self._explain = explain
        self._jobs: queue.SimpleQueue[_Waiting | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self.commits = 0

    async def write(self, job: Callable[[sqlite3.Connection], T]) -> T:
        """Done, and safe, when it returns."""
        return await self._do(job, True)

    async def read(self, job: Callable[[sqlite3.Connection], T]) -> T:
        return await self._do(job, False)

    async def _do(self, job: Callable[[sqlite3.Connection], T], writes: bool) -> T:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._start()
        self._jobs.put((job, writes, loop, future))
        # A commit that has begun is not called back: whoever waited may go, the thread finishes its work.
        return await asyncio.shield(future)

    def _start(self) -> None:
        if self._thread is None:
            with self._lock:
                if self._thread is None:
                    self._thread = threading.Thread(target=self._work, name="roundel-journal", daemon=True)
                    self._thread.start()

    async def close(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            self._jobs.put(None)
            await asyncio.get_running_loop().run_in_executor(None, thread.join)

    def _work(self) -> None:
        connection: sqlite3.Connection | None = None
        while (first := self._jobs.get()) is not None:
            batch, more = [first], True
            while more and len(batch) < MOST_AT_ONCE:
                try:
                    following = self._jobs.get_nowait()
                except queue.Empty:
                    break
                if following is None:
                    self._jobs.put(None)
                    more = False
                else:
                    batch.append(following)
            try:
                connection = connection or self._connect()
            except (sqlite3.Error, OSError, StoreError) as error:
                told = error if isinstance(error, StoreError) else self._explain(error)
                _tell([(waiting, None, told) for waiting in batch])
                continue
            _tell(self._carry_out(connection, batch))
        if connection is not None:
            connection.close()

    def _carry_out(self, connection: sqlite3.Connection, batch: list[_Waiting]) -> list[_Done]:
        if not any(writes for _, writes, _, _ in batch):
            return [self._one(connection, waiting) for waiting in batch]
        try:
            connection.execute("BEGIN IMMEDIATE")
            alone = len(batch) == 1
            done = [self._one(connection, waiting, apart=not alone) for waiting in batch]
            if alone and done[0][2] is not None:
                connection.execute("ROLLBACK")
            else:
                connection.execute("COMMIT")
                self.commits += 1
        except sqlite3.Error as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            told = self._explain(error)
            return [(waiting, None, told) for waiting in batch]
        return done

    def _one(self, connection: sqlite3.Connection, waiting: _Waiting, *, apart: bool = False) -> _Done:
        if apart:
            connection.execute("SAVEPOINT job")
        try:
            value, failure = waiting[0](connection), None
        except StoreError as error:
            value, failure = None, error
        except (sqlite3.Error, ValueError) as error:
            value, failure = None, self._explain(error)
        if apart:
            connection.execute("ROLLBACK TO job" if failure else "RELEASE job")
        return waiting, value, failure


_Done = tuple[_Waiting, Any, StoreError | None]


def _tell(done: list[_Done]) -> None:
    """Each loop is woken once."""
    loops: dict[asyncio.AbstractEventLoop, list[_Done]] = {}
    for item in done:
        loops.setdefault(item[0][2], []).append(item)
    for loop, items in loops.items():
        if not loop.is_closed():
            loop.call_soon_threadsafe(_settle, items)


def _settle(items: list[_Done]) -> None:
    for (_, _, _, future), value, failure in items:
        if future.done():
            continue
        if failure is None:
            future.set_result(value)
        else:
            future.set_exception(failure)
