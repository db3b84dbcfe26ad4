"""Which process is which, and which of them have certainly ended.

A process id alone says little: the system gives it again after the process has ended, and each PID namespace
(each container) counts its own. A process is identified by the boot of its kernel, its PID namespace, its pid
and the time at which it started. Where all of these can be compared, a process that has ended is recognised
at once; where they cannot (another machine, another container, no /proc), nothing is known about it, and its
lease has to expire (leases.py).

The answer may only ever err in one direction. A process that has ended and is taken for alive costs a few
seconds; one that is alive and taken for dead would lose its runs. So whatever cannot be read counts as
unknown, not as ended.

Who owns a run: leases of processes in SQLite, kept alive by a heartbeat.

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

Claims on runs in SQLite: creating runs, taking them over, and keeping them.

The writing thread decides, in transactions; this object remembers what it holds. The two can differ only in
one direction. A claim that was released here but could not be written as released (the disk is full) is in
`_unreleased`, and counts as released for this store; the heartbeat writes it as soon as that is possible.
Otherwise the heartbeat, which other claims need, would keep the run owned for ever in the eyes of others.

*Cancellation.* The writer completes what it was asked for even if the caller is cancelled. A claim that
nobody receives would keep its run owned, so it is undone, shielded from further cancellation.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sqlite3
import zlib
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from roundel.journal.chunk_rows import (
    FACTS,
    OF_RUN,
    RowUpdate,
    delete_run,
    insert_chunk,
    no_run_error,
    run_exists_error,
)
from roundel.journal.store import Busy, Chunk, Claim, NewRun, StoreError
from roundel.journal.waiting import run_shielded
from roundel.journal.writer import Job, Timer, Writer

PROC = Path("/proc")


class Process(Struct, frozen=True):
    """One process, as others recognise it. Fields are empty where the system does not tell."""

    boot_id: str
    pid_namespace: int
    pid: int
    start_time: str
    hostname: str
    """For messages only: containers may have the same one."""

    def shares_pid_namespace(self, other: Process) -> bool:
        """Both are in the same PID namespace of the same booted kernel: they see each other by their pids."""
        here, there = (self.boot_id, self.pid_namespace), (other.boot_id, other.pid_namespace)
        return all(here) and here == there

    def describe(self, reader: Process) -> str:
        """In the words of a message that the reader's user sees."""
        where = "" if self.shares_pid_namespace(reader) else f" on {self.hostname}"
        return f"process {self.pid}{where}"


class Processes(Protocol):
    """What a process knows about itself and those beside it."""

    def current(self) -> Process: ...

    def start_time(self, pid: int) -> str | None:
        """When the process with this pid started; None if there is none, empty if that cannot be read."""


class SystemProcesses:
    """The processes of this machine, by /proc where there is one. Created by each store."""

    def current(self) -> Process:
        pid, hostname = os.getpid(), socket.gethostname()
        if not self._shows_this_namespace(pid):
            return Process("", 0, pid, "", hostname)
        try:
            boot_id = (PROC / "sys/kernel/random/boot_id").read_text("ascii").strip()
            namespace = (PROC / "self/ns/pid").stat().st_ino
        except OSError:
            return Process("", 0, pid, "", hostname)
        return Process(boot_id, namespace, pid, self.start_time(pid) or "", hostname)

    def start_time(self, pid: int) -> str | None:
        try:
            text = (PROC / str(pid) / "stat").read_text("ascii", errors="replace")
        except FileNotFoundError:
            # The processes of other users are invisible in a /proc that is mounted with `hidepid`.
            return None if _is_missing(pid) else ""
        except ProcessLookupError:
            return None
        except OSError:
            return ""
        state, *fields = text.rpartition(")")[2].split()  # a name may contain anything, also brackets
        return None if state in "ZX" else fields[18]  # nobody has asked for its exit code yet, but it is over

    def _shows_this_namespace(self, pid: int) -> bool:
        """False if /proc was mounted in another PID namespace: it then shows other processes under our pids
        (`unshare --pid` without `--mount-proc`)."""
        try:
            return (PROC / "self").readlink().name == str(pid)
        except OSError:
            return False


def has_ended(process: Process, reader: Process, processes: Processes) -> bool:
    """True only if the process has certainly ended, as far as the reader can see."""
    if not process.start_time or not process.shares_pid_namespace(reader):
        return False
    started = processes.start_time(process.pid)
    return started is None or started not in ("", process.start_time)


