"""Finds runs by name, and opens the store that a caller names.

A run is named by its id, by a prefix of the id that fits no other run, or as `last`. A store that is
opened here is closed here; one that the caller passed stays open.
"""

from __future__ import annotations

import os
from types import TracebackType
from typing import Self

from roundel.journal.registry import open_store, store_url
from roundel.journal.store import NoRun, Store, StoreError

LAST = "last"


class AmbiguousRun(StoreError):
    """Several runs have an id with this prefix."""


async def find(store: Store, name: str) -> str:
    """The id of the run with this name; NoRun if there is none, AmbiguousRun if there are several. A
    complete id wins, even if it is also the prefix of others."""
    if name == LAST:
        rows = await store.rows(1)
        if not rows:
            raise NoRun(f"there are no runs in {store.location} yet")
        return rows[0].id
    found = await store.matching(name) if name else []
    if name in found:
        return name
    if not found:
        raise NoRun(f"there is no run '{name}' in {store.location}; `roundel runs` lists the existing runs")
    if len(found) > 1:
        raise AmbiguousRun(f"'{name}' may be any of {', '.join(found)}; use a longer prefix of the id")
    return found[0]


StoreLocation = str | os.PathLike[str] | Store | None
"""A path, a URL (journal/registry.py), a store that is open, or None for the default (`store_url`
there)."""


def resolve_store(place: StoreLocation = None) -> Store:
    """The store at a location; StoreError if the location is invalid. Opens no file yet."""
    if place is None or isinstance(place, (str, os.PathLike)):
        return open_store(store_url(place))
    return place


class StoreClient:
    """A context manager that closes its store at the end, unless the caller passed an open store. A base
    class for clients such as Memory."""

    def __init__(self, store: StoreLocation = None) -> None:
        self._store = resolve_store(store)
        self._owns_store = self._store is not store

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._owns_store:
            await self._store.close()
