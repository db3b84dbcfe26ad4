"""Opens the store that a caller names, and closes it again unless the caller brought it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Self

from roundel.journal.registry import open_store
from roundel.journal.store import Store
from roundel.runs.store_url import store_url

StorePlace = str | os.PathLike[str] | Store | None
"""A path, a URL (journal/registry.py), a store that is open, or None for the default (store_url.py)."""


def store_at(place: StorePlace = None) -> Store:
    """The store at a place; StoreError if the place is wrong."""
    if place is None or isinstance(place, (str, os.PathLike)):
        return open_store(store_url(place))
    return place


class OpenStore:
    """A client of a store, which closes the store again unless the caller brought it."""

    def __init__(self, store: StorePlace = None) -> None:
        self._store = store_at(store)
        self._ours = self._store is not store

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._ours:
            await self._store.close()


@asynccontextmanager
async def opened(place: StorePlace) -> AsyncIterator[Store]:
    """The store; closed again unless the caller brought it."""
    store = store_at(place)
    try:
        yield store
    finally:
        if store is not place:
            await store.close()
