"""Chunks of facts as rows in SQLite: appended in order, under the newest claim, and read completely or
not at all.

*Appending.* One statement appends a chunk. It checks the fence of the claim and where the run's facts
end, and inserts nothing if either does not match. Check and insert in one statement need no transaction
around them, so a run alone pays for a single statement. How many facts a run has follows from its
chunks; the run's own row is updated only once a second, and whenever the status changes.

*Places.* A chunk's place is the number of its run, shifted by 32 bits, plus the number of its first
fact. So the chunks of a run are a range of one index.

*Positions.* A chunk's position is its row id: one more than the largest in the table, given inside the
transaction that inserts it. SQLite has one writer at a time, so positions rise in commit order over all
runs and all processes: a reader who has seen everything up to a position never finds a smaller one
later. The largest position must not be given again after its chunk was deleted, so an empty marker takes
its place then. (AUTOINCREMENT would do the same, but writes a page of `sqlite_sequence` with each
commit; timestamps may be given in another order than transactions commit.)

*Repeating.* A caller who does not know whether an append succeeded repeats it: the same chunk at the
same place under the same claim is no error and changes nothing. Another chunk at that place is an error.

*Reading* finds gaps, damaged chunks and missing ends, and reports the number of the fact. A run that
silently lacked facts would be replayed into another state.
"""

from __future__ import annotations

import asyncio
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
from msgspec import Struct

from roundel.journal.run_journal import MANY_FACTS, PACKED, PLAIN, WORTH_PACKING, unpack
from roundel.journal.store import Appended, Chunk, Claim, Fenced, Gone, NoRun, RunExists, StoreError
from roundel.kernel.facts import VERSION, Entry

OF_RUN = "place BETWEEN {0} << 32 AND ({0} << 32) + 4294967295"
"""The condition for the chunks, or snapshots, of a run."""
_LAST = f"SELECT place + count FROM chunks WHERE {OF_RUN.format('no')} ORDER BY place DESC LIMIT 1"
REACHED = f"coalesce(({_LAST}) - (no << 32), 0)"
"""Where the facts of a run end."""
FACTS = f"max(facts, {REACHED})"
"""How many facts a run should have: those that are there, or more if its row says more. The row proves
that chunks were there: if fewer are found, some were lost."""
_MAY_APPEND = f"no = ?5 AND fence = ?6 AND {REACHED} = ?1"
# Where nothing may be appended, the subquery is NULL, and `count` is NOT NULL, so OR IGNORE skips the
# row. An INSERT … SELECT from `runs` would mean the same, but SQLite would write its result to a
# temporary table first, since the query reads from the table that it inserts into.
APPEND = (
    "INSERT OR IGNORE INTO chunks (place, count, version, body, seq) "
    f"VALUES ((?5 << 32) + ?1, (SELECT ?2 FROM runs WHERE {_MAY_APPEND}), ?3, ?4, ?7)"
)
UPDATE_ROW = (
    "UPDATE runs SET status = ?2, updated = ?3, facts = ?4, progress = coalesce(?7, progress) "
    f"WHERE {_MAY_APPEND}"
)
UPDATE_EVERY = 1.0
"""Seconds after which a run's row is updated although its status is the same."""


class RowUpdate(Struct, frozen=True):
    """The last update of a run's row, which decides when the next one is due."""

    status: str = ""
    time: float = 0.0


def append(
    db: sqlite3.Connection,
    claim: Claim,
    first: int,
    location: str,
    chunk: Chunk,
    update: RowUpdate,
    summary: bytes | None,
    progress: bytes | None = None,
) -> int:
    """Appends a chunk and updates the run's row; both or nothing, in a transaction of the caller. Returns the
    position; 0 if no chunk was added."""
    reached = first + chunk.count
    values = (first, update.status, update.time, reached, claim.run, claim.fence, progress)
    if db.execute(UPDATE_ROW, values).rowcount != 1:
        failure = explain_append_refusal(db, claim, first, chunk, location)
        if failure is not None:
            raise failure
        return 0  # repeated: the row was updated together with the chunk the first time
    position = insert_chunk(db, claim.run, first, chunk)
    if summary is not None:
        db.execute("UPDATE runs SET summary = ? WHERE no = ?", (summary, claim.run))
    return position


