"""Where entries are kept. SQLite is one place (sqlite.py); others do the same behind the same few calls.

A shelf belongs to one group. Whatever is asked for is asked of a shelf, or of a group, and comes from there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct


class Shelf(Struct, frozen=True):
    group: str
    name: str


class Item(Struct, frozen=True):
    """What is to be remembered."""

    text: str
    time: float
    key: str = ""
    """Of the visit that it comes from: the same visit again takes back what else it said, and changes nothing
    if it says the same."""
    run_id: str = ""
    node: str = ""
    address: str = ""
    confidence: float | None = None
    until: float | None = None
    """When it is forgotten by itself."""
    about: dict[str, Any] = {}
    found_by: str = ""
    """Further text by which it is found."""
    apart: str = ""
    """The same text is a second entry where this differs."""


class Entry(Struct, frozen=True, omit_defaults=True):
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
    """An entry, and the words that it is found by."""

    entry: Entry
    words: frozenset[str]


class Memories(Protocol):
    async def remember(self, shelf: Shelf, items: Sequence[Item], newest: int | None = None) -> list[int]:
        """The ids of the entries. A text that is there already becomes the newest. With `newest` those that
        are over go, and of more than so many the oldest."""

    async def newest(self, shelf: Shelf, limit: int, now: float, since: float = 0) -> list[Match]:
        """The newest first; nothing that is over, or older than `since`."""

    async def search(self, shelf: Shelf, words: Sequence[str], limit: int, now: float) -> list[Match]:
        """Entries that hold at least one of the words; the best ones if there are more than `limit`."""

    async def entries(self, group: str, now: float, shelf: str = "") -> list[Entry]:
        """All of a group, or of one of its shelves, the newest first."""

    async def forget(self, group: str, ids: Sequence[int] | None = None) -> int:
        """How many of these were there; None means all of the group."""

    async def vectors(self, shelf: Shelf, model: str, now: float) -> list[tuple[Entry, bytes | None]]:
        """All entries of a shelf with the vectors that a model has made of them so far."""

    async def keep_vectors(self, model: str, vectors: Mapping[int, bytes]) -> None: ...

    async def close(self) -> None: ...
