"""How runs are named: by their id, by a beginning of it that fits no other, or `last`.

Opens the store that a caller names, and closes it again unless the caller brought it.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Self

from roundel.journal.registry import open_store, store_url
from roundel.journal.store import NoRun, Store, StoreError

LAST = "last"


class AmbiguousRun(StoreError):
    """More than one run has an id that begins so."""


async def find(store: Store, name: str) -> str:
    """The id of the run that is meant; NoRun or Ambiguous if it is not clear which."""
    if name == LAST:
        rows = await store.rows(1)
        if not rows:
            raise NoRun(f"there are no runs in {store.location} yet")
        return rows[0].id
    found = await store.matching(name) if name else []
    if name in found:
        return name
    if not found:
        raise NoRun(
            f"there is no run '{name}' in {store.location}; `roundel runs` lists those that are there"
        )
    if len(found) > 1:
        raise AmbiguousRun(f"'{name}' may be any of {', '.join(found)}; give more of the id")
    return found[0]


StoreLocation = str | os.PathLike[str] | Store | None
"""A path, a URL (journal/registry.py), a store that is open, or None for the default (store_url.py)."""


def resolve_store(place: StoreLocation = None) -> Store:
    """The store at a place; StoreError if the place is wrong."""
    if place is None or isinstance(place, (str, os.PathLike)):
        return open_store(store_url(place))
    return place


class StoreClient:
    """A client of a store, which closes the store again unless the caller brought it."""

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


@asynccontextmanager
async def opened(place: StoreLocation) -> AsyncIterator[Store]:
    """The store; closed again unless the caller brought it."""
    store = resolve_store(place)
    try:
        yield store
    finally:
        if store is not place:
            await store.close()
