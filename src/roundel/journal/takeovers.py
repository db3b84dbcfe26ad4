"""Counts how often in a row a run was taken over from a process that died, without any progress in between.

A node that kills its process (`os._exit`, a segmentation fault, too much memory) does so again in each
process that resumes the run. A take-over is a claim of a run in status `running` whose owner has gone
without giving the run up. The claim counts it in its own transaction, so the count survives a crash right
after it.

*Progress* is the result of a call, or a change by a person: an answer, an edit, a retry or an unlock. What a
take-over writes itself is no progress, nor is a pause. So a run that gets a little further with each process
stays at 1, and after an unlock the count begins anew.

Each row of `takeovers` has the count, and how many facts the run had at its last claim. A claim deletes the
row of a run that has made progress since.
"""

from __future__ import annotations

import sqlite3

import msgspec

from roundel.journal.run_journal import unpack
from roundel.kernel.facts import (
    Answered,
    CallRetried,
    EdgesEvaluated,
    Edited,
    Expired,
    Failed,
    Finished,
    Intercepted,
    Retried,
    Revised,
    Unlocked,
    WaitingEdited,
)

PROGRESS = (
    Answered,
    CallRetried,
    EdgesEvaluated,
    Edited,
    Expired,
    Failed,
    Finished,
    Intercepted,
    Retried,
    Revised,
    Unlocked,
    WaitingEdited,
)
TakeoverRow = tuple[int, int]
"""The number of facts at the last take-over, and how many there were in a row."""


def takeover_row(db: sqlite3.Connection, run: int) -> TakeoverRow | None:
    row: TakeoverRow | None = db.execute(
        "SELECT facts, count FROM takeovers WHERE run = ?", (run,)
    ).fetchone()
    return row


def count_takeovers(db: sqlite3.Connection, run: int) -> int:
    """How many take-overs in a row there were, without progress since the first of them."""
    row = takeover_row(db, run)
    return 0 if row is None or _has_progress(db, run, row[0]) else row[1]


def update_takeovers(db: sqlite3.Connection, run: int, facts: int, *, died: bool) -> int:
    """Counts a claim of a run, in its transaction; `died`: it is a take-over."""
    count = count_takeovers(db, run) + died
    set_takeovers(db, run, (facts, count) if count else None)
    return count


def set_takeovers(db: sqlite3.Connection, run: int, row: TakeoverRow | None) -> None:
    if row is None:
        db.execute("DELETE FROM takeovers WHERE run = ?", (run,))
    else:
        db.execute("REPLACE INTO takeovers VALUES (?, ?, ?)", (run, *row))


def _has_progress(db: sqlite3.Connection, run: int, facts: int) -> bool:
    """Whether there is progress among the facts from a number on. It is found soon: only the few facts of
    take-overs and pauses are none."""
    query = "SELECT version, body FROM chunks WHERE place BETWEEN ? AND ? ORDER BY place"
    for version, body in db.execute(query, ((run << 32) + facts, (run << 32) + 4294967295)):
        try:
            entries = unpack(body, version)
        except (ValueError, msgspec.MsgspecError):
            return True  # damaged: those who read the run report it
        if any(isinstance(entry.fact, PROGRESS) for entry in entries):
            return True
    return False
