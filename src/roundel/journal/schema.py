"""The tables of a store in SQLite, and the formats of files.

*Migrations.* A new format comes with a step in MIGRATIONS that makes it from the one before, in one
transaction. A step that only adds something, and takes no time, is made when a file is opened for writing.
All others wait for `roundel store migrate` (migration.py), which keeps a copy. A step never changes facts,
and drops snapshots rather than convert them. No step is made while another process owns runs of the store: it
is of the older version, and would continue to write what it knows.

Tables and columns that were added since FORMAT was last raised are in ADDED_TABLES and ADDED_COLUMNS. A file
that lacks one gets it when it is opened for writing, and keeps its format: a version of Roundel that does not
know it ignores it. A store that is only read may lack them, so code that reads them has to allow for that
(`has_table`, `has_column`).
"""

from __future__ import annotations

import json
import shlex
import sqlite3
import zlib
from collections.abc import Callable

from msgspec import Struct

from roundel.journal.store import StoreError

FORMAT = 8
"""The format of the file, as its `user_version`. 1 to 7 were formats before the first release."""
SCHEMA = """
CREATE TABLE runs (
    no INTEGER PRIMARY KEY AUTOINCREMENT,
    fence INTEGER NOT NULL DEFAULT 0,
    facts INTEGER NOT NULL DEFAULT 0,
    id TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    status TEXT NOT NULL,
    created REAL NOT NULL,
    updated REAL NOT NULL,
    owner INTEGER NOT NULL DEFAULT 0,
    parent TEXT NOT NULL DEFAULT '',
    forked_at TEXT NOT NULL DEFAULT '',
    pruned TEXT NOT NULL DEFAULT '',
    group_id TEXT NOT NULL DEFAULT '',
    started_by TEXT NOT NULL DEFAULT '',
    input TEXT NOT NULL,
    summary BLOB,
    progress BLOB
);
CREATE INDEX runs_group ON runs (group_id);
-- One row for each store object that has claimed runs (leases.py). A run names it, or 0.
CREATE TABLE owners (
    owner_id INTEGER PRIMARY KEY,
    boot_id TEXT NOT NULL,
    pid_namespace INTEGER NOT NULL,
    pid INTEGER NOT NULL,
    start_time TEXT NOT NULL,
    hostname TEXT NOT NULL,
    lease_seconds REAL NOT NULL,
    alive_until REAL NOT NULL
);
-- `pins` is a table of its own: a workflow is long, and would stand between the columns that appends look at.
CREATE TABLE pins (run INTEGER PRIMARY KEY, body BLOB NOT NULL);
-- `position` is the chunk's number in commit order over all runs (chunk_rows.py). `place` is the number of
-- its run and, in the lower 32 bits, that of its first fact. With the position as the key, SQLite appends the
-- rows of all runs of a commit to the same few pages. With the place as the key, each run would write a page.
-- `seq` is the number of the last event after the chunk, or NULL where it is not known.
CREATE TABLE chunks (
    position INTEGER PRIMARY KEY,
    place INTEGER NOT NULL UNIQUE,
    count INTEGER NOT NULL,
    version INTEGER NOT NULL,
    body BLOB NOT NULL,
    seq INTEGER
);
-- `place` is the number of the run and, in the lower 32 bits, that of its last event at that time.
CREATE TABLE snapshots (place INTEGER PRIMARY KEY, facts INTEGER NOT NULL, body BLOB NOT NULL);
-- Long texts that snapshots refer to and that stand in no fact, and what model calls got.
CREATE TABLE texts (
    run INTEGER NOT NULL,
    digest BLOB NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (run, digest)
) WITHOUT ROWID;
CREATE TABLE kept (run INTEGER PRIMARY KEY, version INTEGER NOT NULL, body BLOB NOT NULL);
CREATE TABLE controls (
    no INTEGER PRIMARY KEY AUTOINCREMENT,
    run INTEGER NOT NULL,
    kind TEXT NOT NULL,
    body BLOB NOT NULL,
    outcome TEXT NOT NULL DEFAULT ''
);
CREATE INDEX controls_open ON controls (run) WHERE outcome = '';
-- Memory: entries, the words that find them (memory/search.py), and the vectors that models made of them.
CREATE TABLE memories (
    no INTEGER PRIMARY KEY AUTOINCREMENT,
    group_id TEXT NOT NULL,
    shelf TEXT NOT NULL,
    digest BLOB NOT NULL,
    key TEXT NOT NULL,
    turn INTEGER NOT NULL,
    text TEXT NOT NULL,
    time REAL NOT NULL,
    until REAL,
    run_id TEXT NOT NULL,
    node TEXT NOT NULL,
    address TEXT NOT NULL,
    confidence REAL,
    about BLOB NOT NULL
);
CREATE UNIQUE INDEX memories_same ON memories (group_id, shelf, digest);
CREATE INDEX memories_newest ON memories (group_id, shelf, turn);
-- The sizes of columns would be needed to rank by bm25, which would look at the entries of all groups.
CREATE VIRTUAL TABLE memory_words USING fts5 (place, words, tokenize = 'ascii', columnsize = 0);
CREATE TABLE memory_vectors (
    entry INTEGER NOT NULL,
    model TEXT NOT NULL,
    vector BLOB NOT NULL,
    PRIMARY KEY (entry, model)
) WITHOUT ROWID;
-- Documents (sqlite_documents.py): the current ones, the versions that are kept, and append-only logs.
CREATE TABLE documents (
    collection TEXT NOT NULL,
    key TEXT NOT NULL,
    version INTEGER NOT NULL,
    updated REAL NOT NULL,
    author TEXT NOT NULL,
    expires REAL,
    body BLOB NOT NULL,
    PRIMARY KEY (collection, key)
);
CREATE INDEX documents_expiring ON documents (expires) WHERE expires IS NOT NULL;
CREATE TABLE document_versions (
    collection TEXT NOT NULL,
    key TEXT NOT NULL,
    version INTEGER NOT NULL,
    updated REAL NOT NULL,
    author TEXT NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (collection, key, version)
);
CREATE TABLE document_logs (
    no INTEGER PRIMARY KEY AUTOINCREMENT,
    collection TEXT NOT NULL,
    time REAL NOT NULL,
    author TEXT NOT NULL,
    body BLOB NOT NULL
);
CREATE INDEX document_logs_of ON document_logs (collection);
"""
ADDED_TABLES: dict[str, str] = {
    # What groups and tokens have spent, and what calls in flight have reserved (sqlite_spending.py).
    "spending": """
CREATE TABLE spending (
    scope TEXT NOT NULL,
    day TEXT NOT NULL,
    model_calls INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    cost_usd INTEGER NOT NULL,
    PRIMARY KEY (scope, day)
) WITHOUT ROWID""",
    "reservations": """
CREATE TABLE reservations (
    scope TEXT NOT NULL,
    day TEXT NOT NULL,
    run INTEGER NOT NULL,
    address TEXT NOT NULL,
    model_calls INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    cost_usd INTEGER NOT NULL,
    PRIMARY KEY (scope, day, run, address)
) WITHOUT ROWID""",
    # How often in a row a run was taken over from a process that had died (takeovers.py).
    "takeovers": """CREATE TABLE takeovers (
        run INTEGER PRIMARY KEY, facts INTEGER NOT NULL, count INTEGER NOT NULL)""",
}
"""The statements that create the tables that files of the current format may lack, by table."""
ADDED_COLUMNS: dict[str, tuple[str, ...]] = {
    # The saved workflow that a run was started from.
    "runs": ("saved_as TEXT NOT NULL DEFAULT ''", "workflow_version TEXT NOT NULL DEFAULT ''"),
}
"""The columns that tables of the current format may lack, by table."""


