"""The protocol of a memory store, and its data.

Two implementations exist: one in SQLite, beside the runs of a store (journal/sqlite_memory.py), and one
in the memory of a process (process_store.py).

Each entry belongs to a shelf, and each shelf to one group. Every call names a shelf or a group and sees
nothing else. That isolates groups from each other, and is tested for all implementations
(tests/memory/test_store.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct


class Shelf(Struct, frozen=True):
    """One memory of one group: the namespace of its entries. Entries that belong to no group have the
    group ''."""

    group: str
    name: str


class Item(Struct, frozen=True):
    """A text to remember, and where it comes from."""

    text: str
    time: float
    key: str = ""
    """Identifies the node execution that says it. If the same execution is repeated after a crash, its
    items replace what it said the first time, and change nothing if it says the same again."""
    run_id: str = ""
    node: str = ""
    address: str = ""
    confidence: float | None = None
    until: float | None = None
    """When it expires."""
    about: dict[str, Any] = {}
    found_by: str = ""
    """Further text that is indexed with it, such as the input that it answers."""
    apart: str = ""
    """Part of the identity: equal texts with different values are different entries, as in two files."""


class MemoryEntry(Struct, frozen=True, omit_defaults=True):
    """A stored text. The store creates it; it never changes, except that a repeated text becomes the
    newest."""

    id: int
    group: str
    shelf: str
    text: str
    time: float
    run_id: str = ""
    node: str = ""
    address: str = ""
    confidence: float | None = None
    about: dict[str, Any] = {}


class Match(Struct, frozen=True):
    """An entry and the words by which it was indexed."""

    entry: MemoryEntry
    words: frozenset[str]


class MemoryStore(Protocol):
    """Entries by shelf. `now` is the time by which entries expire. StoreError if the store cannot be
    read or written."""

    async def remember(self, shelf: Shelf, items: Sequence[Item], newest: int | None = None) -> list[int]:
        """Adds items and returns the ids of their entries, in order; all or none. A text that the shelf
        has already keeps its id and becomes the newest, unless the same node execution said it
        (`Item.key`).

        With `newest`, expired entries of the shelf are deleted, and the oldest above this number."""

    async def newest(self, shelf: Shelf, limit: int, now: float, since: float = 0) -> list[Match]:
        """The newest entries first; none that has expired, or that is not newer than `since`."""

    async def search(self, shelf: Shelf, words: Sequence[str], limit: int, now: float) -> list[Match]:
        """Entries that contain at least one of the words (search.py), in any order. If there are more
        than `limit`, those with the most words, where a word counts more the fewer entries contain
        it."""

    async def entries(self, group: str, now: float, shelf: str = "") -> list[MemoryEntry]:
        """All entries of a group, or of one of its shelves: by shelf, the newest first."""

    async def page(self, group: str, now: float, limit: int, before: int = 0) -> list[MemoryEntry]:
        """At most `limit` entries of a group, on all shelves, by id, the largest first. With `before`, only
        those with a smaller id: the last id of a page continues the list."""

    async def forget(self, group: str, ids: Sequence[int] | None = None) -> int:
        """Deletes entries of a group, all of them if `ids` is None, with everything that was derived
        from them; returns how many there were. Entries of other groups stay."""

    async def vectors(self, shelf: Shelf, model: str, now: float) -> list[tuple[MemoryEntry, bytes | None]]:
        """All entries of a shelf, the newest first, each with the vector that a model has made of it."""

    async def keep_vectors(self, model: str, vectors: Mapping[int, bytes]) -> None:
        """Stores vectors by the ids of their entries; those of entries that are gone are dropped."""

    async def close(self) -> None:
        """Releases the resources of this object; a memory that belongs to a store stays open with the
        store."""
