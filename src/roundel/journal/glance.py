"""A look at the ids of a store's runs without opening it for work: for shell completion, which must be quick.

It reads with one query, imports nothing of the engine, and never creates or changes a store. Stores of other
kinds than SQLite complete nothing.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from roundel.journal.registry import scheme_of, sqlite_file

BUSY_SECONDS = 0.2
"""Completion rather shows nothing than waits."""


def glance(url: str, prefix: str, limit: int) -> list[tuple[str, str, str]]:
    """The id, the workflow and the status of runs whose id begins so, the newest first. Nothing if the store
    is not there or cannot be read: there is no room for errors in a line that is being typed."""
    query = "SELECT id, name, status FROM runs WHERE substr(id, 1, ?) = ? ORDER BY no DESC LIMIT ?"
    try:
        path = Path(sqlite_file(url)[0]) if scheme_of(url) == "sqlite" else None
        if path is None or not path.is_file():
            return []
        address = f"{path.absolute().as_uri()}?mode=ro"
        with closing(sqlite3.connect(address, uri=True, timeout=BUSY_SECONDS)) as connection:
            return connection.execute(query, (len(prefix), prefix, limit)).fetchall()
    except (ValueError, OSError, sqlite3.Error):
        return []