class Migration(Struct, frozen=True):
    """The step from one format to the next."""

    does: str
    """What it does, for people."""
    apply: Callable[[sqlite3.Connection], None]
    """Called in a transaction, which also sets the format."""
    additive: bool = False
    """It only adds something, and takes no time however large the file is."""


def _add_groups_and_documents(connection: sqlite3.Connection) -> None:
    """A run of format 6 has the group of its workflow's memory. Its snapshots go: programs of later formats
    keep more in a state."""
    for column in (
        "group_id TEXT NOT NULL DEFAULT ''",
        "started_by TEXT NOT NULL DEFAULT ''",
        "progress BLOB",
    ):
        connection.execute(f"ALTER TABLE runs ADD COLUMN {column}")
    for run, body in connection.execute("SELECT run, body FROM pins").fetchall():
        group = _memory_group(body)
        if group:
            connection.execute("UPDATE runs SET group_id = ? WHERE no = ?", (group, run))
    connection.execute("DELETE FROM snapshots")
    connection.execute("DELETE FROM texts")
    for statement in _TABLES_OF_FORMAT_7.split(";"):
        if statement.strip():
            connection.execute(statement)


_TABLES_OF_FORMAT_7 = """
CREATE INDEX runs_group ON runs (group_id);
CREATE TABLE documents (
    collection TEXT NOT NULL,
    key TEXT NOT NULL,
    version INTEGER NOT NULL,
    updated REAL NOT NULL,
    author TEXT NOT NULL,
    expires REAL,
    body BLOB NOT NULL,
    PRIMARY KEY (collection, key)
);
CREATE INDEX documents_expiring ON documents (expires) WHERE expires IS NOT NULL;
CREATE TABLE document_versions (
    collection TEXT NOT NULL,
    key TEXT NOT NULL,
    version INTEGER NOT NULL,
    updated REAL NOT NULL,
    author TEXT NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (collection, key, version)
);
CREATE TABLE document_logs (
    no INTEGER PRIMARY KEY AUTOINCREMENT,
    collection TEXT NOT NULL,
    time REAL NOT NULL,
    author TEXT NOT NULL,
    body BLOB NOT NULL
);
CREATE INDEX document_logs_of ON document_logs (collection);
"""


