"""Runs in one SQLite file: write-ahead log, one writing thread, grouped commits."""

from __future__ import annotations

import os
import sqlite3
import time
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec

from roundel.journal.chunks import VERSION, unpack
from roundel.journal.faults import explained
from roundel.journal.owner import LEASE, is_alive, let_go, me
from roundel.journal.schema import migrate
from roundel.journal.store import (
    Busy,
    Chunk,
    Claim,
    Control,
    Fenced,
    NewRun,
    NoRun,
    Pinned,
    RunRow,
    StoreError,
    Wish,
)
from roundel.journal.writer import Writer
from roundel.kernel.events import Event
from roundel.kernel.facts import Fact

Sync = Literal["full", "normal", "off"]
BUSY_SECONDS = 10.0
APPEND = (
    "UPDATE runs SET status = ?, updated = ?, facts = ?, until = ? WHERE no = ? AND fence = ? AND facts = ?"
)
COLUMNS = "id, name, status, created, updated, input, facts, owner, parent, forked_at, summary, pruned, until"


class SqliteStore:
    """`sync`: `full` survives a power cut, `normal` a killed process, `off` neither for certain."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        sync: Sync = "full",
        clock: Callable[[], float] = time.time,
        busy_seconds: float = BUSY_SECONDS,
    ) -> None:
        if sync not in get_args(Sync):
            raise StoreError(f"sync is one of {', '.join(get_args(Sync))}, not '{sync}'")
        self.path = Path(path)
        self._sync = sync
        self._now = clock
        self._busy_seconds = busy_seconds
        self._claims: set[str] = set()
        """The owners of the runs that are at work here."""
        self._writer = Writer(self._connect, self._explained)

    @property
    def folder(self) -> Path:
        return self.path.resolve().parent

    @property
    def writer(self) -> Writer:
        """For what else belongs into the file: memory."""
        return self._writer

    @property
    def commits(self) -> int:
        return self._writer.commits

    def _connect(self) -> sqlite3.Connection:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(
            self.path, isolation_level=None, timeout=self._busy_seconds, check_same_thread=False
        )
        try:
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(f"PRAGMA synchronous = {self._sync}")
            migrate(connection, str(self.path))
        except BaseException:
            connection.close()
            raise
        return connection

    def _explained(self, error: Exception) -> StoreError:
        return explained(error, self.path)

    # Runs.

    async def create(self, run: NewRun, chunk: Chunk | None = None) -> Claim:
        owner = me()

        def job(db: sqlite3.Connection) -> Claim:
            values = (
                run.id,
                run.name,
                "running",
                run.created,
                run.created,
                run.input,
                run.parent,
                run.forked_at,
                msgspec.json.encode(run.pinned),
                owner,
                self._now() + LEASE,
            )
            names = (
                "id, name, status, created, updated, input, parent, forked_at, pinned, owner, until, fence"
            )
            number = db.execute(
                f"INSERT INTO runs ({names}) VALUES (?,?,?,?,?,?,?,?,?,?,?,1)", values
            ).lastrowid
            assert number is not None
            count = 0
            if chunk is not None:
                _insert(db, number, 0, chunk)
                count = chunk.count
                db.execute("UPDATE runs SET facts = ? WHERE no = ?", (count, number))
            return Claim(run.id, number, 1, count, owner, count)

        return await self._claimed(owner, job)

    async def claim(self, run_id: str) -> Claim:
        mine = me()

        def job(db: sqlite3.Connection) -> Claim:
            query = (
                "SELECT no, fence, owner, until, facts, pruned, "
                "facts - coalesce((SELECT facts FROM snapshots WHERE run = no), 0) FROM runs WHERE id = ?"
            )
            found = db.execute(query, (run_id,)).fetchone()
            if found is None:
                raise _no_run(run_id)
            number, fence, owner, until, facts, pruned, fresh = found
            if pruned:
                raise StoreError(f"run {run_id} was pruned to its rounds '{pruned}', and cannot go on")
            if is_alive(owner, until, self._now()):
                raise Busy(f"another process is at work on run {run_id} ({_shown(owner)})")
            changed = (fence + 1, mine, self._now() + LEASE, number)
            db.execute("UPDATE runs SET fence = ?, owner = ?, until = ? WHERE no = ?", changed)
            return Claim(run_id, number, fence + 1, facts, mine, fresh)

        return await self._claimed(mine, job)

    async def _claimed(self, owner: str, job: Callable[[sqlite3.Connection], Claim]) -> Claim:
        try:
            claim = await self._writer.write(job)
        except BaseException:
            let_go(owner)
            raise
        self._claims.add(owner)
        return claim

    async def append(
        self,
        claim: Claim,
        first: int,
        chunk: Chunk,
        status: str,
        summary: dict[str, Any] | None,
        quiet: bool = False,
    ) -> None:
        def job(db: sqlite3.Connection) -> None:
            now = self._now()
            values = (status, now, first + chunk.count, now + LEASE, claim.run, claim.fence, first)
            if db.execute(APPEND, values).rowcount != 1:
                raise self._out_of_step(db, claim, first)
            _insert(db, claim.run, first, chunk)
            if summary is not None:
                db.execute("UPDATE runs SET summary = ? WHERE no = ?", (_json(summary), claim.run))

        # A run that is alone has nobody to share a commit with. With a full sync it waits for the disk, which
        # is no harm while it has nothing else to do.
        alone = len(self._claims) == 1 and (quiet or self._sync != "full")
        if not (alone and self._writer.write_at_once(job)):
            await self._writer.write(job)

    async def renew(self, claim: Claim) -> None:
        def job(db: sqlite3.Connection) -> None:
            values = (self._now() + LEASE, claim.run, claim.fence)
            self._fenced(db.execute("UPDATE runs SET until = ? WHERE no = ? AND fence = ?", values), claim)

        await self._writer.write(job)

    async def release(self, claim: Claim) -> None:
        let_go(claim.owner)
        self._claims.discard(claim.owner)

        def job(db: sqlite3.Connection) -> None:
            query = "UPDATE runs SET owner = '', until = 0 WHERE no = ? AND fence = ?"
            db.execute(query, (claim.run, claim.fence))

        await self._writer.write(job)

    @staticmethod
    def _fenced(cursor: sqlite3.Cursor, claim: Claim) -> None:
        if cursor.rowcount != 1:
            raise Fenced(f"another process has taken over run {claim.run_id}; this one has stopped")

    def _out_of_step(self, db: sqlite3.Connection, claim: Claim, first: int) -> StoreError:
        """Why nothing can be appended."""
        query = "SELECT fence, facts FROM runs WHERE no = ?"
        fence, facts = db.execute(query, (claim.run,)).fetchone() or (0, 0)
        if fence != claim.fence:
            return Fenced(f"another process has taken over run {claim.run_id}; this one has stopped")
        return StoreError(
            f"{self.path}: run {claim.run_id} has {facts} facts where {first} should be, since something "
            f"could not be written; `roundel resume {claim.run_id}` goes on from there"
        )

    # Facts.

    async def save_snapshot(self, claim: Claim, facts: int, body: bytes) -> None:
        def job(db: sqlite3.Connection) -> None:
            query = "REPLACE INTO snapshots SELECT no, ?, ? FROM runs WHERE no = ? AND fence = ?"
            self._fenced(db.execute(query, (facts, body, claim.run, claim.fence)), claim)

        await self._writer.write(job)

    async def snapshot(self, run_id: str) -> tuple[int, bytes] | None:
        query = "SELECT s.facts, s.body FROM snapshots s JOIN runs r ON r.no = s.run WHERE r.id = ?"
        return await self._writer.read(lambda db: db.execute(query, (run_id,)).fetchone())

    async def facts(self, run_id: str, after: int = 0) -> list[Fact]:
        def job(db: sqlite3.Connection) -> tuple[tuple[int, int, str], list[tuple[int, int, int, bytes]]]:
            found = db.execute("SELECT no, facts, pruned FROM runs WHERE id = ?", (run_id,)).fetchone()
            if found is None:
                raise _no_run(run_id)
            # The chunk that holds the first of them may begin before it.
            query = (
                "SELECT first, count, version, body FROM chunks WHERE run = ?1 AND first >= "
                "coalesce((SELECT max(first) FROM chunks WHERE run = ?1 AND first <= ?2), 0) ORDER BY first"
            )
            return found, db.execute(query, (found[0], after)).fetchall()

        (_, count, pruned), rows = await self._writer.read(job)
        if pruned:
            raise StoreError(f"only the rounds '{pruned}' were kept of run {run_id}; its facts are gone")
        facts: list[Fact] = []
        reached = after
        for first, many, version, body in rows:
            if first > reached:
                raise self._unreadable(run_id, reached, f"{first - reached} facts are missing")
            try:
                found = unpack(body, version)
            except (ValueError, msgspec.MsgspecError) as error:
                raise self._unreadable(run_id, first, str(error)) from None
            if len(found) != many:
                raise self._unreadable(run_id, first, f"there are {len(found)} facts in place of {many}")
            facts += found[reached - first :]
            reached = max(reached, first + many)
        if reached < count:
            raise self._unreadable(run_id, reached, f"{count - reached} facts are missing")
        return facts

    def _unreadable(self, run_id: str, number: int, why: str) -> StoreError:
        return StoreError(
            f"{self.path}: run {run_id} cannot be read at fact {number}: {why}; "
            "the file is damaged, use a copy of it, or begin the run anew"
        )

    async def kept(self, run_id: str) -> list[Event] | None:
        query = "SELECT k.body FROM kept k JOIN runs r ON r.no = k.run WHERE r.id = ?"
        found = await self._writer.read(lambda db: db.execute(query, (run_id,)).fetchone())
        return None if found is None else msgspec.json.decode(zlib.decompress(found[0]), type=list[Event])

    async def prune(self, run_id: str, events: Sequence[Event], policy: str) -> None:
        """Keeps these events of a run that is over, in place of its facts."""
        body = zlib.compress(msgspec.json.encode(list(events), enc_hook=repr), 6)

        def job(db: sqlite3.Connection) -> None:
            number = _number(db, run_id)
            db.execute("REPLACE INTO kept VALUES (?, ?)", (number, body))
            db.execute("UPDATE runs SET pruned = ? WHERE no = ?", (policy, number))
            for table in ("chunks", "snapshots", "controls"):
                db.execute(f"DELETE FROM {table} WHERE run = ?", (number,))

        await self._writer.write(job)

    async def delete(self, run_id: str) -> None:
        def job(db: sqlite3.Connection) -> None:
            number = _number(db, run_id)
            for table in ("chunks", "snapshots", "controls", "kept"):
                db.execute(f"DELETE FROM {table} WHERE run = ?", (number,))
            db.execute("DELETE FROM runs WHERE no = ?", (number,))

        await self._writer.write(job)

    async def shrink(self) -> None:
        """Gives room that is not needed any more back to the disk."""

        def job(db: sqlite3.Connection) -> None:
            # As a script: executed alone, it would stop after its first page.
            db.executescript("PRAGMA incremental_vacuum; PRAGMA wal_checkpoint(TRUNCATE);")

        await self._writer.read(job)

    # Looking.

    async def row(self, run_id: str) -> RunRow:
        query = f"SELECT {COLUMNS} FROM runs WHERE id = ?"
        found = await self._writer.read(lambda db: db.execute(query, (run_id,)).fetchone())
        if found is None:
            raise _no_run(run_id)
        return self._row(found)

    async def rows(self, limit: int = 100, status: str = "") -> list[RunRow]:
        where = "WHERE status = ?" if status else ""
        query = f"SELECT {COLUMNS} FROM runs {where} ORDER BY no DESC LIMIT ?"
        values = (status, limit) if status else (limit,)
        found = await self._writer.read(lambda db: db.execute(query, values).fetchall())
        return [self._row(values) for values in found]

    async def matching(self, beginning: str) -> list[str]:
        """The ids of runs that begin like this, the newest first."""
        query = "SELECT id FROM runs WHERE substr(id, 1, ?) = ? ORDER BY no DESC LIMIT 20"
        values = (len(beginning), beginning)
        return [
            found for (found,) in await self._writer.read(lambda db: db.execute(query, values).fetchall())
        ]

    def _row(self, values: Sequence[Any]) -> RunRow:
        found = dict(zip(COLUMNS.split(", "), values, strict=True))
        if not is_alive(found["owner"], found.pop("until"), self._now()):
            found["owner"] = ""
        found["summary"] = msgspec.json.decode(found["summary"]) if found["summary"] else None
        return RunRow(**found)

    async def pinned(self, run_id: str) -> Pinned:
        query = "SELECT pinned FROM runs WHERE id = ?"
        found = await self._writer.read(lambda db: db.execute(query, (run_id,)).fetchone())
        if found is None:
            raise _no_run(run_id)
        return msgspec.json.decode(found[0], type=Pinned)

    # Wishes.

    async def ask(self, run_id: str, wish: Wish, body: dict[str, Any]) -> int:
        def job(db: sqlite3.Connection) -> int:
            query = "INSERT INTO controls (run, wish, body) SELECT no, ?, ? FROM runs WHERE id = ?"
            cursor = db.execute(query, (wish, _json(body), run_id))
            if cursor.rowcount != 1 or cursor.lastrowid is None:
                raise _no_run(run_id)
            return cursor.lastrowid

        return await self._writer.write(job)

    async def controls(self, claim: Claim) -> list[Control]:
        query = "SELECT no, wish, body FROM controls WHERE run = ? AND outcome = '' ORDER BY no"
        found = await self._writer.read(lambda db: db.execute(query, (claim.run,)).fetchall())
        return [Control(number, wish, msgspec.json.decode(body)) for number, wish, body in found]

    async def settle(self, claim: Claim, numbers: Sequence[int], outcome: str) -> None:
        def job(db: sqlite3.Connection) -> None:
            for number in numbers:
                db.execute("UPDATE controls SET outcome = ? WHERE no = ?", (outcome, number))

        await self._writer.write(job)

    async def outcome(self, number: int) -> str:
        query = "SELECT outcome FROM controls WHERE no = ?"
        found = await self._writer.read(lambda db: db.execute(query, (number,)).fetchone())
        return found[0] if found else ""

    async def withdraw(self, number: int) -> bool:
        query = "UPDATE controls SET outcome = 'withdrawn' WHERE no = ? AND outcome = ''"
        return bool(await self._writer.write(lambda db: db.execute(query, (number,)).rowcount))

    async def close(self) -> None:
        await self._writer.close()


def _insert(db: sqlite3.Connection, run: int, first: int, chunk: Chunk) -> None:
    if chunk.count:
        db.execute(
            "INSERT INTO chunks VALUES (?, ?, ?, ?, ?)", (run, first, chunk.count, VERSION, chunk.body)
        )


def _number(db: sqlite3.Connection, run_id: str) -> int:
    found = db.execute("SELECT no FROM runs WHERE id = ?", (run_id,)).fetchone()
    if found is None:
        raise _no_run(run_id)
    number: int = found[0]
    return number


def _json(value: Any) -> bytes:
    return msgspec.json.encode(value, enc_hook=repr)


def _no_run(run_id: str) -> NoRun:
    return NoRun(f"there is no run '{run_id}' in this store; `roundel runs` lists them")


def _shown(owner: str) -> str:
    host, pid, _, _ = owner.rsplit("/", 3)
    return f"process {pid} on {host}"
