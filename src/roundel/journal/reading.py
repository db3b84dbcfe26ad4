"""The facts of a run as they are read: all of them, in order, or why not."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import msgspec

from roundel.journal.appending import FACTS
from roundel.journal.chunks import unpack
from roundel.journal.store import NoRun, StoreError
from roundel.kernel.facts import Entry

Row = tuple[int, int, int, bytes]
"""The number of a chunk's first fact, how many there are, their version, and the facts."""


class Unreadable(Exception):
    """Which fact cannot be read, and why."""

    def __init__(self, number: int, why: str) -> None:
        super().__init__(number, why)
        self.number = number
        self.why = why


def chunks_after(db: sqlite3.Connection, run_id: str, after: int) -> tuple[int, list[Row]]:
    """How many facts there should be, and the chunks with those from number `after` on."""
    query = f"SELECT no, {FACTS}, pruned FROM runs WHERE id = ?"
    found = db.execute(query, (run_id,)).fetchone()
    if found is None:
        raise no_run(run_id)
    number, count, pruned = found
    if pruned:
        raise StoreError(f"only the rounds '{pruned}' were kept of run {run_id}; its facts are gone")
    # The chunk that holds the first of them may begin before it.
    begins, ends = number << 32, number + 1 << 32
    query = (
        "SELECT place - ?1, count, version, body FROM chunks WHERE place < ?3 AND place >= "
        "coalesce((SELECT max(place) FROM chunks WHERE place BETWEEN ?1 AND ?2), ?1) ORDER BY place"
    )
    return count, db.execute(query, (begins, begins + after, ends)).fetchall()


def chunks_with(db: sqlite3.Connection, run_id: str, numbers: Sequence[int]) -> list[Row]:
    """The chunks with these facts, each once, in order."""
    found = db.execute("SELECT no FROM runs WHERE id = ?", (run_id,)).fetchone()
    if found is None:
        raise no_run(run_id)
    begins = found[0] << 32
    query = (
        "SELECT place - ?1, count, version, body FROM chunks "
        "WHERE place BETWEEN ?1 AND ?1 + ?2 ORDER BY place DESC LIMIT 1"
    )
    rows: dict[int, Row] = {}
    reached = -1
    for number in sorted(numbers):
        if number >= reached:
            row = db.execute(query, (begins, number)).fetchone()
            if row is None:
                raise Unreadable(number, "it is missing")
            rows[row[0]] = row
            reached = row[0] + row[1]
    return list(rows.values())


def entries_among(rows: Sequence[Row], numbers: Iterable[int]) -> dict[int, Entry]:
    """Single entries of these chunks; Unreadable if one of them is not there."""
    unpacked = {
        first + at: entry
        for first, many, version, body in rows
        for at, entry in enumerate(_unpacked(first, many, version, body))
    }
    for number in numbers:
        if number not in unpacked:
            raise Unreadable(number, "it is missing")
    return {number: unpacked[number] for number in numbers}


def entries_in(rows: Sequence[Row], after: int, count: int) -> list[Entry]:
    """The entries from number `after` on; Unreadable if one of them is not there."""
    entries: list[Entry] = []
    reached = after
    for first, many, version, body in rows:
        if first > reached:
            raise Unreadable(reached, f"{first - reached} facts are missing")
        entries += _unpacked(first, many, version, body)[reached - first :]
        reached = max(reached, first + many)
    if reached < count:
        raise Unreadable(reached, f"{count - reached} facts are missing")
    return entries


def _unpacked(first: int, many: int, version: int, body: bytes) -> list[Entry]:
    try:
        found = unpack(body, version)
    except (ValueError, msgspec.MsgspecError) as error:
        raise Unreadable(first, str(error)) from None
    if len(found) != many:
        raise Unreadable(first, f"there are {len(found)} facts in place of {many}")
    return found


@contextmanager
def unreadable(location: str, run_id: str) -> Iterator[None]:
    """Around the decoding of entries: an Unreadable becomes a StoreError that says what to do."""
    try:
        yield
    except Unreadable as found:
        raise StoreError(
            f"{location}: run {run_id} cannot be read at fact {found.number}: {found.why}; "
            "the file is damaged, use a copy of it, or begin the run anew"
        ) from None


def exists_already(run_id: str) -> StoreError:
    return StoreError(f"there is a run '{run_id}' in this store already; use another id")


def no_run(run_id: str) -> NoRun:
    return NoRun(f"there is no run '{run_id}' in this store; `roundel runs` lists them")
