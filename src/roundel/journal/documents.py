"""The protocol of a document store, and its data: small JSON documents with versions, and logs.

A server has things to store that are no runs: workflows, tokens, sessions, idempotency keys, an audit log.
They are documents, in collections, so that a store does not have to know about each of them, and so that
they live in the same file as the runs and are backed up together with them. Two implementations exist, one
in SQLite (sqlite_documents.py) and one in memory (in_memory_documents.py), with one suite for both
(tests/journal/test_documents.py).

*Versions.* Each `put` of a key gives its document the next version, from 1 on. A writer that says which
version it expects is refused if another writer was faster, in whichever process: two writers that both
expect that a key does not exist never both succeed.

*History.* With `keep_history` a version also stays readable, under its number, after it was replaced or
deleted. The versions of a key whose history is kept are never given twice. Without history, a key that was
deleted begins at 1 again. Kept versions can be deleted, all but the newest of a key: its number is needed.

*Expiry.* A document that has expired is as good as deleted from that moment on; `expire` only returns its
space.

*Logs* are append-only. The numbers of entries rise in commit order over all logs of the store, so a reader
continues behind the last number that it has seen, and misses nothing.

Everything that writes is durable when it returns, like an append to a run, and done completely or not at
all.
"""

from __future__ import annotations

from typing import Any, Protocol

import msgspec
from msgspec import Struct

from roundel.journal.store import StoreError

LATER = float("inf")
"""A time after all others."""


class DocumentConflict(StoreError):
    """A document has another version than the writer expected. Nothing was written."""

    def __init__(self, collection: str, key: str, current: int) -> None:
        found = f"has version {current} by now" if current else "does not exist"
        super().__init__(f"'{key}' in {collection} {found}; read it again and repeat the change")
        self.current = current
        """The version that it has; 0 if there is none."""


class Document(Struct, frozen=True):
    """A document in one of its versions. Created by a document store."""

    key: str
    version: int
    body: Any
    """A JSON value."""
    updated: float
    """When this version was written."""
    author: str = ""
    expires: float | None = None


class LogEntry(Struct, frozen=True):
    """An entry of a log. Created by a document store."""

    number: int
    body: Any
    time: float
    author: str = ""


Documents = list[Document]
LogEntries = list[LogEntry]


class DocumentStore(Protocol):
    """Documents and logs by collection. `Store.documents` creates one.

    StoreError if the store cannot be read or written, if a body is no JSON value, or if a name cannot be
    stored."""

    async def get(self, collection: str, key: str) -> Document | None:
        """The current version; None if there is none, or it has expired."""

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
        """Writes the next version and returns its number. DocumentConflict unless the current version is
        `expected`: 0 means that there must be none, None that it does not matter."""

    async def delete(self, collection: str, key: str, *, expected: int | None = None) -> bool:
        """Deletes the current version; False if there is none. DocumentConflict as above. The history
        stays."""

    async def list(
        self, collection: str, *, after: str = "", limit: int = 100, prefix: str = "", without: str = ""
    ) -> Documents:
        """The documents in the order of their keys (by code points), behind the key `after`, with keys that
        begin with `prefix`. `without` names a field that the bodies come without, since it may be long."""

    async def versions(
        self, collection: str, key: str, *, before: int = 0, limit: int = 100, without: str = ""
    ) -> Documents:
        """The versions of a key that were kept, and the current one: the newest first, only those below
        `before` if it is given. `without` as above."""

    async def forget(self, collection: str, key: str) -> bool:
        """Deletes a document with its history; whether there was any of it."""

    async def forget_versions(self, collection: str, key: str, *, first: int = 1, below: int) -> int:
        """Deletes the kept versions of a key whose numbers are in a range, except for the newest version of
        all; returns how many. What they contained cannot be found in the file either."""

    async def trim_versions(self, collection: str, *, keep: int = 1, until: float = LATER) -> int:
        """Deletes kept versions of all keys that were written before a time; returns how many. The newest
        ones of each key stay: `keep` of them, at least one."""

    async def append(self, collection: str, body: Any, *, author: str = "") -> int:
        """Adds an entry to a log and returns its number."""

    async def entries(
        self, collection: str, *, before: int = 0, after: int = 0, limit: int = 100
    ) -> LogEntries:
        """The entries of a log. Without `after`, the newest first, below the number `before` if it is given,
        for people who turn pages. With `after`, the oldest first, above that number, for programs that
        continue."""

    async def trim(self, collection: str, until: float) -> int:
        """Deletes the entries of a log that were written before a time; returns how many. Their numbers are
        not given again."""

    async def expire(self, now: float) -> int:
        """Removes the documents that have expired at this time; returns how many."""


def encode_body(collection: str, body: Any) -> bytes:
    """A JSON value as it is stored. Strict, unlike the bodies of control requests: a document is read back
    to be used, and a text in place of an object would be found out much later."""
    try:
        return msgspec.json.encode(body)
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
        raise StoreError(f"the document for {collection} is no JSON value: {error}") from error


def check_names(*names: str) -> None:
    """StoreError if the name of a collection, a key or an author cannot be stored."""
    for name in names:
        try:
            name.encode()
        except UnicodeEncodeError as error:
            raise StoreError(f"the name {name!r:.60} cannot be stored: {error.reason}") from None


def end_of_prefix(prefix: str) -> str | None:
    """The smallest text that is larger than all texts with a prefix; None if there is none. A range of keys
    can use the index, and has no exceptions for characters that SQL functions treat specially."""
    for length in range(len(prefix), 0, -1):
        last = ord(prefix[length - 1])
        if last < 0x10FFFF:
            following = 0xE000 if last + 1 == 0xD800 else last + 1  # surrogates are no characters
            return prefix[: length - 1] + chr(following)
    return None
