"""Appends chunks of facts to runs: in order, under the newest claim, each at a position of its own.

One statement appends a chunk. It checks the fence of the claim and where the run's facts end, and inserts
nothing if either does not match. How many facts a run has follows from its chunks; the run's own row is
updated only once a second, and whenever the status changes.

*Positions.* A chunk's position is its row id: one more than the largest in the table, given inside the
transaction that inserts it. SQLite has one writer at a time, so positions rise in commit order over all runs
and all processes: a reader who has seen everything up to a position never finds a smaller one later. The
largest position must not be given again after its chunk was deleted, so an empty marker takes its place then.

*Repeating.* A caller who does not know whether an append succeeded repeats it: the same chunk at the same
place under the same claim is no error and changes nothing. Another chunk at that place is an error.
"""

from __future__ import annotations

import sqlite3
from typing import Any

import msgspec
from msgspec import Struct

from roundel.journal.store import Appended, Chunk, Claim, Fenced, Gone, StoreError
from roundel.kernel.facts import VERSION

OF_RUN = "place BETWEEN {0} << 32 AND ({0} << 32) + 4294967295"
"""The chunks of a run: their place is its number, and that of their first fact."""
_LAST = f"SELECT place + count FROM chunks WHERE {OF_RUN.format('no')} ORDER BY place DESC LIMIT 1"
REACHED = f"coalesce(({_LAST}) - (no << 32), 0)"
"""Where the facts of a run end."""
FACTS = f"max(facts, {REACHED})"
"""How many facts a run should have: those that are there, or more if its row knows of more."""
_MAY_APPEND = f"no = ?5 AND fence = ?6 AND {REACHED} = ?1"
# Where nothing may be appended there is no count, without which no chunk is added. To select the whole of it
# from `runs` would say the same, but has SQLite put it aside first, since it reads from where it writes to.
APPEND = (
    "INSERT OR IGNORE INTO chunks (place, count, version, body) "
    f"VALUES ((?5 << 32) + ?1, (SELECT ?2 FROM runs WHERE {_MAY_APPEND}), ?3, ?4)"
)
UPDATE_ROW = f"UPDATE runs SET status = ?2, updated = ?3, facts = ?4 WHERE {_MAY_APPEND}"
UPDATE_EVERY = 1.0
"""Seconds after which a run's row is updated although its status is the same."""


class RowUpdate(Struct, frozen=True):
    """The last update of a run's row."""

    status: str = ""
    time: float = 0.0

    def is_recent(self, status: str, now: float) -> bool:
        return status == self.status and self.time <= now < self.time + UPDATE_EVERY


def row_of(claim: Claim, first: int, chunk: Chunk) -> tuple[Any, ...]:
    """The values of APPEND."""
    return (first, chunk.count, VERSION, chunk.body, claim.run, claim.fence)


def append(
    db: sqlite3.Connection,
    claim: Claim,
    first: int,
    location: str,
    chunk: Chunk,
    update: RowUpdate,
    summary: dict[str, Any] | None,
) -> None:
    """Appends a chunk and updates the run's row; both or nothing, in a transaction of the caller."""
    reached = first + chunk.count
    values = (first, update.status, update.time, reached, claim.run, claim.fence)
    if db.execute(UPDATE_ROW, values).rowcount != 1:
        failure = refusal(db, claim, first, chunk, location)
        if failure is not None:
            raise failure
        return  # repeated: the row was updated with it the first time
    insert(db, claim.run, first, chunk)
    if summary is not None:
        body = msgspec.json.encode(summary, enc_hook=repr)
        db.execute("UPDATE runs SET summary = ? WHERE no = ?", (body, claim.run))


def insert(db: sqlite3.Connection, run: int, first: int, chunk: Chunk) -> None:
    if chunk.count:
        values = ((run << 32) + first, chunk.count, VERSION, chunk.body)
        db.execute("INSERT INTO chunks (place, count, version, body) VALUES (?, ?, ?, ?)", values)


def refusal(
    db: sqlite3.Connection, claim: Claim, first: int, chunk: Chunk, location: str
) -> StoreError | None:
    """Why a chunk was not appended; None if it is there already."""
    query = f"SELECT fence, {REACHED} FROM runs WHERE no = ?"
    found = db.execute(query, (claim.run,)).fetchone()
    if found is None or found[0] != claim.fence:
        return taken_over(claim, found is not None)
    query = "SELECT 1 FROM chunks WHERE place = ? AND count = ? AND version = ? AND body = ?"
    if db.execute(query, ((claim.run << 32) + first, chunk.count, VERSION, chunk.body)).fetchone():
        return None
    return gap(claim, found[1], first, location)


def gap(claim: Claim, reached: int, first: int, location: str) -> StoreError:
    """Why nothing can be appended behind missing facts."""
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


def newest_position(db: sqlite3.Connection) -> int:
    position: int | None = db.execute("SELECT max(position) FROM chunks").fetchone()[0]
    return position or 0


MARKER = -1
"""The place of the empty row that stands for the largest position; no chunk of a run has it."""


def delete_chunks(db: sqlite3.Connection, run: int) -> None:
    (newest,) = db.execute("SELECT max(position) FROM chunks").fetchone()
    db.execute(f"DELETE FROM chunks WHERE {OF_RUN.format('?1')}", (run,))
    if newest is None or db.execute("SELECT 1 FROM chunks WHERE position = ?", (newest,)).fetchone():
        return
    db.execute("DELETE FROM chunks WHERE place = ?", (MARKER,))
    db.execute("INSERT INTO chunks VALUES (?, ?, 0, ?, X'')", (newest, MARKER, VERSION))


def delete_run(db: sqlite3.Connection, number: int) -> None:
    clear_run(db, number, "texts", "controls", "kept", "pins")
    db.execute("DELETE FROM runs WHERE no = ?", (number,))


def clear_run(db: sqlite3.Connection, number: int, *tables: str) -> None:
    """Deletes a run's facts and snapshots, and its rows in some other tables."""
    delete_chunks(db, number)
    db.execute(f"DELETE FROM snapshots WHERE {OF_RUN.format('?1')}", (number,))
    for table in tables:
        db.execute(f"DELETE FROM {table} WHERE run = ?", (number,))


def taken_over(claim: Claim, there: bool) -> StoreError:
    """Why a claim does not hold any more. `there`: the store still has the run."""
    if there:
        return Fenced(f"another process has taken over run {claim.run_id}; this one has stopped")
    return Gone(
        f"run {claim.run_id} is not in the store any more: it was deleted, or another file was put in place "
        "of the store; this process has stopped, and the run has to be started again"
    )
