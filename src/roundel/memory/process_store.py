"""A memory store in the memory of this process, for runs without a store and for in-memory stores.

Every method does its work under one lock and without awaiting anything, so each is atomic for all event
loops and threads that share the store.
"""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec import Struct

from roundel.memory.search import index_words, word_weights
from roundel.memory.store import Item, Match, MemoryEntry, Shelf


class _StoredEntry(Struct):
    """An entry with what the store needs to find and replace it."""

    entry: MemoryEntry
    key: str
    digest: tuple[str, str]
    """The identity of an item on its shelf: `apart` and the text."""
    sequence: int
    """Increases with each item, so that the newest entry has the largest. Times are not unique."""
    until: float | None
    words: frozenset[str]
    vectors: dict[str, bytes] = {}

    def is_expired(self, now: float) -> bool:
        return self.until is not None and self.until <= now


class ProcessMemoryStore:
    """Created by a run that has no store, or by an in-memory store."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._shelves: dict[Shelf, dict[int, _StoredEntry]] = {}
        self._ids = itertools.count(1)
        self._sequence = itertools.count(1)

    async def remember(self, shelf: Shelf, items: Sequence[Item], newest: int | None = None) -> list[int]:
        with self._lock:
            stored = self._shelves.setdefault(shelf, {})
            _remove_retracted(stored, items)
            ids = [self._remember(shelf, stored, item) for item in items]
            if newest is not None:
                _drop_old(stored, max((item.time for item in items), default=0), newest)
            return ids

    def _remember(self, shelf: Shelf, stored: dict[int, _StoredEntry], item: Item) -> int:
        digest = (item.apart, item.text)
        known = next((number for number, one in stored.items() if one.digest == digest), None)
        if known is not None and item.key and stored[known].key == item.key:
            return known  # the same execution, repeated after a crash: the entry does not become the newest
        number = next(self._ids) if known is None else known
        # Through JSON, so that an entry is the same as in SQLite, and does not share objects with the
        # run.
        about = msgspec.json.decode(msgspec.json.encode(item.about, enc_hook=repr))
        origin = (item.run_id, item.node, item.address, item.confidence)
        entry = MemoryEntry(number, shelf.group, shelf.name, item.text, item.time, *origin, about)
        words = frozenset(index_words(f"{item.text}\n{item.found_by}"))
        # The text is the same, so vectors that were paid for stay valid.
        vectors = {} if known is None else stored[known].vectors
        stored[number] = _StoredEntry(
            entry, item.key, digest, next(self._sequence), item.until, words, vectors
        )
        return number

    async def newest(self, shelf: Shelf, limit: int, now: float, since: float = 0) -> list[Match]:
        with self._lock:
            found = (one for one in self._live(shelf, now) if one.entry.time > since)
            return [Match(one.entry, one.words) for one in itertools.islice(found, limit)]

    async def search(self, shelf: Shelf, words: Sequence[str], limit: int, now: float) -> list[Match]:
        with self._lock:
            found = [one for one in self._live(shelf, now) if not one.words.isdisjoint(words)]
        counts = {word: sum(word in one.words for one in found) for word in words}
        weights_by_word = word_weights(counts, len(found))

        def score(one: _StoredEntry) -> tuple[float, int]:
            return sum(weights_by_word[word] for word in words if word in one.words), one.entry.id

        return [Match(one.entry, one.words) for one in heapq.nlargest(limit, found, key=score)]

    async def entries(self, group: str, now: float, shelf: str = "") -> list[MemoryEntry]:
        with self._lock:
            shelves = sorted(
                (one for one in self._shelves if one.group == group and shelf in ("", one.name)),
                key=lambda one: one.name,
            )
            return [stored.entry for one in shelves for stored in self._live(one, now)]

    async def page(self, group: str, now: float, limit: int, before: int = 0) -> list[MemoryEntry]:
        entries = await self.entries(group, now)
        found = (entry for entry in entries if not before or entry.id < before)
        return heapq.nlargest(limit, found, key=lambda entry: entry.id)

    async def forget(self, group: str, ids: Sequence[int] | None = None) -> int:
        count = 0
        with self._lock:
            for shelf, stored in self._shelves.items():
                if shelf.group == group:
                    removed = list(stored) if ids is None else [number for number in stored if number in ids]
                    _remove(stored, removed)
                    count += len(removed)
        return count

    async def vectors(self, shelf: Shelf, model: str, now: float) -> list[tuple[MemoryEntry, bytes | None]]:
        with self._lock:
            return [(one.entry, one.vectors.get(model)) for one in self._live(shelf, now)]

    async def keep_vectors(self, model: str, vectors: Mapping[int, bytes]) -> None:
        with self._lock:
            for stored in self._shelves.values():
                for number in vectors.keys() & stored.keys():
                    stored[number].vectors = {**stored[number].vectors, model: vectors[number]}

    async def close(self) -> None:
        """Does nothing: the entries are dropped with the object."""

    def _live(self, shelf: Shelf, now: float) -> list[_StoredEntry]:
        """The entries of a shelf that have not expired, the newest first."""
        stored = self._shelves.get(shelf, {}).values()
        return sorted((one for one in stored if not one.is_expired(now)), key=lambda one: -one.sequence)


def _remove_retracted(stored: dict[int, _StoredEntry], items: Sequence[Item]) -> None:
    """Removes what the same node executions said before a crash and do not say now: the output that
    counts is the one that the journal has."""
    texts_by_key: dict[str, set[tuple[str, str]]] = {}
    for item in items:
        if item.key:
            texts_by_key.setdefault(item.key, set()).add((item.apart, item.text))
    _remove(
        stored,
        [
            n
            for n, one in stored.items()
            if one.key in texts_by_key and one.digest not in texts_by_key[one.key]
        ],
    )


def _drop_old(stored: dict[int, _StoredEntry], now: float, newest: int) -> None:
    """Removes expired entries, and the oldest beyond the number `newest`, so that a shelf does not grow
    without limit."""
    _remove(stored, [number for number, one in stored.items() if one.is_expired(now)])
    by_age = sorted(stored, key=lambda number: -stored[number].sequence)
    _remove(stored, by_age[newest:])


def _remove(stored: dict[int, _StoredEntry], ids: Iterable[int]) -> None:
    for number in ids:
        del stored[number]
