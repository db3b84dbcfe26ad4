"""Converts a store in SQLite to the current format, and keeps a copy in the old one.

Before the first step, the file is copied with `VACUUM INTO`, which sees one state of it, the log included.
The copy is a store of the old format: with it, and the old version of Roundel, an upgrade can be taken back.
It is as private as the store, and takes the place of nothing: an older copy has to be moved away first.

The steps themselves are in schema.py.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from pathlib import Path

from roundel.journal.schema import (
    LiveOwner,
    check_convertible,
    check_unused,
    make_steps,
    pending_steps,
    read_format,
)
from roundel.journal.store import Conversion, StoreError

SPARE = 1 << 20
"""Bytes of room besides those of the copy and of the log."""


def convert(
    connection: sqlite3.Connection, file: Path, location: str, live_owner: LiveOwner, check: bool
) -> Conversion:
    """Converts a store, or only says what that would do; StoreError if it is not possible. The store is
    unchanged then, unless a step fails after others were made."""
    before = read_format(connection)
    check_convertible(before, location)
    steps = tuple(step.does for step in pending_steps(before))
    copy = file.with_name(f"{file.name}.v{before}")
    made = Conversion(before, before + len(steps), steps, copy)
    if not steps:
        return made
    check_unused(connection, location, live_owner)
    _check_room(connection, file, copy)
    if not check:
        _make_copy(connection, copy)
        make_steps(connection, location, live_owner)
    return made


def _check_room(connection: sqlite3.Connection, file: Path, copy: Path) -> None:
    if copy.exists() or copy.is_symlink():
        raise StoreError(
            f"{copy} exists already; move it away, or delete it if you do not need it. The store was not "
            "changed"
        )
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    # The copy, and at most as much in the log while a step changes every page.
    needed, free = 2 * pages * size + SPARE, shutil.disk_usage(file.parent).free
    if free < needed:
        raise StoreError(
            f"there is not enough room in {file.parent} for a copy of the store: {needed >> 20} MB are "
            f"needed, and {free >> 20} MB are free; delete something, or move the store. It was not changed"
        )


def _make_copy(connection: sqlite3.Connection, copy: Path) -> None:
    # SQLite copies into a file that is empty. Created here, it is private from its first moment, and it is
    # certainly not the file of somebody else.
    os.close(os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    try:
        connection.execute("VACUUM INTO ?", (str(copy),))
        for path in (copy, copy.parent):  # before anything is converted
            number = os.open(path, os.O_RDONLY)
            try:
                os.fsync(number)
            finally:
                os.close(number)
    except BaseException:
        copy.unlink(missing_ok=True)
        raise
