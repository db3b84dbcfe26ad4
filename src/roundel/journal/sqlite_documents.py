"""SqliteDocumentStore: documents and logs in the file of a SQLite store (documents.py is the protocol).

*Optimistic concurrency.* A `put` reads the current version and writes the next one in one transaction that
has the write lock from its beginning (writer.py), so no other process can write in between.

*Transactions.* Documents are written in a transaction of their own, after what the journal writes. A
conflict is nothing unusual here, and the writer repeats the transaction of a job that fails: the facts of
runs must not be part of that.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from roundel.journal.documents import (
    LATER,
    Document,
    DocumentConflict,
    Documents,
    LogEntries,
    LogEntry,
    check_names,
    encode_body,
    end_of_prefix,
)
from roundel.journal.writer import Writer

CURRENT = "collection = ? AND key = ? AND (expires IS NULL OR expires > ?)"
VERSION = "key, version, body, updated, author"
DOCUMENT = f"{VERSION}, expires"
SECURE_DELETE_FAST = 2
LARGEST = (1 << 63) - 1
"""The largest integer of SQLite, for numbers without an upper bound."""


class SqliteDocumentStore:
    """Created by SqliteStore, whose writing thread it shares."""

    def __init__(self, writer: Writer, clock: Callable[[], float]) -> None:
        self._writer = writer
        self._now = clock

    async def get(self, collection: str, key: str) -> Document | None:
        check_names(collection, key)
        query = f"SELECT {DOCUMENT} FROM documents WHERE {CURRENT}"
        found = await self._documents(query, (collection, key, self._now()))
        return found[0] if found else None

    async def put(
        self,
        collection: str,
        key: str,
        body: Any,
        *,
        expected: int | None = None,
        author: str = "",
        keep_history: bool = False,
        expires: float | None = None,
    ) -> int:
        check_names(collection, key, author)
        encoded, now = encode_body(collection, body), self._now()

        def job(db: sqlite3.Connection) -> int:
            current = _check_version(db, collection, key, now, expected)
            query = "SELECT max(version) FROM document_versions WHERE collection = ? AND key = ?"
            (kept,) = db.execute(query, (collection, key)).fetchone()
            version = max(current, kept or 0) + 1
            row = (collection, key, version, now, author)
            db.execute("REPLACE INTO documents VALUES (?, ?, ?, ?, ?, ?, ?)", (*row, expires, encoded))
            if keep_history:
                db.execute("INSERT INTO document_versions VALUES (?, ?, ?, ?, ?, ?)", (*row, encoded))
            return version

        return await self._writer.write_separately(job)

    async def delete(self, collection: str, key: str, *, expected: int | None = None) -> bool:
        check_names(collection, key)
        now = self._now()

        def job(db: sqlite3.Connection) -> bool:
            current = _check_version(db, collection, key, now, expected)
            db.execute("DELETE FROM documents WHERE collection = ? AND key = ?", (collection, key))
            return current > 0

        return await self._writer.write_separately(job)

    async def list(
        self, collection: str, *, after: str = "", limit: int = 100, prefix: str = "", without: str = ""
    ) -> Documents:
        check_names(collection, after, prefix)
        end = end_of_prefix(prefix)
        below = "" if end is None else "AND key < ?"
        query = (
            f"SELECT {_without(without, DOCUMENT)} FROM documents "
            f"WHERE collection = ? AND key >= ? AND key > ? {below} "
            "AND (expires IS NULL OR expires > ?) ORDER BY key LIMIT ?"
        )
        ends = () if end is None else (end,)
        return await self._documents(query, (collection, prefix, after, *ends, self._now(), _bounded(limit)))

    async def versions(
        self, collection: str, key: str, *, before: int = 0, limit: int = 100, without: str = ""
    ) -> Documents:
        columns = _without(without, VERSION)
        check_names(collection, key)
        # The current one is among those that were kept, unless it was put without `keep_history`. UNION
        # removes the row that is in both tables.
        query = (
            f"SELECT {columns} FROM document_versions "
            "WHERE collection = ?1 AND key = ?2 AND version < ?4 UNION "
            f"SELECT {columns} FROM documents WHERE collection = ?1 AND key = ?2 AND version < ?4 "
            "AND (expires IS NULL OR expires > ?3) ORDER BY version DESC LIMIT ?5"
        )
        below = _bounded(before) if before else LARGEST
        return await self._documents(query, (collection, key, self._now(), below, _bounded(limit)))

    async def forget(self, collection: str, key: str) -> bool:
        check_names(collection, key)
        now = self._now()

        def job(db: sqlite3.Connection) -> bool:
            found = _check_version(db, collection, key, now, None)
            query = "DELETE FROM {} WHERE collection = ? AND key = ?"
            _delete_for_good(db, query.format("documents"), (collection, key))
            return bool(_delete_for_good(db, query.format("document_versions"), (collection, key)) or found)

        return await self._writer.write_separately(job)

    async def forget_versions(self, collection: str, key: str, *, first: int = 1, below: int) -> int:
        check_names(collection, key)
        query = (
            "DELETE FROM document_versions WHERE collection = ?1 AND key = ?2 AND version >= ?3 "
            "AND version < ?4 AND version < (SELECT max(version) FROM ("
            "SELECT version FROM document_versions WHERE collection = ?1 AND key = ?2 UNION ALL "
            "SELECT version FROM documents WHERE collection = ?1 AND key = ?2 "
            "AND (expires IS NULL OR expires > ?5)))"
        )
        values = (collection, key, _bounded(first), _bounded(below), self._now())
        return await self._delete_for_good(query, values)

    async def trim_versions(self, collection: str, *, keep: int = 1, until: float = LATER) -> int:
        check_names(collection)
        query = (
            "DELETE FROM document_versions WHERE rowid IN (SELECT rowid FROM (SELECT rowid, updated, "
            "row_number() OVER (PARTITION BY key ORDER BY version DESC) AS place FROM document_versions "
            "WHERE collection = ?) WHERE place > ? AND updated < ?)"
        )
        values = (collection, _bounded(max(keep, 1)), until)
        return await self._delete_for_good(query, values)

    async def _delete_for_good(self, query: str, values: Sequence[Any]) -> int:
        deleted = await self._writer.write_separately(lambda db: _delete_for_good(db, query, values))
        # The log still has the pages as they were, and SQLite keeps it for a long time.
        await self._writer.read(lambda db: db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone())
        return deleted

    async def _documents(self, query: str, values: Sequence[Any]) -> Documents:
        # Decoded in the job, where the writer explains an error as damage of the store.
        return await self._writer.read(
            lambda db: [
                Document(key, version, msgspec.json.decode(body), *rest)
                for key, version, body, *rest in db.execute(query, values)
            ]
        )

    # Logs.

    async def append(self, collection: str, body: Any, *, author: str = "") -> int:
        check_names(collection, author)
        row = (collection, self._now(), author, encode_body(collection, body))
        query = "INSERT INTO document_logs (collection, time, author, body) VALUES (?, ?, ?, ?)"
        number = await self._writer.write_separately(lambda db: db.execute(query, row).lastrowid)
        assert number is not None
        return number

    async def entries(
        self, collection: str, *, before: int = 0, after: int = 0, limit: int = 100
    ) -> LogEntries:
        check_names(collection)
        query = (
            "SELECT no, body, time, author FROM document_logs WHERE collection = ? AND no < ? AND no > ? "
            f"ORDER BY no {'ASC' if after else 'DESC'} LIMIT ?"
        )
        below = _bounded(before) if before else LARGEST
        values = (collection, below, _bounded(after), _bounded(limit))
        return await self._writer.read(
            lambda db: [
                LogEntry(number, msgspec.json.decode(body), *rest)
                for number, body, *rest in db.execute(query, values)
            ]
        )

    async def trim(self, collection: str, until: float) -> int:
        check_names(collection)
        query = "DELETE FROM document_logs WHERE collection = ? AND time < ?"
        values = (collection, until)
        return await self._writer.write_separately(lambda db: db.execute(query, values).rowcount)

    async def expire(self, now: float) -> int:
        query = "DELETE FROM documents WHERE expires <= ?"
        return await self._writer.write_separately(lambda db: db.execute(query, (now,)).rowcount)


def _check_version(
    db: sqlite3.Connection, collection: str, key: str, now: float, expected: int | None
) -> int:
    """The current version, 0 if there is none; DocumentConflict if another one is expected."""
    found = db.execute(f"SELECT version FROM documents WHERE {CURRENT}", (collection, key, now)).fetchone()
    current: int = found[0] if found is not None else 0
    if expected is not None and expected != current:
        raise DocumentConflict(collection, key, current)
    return current


def _delete_for_good(db: sqlite3.Connection, query: str, values: Sequence[Any]) -> int:
    """Deletes rows so that their bytes are overwritten: they may contain a key that was saved by mistake.
    Otherwise SQLite would leave them in the file until their place is needed."""
    (before,) = db.execute("PRAGMA secure_delete").fetchone()
    db.execute("PRAGMA secure_delete = ON")
    try:
        return db.execute(query, values).rowcount
    finally:
        db.execute(f"PRAGMA secure_delete = {'FAST' if before == SECURE_DELETE_FAST else before}")


def _without(field: str, columns: str) -> str:
    """The columns, with bodies that lack a field. SQLite removes it, before it is an object of Python."""
    return columns.replace("body", f"json_remove(CAST(body AS TEXT), '$.{field}')") if field else columns


def _bounded(number: int) -> int:
    """The nearest number that SQLite can bind, not negative: a negative LIMIT would mean all."""
    return max(0, min(number, LARGEST))