def add_texts(db: sqlite3.Connection, run: int, texts: Mapping[str, bytes]) -> None:
    """Adds texts of a run by their digests, in a transaction that has checked the claim. Those that are there
    stay."""
    rows = [(run, bytes.fromhex(digest), body) for digest, body in texts.items()]
    db.executemany("INSERT OR IGNORE INTO texts VALUES (?, ?, ?)", rows)


def add_pieces(db: sqlite3.Connection, run: int, pieces: Mapping[str, bytes]) -> None:
    """Adds what model calls got. Packed here, in the thread that writes, unless they are short."""
    if pieces:
        add_texts(db, run, {digest: _pack_piece(body) for digest, body in pieces.items()})


def _pack_piece(body: bytes) -> bytes:
    return PLAIN + body if len(body) < WORTH_PACKING else PACKED + zlib.compress(body, 1)


def unpack_piece(body: bytes) -> bytes:
    """A piece as it was given; empty if it is damaged."""
    try:
        return zlib.decompress(body[1:]) if body[:1] == PACKED else body[1:]
    except zlib.error:
        return b""


def encode_fields(fields: dict[str, Any] | None) -> bytes | None:
    """A summary or a progress as it is stored; values of other types become texts."""
    return msgspec.json.encode(fields, enc_hook=repr) if fields is not None else None


def insert_chunk(db: sqlite3.Connection, run: int, first: int, chunk: Chunk) -> int:
    """Inserts a chunk without checks, in a transaction that has made them, and returns its position. Without
    facts it inserts nothing, and returns 0: a commit may change only the status."""
    if not chunk.count:
        return 0
    values = ((run << 32) + first, chunk.count, VERSION, chunk.body, chunk.seq)
    query = "INSERT INTO chunks (place, count, version, body, seq) VALUES (?, ?, ?, ?, ?)"
    return db.execute(query, values).lastrowid or 0


def explain_append_refusal(
    db: sqlite3.Connection, claim: Claim, first: int, chunk: Chunk, location: str
) -> StoreError | None:
    """Why a chunk was not appended; None if it is there already. The fence is checked first: a process
    that was fenced has to stop, even if its chunk happens to be there."""
    query = f"SELECT fence, {REACHED} FROM runs WHERE no = ?"
    found = db.execute(query, (claim.run,)).fetchone()
    if found is None or found[0] != claim.fence:
        return lost_claim_error(claim, found is not None)
    query = "SELECT 1 FROM chunks WHERE place = ? AND count = ? AND version = ? AND body = ?"
    if db.execute(query, ((claim.run << 32) + first, chunk.count, VERSION, chunk.body)).fetchone():
        return None
    return gap_error(claim, found[1], first, location)


def gap_error(claim: Claim, reached: int, first: int, location: str) -> StoreError:
    """The error for an append behind missing facts."""
    return StoreError(
        f"{location}: run {claim.run_id} has {reached} facts where {first} should be, since something "
        f"could not be written; `roundel resume {claim.run_id}` continues from there"
    )


def appended(db: sqlite3.Connection, after: int, limit: int) -> list[Appended]:
    """The chunks with larger positions, in order."""
    query = (
        "SELECT c.position, r.id, c.place & 4294967295, c.count FROM chunks c "
        "JOIN runs r ON r.no = c.place >> 32 WHERE c.position > ? ORDER BY c.position LIMIT ?"
    )
    return [Appended(*row) for row in db.execute(query, (after, limit))]


def last_event(db: sqlite3.Connection, run_id: str) -> int | None:
    """The number of the last event after a run's last chunk, if that is known."""
    return _in_last_chunk(db, run_id, "seq")


def _in_last_chunk(db: sqlite3.Connection, run_id: str, column: str) -> int | None:
    chunk = f"SELECT {column} FROM chunks WHERE {OF_RUN.format('no')} ORDER BY place DESC LIMIT 1"
    found = db.execute(f"SELECT ({chunk}) FROM runs WHERE id = ?", (run_id,)).fetchone()
    if found is None:
        raise no_run_error(run_id)
    value: int | None = found[0]
    return value


