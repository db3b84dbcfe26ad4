"""Where runs are kept: what was asked for, else `$ROUNDEL_STORE`, else a file in the working folder."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Self

from roundel.journal.sqlite import SqliteStore
from roundel.journal.store import StoreError
from roundel.sessions.store_url import parse

StorePlace = str | os.PathLike[str] | SqliteStore | None


def store_at(place: StorePlace = None) -> SqliteStore:
    """A path, or `sqlite:///path?sync=normal`; `sync` is full, normal or off."""
    if isinstance(place, SqliteStore):
        return place
    try:
        path, sync = parse(place)
    except ValueError as error:
        raise StoreError(str(error)) from None
    return SqliteStore(path, sync=sync)  # type: ignore[arg-type]


class OpenStore:
    """Something that works with a store, and closes it again unless the caller brought it."""

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
async def opened(place: StorePlace) -> AsyncIterator[SqliteStore]:
    """The store; closed again unless the caller brought it."""
    store = store_at(place)
    try:
        yield store
    finally:
        if store is not place:
            await store.close()
