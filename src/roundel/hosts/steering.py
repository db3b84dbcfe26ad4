"""Steers a run that is at work as other processes wish, and keeps the claim on it alive."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable

from roundel.journal.run_journal import RunJournal
from roundel.journal.store import ControlRequest, Fenced

LOOK_EVERY = 0.2
"""Seconds between two looks at what others wish."""
CHECK_CLAIM_EVERY = 2.0
"""Seconds between two looks whether the run is still ours."""
DONE = "done"

Obey = Callable[[ControlRequest], Awaitable[str]]
"""Does what is wished, and comes back when that is safe; says why not if it cannot be done."""


class Steering:
    def __init__(self, journal: RunJournal, obey: Obey, lost: Callable[[Exception], None]) -> None:
        self._journal = journal
        self._obey = obey
        self._lost = lost
        self._task: asyncio.Task[None] | None = None
        self._over = asyncio.Event()

    def start(self) -> None:
        self._task = asyncio.create_task(self._watch())

    async def stop(self) -> None:
        """What is being seen to is seen through: whoever wished it waits for what became of it."""
        self._over.set()
        if self._task is not None:
            try:
                await asyncio.shield(self._task)
            finally:
                self._task.cancel()

    async def _watch(self) -> None:
        store, claim = self._journal.store, self._journal.claim
        renewed = time.monotonic()
        try:
            while not await self._is_over():
                for control in await store.requests([claim]):
                    outcome = await self._obey(control)
                    await store.settle(claim, [control.number], outcome or DONE)
                if time.monotonic() - renewed > CHECK_CLAIM_EVERY:
                    if await store.lost([claim]):
                        raise Fenced(
                            f"another process has taken over run {claim.run_id}; this one has stopped"
                        )
                    renewed = time.monotonic()
        except Exception as error:  # whatever it is: nobody would hear of wishes, nor keep the claim alive
            self._lost(error)

    async def _is_over(self) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOOK_EVERY):
                await self._over.wait()
        return self._over.is_set()
