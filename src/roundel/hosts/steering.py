"""Steers a run that is at work as other processes wish, and keeps the claim on it alive."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from roundel.journal.owner import LEASE
from roundel.journal.run_journal import RunJournal
from roundel.journal.store import Control, StoreError

LOOK_EVERY = 0.2
"""Seconds between two looks at what others wish."""
DONE = "done"

Obey = Callable[[Control], str]
"""Does what is wished; says why not if it cannot be done."""


class Steering:
    def __init__(self, journal: RunJournal, obey: Obey, lost: Callable[[StoreError], None]) -> None:
        self._journal = journal
        self._obey = obey
        self._lost = lost
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._watch())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _watch(self) -> None:
        store, claim = self._journal.store, self._journal.claim
        renewed = time.monotonic()
        try:
            while True:
                await asyncio.sleep(LOOK_EVERY)
                for control in await store.controls(claim):
                    outcome = self._obey(control)
                    await store.settle(claim, [control.number], outcome or DONE)
                if time.monotonic() - renewed > LEASE / 3:
                    await store.renew(claim)
                    renewed = time.monotonic()
        except StoreError as error:
            self._lost(error)
