"""Claims on runs in SQLite: creating runs, taking them over, and keeping them.

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
import sqlite3
import zlib
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from roundel.journal.appending import FACTS, OF_RUN, RowUpdate, delete_run, insert
from roundel.journal.batch import Job, Timer
from roundel.journal.leases import HEARTBEATS, JOIN_LEASE, LEASE_COLUMNS, Lease, Leases, lease_of
from roundel.journal.reading import exists_already, no_run
from roundel.journal.shield import shielded
from roundel.journal.store import Busy, Chunk, Claim, NewRun, StoreError
from roundel.journal.writer import Writer

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
            self._beat,
            writes=True,
            active=lambda: bool(self._claims or self._unreleased),
            done=self._forget_released,
        )

    async def create(self, run: NewRun, chunk: Chunk | None = None) -> Claim:
        made: list[Claim] = []
        count = chunk.count if chunk is not None else 0
        pinned = _compressed(msgspec.json.encode(run.pinned))

        def job(db: sqlite3.Connection) -> Claim:
            self._leases.renew(db)
            texts = (run.id, run.name, run.input, run.parent, run.forked_at)
            values = (*texts, self._leases.owner, run.created, run.created, count)
            names = "id, name, input, parent, forked_at, owner, created, updated, facts"
            query = f"INSERT INTO runs ({names}, status, fence) VALUES (?,?,?,?,?,?,?,?,?,'running',1)"
            try:
                number = db.execute(query, values).lastrowid
            except sqlite3.IntegrityError:
                raise exists_already(run.id) from None
            assert number is not None
            db.execute("INSERT INTO pins VALUES (?, ?)", (number, pinned))
            if chunk is not None:
                insert(db, number, 0, chunk)
            made.append(Claim(run.id, number, 1, count, count))
            return made[0]

        def undo(db: sqlite3.Connection) -> None:
            # If the transaction was rolled back, the number may be that of another run by now.
            query = "SELECT no FROM runs WHERE no = ? AND id = ? AND owner = ? AND fence = 1"
            for claim in made:
                if db.execute(query, (claim.run, run.id, self._leases.owner)).fetchone():
                    delete_run(db, claim.run)

        return await self._claimed(job, RowUpdate("running", self._now()), undo, made)

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
                raise no_run(run_id)
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

        return await self._claimed(job, RowUpdate(), undo, taken)

    async def _claimed(
        self, job: Job[Claim | Busy], update: RowUpdate, undo: Job[None], made: Sequence[Claim]
    ) -> Claim:
        try:
            claim = await self._writer.write(job)
        except asyncio.CancelledError:
            # The writer does what it was asked for all the same, and nobody would hold the claim.
            try:
                await shielded(self._writer.write(undo))
            except StoreError:
                self._unreleased.update((claim.run, claim.fence) for claim in made)
            raise
        if isinstance(claim, Busy):
            raise claim
        self._claims[claim.run, claim.fence] = update
        if len(self._claims) == 1:
            self._writer.start(self._heartbeat)  # a run that waits for a person has no jobs for the thread
        self._writer.crowd = len(self._claims)
        return claim

    def _owner(self, run: int, fence: int, columns: Sequence[Any]) -> Lease | None:
        """The lease by which a run is owned; None if nobody owns it."""
        lease = lease_of(columns)
        return lease if (run, fence) not in self._unreleased and self._leases.is_valid(lease) else None

    def _beat(self, db: sqlite3.Connection) -> None:
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
        self._writer.crowd = len(self._claims)
        self._unreleased.add(key)
        await self._writer.write(lambda db: self._release(db, *key))
        self._unreleased.discard(key)

    async def release_all(self) -> None:
        self._claims.clear()
        self._unreleased.clear()
        self._writer.crowd = 0
        if self._leases.is_stored:
            with contextlib.suppress(StoreError):  # other processes wait until the lease has expired
                await self._writer.write(self._leases.end())


@lru_cache(maxsize=8)
def _compressed(pinned: bytes) -> bytes:
    """A process starts many runs of few workflows, and to compress one takes as long as some effects."""
    return zlib.compress(pinned, 6)