def _is_missing(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


LEASE_SECONDS = 10.0
HEARTBEATS = 5
"""Per lease: a few may be late or fail."""
DELETE_AFTER_SECONDS = 86400.0
"""After this time, the row of a process that sent no heartbeat is deleted."""

LEASE_COLUMNS = "owner, boot_id, pid_namespace, pid, start_time, hostname, lease_seconds, alive_until"
JOIN_LEASE = "LEFT JOIN owners ON owner_id = owner"
_RENEW = (
    "INSERT INTO owners VALUES (?, ?, ?, ?, ?, ?, ?, ?) "
    "ON CONFLICT (owner_id) DO UPDATE SET alive_until = excluded.alive_until"
)


_closed_owners: set[int] = set()
"""The owners that this process has given up. Where a store could not be written when it was closed (its disk
is full, its file was moved away), their rows are still there."""


class OwnerLease(Struct, frozen=True):
    owner: int
    process: Process
    seconds: float
    alive_until: float


def lease_of(columns: Sequence[Any]) -> OwnerLease | None:
    """From the values of LEASE_COLUMNS; None if nobody has a lease."""
    owner, *process, seconds, alive_until = columns
    return None if alive_until is None else OwnerLease(owner, Process(*process), seconds, alive_until)


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
            db.execute("DELETE FROM owners WHERE alive_until < ?", (now - DELETE_AFTER_SECONDS,))

    def end(self) -> Callable[[sqlite3.Connection], None]:
        """Gives up the lease; what this returns deletes its row. Runs that are claimed later get another."""
        ended, self.owner, self.is_stored = self.owner, _new_owner(), False
        _closed_owners.add(ended)

        def delete(db: sqlite3.Connection) -> None:
            db.execute("DELETE FROM owners WHERE owner_id = ?", (ended,))

        return delete

    def is_valid(self, lease: OwnerLease | None) -> bool:
        """Whether the runs of this lease have an owner."""
        if lease is None or lease.owner in _closed_owners or lease.alive_until <= self._now():
            return False
        return not has_ended(lease.process, self._process, self._processes)

    def shorten(self, db: sqlite3.Connection, lease: OwnerLease) -> None:
        """Shortens a lease that lasts too long, since a clock was set back."""
        longest = self._now() + lease.seconds
        if lease.alive_until > longest:
            db.execute("UPDATE owners SET alive_until = ? WHERE owner_id = ?", (longest, lease.owner))

    def describe(self, lease: OwnerLease) -> str:
        return lease.process.describe(self._process)


def _new_owner() -> int:
    return int.from_bytes(os.urandom(8)) >> 1 or 1  # SQLite's integers have a sign, and 0 is nobody


_LAST_SNAPSHOT = f"SELECT facts FROM snapshots WHERE {OF_RUN.format('no')} ORDER BY place DESC LIMIT 1"


class Claims:
    """The part of SqliteStore that owns runs. The store adds the heartbeat to the timers of its writer."""

    _writer: Writer

    def __init__(self, leases: Leases, clock: Callable[[], float]) -> None:
        self._now = clock
        self._leases = leases
        self._claims: dict[tuple[int, int], RowUpdate] = {}
        """The claims that this store holds, by run and fence, and the last updates of their runs' rows."""
        self._unreleased: set[tuple[int, int]] = set()
        self._releasing: set[tuple[int, int]] = set()
        """Those that the current heartbeat releases."""
        self._heartbeat = Timer(
            leases.seconds / HEARTBEATS,
            self._send_heartbeat,
            writes=True,
            active=lambda: bool(self._claims or self._unreleased),
            done=self._forget_released,
        )

    async def create(self, run: NewRun, chunk: Chunk | None = None) -> Claim:
        made: list[Claim] = []
        count = chunk.count if chunk is not None else 0
        pinned = _compress(msgspec.json.encode(run.pinned))

        def job(db: sqlite3.Connection) -> Claim:
            self._leases.renew(db)
            texts = (run.id, run.name, run.input, run.parent, run.forked_at)
            values = (*texts, self._leases.owner, run.created, run.created, count)
            names = "id, name, input, parent, forked_at, owner, created, updated, facts"
            query = f"INSERT INTO runs ({names}, status, fence) VALUES (?,?,?,?,?,?,?,?,?,'running',1)"
            try:
                number = db.execute(query, values).lastrowid
            except sqlite3.IntegrityError:
                raise run_exists_error(run.id) from None
            assert number is not None
            db.execute("INSERT INTO pins VALUES (?, ?)", (number, pinned))
            if chunk is not None:
                insert_chunk(db, number, 0, chunk)
            made.append(Claim(run.id, number, 1, count, count))
            return made[0]

        def undo(db: sqlite3.Connection) -> None:
            # If the transaction was rolled back, the number may be that of another run by now.
            query = "SELECT no FROM runs WHERE no = ? AND id = ? AND owner = ? AND fence = 1"
            for claim in made:
                if db.execute(query, (claim.run, run.id, self._leases.owner)).fetchone():
                    delete_run(db, claim.run)

        return await self._register_claim(job, RowUpdate("running", self._now()), undo, made)

    async def claim(self, run_id: str, *, force: bool = False) -> Claim:
        taken: list[Claim] = []
        before: list[int] = []
        """The owner that the run had."""

        def job(db: sqlite3.Connection) -> Claim | Busy:
            query = (
                f"SELECT no, fence, {FACTS}, pruned, coalesce(({_LAST_SNAPSHOT}), 0), {LEASE_COLUMNS} "
                f"FROM runs {JOIN_LEASE} WHERE id = ?"
            )
            found = db.execute(query, (run_id,)).fetchone()
            if found is None:
                raise no_run_error(run_id)
            number, fence, facts, pruned, frozen, *lease = found
            if pruned:
                raise StoreError(f"run {run_id} was pruned to its rounds '{pruned}', and cannot go on")
            owner = self._owner(number, fence, lease)
            if owner is not None and not force:
                self._leases.shorten(db, owner)
                # Not raised: that would roll back the line above.
                return Busy(f"another process owns run {run_id} ({self._leases.describe(owner)})")
            self._leases.renew(db)
            changed = (fence + 1, self._leases.owner, number)
            db.execute("UPDATE runs SET fence = ?, owner = ? WHERE no = ?", changed)
            before.append(lease[0])
            taken.append(Claim(run_id, number, fence + 1, facts, facts - frozen))
            return taken[0]

        def undo(db: sqlite3.Connection) -> None:
            # With its old fence: a live owner from which the run was taken may continue. Nobody has received
            # a claim with the new fence, so it can be given again.
            query = "UPDATE runs SET fence = fence - 1, owner = ? WHERE no = ? AND fence = ?"
            for claim, owner in zip(taken, before, strict=True):
                db.execute(query, (owner, claim.run, claim.fence))

        return await self._register_claim(job, RowUpdate(), undo, taken)

    async def _register_claim(
        self, job: Job[Claim | Busy], update: RowUpdate, undo: Job[None], made: Sequence[Claim]
    ) -> Claim:
        try:
            claim = await self._writer.write(job)
        except asyncio.CancelledError:
            # The writer does what it was asked for all the same, and nobody would hold the claim.
            try:
                await run_shielded(self._writer.write(undo))
            except StoreError:
                self._unreleased.update((claim.run, claim.fence) for claim in made)
            raise
        if isinstance(claim, Busy):
            raise claim
        self._claims[claim.run, claim.fence] = update
        if len(self._claims) == 1:
            self._writer.start(self._heartbeat)  # a run that waits for a person has no jobs for the thread
        self._writer.appenders = len(self._claims)
        return claim

    def _owner(self, run: int, fence: int, columns: Sequence[Any]) -> OwnerLease | None:
        """The lease by which a run is owned; None if nobody owns it."""
        lease = lease_of(columns)
        return lease if (run, fence) not in self._unreleased and self._leases.is_valid(lease) else None

    def _send_heartbeat(self, db: sqlite3.Connection) -> None:
        self._leases.renew(db)
        self._releasing = set(self._unreleased)
        for run, fence in self._releasing:
            self._release(db, run, fence)

    def _forget_released(self) -> None:
        self._unreleased -= self._releasing

    def _release(self, db: sqlite3.Connection, run: int, fence: int) -> None:
        db.execute("UPDATE runs SET owner = 0 WHERE no = ? AND fence = ?", (run, fence))

    async def lost(self, claims: Sequence[Claim]) -> list[Claim]:
        query = "SELECT 1 FROM runs WHERE no = ? AND fence = ?"

        def job(db: sqlite3.Connection) -> list[Claim]:
            return [
                claim for claim in claims if db.execute(query, (claim.run, claim.fence)).fetchone() is None
            ]

        return await self._writer.read(job)

    async def release(self, claim: Claim) -> None:
        key = (claim.run, claim.fence)
        self._claims.pop(key, None)
        self._writer.appenders = len(self._claims)
        self._unreleased.add(key)
        await self._writer.write(lambda db: self._release(db, *key))
        self._unreleased.discard(key)

    async def release_all(self) -> None:
        self._claims.clear()
        self._unreleased.clear()
        self._writer.appenders = 0
        if self._leases.is_stored:
            with contextlib.suppress(StoreError):  # other processes wait until the lease has expired
                await self._writer.write(self._leases.end())


@lru_cache(maxsize=8)
def _compress(pinned: bytes) -> bytes:
    """A process starts many runs of few workflows, and to compress one takes as long as some effects."""
    return zlib.compress(pinned, 6)
