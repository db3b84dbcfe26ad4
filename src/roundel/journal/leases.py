"""Who owns a run in SQLite: claims on runs, the leases of processes behind them, and which processes
have ended.

*Leases.* A store object that claims runs has one row in `owners`, and the runs name it. The row says
until when its process is believed to be alive; a heartbeat extends that, five times per lease. So one
small update renews the ownership of all runs of a process, however many there are. (A lease per run made
100 updates a second for 200 runs.) A run is owned while

- its row names an owner that has a lease,
- the lease has not expired, and
- the owner's process has not certainly ended: a killed process loses its runs at once.

*The fence decides what is written; the lease only who may try.* Every claim raises the fence of its run,
and an append with an old fence writes nothing. So a wrong guess about a process costs it the run, and
never damages the journal. For the same reason a claim can be forced, even from a live owner.

*Suspended processes.* The heartbeat is sent by the writing thread, not by an event loop: a loop that
user code blocks for a minute keeps its runs, since the process is alive and will continue. A process
that is suspended as a whole (SIGSTOP, a frozen container) sends none, and loses its runs when the lease
expires. When it wakes up, the fence stops it at its next append if another process took the run over;
otherwise it simply continues.

*Clocks.* Leases are in wall-clock time, which is what processes on several machines have in common; their
clocks have to agree within a few seconds. A clock that is set back would leave leases far in the future, and
the runs of a dead process owned for as long. So each attempt to claim shortens such a lease to its normal
length; the owner, if it is alive, renews it with the next heartbeat. A clock that is set forward expires all
leases until the next heartbeats.

*Ids* of owners are random and never given twice: a run that names an owner which is not in the table is
owned by nobody. Rows of dead processes can therefore be deleted without looking for runs that name them.

*Which process is which.* A process id alone says little: the system gives it again after the process has
ended, and each PID namespace (each container) counts its own. A process is identified by the boot of its
kernel, its PID namespace, its pid and the time at which it started. Where all of these can be compared,
a process that has ended is recognised at once; where they cannot (another machine, another container, no
/proc), nothing is known about it, and its lease has to expire. The answer may only ever err in one
direction: a process that has ended and is taken for alive costs a few seconds, but one that is alive and
taken for dead would lose its runs. So whatever cannot be read counts as unknown, not as ended. (Host
names are not compared: containers share them.)

*Claims.* The writing thread decides about claims, in transactions; `Claims` remembers which ones this
store has. The two can differ only in one direction. A claim that was released here but could not be
written as released (the disk is full) is in `_unreleased`, and counts as released for this store; the
heartbeat writes it as soon as that is possible. Otherwise the heartbeat, which other claims need, would
extend the ownership of that run for ever in the eyes of others.

*Cancellation.* The writer completes a job even if its caller is cancelled. A claim that nobody receives
would leave its run owned, so it is undone, shielded from further cancellation.
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
    encode_fields,
    insert_chunk,
    no_run_error,
    run_exists_error,
)
from roundel.journal.schema import has_table
from roundel.journal.spending import RunsAtOnce
from roundel.journal.sqlite_spending import check_room
from roundel.journal.store import Busy, Chunk, Claim, NewRun, StoreError
from roundel.journal.takeovers import (
    TakeoverRow,
    count_takeovers,
    set_takeovers,
    takeover_row,
    update_takeovers,
)
from roundel.journal.waiting import run_shielded
from roundel.journal.writer import Job, Timer, Writer

PROC = Path("/proc")


class Process(Struct, frozen=True):
    """The identity of a process, as other processes can compare it. Fields are empty where the system
    does not provide them."""

    boot_id: str
    pid_namespace: int
    pid: int
    start_time: str
    hostname: str
    """For messages only: containers may have the same one."""

    def shares_pid_namespace(self, other: Process) -> bool:
        """Whether both are in the same PID namespace of the same booted kernel, so that they see each
        other by their pids. False if either is unknown."""
        here, there = (self.boot_id, self.pid_namespace), (other.boot_id, other.pid_namespace)
        return all(here) and here == there

    def describe(self, reader: Process) -> str:
        """The process as text, for a message to the reader's user."""
        where = "" if self.shares_pid_namespace(reader) else f" on {self.hostname}"
        return f"process {self.pid}{where}"


class Processes(Protocol):
    """What a process knows about itself and others on its machine. Tests replace it."""

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
        # The second field is the name in brackets, which may itself contain spaces and brackets.
        state, *fields = text.rpartition(")")[2].split()
        # A zombie has ended: only its parent has not read its exit code yet. Field 22 is the start time.
        return None if state in "ZX" else fields[18]

    def _shows_this_namespace(self, pid: int) -> bool:
        """False if /proc was mounted in another PID namespace: it then shows other processes under our pids
        (`unshare --pid` without `--mount-proc`)."""
        try:
            return (PROC / "self").readlink().name == str(pid)
        except OSError:
            return False


