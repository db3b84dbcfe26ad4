"""Writes rows on the event loop, without the thread.

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
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from time import perf_counter
from typing import Any

from roundel.journal.batch import Explain, Refused, Row, Rows
from roundel.journal.database import LOG_PAGES, SYNCED_LOG_PAGES
from roundel.journal.store import StoreError

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
