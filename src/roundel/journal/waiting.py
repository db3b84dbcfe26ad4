"""Waiting: for the next append to any run of a store, and for work that must be completed despite
cancellation.

Appends of this process wake waiters when they are committed. Appends of other processes are found by a
timer of the writing thread, which reads the largest position every POLL_SECONDS, only while somebody
waits: that is one page, which is in memory unless another process has written since.

A waiter registers before it reads the newest position. So an append is either seen by that read, or
comes later and wakes the waiter; none is lost in between.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from roundel.journal.store import StoreError

T = TypeVar("T")


async def run_shielded(work: Coroutine[Any, Any, T]) -> T:
    """Awaits `work` to its end, even if the caller is cancelled meanwhile.

    For callers that already handle a cancellation and raise it afterwards: a second cancellation must
    not leave their cleanup half done, so it is not raised here."""
    # Not `asyncio.shield`: that protects the work, but raises in the caller, who would continue too
    # early.
    task = asyncio.ensure_future(work)
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            continue
    return task.result()


POLL_SECONDS = 0.05


class AppendSignal:
    """The waiters of one store, on any number of event loops and threads. Created by the store."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.waiters: dict[asyncio.Future[int], int] = {}
        """The future of each waiter, with the position that the waiter has seen."""

    async def wait(self, after: int, newest: Callable[[], Awaitable[int]]) -> int:
        """The newest position, once it is larger than `after`; `newest` reads it from the store."""
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        with self._lock:
            self.waiters[future] = after
        try:
            found = await newest()
            return found if found > after else await future
        finally:
            with self._lock:
                self.waiters.pop(future, None)

    def notify(self, newest: int) -> None:
        """Wakes those who have not seen this position. May be called from any thread."""
        self._settle(lambda after: after < newest, lambda future: future.set_result(newest))

    def close(self, why: str) -> None:
        """Ends all waits with StoreError."""
        self._settle(lambda _after: True, lambda future: future.set_exception(StoreError(why)))

    def _settle(self, wakes: Callable[[int], bool], settle: Callable[[asyncio.Future[int]], None]) -> None:
        with self._lock:
            woken = [future for future, after in self.waiters.items() if wakes(after)]

        # Futures are not safe for threads, so each is settled in its own loop. Two notifications may
        # reach a waiter before it wakes up; the second finds the future done.
        def in_loop(future: asyncio.Future[int]) -> None:
            if not future.done():
                settle(future)

        for future in woken:
            with contextlib.suppress(RuntimeError):  # its event loop is closed, so nobody waits any more
                future.get_loop().call_soon_threadsafe(in_loop, future)
