"""Transient events for those who follow a run: text as it is written, progress, waits.

Transient events are not stored, so they cannot be read from the store like all others. An engine hands them
to the followers of a run in its own process. Each comes with the number of the last event that was published
before it. That is enough to put it where it belongs among the events from the store, although these arrive
later: behind the event with that number, and before the next.

A follower that does not read must not keep all text of a run in memory. It has the newest MAX_LIVE events,
and misses those before.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Iterator
from typing import Any

from roundel.kernel.events import Event

MAX_LIVE = 10_000


class LiveEvents:
    """The transient events of one run, for one follower. Created by `LiveFeeds.subscribe`."""

    def __init__(self) -> None:
        self._events: deque[tuple[int, Event]] = deque(maxlen=MAX_LIVE)
        self._arrival: asyncio.Future[None] | None = None

    def publish(self, after: int, event: Event) -> None:
        """Adds an event that follows the one with the number `after`."""
        self._events.append((after, event))
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)

    def take(self, before: int) -> Iterator[Event]:
        """Removes and returns the events that come before the one with this number."""
        while self._events and self._events[0][0] < before:
            yield self._events.popleft()[1]

    async def take_until(self, done: asyncio.Future[Any], before: int) -> AsyncIterator[Event]:
        """Like `take`, with those that arrive until a future is done."""
        while not done.done():
            for event in self.take(before):
                yield event
            self._arrival = asyncio.get_running_loop().create_future()
            await asyncio.wait([self._arrival, done], return_when=asyncio.FIRST_COMPLETED)


class LiveFeeds:
    """The followers of all runs of an engine."""

    def __init__(self) -> None:
        self._followers: dict[str, list[LiveEvents]] = {}

    @contextlib.contextmanager
    def subscribe(self, run_id: str) -> Iterator[LiveEvents]:
        """The transient events of a run from now on, also if it is executed here only later."""
        events = LiveEvents()
        self._followers.setdefault(run_id, []).append(events)
        try:
            yield events
        finally:
            followers = self._followers[run_id]
            followers.remove(events)
            if not followers:
                del self._followers[run_id]

    def publish(self, run_id: str, after: int, event: Event) -> None:
        for follower in self._followers.get(run_id, ()):
            follower.publish(after, event)
