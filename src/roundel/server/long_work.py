"""Turns for requests that read a whole run: replays, forks, scripts, figures of rounds.

For a run of 100,000 rounds such a request works for seconds. It does so in threads, or in small pieces
between which others are served; but many at once would slow down everybody and fill the memory. So only few
work at a time, one for each token, and the others wait in the order in which they came: a caller with many
requests waits for its own. What waits for too long, or behind too many of its kind, is refused, and may come
again. Short runs need no turn.

A replay has millions of objects, and a full garbage collection looks at all of them while no other thread can
do anything, for about a second. So there is none during a turn: objects of a replay are hardly ever in
cycles, and the younger generations are collected as always.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from roundel.journal.store import RunRow
from roundel.server.identity import Principal
from roundel.server.problems import Problem

LONG_RUN = 5_000
"""Facts from which on a run counts as long: it takes about half a second to replay."""
MOST_AT_ONCE = 2
"""More would only take the interpreter from each other."""
MOST_WAITING = 8
"""Requests of one token that wait for a turn."""
NEVER = 1 << 30
"""So many collections of the younger generations come before a full one."""
WAIT_SECONDS = 60.0
"""How long a request waits for its turn."""


class _FullCollections:
    """Those of the process, which has one garbage collector, however many servers are in it."""

    def __init__(self) -> None:
        self._working = 0
        self._thresholds = gc.get_threshold()

    @contextmanager
    def paused(self) -> Iterator[None]:
        if not self._working:
            self._thresholds = gc.get_threshold()
            gc.set_threshold(*self._thresholds[:2], NEVER)
        self._working += 1
        try:
            yield
        finally:
            self._working -= 1
            if not self._working:
                gc.set_threshold(*self._thresholds)


_FULL_COLLECTIONS = _FullCollections()


class LongWork:
    """The turns of a server."""

    def __init__(self) -> None:
        self._all = asyncio.Semaphore(MOST_AT_ONCE)
        self._own: dict[str, asyncio.Semaphore] = {}
        self._requests: dict[str, int] = {}
        """How many requests of a token work or wait."""

    @asynccontextmanager
    async def turn(self, who: Principal, row: RunRow | None) -> AsyncIterator[None]:
        """Around the work for a request about a run; waits for a turn if the run is long. Problem if there
        is none to be had soon."""
        if row is None or row.facts < LONG_RUN:
            yield
            return
        if self._requests.get(who.id, 0) > MOST_WAITING:
            detail = "other requests of this token about long runs are waiting already; try again later"
            raise Problem(429, "too-many-requests", detail, headers={"retry-after": "5"})
        self._requests[who.id] = self._requests.get(who.id, 0) + 1
        own = self._own.setdefault(who.id, asyncio.Semaphore(1))
        try:
            # First the one of the token: so each token has at most one place in the queue of all.
            async with _acquired(own), _acquired(self._all):
                with _FULL_COLLECTIONS.paused():
                    yield
        finally:
            self._requests[who.id] -= 1
            if not self._requests[who.id]:
                del self._requests[who.id], self._own[who.id]


@asynccontextmanager
async def _acquired(semaphore: asyncio.Semaphore) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(WAIT_SECONDS):
            await semaphore.acquire()
    except TimeoutError:
        detail = "too many requests about long runs are waiting; try again later"
        raise Problem(503, "unavailable", detail, headers={"retry-after": "10"}) from None
    try:
        yield
    finally:
        semaphore.release()
