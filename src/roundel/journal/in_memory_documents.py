"""InMemoryDocumentStore: documents and logs in the memory of this process (documents.py is the protocol).

Bodies are encoded as in SQLite, so that what works here works there, and no two callers share an object.
Every method does its work under one lock and without awaiting anything, so each is atomic.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable
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
)

Place = tuple[str, str]
"""A collection and a key."""


class InMemoryDocumentStore:
    """Created by InMemoryStore. The bodies in it are encoded."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._now = clock
        self._lock = threading.Lock()
        self._current: dict[Place, Document] = {}
        self._kept: dict[Place, dict[int, Document]] = {}
        """The versions whose history is kept, by their numbers."""
        self._logs: list[tuple[str, LogEntry]] = []
        """All logs, with their collections, in the order of their numbers."""
        self._last_number = 0

    async def get(self, collection: str, key: str) -> Document | None:
        check_names(collection, key)
        with self._lock:
            found = self._find(collection, key)
        return _decoded(found) if found is not None else None

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
        encoded, place = encode_body(collection, body), (collection, key)
        with self._lock:
            current = self._check_version(collection, key, expected)
            version = max(current, *self._kept.get(place, {0: None})) + 1
            made = Document(key, version, encoded, self._now(), author, expires)
            self._current[place] = made
            if keep_history:
                self._kept.setdefault(place, {})[version] = made
            return version

    async def delete(self, collection: str, key: str, *, expected: int | None = None) -> bool:
        check_names(collection, key)
        with self._lock:
            current = self._check_version(collection, key, expected)
            self._current.pop((collection, key), None)
            return current > 0

    async def list(
        self, collection: str, *, after: str = "", limit: int = 100, prefix: str = "", without: str = ""
    ) -> Documents:
        check_names(collection, after, prefix)
        with self._lock:
            places = sorted(
                place
                for place in self._current
                if place[0] == collection and place[1] > after and place[1].startswith(prefix)
            )
            found = [document for place in places if (document := self._find(*place)) is not None]
        return [_decoded(document, without) for document in found[: max(limit, 0)]]

    async def versions(
        self, collection: str, key: str, *, before: int = 0, limit: int = 100, without: str = ""
    ) -> Documents:
        check_names(collection, key)
        with self._lock:
            found = dict(self._kept.get((collection, key), {}))
            current = self._find(collection, key)
        if current is not None:
            found[current.version] = current
        numbers = sorted((number for number in found if not before or number < before), reverse=True)
        chosen = [found[number] for number in numbers[: max(limit, 0)]]
        return [msgspec.structs.replace(_decoded(document, without), expires=None) for document in chosen]

    async def forget(self, collection: str, key: str) -> bool:
        check_names(collection, key)
        with self._lock:
            current = self._find(collection, key)
            self._current.pop((collection, key), None)
            return self._kept.pop((collection, key), None) is not None or current is not None

    async def forget_versions(self, collection: str, key: str, *, first: int = 1, below: int) -> int:
        check_names(collection, key)
        with self._lock:
            kept = self._kept.get((collection, key), {})
            current = self._find(collection, key)
            newest = max((*kept, current.version if current is not None else 0))
            gone = [version for version in kept if first <= version < below and version != newest]
            for version in gone:
                del kept[version]
            return len(gone)

    async def trim_versions(self, collection: str, *, keep: int = 1, until: float = LATER) -> int:
        check_names(collection)
        trimmed = 0
        with self._lock:
            for place in [place for place in self._kept if place[0] == collection]:
                kept = self._kept[place]
                for version in sorted(kept, reverse=True)[max(keep, 1) :]:
                    if kept[version].updated < until:
                        del kept[version]
                        trimmed += 1
        return trimmed

    def _find(self, collection: str, key: str) -> Document | None:
        """The current document, unless it has expired. Called with the lock, like the one below."""
        found = self._current.get((collection, key))
        if found is None or (found.expires is not None and found.expires <= self._now()):
            return None
        return found

    def _check_version(self, collection: str, key: str, expected: int | None) -> int:
        """The current version, 0 if there is none; DocumentConflict if another one is expected."""
        found = self._find(collection, key)
        current = found.version if found is not None else 0
        if expected is not None and expected != current:
            raise DocumentConflict(collection, key, current)
        return current

    # Logs.

    async def append(self, collection: str, body: Any, *, author: str = "") -> int:
        check_names(collection, author)
        encoded = encode_body(collection, body)
        with self._lock:
            self._last_number += 1
            self._logs.append((collection, LogEntry(self._last_number, encoded, self._now(), author)))
            return self._last_number

    async def entries(
        self, collection: str, *, before: int = 0, after: int = 0, limit: int = 100
    ) -> LogEntries:
        check_names(collection)
        after = max(after, 0)
        with self._lock:
            begin = bisect_right(self._logs, after, key=lambda log: log[1].number)
            found = [
                entry
                for owner, entry in self._logs[begin:]
                if owner == collection and (not before or entry.number < before)
            ]
        chosen = (found if after else found[::-1])[: max(limit, 0)]
        return [msgspec.structs.replace(entry, body=msgspec.json.decode(entry.body)) for entry in chosen]

    async def trim(self, collection: str, until: float) -> int:
        check_names(collection)
        with self._lock:
            before = len(self._logs)
            self._logs = [
                (owner, entry) for owner, entry in self._logs if owner != collection or entry.time >= until
            ]
            return before - len(self._logs)

    async def expire(self, now: float) -> int:
        with self._lock:
            gone = [
                place
                for place, document in self._current.items()
                if document.expires is not None and document.expires <= now
            ]
            for place in gone:
                del self._current[place]
            return len(gone)


def _decoded(document: Document, without: str = "") -> Document:
    body = msgspec.json.decode(document.body)
    if without and isinstance(body, dict):
        body.pop(without, None)
    return msgspec.structs.replace(document, body=body)
