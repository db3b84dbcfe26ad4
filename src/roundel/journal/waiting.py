"""Waiting: for the next append to a run of a store, or to any, and for work that must be completed despite
cancellation.

Appends of this process wake waiters when they are committed. Appends of other processes are found by a
timer of the writing thread, which reads the largest position every POLL_SECONDS, only while somebody
waits: that is one page, which is in memory unless another process has written since. If it has risen, the
runs of the new positions are read, too.

A waiter registers before it reads the newest position. So an append is either seen by that read, or
comes later and wakes the waiter; none is lost in between.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

from roundel.journal.store import ALL_RUNS, StoreError

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
DELETED_SECONDS = 1.0
"""How soon those who wait for a run learn that another process has deleted it, which appends nothing."""
Waiters = dict[asyncio.Future[int], int]
"""The future of each waiter, with the position that the waiter has seen."""


class AppendSignal:
    """The waiters of one store, on any number of event loops and threads. Created by the store.

    An append wakes those who wait for its run, and those who wait for any run, but nobody else: two hundred
    runs with a follower each would otherwise cost two hundred reads with each append."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiters: dict[str, Waiters] = {}
        """By run; ALL_RUNS for those who wait for any."""

    def is_awaited(self) -> bool:
        return bool(self._waiters)

    def runs(self) -> list[str]:
        """The runs that somebody waits for."""
        with self._lock:
            return [run_id for run_id in self._waiters if run_id != ALL_RUNS]

    async def wait(self, after: int, newest: Callable[[], Awaitable[int]], run_id: str = ALL_RUNS) -> int:
        """The newest position of a run, or of all, once it is larger than `after`; `newest` reads it from
        the store."""
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        with self._lock:
            self._waiters.setdefault(run_id, {})[future] = after
        try:
            found = await newest()
            return found if found > after else await future
        finally:
            with self._lock:
                waiters = self._waiters.get(run_id, {})
                waiters.pop(future, None)
                if not waiters:
                    self._waiters.pop(run_id, None)

    def notify(self, position: int, run_id: str) -> None:
        """Wakes those who have not seen this append to a run. May be called from any thread, as all of
        these."""
        if not self._waiters:  # who registers from now on reads the store after that
            return
        with self._lock:
            woken = [
                future
                for waiters in (self._waiters.get(run_id), self._waiters.get(ALL_RUNS))
                if waiters is not None
                for future, after in waiters.items()
                if after < position
            ]
        self._settle(woken, lambda future: future.set_result(position))

    def deleted(self, run_id: str) -> None:
        """Wakes those who wait for a run that has no facts any more: they find that when they read."""
        with self._lock:
            woken = list(self._waiters.get(run_id, {}).items())
        for future, after in woken:
            self._settle([future], partial(_set_result, after))

    def close(self, why: str) -> None:
        """Ends all waits with StoreError."""
        with self._lock:
            woken = [future for waiters in self._waiters.values() for future in waiters]
        self._settle(woken, lambda future: future.set_exception(StoreError(why)))

    def _settle(
        self, woken: list[asyncio.Future[int]], settle: Callable[[asyncio.Future[int]], None]
    ) -> None:
        # Futures are not safe for threads, so each is settled in its own loop. Two notifications may
        # reach a waiter before it wakes up; the second finds the future done.
        def in_loop(future: asyncio.Future[int]) -> None:
            if not future.done():
                settle(future)

        for future in woken:
            with contextlib.suppress(RuntimeError):  # its event loop is closed, so nobody waits any more
                future.get_loop().call_soon_threadsafe(in_loop, future)


def _set_result(position: int, future: asyncio.Future[int]) -> None:
    future.set_result(position)