def _memory_group(pinned: bytes) -> str:
    """The group in what a run of format 6 was started with; empty if there is none, or it cannot be read: the
    run cannot be read then either, but all others can."""
    try:
        workflow = json.loads(json.loads(zlib.decompress(pinned))["workflow"])["workflow"]["s"][1]
        group = workflow["memory"]["s"][1]["group_id"]
    except (LookupError, TypeError, ValueError, zlib.error):
        return ""
    return group if isinstance(group, str) else ""


def _add_seq(connection: sqlite3.Connection) -> None:
    connection.execute("ALTER TABLE chunks ADD COLUMN seq INTEGER")


MIGRATIONS: dict[int, Migration] = {
    6: Migration("adds groups of runs, and documents", _add_groups_and_documents),
    7: Migration("adds the number of the last event to stored facts", _add_seq, additive=True),
}
"""The steps by the format from which they lead to the next. A step that was released stays as it is, so it
contains its statements and uses none of SCHEMA, which changes."""


def pending_steps(version: int) -> list[Migration]:
    """The steps that a file of this format lacks."""
    return [MIGRATIONS[step] for step in range(version, FORMAT)] if version else []


def check_convertible(version: int, location: str) -> None:
    """StoreError if a file with this `user_version` has a format that is not known."""
    if version > FORMAT:
        raise StoreError(
            f"{location} was written by a newer version of roundel (its format is {version}, this one knows "
            f"{FORMAT}); use that version, or another --store"
        )
    if 0 < version < min(MIGRATIONS):
        raise StoreError(
            f"{location} was written by an older version of roundel (its format is {version}, this one needs "
            f"{FORMAT}) and cannot be converted; use another --store, or delete the file if you no longer "
            "need its runs. It was not changed"
        )


