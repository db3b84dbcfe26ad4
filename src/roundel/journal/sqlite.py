"""SqliteStore: runs in one SQLite file, which many processes may use at once. Implements store.py.

Everything is written by one connection of one thread, or, where that is quicker, by a second connection
on the event loop while the thread is idle (writer.py). Both group what is requested in one iteration of
the loop into one transaction. Reading goes through the thread, too: it sees everything that this process
has written, and other processes never wait for a reader (write-ahead log).

    database.py, faults.py      the file, and what may be wrong with it
    schema.py, migration.py     its tables, and how files of older formats are converted
    writer.py                   who writes, and what shares a transaction
    leases.py                   who owns a run
    chunk_rows.py               facts in rows
    run_rows.py                 lists of runs
    waiting.py                  waiting for appends
    sqlite_memory.py            memories
    sqlite_documents.py         documents
    run_journal.py              not part of the store: how a host packs facts and takes snapshots

*Control requests* are rows. A request is open while its outcome is empty. The first to set the outcome
decides (the owner that settles the request, or the requester that withdraws it), since both update only
an open row. So a request is either applied or withdrawn, never both.

*Damage.* A row that is decoded outside of a job of the writer must be decoded inside `decoding_from` or
`decoding_entries`, so that damage becomes a StoreError. Inside of a job the writer explains every
exception.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec

from roundel.journal.chunk_rows import (
    APPEND,
    FACTS,
    UPDATE_EVERY,
    RowUpdate,
    add_pieces,
    add_texts,
    append,
    appended,
    chunks_after,
    chunks_with,
    clear_run,
    decode_entries,
    decoding_entries,
    delete_run,
    encode_fields,
    entries_among,
    explain_append_refusal,
    last_event,
    lost_claim_error,
    newest_by_run,
    newest_position,
    newest_position_of,
    no_run_error,
    unpack_piece,
    without_facts,
)
from roundel.journal.database import Database
from roundel.journal.faults import decoding_from
from roundel.journal.leases import (
    LEASE_SECONDS,
    Leases,
    Processes,
    SystemProcesses,
)
from roundel.journal.run_rows import RunRows, with_excerpt
from roundel.journal.spending import RunsAtOnce, Spent
from roundel.journal.sqlite_documents import SqliteDocumentStore
from roundel.journal.sqlite_memory import SqliteMemoryStore
from roundel.journal.sqlite_spending import SpendingRows, book, book_rest
from roundel.journal.store import (
    ALL_RUNS,
    Appended,
    Chunk,
    Claim,
    ControlRequest,
    Conversion,
    NewRun,
    Pinned,
    Progress,
    RequestKind,
    Snapshot,
    StoreError,
)
from roundel.journal.waiting import DELETED_SECONDS, POLL_SECONDS, AppendSignal, run_shielded
from roundel.journal.writer import Timer, Writer
from roundel.kernel.events import EVENTS, Event, RunStatus, decode_event, encode_event, is_over
from roundel.kernel.facts import VERSION, Entry, Fact

_SETTLE = "UPDATE controls SET outcome = ? WHERE no = ? AND run = ? AND outcome = ''"


class ControlRequests:
    """The part of SqliteStore that stores control requests."""

    _writer: Writer

    async def request(self, run_id: str, kind: RequestKind, body: dict[str, Any]) -> int:
        """One statement finds the run and adds the request, so a run that is deleted meanwhile gets
        none."""
        encoded = msgspec.json.encode(body, enc_hook=repr)

        def job(db: sqlite3.Connection) -> int:
            query = "INSERT INTO controls (run, kind, body) SELECT no, ?, ? FROM runs WHERE id = ?"
            cursor = db.execute(query, (kind, encoded, run_id))
            if cursor.rowcount != 1 or cursor.lastrowid is None:
                raise no_run_error(run_id)
            return cursor.lastrowid

        return await self._writer.write(job)

    async def requests(self, claims: Sequence[Claim]) -> list[ControlRequest]:
        # The partial index contains open requests only, of which there is rarely one. Reading all of
        # them costs less than looking for those of two hundred runs one by one. `INDEXED BY` makes it an
        # error, instead of a slow scan five times a second, if the index cannot be used.
        query = (
            "SELECT no, run, kind, body FROM controls INDEXED BY controls_open WHERE outcome = '' ORDER BY no"
        )
        runs = {claim.run: claim.run_id for claim in claims}

        def job(db: sqlite3.Connection) -> list[ControlRequest]:
            # Decoded in the job, where the writer explains an error as damage of the store.
            return [
                ControlRequest(number, runs[run], kind, msgspec.json.decode(body))
                for number, run, kind, body in db.execute(query)
                if run in runs
            ]

        return await self._writer.read(job) if runs else []

    async def settle(self, claim: Claim, numbers: Sequence[int], outcome: str) -> None:
        def job(db: sqlite3.Connection) -> None:
            # In the transaction of the update: an owner that was fenced must not report an outcome,
            # since the fact behind it may not have been written.
            query = "SELECT fence FROM runs WHERE no = ?"
            found = db.execute(query, (claim.run,)).fetchone()
            if found != (claim.fence,):
                raise lost_claim_error(claim, found is not None)
            db.executemany(_SETTLE, [(outcome, number, claim.run) for number in numbers])

        await self._writer.write(job)

    async def outcome(self, number: int) -> str:
        query = "SELECT outcome FROM controls WHERE no = ?"
        found = await self._writer.read(lambda db: db.execute(query, (number,)).fetchone())
        return found[0] if found else ""

    async def withdraw(self, number: int) -> bool:
        """Decided by the row count of one update, which only an open request matches."""
        query = "UPDATE controls SET outcome = 'withdrawn' WHERE no = ? AND outcome = ''"
        return bool(await self._writer.write(lambda db: db.execute(query, (number,)).rowcount))


Sync = Literal["full", "normal", "off"]
BUSY_SECONDS = 10.0
"""How long the thread waits for another process that writes."""
MANY_APPENDS = 10_000
"""With more new positions than this, a poll looks for those of the runs that somebody waits for."""
SAVE_SNAPSHOT = "REPLACE INTO snapshots SELECT (no << 32) + ?, ?, ? FROM runs WHERE no = ? AND fence = ?"
"""Checks the fence in the same statement, and changes no row if it is old."""

MAX_INLINE_BYTES = 50_000
"""Bytes of pieces up to which the event loop packs and writes them itself: less than a millisecond."""


class SqliteStore(RunRows, ControlRequests, SpendingRows):
    """Runs in one SQLite file. Created by `open_store` (registry.py), or by programs directly.

    `sync`: after `full`, a commit survives a power cut; after `normal`, a killed process; after `off`,
    neither for certain. Nothing is opened or created before the first call."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        sync: Sync = "full",
        clock: Callable[[], float] = time.time,
        busy_seconds: float = BUSY_SECONDS,
        lease_seconds: float = LEASE_SECONDS,
        processes: Processes | None = None,
    ) -> None:
        if sync not in get_args(Sync):
            raise StoreError(f"sync is one of {', '.join(get_args(Sync))}, not '{sync}'")
        self.path = Path(path)
        leases = Leases(clock, lease_seconds, processes or SystemProcesses())
        self._database = Database(
            self.path, sync=sync, busy_seconds=busy_seconds, live_owner=leases.live_owner
        )
        self._signal = AppendSignal()
        self._polled = 0
        """Those who wait have been told of all appends of other processes up to this position."""
        # Appends of other processes are found by polling, but only while somebody waits for one.
        polls = (
            Timer(POLL_SECONDS, self._notify, writes=False, active=self._signal.is_awaited),
            Timer(DELETED_SECONDS, self._notify_deleted, writes=False, active=self._signal.is_awaited),
        )
        super().__init__(leases, clock)
        self._writer = Writer(
            self._database,
            waits_for_disk=sync == "full",
            timers=(self._heartbeat, *polls),
        )

    @property
    def location(self) -> str:
        return str(self.path)

    @cached_property
    def workspaces(self) -> Path:
        return self._database.folder / "work"  # cached: resolving links takes time

    @property
    def waiting_writes(self) -> int:
        return self._writer.waiting

    def memory(self) -> SqliteMemoryStore:
        return SqliteMemoryStore(self._writer)

    def documents(self) -> SqliteDocumentStore:
        return SqliteDocumentStore(self._writer, self._now)

    @property
    def commits(self) -> int:
        return self._writer.commits

    async def exists(self) -> bool:
        return self._database.exists()

    async def size(self) -> int:
        return self._database.size()

    async def migrate(self, check: bool = False) -> Conversion:
        """Without the writer, which opens no file of an older format. The file has to be closed."""
        return await run_shielded(asyncio.to_thread(self._database.migrate, check))

    async def create(self, run: NewRun, *chunks: Chunk, room: Sequence[RunsAtOnce] = ()) -> Claim:
        claim = await super().create(run, *chunks, room=room)
        self._signal.notify(claim.position, claim.run_id)
        return claim

    async def append(
        self,
        claim: Claim,
        first: int,
        chunk: Chunk,
        status: RunStatus,
        summary: dict[str, Any] | None,
        quiet: bool = False,
        progress: Progress | None = None,
        spent: Sequence[Spent] = (),
        pieces: Mapping[str, bytes] = {},
    ) -> int:
        # Nearly every append is one row, with one statement, which may be written inline. The row of the
        # run is left out of it, since it would be a second page in each commit; its status is the same,
        # and how many facts there are follows from the chunks. It is updated with each change of status,
        # for which others wait, and otherwise once a second.
        now, last = self._now(), self._claims.get((claim.run, claim.fence))
        if (
            last is not None
            and summary is None
            and not spent
            and chunk.count
            and status == last.status
            and last.time <= now < last.time + UPDATE_EVERY
        ):
            # The values of APPEND.
            row = (first, chunk.count, VERSION, chunk.body, claim.run, claim.fence, chunk.seq)
            appended = (claim, first, chunk)
            if pieces:
                job = partial(self._append_with, row=row, appended=appended, pieces=pieces)
                if sum(map(len, pieces.values())) > MAX_INLINE_BYTES:  # packing them takes a while
                    position = await self._writer.write(job)
                else:
                    position = await self._writer.write_rows(job, can_wait=quiet)
            else:
                position = await self._writer.add(APPEND, row, self._refusal, appended, can_wait=quiet)
        else:
            position = await self._append_with_row(
                claim, first, chunk, status, summary, progress, spent, pieces
            )
        if position:
            self._signal.notify(position, claim.run_id)
        return position

    async def _append_with_row(
        self,
        claim: Claim,
        first: int,
        chunk: Chunk,
        status: RunStatus,
        summary: dict[str, Any] | None,
        progress: Progress | None,
        spent: Sequence[Spent],
        pieces: Mapping[str, bytes],
    ) -> int:
        # Remembered before it is written: a write that fails ends the run in its host, so nothing wrong
        # is concluded from it.
        update = RowUpdate(status, self._now())
        if (claim.run, claim.fence) in self._claims:
            self._claims[claim.run, claim.fence] = update
        ended = encode_fields(summary)
        shown = encode_fields(with_excerpt(progress(), summary, ended)) if progress is not None else None

        def job(db: sqlite3.Connection) -> int:
            position = append(db, claim, first, self.location, chunk, update, ended, shown)
            add_pieces(db, claim.run, pieces)
            book(db, claim.run, spent)
            if is_over(status):
                book_rest(db, claim.run)
            return position

        return await self._writer.write(job)

    def _append_with(
        self,
        db: sqlite3.Connection,
        row: tuple[Any, ...],
        appended: tuple[Claim, int, Chunk],
        pieces: Mapping[str, bytes],
    ) -> int:
        """A job: the row of a chunk, and the pieces that its facts name. Returns the position of the chunk, 0
        if it is there already."""
        cursor = db.execute(APPEND, row)
        position = (cursor.lastrowid or 0) if cursor.rowcount == 1 else 0
        if not position and (failure := self._refusal(db, appended)) is not None:
            raise failure
        add_pieces(db, appended[0].run, pieces)
        return position

    def _refusal(self, db: sqlite3.Connection, appended: tuple[Claim, int, Chunk]) -> StoreError | None:
        """For the writer: why APPEND changed no row."""
        return explain_append_refusal(db, *appended, self.location)

    async def appended(self, after: int = 0, limit: int = 1000) -> list[Appended]:
        return await self._writer.read(lambda db: appended(db, after, limit))

    async def last_event(self, run_id: str) -> int | None:
        return await self._writer.read(lambda db: last_event(db, run_id))

    async def wait_for_append(self, after: int, run_id: str = ALL_RUNS) -> int:
        def newest(db: sqlite3.Connection) -> int:
            return newest_position_of(db, run_id) if run_id else newest_position(db)

        return await self._signal.wait(after, lambda: self._writer.read(newest), run_id)

    def _notify(self, db: sqlite3.Connection) -> None:
        """A timer's job, in the writing thread."""
        newest = newest_position(db)
        if newest == self._polled:
            return
        if newest - self._polled <= MANY_APPENDS:
            found = newest_by_run(db, self._polled)
        else:  # nobody has waited for long
            waited = self._signal.runs()
            gone = without_facts(db, waited)
            found = [(run_id, newest_position_of(db, run_id)) for run_id in waited if run_id not in gone]
        for run_id, position in found:
            self._signal.notify(position, run_id)
        self._signal.notify(newest, ALL_RUNS)
        self._polled = newest

    def _notify_deleted(self, db: sqlite3.Connection) -> None:
        """A timer's job, in the writing thread."""
        for run_id in without_facts(db, self._signal.runs()):
            self._signal.deleted(run_id)

    # Facts.

    async def save_snapshot(self, claim: Claim, snapshot: Snapshot, texts: Mapping[str, str]) -> None:
        values = (snapshot.seq, snapshot.facts, snapshot.body, claim.run, claim.fence)
        if not texts:  # one row, which can be written inline
            await self._writer.add(SAVE_SNAPSHOT, values, _explain_lost_claim, claim)
            return
        packed = {digest: zlib.compress(text.encode()) for digest, text in texts.items()}

        # The texts in the same transaction: a snapshot that refers to missing ones would not be usable.
        def job(db: sqlite3.Connection) -> None:
            _check_claim(db, db.execute(SAVE_SNAPSHOT, values), claim)
            add_texts(db, claim.run, packed)

        await self._writer.write(job)

    async def snapshot(self, run_id: str, seq: int | None = None) -> Snapshot | None:
        query = (
            "SELECT s.facts, s.place & 4294967295, s.body FROM runs r JOIN snapshots s "
            "ON s.place BETWEEN r.no << 32 AND (r.no << 32) + ? WHERE r.id = ? ORDER BY s.place DESC LIMIT 1"
        )
        # A place is the run's number and, in the lower 32 bits, the number of the last event. A larger number
        # would be a place of another run.
        values = (4294967295 if seq is None else min(seq, 4294967295), run_id)
        found = await self._writer.read(lambda db: db.execute(query, values).fetchone())
        return Snapshot(*found) if found is not None else None

    async def texts(self, run_id: str, digests: Sequence[str]) -> dict[str, str]:
        query = "SELECT t.body FROM texts t JOIN runs r ON r.no = t.run WHERE r.id = ? AND t.digest = ?"

        def job(db: sqlite3.Connection) -> dict[str, bytes]:
            rows = (
                (digest, db.execute(query, (run_id, bytes.fromhex(digest))).fetchone()) for digest in digests
            )
            return {digest: row[0] for digest, row in rows if row is not None}

        texts: dict[str, str] = {}
        for digest, body in (await self._writer.read(job)).items():
            # A damaged text is left out: then the snapshot that needs it is not used, and the facts are
            # replayed.
            with contextlib.suppress(zlib.error, UnicodeDecodeError):
                texts[digest] = zlib.decompress(body).decode()
        return texts

    async def pieces(self, run_id: str, digests: Sequence[str]) -> dict[str, bytes]:
        query = "SELECT t.body FROM texts t JOIN runs r ON r.no = t.run WHERE r.id = ? AND t.digest = ?"

        def job(db: sqlite3.Connection) -> dict[str, bytes]:
            rows = ((each, db.execute(query, (run_id, bytes.fromhex(each))).fetchone()) for each in digests)
            return {digest: row[0] for digest, row in rows if row is not None}

        found = await self._writer.read(job)
        # In a thread, and not in that of the writer: a call may have got megabytes.
        return await asyncio.to_thread(lambda: {each: unpack_piece(body) for each, body in found.items()})

    async def pieces_size(self, run_id: str) -> int:
        query = "SELECT sum(length(t.body)) FROM texts t JOIN runs r ON r.no = t.run WHERE r.id = ?"
        found = await self._writer.read(lambda db: db.execute(query, (run_id,)).fetchone())
        return found[0] or 0

    async def facts(self, run_id: str, after: int = 0) -> list[Fact]:
        return [entry.fact for entry in await self.entries(run_id, after)]

    async def entries(self, run_id: str, after: int = 0) -> list[Entry]:
        # Not decoded in the job: a long run takes a while, and the thread writes for all runs.
        count, rows = await self._writer.read(lambda db: chunks_after(db, run_id, after))
        with decoding_entries(self.location, run_id):
            return await decode_entries(rows, after, count)

    async def entries_at(self, run_id: str, numbers: Sequence[int]) -> dict[int, Entry]:
        with decoding_entries(self.location, run_id):
            rows = await self._writer.read(lambda db: chunks_with(db, run_id, numbers))
            return entries_among(rows, numbers)

    async def kept(self, run_id: str) -> list[Event] | None:
        query = "SELECT k.version, k.body FROM kept k JOIN runs r ON r.no = k.run WHERE r.id = ?"
        found = await self._writer.read(lambda db: db.execute(query, (run_id,)).fetchone())
        if found is None:
            return None
        version, body = found
        # In threads, here and in `prune`: what is left of a long run may be long.
        with decoding_from(self.path, f"what is left of run {run_id}"):
            return await asyncio.to_thread(_unpack_events, body, version)

    async def prune(self, run_id: str, events: Sequence[Event], policy: str) -> None:
        body = await asyncio.to_thread(_pack_events, events)

        def job(db: sqlite3.Connection) -> None:
            # One transaction: a crash leaves the whole run or the pruned one. How many facts there were
            # is written to the row before the chunks, from which it follows, are deleted.
            number = _run_number(db, run_id)
            book_rest(db, number)
            db.execute("REPLACE INTO kept VALUES (?, ?, ?)", (number, EVENTS.version, body))
            db.execute(f"UPDATE runs SET pruned = ?, facts = {FACTS} WHERE no = ?", (policy, number))
            clear_run(db, number, "texts", "controls", "takeovers")

        await self._writer.write(job)
        self._signal.deleted(run_id)

    async def delete(self, run_id: str) -> None:
        def job(db: sqlite3.Connection) -> None:
            number = _run_number(db, run_id)
            book_rest(db, number)
            delete_run(db, number)

        await self._writer.write(job)
        self._signal.deleted(run_id)

    async def compact(self) -> None:
        def job(db: sqlite3.Connection) -> None:
            # As a script: `execute` would stop `incremental_vacuum` after its first page.
            db.executescript("PRAGMA incremental_vacuum; PRAGMA wal_checkpoint(TRUNCATE);")

        await self._writer.read(job)  # as a read: a checkpoint is not possible inside of a transaction

    async def set_room_aside(self) -> None:
        await asyncio.to_thread(self._database.set_room_aside)

    async def use_room(self) -> bool:
        if not await asyncio.to_thread(self._database.use_room):
            return False
        # The log may have no room to grow, and now becomes empty.
        await self._writer.read(lambda db: db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone())
        return True

    async def pinned(self, run_id: str) -> Pinned:
        query = "SELECT p.body FROM pins p JOIN runs r ON r.no = p.run WHERE r.id = ?"
        found = await self._writer.read(lambda db: db.execute(query, (run_id,)).fetchone())
        if found is None:
            raise no_run_error(run_id)
        with decoding_from(self.path, f"what run {run_id} was started with"):
            return msgspec.json.decode(zlib.decompress(found[0]), type=Pinned)

    async def close(self) -> None:
        """Releases all claims, completes what was requested, and closes the file. The signal first:
        those who wait for an append get an error instead of waiting for ever."""
        self._signal.close(f"{self.path}: the store was closed while an append was waiting")
        await self.release_all()
        await self._writer.close()


def _pack_events(events: Sequence[Event]) -> bytes:
    return zlib.compress(b"\n".join(map(encode_event, events)), 6)


def _unpack_events(body: bytes, version: int) -> list[Event]:
    return [decode_event(line, version) for line in zlib.decompress(body).splitlines()]


def _check_claim(db: sqlite3.Connection, cursor: sqlite3.Cursor, claim: Claim) -> None:
    """Raises if a statement with a fence changed no row: the claim is not valid any more."""
    if cursor.rowcount != 1:
        raise _explain_lost_claim(db, claim)


def _explain_lost_claim(db: sqlite3.Connection, claim: Claim) -> StoreError:
    """Why a claim is not valid any more."""
    there = db.execute("SELECT 1 FROM runs WHERE no = ?", (claim.run,)).fetchone()
    return lost_claim_error(claim, there is not None)


def _run_number(db: sqlite3.Connection, run_id: str) -> int:
    found = db.execute("SELECT no FROM runs WHERE id = ?", (run_id,)).fetchone()
    if found is None:
        raise no_run_error(run_id)
    number: int = found[0]
    return number