def has_ended(process: Process, reader: Process, processes: Processes) -> bool:
    """True only if the process has certainly ended: its pid is gone, or belongs to a process that
    started at another time."""
    if not process.start_time or not process.shares_pid_namespace(reader):
        return False
    started = processes.start_time(process.pid)
    return started is None or started not in ("", process.start_time)


def _is_missing(pid: int) -> bool:
    """Whether there is no process with this pid; signal 0 checks that without sending anything."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


LEASE_SECONDS = 10.0
"""How long the runs of a process that cannot be observed stay owned after it has died."""
HEARTBEATS = 5
"""Heartbeats per lease: a few may be late or fail."""
DELETE_AFTER_SECONDS = 86400.0
"""The row of a process is deleted after this time without a heartbeat. If the process is alive after
all, its next heartbeat restores the row."""

LEASE_COLUMNS = "owner, boot_id, pid_namespace, pid, start_time, hostname, lease_seconds, alive_until"
JOIN_LEASE = "LEFT JOIN owners ON owner_id = owner"
_RENEW = (
    "INSERT INTO owners VALUES (?, ?, ?, ?, ?, ?, ?, ?) "
    "ON CONFLICT (owner_id) DO UPDATE SET alive_until = excluded.alive_until"
)


_closed_owners: set[int] = set()
"""The owners that this process has given up. If a store could not be written when it was closed (the
disk is full, the file was moved away), their rows are still there, and this live process would seem to
own the runs."""


class OwnerLease(Struct, frozen=True):
    """A row of `owners`, as it was read."""

    owner: int
    process: Process
    seconds: float
    alive_until: float


def lease_of(columns: Sequence[Any]) -> OwnerLease | None:
    """From the values of LEASE_COLUMNS; None if nobody has a lease."""
    owner, *process, seconds, alive_until = columns
    return None if alive_until is None else OwnerLease(owner, Process(*process), seconds, alive_until)


class Leases:
    """The lease of one store object, and its judgement of the leases of others. Created by SqliteStore.

    Methods that take a connection are called in the writing thread, inside a transaction."""

    def __init__(self, clock: Callable[[], float], seconds: float, processes: Processes) -> None:
        self.owner = _new_owner()
        self.seconds = seconds
        self._now = clock
        self._processes = processes
        self._process = processes.current()
        self.is_stored = False
        """There may be a row for it, which has to be deleted in the end."""

    def renew(self, db: sqlite3.Connection) -> None:
        """The heartbeat. It also restores a row that others have deleted as long expired."""
        now, process = self._now(), self._process
        values = (process.boot_id, process.pid_namespace, process.pid, process.start_time, process.hostname)
        db.execute(_RENEW, (self.owner, *values, self.seconds, now + self.seconds))
        if not self.is_stored:
            self.is_stored = True
            db.execute("DELETE FROM owners WHERE alive_until < ?", (now - DELETE_AFTER_SECONDS,))

    def end(self) -> Callable[[sqlite3.Connection], None]:
        """Gives up the lease, and returns the job that deletes its row. Runs that are claimed later get
        a new owner id: the old one must not come back to life for runs that still name it."""
        ended, self.owner, self.is_stored = self.owner, _new_owner(), False
        _closed_owners.add(ended)

        def delete(db: sqlite3.Connection) -> None:
            db.execute("DELETE FROM owners WHERE owner_id = ?", (ended,))

        return delete

    def is_valid(self, lease: OwnerLease | None) -> bool:
        """Whether runs that name the owner of this lease are owned."""
        if lease is None or lease.owner in _closed_owners or lease.alive_until <= self._now():
            return False
        return not has_ended(lease.process, self._process, self._processes)

    def live_owner(self, db: sqlite3.Connection) -> str:
        """Another owner of runs of this store, for a message; empty if there is none."""
        query = f"SELECT DISTINCT {LEASE_COLUMNS.replace('owner,', 'owner_id,', 1)} FROM owners"
        for row in db.execute(query):
            lease = lease_of(row)
            if lease is not None and lease.owner != self.owner and self.is_valid(lease):
                return lease.process.describe(self._process)
        return ""

    def was_abandoned(self, lease: OwnerLease | None) -> bool:
        """Whether the owner of a lease that is not valid has gone without ending it. If it is that of this
        object, the process was only suspended."""
        return lease is not None and lease.owner != self.owner and lease.owner not in _closed_owners

    def shorten(self, db: sqlite3.Connection, lease: OwnerLease) -> None:
        """Shortens a lease that extends further than its own length, since a clock was set back."""
        longest = self._now() + lease.seconds
        if lease.alive_until > longest:
            db.execute("UPDATE owners SET alive_until = ? WHERE owner_id = ?", (longest, lease.owner))

    def describe(self, lease: OwnerLease) -> str:
        return lease.process.describe(self._process)


def _new_owner() -> int:
    return int.from_bytes(os.urandom(8)) >> 1 or 1  # SQLite's integers have a sign, and 0 is nobody


CREATED = (
    "id, name, input, parent, forked_at, group_id, started_by, saved_as, workflow_version, progress, owner, "
    "created, updated, facts, status, fence"
)
_LAST_SNAPSHOT = f"SELECT facts FROM snapshots WHERE {OF_RUN.format('no')} ORDER BY place DESC LIMIT 1"


class Claims:
    """The part of SqliteStore that owns runs: creates, claims and releases them. The store adds the
    heartbeat to the timers of its writer."""

    _writer: Writer

    def __init__(self, leases: Leases, clock: Callable[[], float]) -> None:
        self._now = clock
        self._leases = leases
        self._claims: dict[tuple[int, int], RowUpdate] = {}
        """The claims of this store, by run and fence, with the last updates of their runs' rows."""
        self._unreleased: set[tuple[int, int]] = set()
        """Claims that were released here, and perhaps not in the file yet."""
        self._releasing: set[tuple[int, int]] = set()
        """The claims that the current heartbeat releases. Only these are forgotten when it is committed:
        more may be added to `_unreleased` meanwhile."""
        self._heartbeat = Timer(
            leases.seconds / HEARTBEATS,
            self._send_heartbeat,
            writes=True,
            active=lambda: bool(self._claims or self._unreleased),
            done=self._forget_released,
        )

    async def create(self, run: NewRun, *chunks: Chunk, room: Sequence[RunsAtOnce] = ()) -> Claim:
        # Filled by the job, in the thread, so that `undo` knows what there is to undo.
        made: list[Claim] = []
        count = sum(chunk.count for chunk in chunks)
        pinned = _compress(msgspec.json.encode(run.pinned))

        def job(db: sqlite3.Connection) -> Claim:
            check_room(db, room)
            # In the same transaction as the run: from its first moment, the run has an owner with a
            # lease.
            self._leases.renew(db)
            origin = (
                run.parent,
                run.forked_at,
                run.group,
                run.started_by,
                run.saved_as,
                run.workflow_version,
            )
            shown = encode_fields(run.progress)
            values = (
                run.id,
                run.name,
                run.input,
                *origin,
                shown,
                self._leases.owner,
                run.created,
                run.created,
                count,
            )
            query = f"INSERT INTO runs ({CREATED}) VALUES ({','.join('?' * len(values))},'running',1)"
            try:
                number = db.execute(query, values).lastrowid
            except sqlite3.IntegrityError:
                raise run_exists_error(run.id) from None
            assert number is not None
            db.execute("INSERT INTO pins VALUES (?, ?)", (number, pinned))
            first = position = 0
            for chunk in chunks:
                position = insert_chunk(db, number, first, chunk)
                first += chunk.count
            made.append(Claim(run.id, number, 1, count, count, position=position))
            # The last one: the writer may repeat a batch, and another process may have taken the number
            # of the first attempt in between.
            return made[-1]

        def undo(db: sqlite3.Connection) -> None:
            # If the transaction was rolled back, another process may have used the number for its own
            # run.
            query = "SELECT no FROM runs WHERE no = ? AND id = ? AND owner = ? AND fence = 1"
            for claim in made:
                if db.execute(query, (claim.run, run.id, self._leases.owner)).fetchone():
                    delete_run(db, claim.run)

        return await self._register_claim(job, RowUpdate("running", self._now()), undo, made)

    async def claim(self, run_id: str, *, force: bool = False) -> Claim:
        taken: list[Claim] = []
        before: list[tuple[int, TakeoverRow | None]] = []
        """The owner that the run had, and its take-overs."""

        def job(db: sqlite3.Connection) -> Claim | Busy:
            query = (
                f"SELECT no, fence, status, {FACTS}, pruned, coalesce(({_LAST_SNAPSHOT}), 0), "
                f"{LEASE_COLUMNS} FROM runs {JOIN_LEASE} WHERE id = ?"
            )
            found = db.execute(query, (run_id,)).fetchone()
            if found is None:
                raise no_run_error(run_id)
            number, fence, status, facts, pruned, frozen, *lease = found
            if pruned:
                raise StoreError(f"run {run_id} was pruned to its rounds '{pruned}', and cannot be resumed")
            owner = self._owner(number, fence, lease)
            if owner is not None and not force:
                self._leases.shorten(db, owner)
                # Returned and not raised: an exception would roll back the line above.
                return Busy(f"another process owns run {run_id} ({self._leases.describe(owner)})")
            died = (
                owner is None
                and status == "running"
                and (number, fence) not in self._unreleased
                and self._leases.was_abandoned(lease_of(lease))
            )
            self._leases.renew(db)
            changed = (fence + 1, self._leases.owner, number)
            db.execute("UPDATE runs SET fence = ?, owner = ? WHERE no = ?", changed)
            before.append((lease[0], takeover_row(db, number)))
            crashes = update_takeovers(db, number, facts, died=died)
            taken.append(Claim(run_id, number, fence + 1, facts, facts - frozen, crashes))
            return taken[-1]  # see create

        def undo(db: sqlite3.Connection) -> None:
            # Restores the old fence, so that a live owner from which the run was taken can continue.
            # Nobody has received a claim with the new fence, so that number can be given again.
            query = "UPDATE runs SET fence = fence - 1, owner = ? WHERE no = ? AND fence = ?"
            for claim, (owner, takeovers) in zip(taken, before, strict=True):
                if db.execute(query, (owner, claim.run, claim.fence)).rowcount:
                    set_takeovers(db, claim.run, takeovers)

        return await self._register_claim(job, RowUpdate(), undo, taken)

    async def _register_claim(
        self, job: Job[Claim | Busy], update: RowUpdate, undo: Job[None], made: Sequence[Claim]
    ) -> Claim:
        try:
            claim = await self._writer.write(job)
        except asyncio.CancelledError:
            # The writer executes the job all the same, and nobody would receive the claim. `undo` is
            # queued behind the job, so it finds the job done, or not done at all.
            try:
                await run_shielded(self._writer.write(undo))
            except StoreError:  # the heartbeat tries again to release it
                self._unreleased.update((claim.run, claim.fence) for claim in made)
            raise
        if isinstance(claim, Busy):
            raise claim
        self._claims[claim.run, claim.fence] = update
        # The first claim makes the timer active. The thread would notice only with its next job, and a
        # run that waits for an answer may have none for hours.
        if len(self._claims) == 1:
            self._writer.start(self._heartbeat)
        self._writer.appenders = len(self._claims)
        return claim

    def _owner(self, run: int, fence: int, columns: Sequence[Any]) -> OwnerLease | None:
        """The lease by which a run is owned; None if nobody owns the run."""
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
        """Changes nothing if another process has claimed the run meanwhile, since its fence is higher
        then."""
        db.execute("UPDATE runs SET owner = 0 WHERE no = ? AND fence = ?", (run, fence))

    async def lost(self, claims: Sequence[Claim]) -> list[Claim]:
        query = "SELECT 1 FROM runs WHERE no = ? AND fence = ?"

        def job(db: sqlite3.Connection) -> list[Claim]:
            return [
                claim for claim in claims if db.execute(query, (claim.run, claim.fence)).fetchone() is None
            ]

        return await self._writer.read(job)

    async def crashes(self, run_id: str) -> int:
        def job(db: sqlite3.Connection) -> int:
            found = db.execute("SELECT no FROM runs WHERE id = ?", (run_id,)).fetchone()
            if found is None:
                raise no_run_error(run_id)
            # A store that is only read may be older than the table.
            return count_takeovers(db, found[0]) if has_table(db, "takeovers") else 0

        return await self._writer.read(job)

    async def release(self, claim: Claim) -> None:
        key = (claim.run, claim.fence)
        self._claims.pop(key, None)
        self._writer.appenders = len(self._claims)
        # Added before the write: if that fails, or this caller is cancelled, the heartbeat releases it.
        self._unreleased.add(key)
        await self._writer.write(lambda db: self._release(db, *key))
        self._unreleased.discard(key)

    async def release_all(self) -> None:
        """Ends the lease, and with it the ownership of all runs at once; their rows need no update,
        since they name an owner that does not exist any more."""
        self._claims.clear()
        self._unreleased.clear()
        self._writer.appenders = 0
        if self._leases.is_stored:
            with contextlib.suppress(StoreError):  # other processes then wait for its expiry
                await self._writer.write(self._leases.end())


@lru_cache(maxsize=8)
def _compress(pinned: bytes) -> bytes:
    """Cached, since a process starts many runs of few workflows, and compressing one takes as long as
    several effects."""
    return zlib.compress(pinned, 6)
