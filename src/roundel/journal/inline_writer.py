"""Adds a row where it is asked for, without a thread.

To commit takes less time than to wake a thread, where a commit does not wait for the disk; and where it does,
that is no harm to somebody who has nothing else to do. But whoever else holds the file is not waited for, and
now and then the event loop has its turn: the thread does what is refused here.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from time import perf_counter

from roundel.journal.batch import Explain, Job, Row
from roundel.journal.store import StoreError

MOST_ROWS = 500
"""So many rows are written here, then the thread writes some: now and then it moves the log to the file."""
MOST_SECONDS = 0.005
"""For so long an event loop may be held up in one of its turns."""


class InlineWriter:
    def __init__(self, connect: Callable[[], sqlite3.Connection], explain: Explain) -> None:
        self._connect = connect
        self._explain = explain
        self._connection: sqlite3.Connection | None = None
        self._lock = threading.Lock()
        self._rows = 0
        self._seconds = 0.0

    def add(self, statement: str, row: Row, refused: Job[StoreError | None]) -> int | None:
        """Adds one row, in a transaction of its own, and returns its row id (0 if nothing had to change);
        None if it cannot be done at once."""
        if self.held_up or not self._may_begin():
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
                failure = refused(db)
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

    @property
    def held_up(self) -> bool:
        """The event loop has waited long enough in this turn."""
        return self._seconds > MOST_SECONDS

    def _may_begin(self) -> bool:
        return self._rows < MOST_ROWS and self._lock.acquire(blocking=False)

    def begin_anew(self) -> None:
        """The thread writes, and whoever waits for it leaves the loop to others."""
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
