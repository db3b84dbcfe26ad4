"""What is wrong with a store, and what to do about it."""

from __future__ import annotations

from pathlib import Path

from roundel.journal.store import StoreError


def explained(error: Exception, path: Path) -> StoreError:
    """What is wrong with a store, and what to do."""
    text = str(error) or type(error).__name__
    for words, advice in _ADVICE.items():
        if words in text:
            return StoreError(f"{path}: {text}; {advice}")
    if isinstance(error, OSError):
        return StoreError(f"{path}: {text}; {_ADVICE['unable to open']}")
    return StoreError(f"{path}: {text}")


_ADVICE = {
    "disk is full": "make room; the run goes on from its last commit with `roundel resume`",
    "readonly": "the file or its folder may not be written; use another --store",
    "unable to open": "its folder cannot be made or opened; use another --store",
    "malformed": "the file is damaged; `sqlite3 FILE .recover` may save it, or use another --store",
    "not a database": "this is some other file; use another --store",
    "locked": "another program holds it; try again when it is done",
    "no such module": "this Python has an SQLite without full-text search (FTS5); use one that has it",
    "disk I/O": "the disk does not answer; see to it, then `roundel resume`",
}
