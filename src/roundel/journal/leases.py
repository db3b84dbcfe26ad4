"""Who owns a run: leases of processes in SQLite, kept alive by a heartbeat.

A store object that claims runs has one row in `owners`, and the runs name it. The row says until when its
process is believed to be alive; a heartbeat moves that moment on, five times per lease. So one small update
keeps all runs of a process, however many there are. A run is owned while

- its row names an owner that has a lease,
- the lease has not expired, and
- the owner's process has not certainly ended (processes.py): a killed process loses its runs at once.

*Stopped processes.* The heartbeat is sent by the writing thread, not by an event loop: a loop that user code
blocks for a minute keeps its runs, since the process is alive and will continue. A process that is suspended
as a whole (SIGSTOP, a frozen container) sends none, and loses its runs when the lease expires. When it wakes
up, the fence stops it at its next append if somebody took the run over; if nobody did, it simply continues.

*Clocks.* Leases are in wall-clock time, which is what processes on several machines have in common; their
clocks have to agree within a few seconds. A clock that is set back would leave leases far in the future, and
the runs of a dead process owned for as long. So each attempt to claim shortens such a lease to its normal
length; the owner, if it is alive, renews it with the next heartbeat. A clock that is set forward expires all
leases until the next heartbeats. The fence keeps the journal correct in either case; leases only decide who
may try.

*Ids* are random and never given twice: a run that names an owner which is not in the table is owned by
nobody. Rows of dead processes can therefore be deleted without looking for runs that name them.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from roundel.journal.processes import Process, Processes, has_ended

LEASE_SECONDS = 10.0
HEARTBEATS = 5
"""Per lease: a few may be late or fail."""
KEEP_SECONDS = 86400.0
"""After this time, the row of a process that sent no heartbeat is deleted."""

LEASE_COLUMNS = "owner, boot_id, pid_namespace, pid, start_time, hostname, lease_seconds, alive_until"
JOIN_LEASE = "LEFT JOIN owners ON owner_id = owner"
_RENEW = (
    "INSERT INTO owners VALUES (?, ?, ?, ?, ?, ?, ?, ?) "
    "ON CONFLICT (owner_id) DO UPDATE SET alive_until = excluded.alive_until"
)


_ended: set[int] = set()
"""The owners that this process has given up. Where a store could not be written when it was closed (its disk
is full, its file was moved away), their rows are still there."""


class Lease(Struct, frozen=True):
    owner: int
    process: Process
    seconds: float
    alive_until: float


def lease_of(columns: Sequence[Any]) -> Lease | None:
    """From the values of LEASE_COLUMNS; None if nobody has a lease."""
    owner, *process, seconds, alive_until = columns
    return None if alive_until is None else Lease(owner, Process(*process), seconds, alive_until)


class Leases:
    """The lease of one store object, and what it knows of those of others. Created by the store."""

    def __init__(self, clock: Callable[[], float], seconds: float, processes: Processes) -> None:
        self.owner = _new_owner()
        self.seconds = seconds
        self._now = clock
        self._processes = processes
        self._process = processes.current()
        self.is_stored = False
        """There may be a row for it."""

    def renew(self, db: sqlite3.Connection) -> None:
        """The heartbeat. It also restores a row that others have deleted as long expired."""
        now, process = self._now(), self._process
        values = (process.boot_id, process.pid_namespace, process.pid, process.start_time, process.hostname)
        db.execute(_RENEW, (self.owner, *values, self.seconds, now + self.seconds))
        if not self.is_stored:
            self.is_stored = True
            db.execute("DELETE FROM owners WHERE alive_until < ?", (now - KEEP_SECONDS,))

    def end(self) -> Callable[[sqlite3.Connection], None]:
        """Gives up the lease; what this returns deletes its row. Runs that are claimed later get another."""
        ended, self.owner, self.is_stored = self.owner, _new_owner(), False
        _ended.add(ended)

        def delete(db: sqlite3.Connection) -> None:
            db.execute("DELETE FROM owners WHERE owner_id = ?", (ended,))

        return delete

    def is_valid(self, lease: Lease | None) -> bool:
        """Whether the runs of this lease have an owner."""
        if lease is None or lease.owner in _ended or lease.alive_until <= self._now():
            return False
        return not has_ended(lease.process, self._process, self._processes)

    def shorten(self, db: sqlite3.Connection, lease: Lease) -> None:
        """Shortens a lease that lasts too long, since a clock was set back."""
        longest = self._now() + lease.seconds
        if lease.alive_until > longest:
            db.execute("UPDATE owners SET alive_until = ? WHERE owner_id = ?", (longest, lease.owner))

    def describe(self, lease: Lease) -> str:
        return lease.process.describe(self._process)


def _new_owner() -> int:
    return int.from_bytes(os.urandom(8)) >> 1 or 1  # SQLite's integers have a sign, and 0 is nobody