def newest_position_of(db: sqlite3.Connection, run_id: str) -> int:
    """The largest position of a run; 0 if it has no facts any more."""
    return _in_last_chunk(db, run_id, "position") or 0


def newest_by_run(db: sqlite3.Connection, after: int) -> list[tuple[str, int]]:
    """The runs that have larger positions, each with the largest."""
    query = (
        "SELECT r.id, c.newest FROM (SELECT place >> 32 AS run, max(position) AS newest FROM chunks "
        "WHERE position > ? GROUP BY run) c JOIN runs r ON r.no = c.run"
    )
    return db.execute(query, (after,)).fetchall()


def without_facts(db: sqlite3.Connection, run_ids: Iterable[str]) -> list[str]:
    """Those of these runs that were deleted or pruned."""
    query = "SELECT 1 FROM runs WHERE id = ? AND pruned = ''"
    return [run_id for run_id in run_ids if db.execute(query, (run_id,)).fetchone() is None]


def newest_position(db: sqlite3.Connection) -> int:
    """The largest position, that of the marker included; one look at the end of the table."""
    position: int | None = db.execute("SELECT max(position) FROM chunks").fetchone()[0]
    return position or 0


MARKER = -1
"""The place of the empty row that reserves the largest position; no chunk of a run has it."""


def delete_chunks(db: sqlite3.Connection, run: int) -> None:
    """Deletes the chunks of a run. If the largest position was among them, the marker gets it: otherwise
    the next append would get a position that readers have seen already, and they would miss it."""
    (newest,) = db.execute("SELECT max(position) FROM chunks").fetchone()
    db.execute(f"DELETE FROM chunks WHERE {OF_RUN.format('?1')}", (run,))
    if newest is None or db.execute("SELECT 1 FROM chunks WHERE position = ?", (newest,)).fetchone():
        return
    db.execute("DELETE FROM chunks WHERE place = ?", (MARKER,))
    values = (newest, MARKER, VERSION)
    db.execute("INSERT INTO chunks (position, place, count, version, body) VALUES (?, ?, 0, ?, X'')", values)


def delete_run(db: sqlite3.Connection, number: int) -> None:
    clear_run(db, number, "texts", "controls", "kept", "pins", "takeovers")
    db.execute("DELETE FROM runs WHERE no = ?", (number,))


def clear_run(db: sqlite3.Connection, number: int, *tables: str) -> None:
    """Deletes a run's facts and snapshots, and its rows in some other tables."""
    delete_chunks(db, number)
    db.execute(f"DELETE FROM snapshots WHERE {OF_RUN.format('?1')}", (number,))
    for table in tables:
        db.execute(f"DELETE FROM {table} WHERE run = ?", (number,))


def lost_claim_error(claim: Claim, run_exists: bool) -> StoreError:
    """The error for a claim that is not valid any more. `run_exists`: the store still has the run."""
    if run_exists:
        return Fenced(f"another process has taken over run {claim.run_id}; this one has stopped")
    return Gone(
        f"run {claim.run_id} is no longer in the store: it was deleted, or another file was put in place "
        "of the store; this process has stopped, and the run has to be started again"
    )


ChunkRow = tuple[int, int, int, bytes]
"""The number of a chunk's first fact, how many there are, their version, and the facts."""


class UnreadableEntry(Exception):
    """A fact cannot be read. `decoding_entries` makes a StoreError of it."""

    def __init__(self, number: int, why: str) -> None:
        super().__init__(number, why)
        self.number = number
        self.why = why


