"""A look at the runs of a store without opening it for work: for shell completion, which must be quick.

It reads with one query, imports nothing of the engine, and never creates or changes a store.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

BUSY_SECONDS = 0.2
"""Completion rather shows nothing than waits."""


def glance(path: str, beginning: str, most: int) -> list[tuple[str, str, str]]:
    """The id, the workflow and the status of runs whose id begins so, the newest first; sqlite3.Error."""
    if not Path(path).is_file():
        return []
    address = f"{Path(path).absolute().as_uri()}?mode=ro"
    query = "SELECT id, name, status FROM runs WHERE substr(id, 1, ?) = ? ORDER BY no DESC LIMIT ?"
    with closing(sqlite3.connect(address, uri=True, timeout=BUSY_SECONDS)) as connection:
        return connection.execute(query, (len(beginning), beginning, most)).fetchall()