def check_format(version: int, location: str) -> None:
    """StoreError unless a file with this `user_version` can be used as it is: it is new, has the current
    format, or lacks only additive steps."""
    check_convertible(version, location)
    if not all(step.additive for step in pending_steps(version)):
        raise StoreError(
            f"{location} was written by an older version of roundel (its format is {version}, this one needs "
            f"{FORMAT}); `roundel store migrate --store {shlex.quote(location)}` keeps a copy of it and "
            "converts it. It was not changed"
        )


def read_format(connection: sqlite3.Connection) -> int:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version


LiveOwner = Callable[[sqlite3.Connection], str]
"""Which other process owns runs of a store, for a message; empty if none does."""


def no_owner(_connection: sqlite3.Connection) -> str:
    """For a copy of a store that nobody else has."""
    return ""


def check_unused(connection: sqlite3.Connection, location: str, live_owner: LiveOwner) -> None:
    """StoreError if another process owns runs of a store that is to be converted."""
    owner = live_owner(connection)
    if owner:
        raise StoreError(
            f"{location} has to be converted, but is in use by {owner}; end it first. It was not changed"
        )


def make_steps(connection: sqlite3.Connection, location: str, live_owner: LiveOwner) -> None:
    """Makes the steps that the file lacks, each in a transaction of its own: what was done stays, and another
    process may make the next one."""
    while (version := read_format(connection)) in MIGRATIONS:
        connection.execute("BEGIN IMMEDIATE")
        try:
            if read_format(connection) == version:
                check_unused(connection, location, live_owner)
                MIGRATIONS[version].apply(connection)
                connection.execute(f"PRAGMA user_version = {version + 1}")
            connection.execute("COMMIT")
        except BaseException:
            _roll_back(connection)
            raise


def create_tables(connection: sqlite3.Connection, location: str, live_owner: LiveOwner = no_owner) -> None:
    """Creates the tables of a new file, and those that an existing one lacks, all or none, after the steps
    from an older format; nothing if all are there. StoreError if the file has to be converted first."""
    check_format(read_format(connection), location)
    make_steps(connection, location, live_owner)
    if (
        read_format(connection) == FORMAT
        and not _missing_tables(connection)
        and not _missing_columns(connection)
    ):
        return
    connection.execute("BEGIN IMMEDIATE")
    # The version is part of the transaction: a process that is killed here leaves an empty file, not
    # half of a schema.
    try:
        if read_format(connection) != FORMAT:  # another process may have created them meanwhile
            for statement in SCHEMA.split(";"):
                if statement.strip():
                    connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {FORMAT}")
        for table in _missing_tables(connection):
            connection.execute(ADDED_TABLES[table])
        for table, column in _missing_columns(connection):
            connection.execute(f"ALTER TABLE {table} ADD COLUMN {column}")
        connection.execute("COMMIT")
    except BaseException:
        _roll_back(connection)
        raise


def _roll_back(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:  # a full disk, for example, has ended it already
        connection.execute("ROLLBACK")


def has_table(connection: sqlite3.Connection, table: str) -> bool:
    """Whether a store has a table of ADDED_TABLES."""
    found = connection.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (table,))
    return found.fetchone() is not None


def has_column(connection: sqlite3.Connection, table: str, column: str) -> bool:
    """Whether a table of a store has a column of ADDED_COLUMNS."""
    found = connection.execute("SELECT 1 FROM pragma_table_info(?) WHERE name = ?", (table, column))
    return found.fetchone() is not None


def _missing_tables(connection: sqlite3.Connection) -> list[str]:
    return [table for table in ADDED_TABLES if not has_table(connection, table)]


def _missing_columns(connection: sqlite3.Connection) -> list[tuple[str, str]]:
    """The columns that are missing, each with its table."""
    return [
        (table, column)
        for table, columns in ADDED_COLUMNS.items()
        for column in columns
        if not has_column(connection, table, column.split()[0])
    ]