def chunks_after(db: sqlite3.Connection, run_id: str, after: int) -> tuple[int, list[ChunkRow]]:
    """How many facts there should be, and the chunks that contain those from number `after` on."""
    query = f"SELECT no, {FACTS}, pruned FROM runs WHERE id = ?"
    found = db.execute(query, (run_id,)).fetchone()
    if found is None:
        raise no_run_error(run_id)
    number, count, pruned = found
    if pruned:
        raise StoreError(f"run {run_id} was pruned to its rounds '{pruned}'; its facts were deleted")
    # The chunk that contains the first of them may begin before it.
    begins, ends = number << 32, number + 1 << 32
    query = (
        "SELECT place - ?1, count, version, body FROM chunks WHERE place < ?3 AND place >= "
        "coalesce((SELECT max(place) FROM chunks WHERE place BETWEEN ?1 AND ?2), ?1) ORDER BY place"
    )
    return count, db.execute(query, (begins, begins + after, ends)).fetchall()


def chunks_with(db: sqlite3.Connection, run_id: str, numbers: Sequence[int]) -> list[ChunkRow]:
    """The chunks that contain these facts, each once, in order. A chunk is found by the largest place at
    or before the fact, which is one look into the index."""
    found = db.execute("SELECT no FROM runs WHERE id = ?", (run_id,)).fetchone()
    if found is None:
        raise no_run_error(run_id)
    begins = found[0] << 32
    query = (
        "SELECT place - ?1, count, version, body FROM chunks "
        "WHERE place BETWEEN ?1 AND ?1 + ?2 ORDER BY place DESC LIMIT 1"
    )
    rows: dict[int, ChunkRow] = {}
    reached = -1
    for number in sorted(numbers):
        if number >= reached:
            row = db.execute(query, (begins, number)).fetchone()
            if row is None:
                raise UnreadableEntry(number, "it is missing")
            rows[row[0]] = row
            reached = row[0] + row[1]
    return list(rows.values())


def entries_among(rows: Sequence[ChunkRow], numbers: Iterable[int]) -> dict[int, Entry]:
    """Single entries of these chunks; UnreadableEntry if one of them is not there."""
    unpacked = {
        first + at: entry
        for first, length, version, body in rows
        for at, entry in enumerate(_unpack_chunk(first, length, version, body))
    }
    for number in numbers:
        if number not in unpacked:
            raise UnreadableEntry(number, "it is missing")
    return {number: unpacked[number] for number in numbers}


def entries_in(rows: Sequence[ChunkRow], after: int, count: int) -> list[Entry]:
    """The entries from number `after` on; UnreadableEntry if one of them is not there."""
    entries: list[Entry] = []
    reached = after
    for first, length, version, body in rows:
        if first > reached:
            raise UnreadableEntry(reached, f"{first - reached} facts are missing")
        entries += _unpack_chunk(first, length, version, body)[reached - first :]
        reached = max(reached, first + length)
    if reached < count:
        raise UnreadableEntry(reached, f"{count - reached} facts are missing")
    return entries


async def decode_entries(rows: Sequence[ChunkRow], after: int, count: int) -> list[Entry]:
    """Like `entries_in`, without keeping the event loop from others for long."""
    if count - after <= MANY_FACTS:
        return entries_in(rows, after, count)
    return await asyncio.to_thread(entries_in, rows, after, count)


def _unpack_chunk(first: int, length: int, version: int, body: bytes) -> list[Entry]:
    """The entries of a chunk. Their number is checked: a chunk with fewer would shift all facts behind
    it."""
    try:
        found = unpack(body, version)
    except (ValueError, msgspec.MsgspecError) as error:
        raise UnreadableEntry(first, str(error)) from None
    if len(found) != length:
        raise UnreadableEntry(first, f"there are {len(found)} facts in place of {length}")
    return found


@contextmanager
def decoding_entries(location: str, run_id: str) -> Iterator[None]:
    """Around the decoding of entries: an UnreadableEntry becomes a StoreError that says what to do."""
    try:
        yield
    except UnreadableEntry as found:
        raise StoreError(
            f"{location}: run {run_id} cannot be read at fact {found.number}: {found.why}; "
            "the file is damaged: use a copy of it, or start the run again"
        ) from None


def run_exists_error(run_id: str) -> RunExists:
    return RunExists(f"there is a run '{run_id}' in this store already; use another id")


def no_run_error(run_id: str) -> NoRun:
    return NoRun(f"there is no run '{run_id}' in this store; `roundel runs` lists them")
