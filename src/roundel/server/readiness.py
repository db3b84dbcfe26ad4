"""Whether the store of a server can be written, for `/readyz`.

A store that can be read may still have a full disk, which only a write finds out. Anybody may ask, so there
is at most one write in PROBE_SECONDS, and all who ask meanwhile get its result.
"""

from __future__ import annotations

import asyncio
import time

from roundel.journal.documents import DocumentStore
from roundel.journal.store import StoreError

PROBE_SECONDS = 1.0
COLLECTION, KEY = "readiness", "probe"


class StoreProbe:
    """One for each server."""

    def __init__(self, documents: DocumentStore) -> None:
        self._documents = documents
        self._probe: asyncio.Task[StoreError | None] | None = None
        self._due = 0.0

    async def failure(self) -> StoreError | None:
        """Why the store cannot be written; None if it can."""
        now = time.monotonic()
        if self._probe is None or (self._probe.done() and now >= self._due):
            self._due = now + PROBE_SECONDS
            self._probe = asyncio.create_task(self._write(), name="roundel-readiness")
        return await asyncio.shield(self._probe)

    async def _write(self) -> StoreError | None:
        try:
            await self._documents.put(COLLECTION, KEY, {})
        except StoreError as error:
            return error
        return None
