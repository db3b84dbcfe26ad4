"""The tables of a store in SQLite, and how older files become newer ones."""

from __future__ import annotations

import sqlite3

from roundel.journal.store import StoreError

MIGRATIONS = (
    """
    CREATE TABLE runs (
        no INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        name TEXT NOT NULL,
        status TEXT NOT NULL,
        created REAL NOT NULL,
        updated REAL NOT NULL,
        input TEXT NOT NULL,
        parent TEXT NOT NULL DEFAULT '',
        forked_at TEXT NOT NULL DEFAULT '',
        pinned BLOB NOT NULL,
        summary BLOB,
        facts INTEGER NOT NULL DEFAULT 0,
        fence INTEGER NOT NULL DEFAULT 0,
        owner TEXT NOT NULL DEFAULT '',
        until REAL NOT NULL DEFAULT 0,
        pruned TEXT NOT NULL DEFAULT ''
    );
    CREATE TABLE chunks (
        run INTEGER NOT NULL,
        first INTEGER NOT NULL,
        count INTEGER NOT NULL,
        version INTEGER NOT NULL,
        body BLOB NOT NULL,
        PRIMARY KEY (run, first)
    ) WITHOUT ROWID;
    CREATE TABLE snapshots (run INTEGER PRIMARY KEY, facts INTEGER NOT NULL, body BLOB NOT NULL);
    CREATE TABLE kept (run INTEGER PRIMARY KEY, body BLOB NOT NULL);
    CREATE TABLE controls (
        no INTEGER PRIMARY KEY AUTOINCREMENT,
        run INTEGER NOT NULL,
        wish TEXT NOT NULL,
        body BLOB NOT NULL,
        outcome TEXT NOT NULL DEFAULT ''
    );
    CREATE INDEX controls_open ON controls (run) WHERE outcome = '';
    """,
    # Memory: entries, the words they are found by (words.py), and the vectors that models made of them.
    """
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
    CREATE VIRTUAL TABLE memory_words USING fts5 (place, words, tokenize = 'ascii');
    CREATE TABLE memory_vectors (
        entry INTEGER NOT NULL,
        model TEXT NOT NULL,
        vector BLOB NOT NULL,
        PRIMARY KEY (entry, model)
    ) WITHOUT ROWID;
    """,
    # To append is quicker. What a run was started with may be long, and stood before what is looked at then.
    # A chunk's place is the number of its run and, in the lower half, that of its first fact: SQLite appends
    # to a table with such a key without moving what is there. And `facts` is how many a run had when its row
    # was told last. (To drop a column is newer than the SQLite that some systems have.)
    """
    CREATE TABLE pins (run INTEGER PRIMARY KEY, body BLOB NOT NULL);
    INSERT INTO pins SELECT no, pinned FROM runs;
    CREATE TABLE newer_runs (
        no INTEGER PRIMARY KEY AUTOINCREMENT,
        fence INTEGER NOT NULL DEFAULT 0,
        facts INTEGER NOT NULL DEFAULT 0,
        id TEXT NOT NULL UNIQUE,
        name TEXT NOT NULL,
        status TEXT NOT NULL,
        created REAL NOT NULL,
        updated REAL NOT NULL,
        owner TEXT NOT NULL DEFAULT '',
        until REAL NOT NULL DEFAULT 0,
        parent TEXT NOT NULL DEFAULT '',
        forked_at TEXT NOT NULL DEFAULT '',
        pruned TEXT NOT NULL DEFAULT '',
        input TEXT NOT NULL,
        summary BLOB
    );
    INSERT INTO sqlite_sequence SELECT 'newer_runs', seq FROM sqlite_sequence WHERE name = 'runs';
    INSERT INTO newer_runs
        SELECT no, fence, facts, id, name, status, created, updated, owner, until, parent, forked_at, pruned,
        input, summary FROM runs;
    DROP TABLE runs;
    ALTER TABLE newer_runs RENAME TO runs;
    CREATE TABLE newer_chunks (
        place INTEGER PRIMARY KEY,
        count INTEGER NOT NULL,
        version INTEGER NOT NULL,
        body BLOB NOT NULL
    );
    INSERT INTO newer_chunks SELECT (run << 32) + first, count, version, body FROM chunks;
    DROP TABLE chunks;
    ALTER TABLE newer_chunks RENAME TO chunks;
    """,
)
"""From each version of the file to the next; never changed, only added to."""


def is_up_to_date(connection: sqlite3.Connection, place: str) -> bool:
    """Whether the file needs no migration; StoreError if it is newer than this program."""
    return _version(connection, place) == len(MIGRATIONS)


def _version(connection: sqlite3.Connection, place: str) -> int:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > len(MIGRATIONS):
        raise StoreError(
            f"{place} was written by a newer version of roundel (its format is {version}, this one knows "
            f"{len(MIGRATIONS)}); use that version, or another --store"
        )
    return version


def migrate(connection: sqlite3.Connection, place: str) -> None:
    """Brings the file up to date; each step whole or not at all."""
    version = _version(connection, place)
    for number in range(version, len(MIGRATIONS)):
        connection.execute("BEGIN IMMEDIATE")
        try:
            if connection.execute("PRAGMA user_version").fetchone()[0] == number:
                for statement in MIGRATIONS[number].split(";"):
                    if statement.strip():
                        connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {number + 1}")
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:  # a full disk, say, has ended it already
                connection.execute("ROLLBACK")
            raise
