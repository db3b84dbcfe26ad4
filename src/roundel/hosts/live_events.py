"""What an engine hands directly to those who follow its runs: transient events, and events that it has just
committed.

*Transient events* (text as it is written, progress, waits) are not stored, so they cannot be read from the
store like all others. Each comes with the number of the last event that was published before it. That is
enough to put it where it belongs among the events from the store, although these arrive later: behind the
event with that number, and before the next.

*Commits.* All other events are made from the facts in the store, by a replay. A follower in the process that
executes the run need not make them again: they come here as one batch, as soon as they are committed. A
follower takes a batch if it continues what it has. It is told of each append by the store as well, so it
reads there what did not come from here: of another process, or from before a gap.

The store may tell of an append before its batch is here. So an engine says when it begins to write for a run,
and whoever hears of an append waits until that write has ended (`settled`), and then has the batch if this
process made the append.

Neither kind may keep all of a run in memory for a follower that does not read. It has the newest MAX_LIVE
transient events, and misses those before, and the newest MAX_COMMITS batches, and reads what was before them
in the store.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from roundel.kernel.events import Event, encode_event

MAX_LIVE = 10_000
MAX_COMMITS = 500
"""More than a run makes before it lets others run (MAX_CALLS_BEFORE_YIELD)."""
CACHE_BYTES = 4 * 1024 * 1024
"""How much of what was committed is kept for those who follow all runs."""


class Committed(NamedTuple):
    """The events of one append, which is committed. Created by RunLog (core.py)."""

    run_id: str
    position: int
    """That of the append; 0 if it is not known."""
    events: list[Event]
    is_over: bool
    """Whether the run is over after them."""


async def _nothing() -> None:
    """What a follower waits for if no engine of this process writes for its run."""


class LiveEvents:
    """What an engine hands to one follower of a run. Created by `LiveFeeds.subscribe`."""

    def __init__(self, settled: Callable[[], Awaitable[None]] = _nothing) -> None:
        self.settled = settled
        """Returns when the write that is in flight for the run has ended, and its commit is here."""
        self._events: deque[tuple[int, Event]] = deque(maxlen=MAX_LIVE)
        self._commits: deque[Committed] = deque(maxlen=MAX_COMMITS)
        self._arrival: asyncio.Future[None] | None = None

    def publish(self, after: int, event: Event) -> None:
        """Adds a transient event that follows the one with the number `after`."""
        self._events.append((after, event))
        self._arrived()

    def commit(self, committed: Committed) -> None:
        self._commits.append(committed)
        self._arrived()

    def _arrived(self) -> None:
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)

    def take(self, before: int) -> Iterator[Event]:
        """Removes and returns the transient events that come before the event with this number."""
        while self._events and self._events[0][0] < before:
            yield self._events.popleft()[1]

    def take_commits(self) -> Iterator[Committed]:
        """Removes and returns what was committed."""
        while self._commits:
            yield self._commits.popleft()

    @property
    def has_commits(self) -> bool:
        return bool(self._commits)

    async def wait(self, done: asyncio.Future[Any]) -> None:
        """Waits until something arrives, or a future is done."""
        if not self._commits and not done.done():
            self._arrival = asyncio.get_running_loop().create_future()
            await asyncio.wait([self._arrival, done], return_when=asyncio.FIRST_COMPLETED)


class CommitCache:
    """The newest commits of an engine by position, for those who follow all runs. Created by
    `LiveFeeds.commits`.

    A reader of all runs takes the order from the store, since another process may own a smaller position;
    what it finds here it need not make by a replay."""

    def __init__(self, settled: Callable[[str], Awaitable[None]], limit: int = CACHE_BYTES) -> None:
        self._settled, self._limit = settled, limit
        self._commits: dict[int, tuple[list[Event], int]] = {}
        """The events of each, and how many bytes they have as JSON."""
        self._size = 0

    def add(self, committed: Committed) -> None:
        size = sum(map(len, map(encode_event, committed.events)))
        self._commits[committed.position] = committed.events, size
        self._size += size
        while self._size > self._limit:
            self._size -= self._commits.pop(next(iter(self._commits)))[1]

    async def find(self, position: int, run_id: str) -> list[Event] | None:
        """The events of an append that is in the store; None if they are not here."""
        if position not in self._commits:
            await self._settled(run_id)
        found = self._commits.get(position)
        return found[0] if found is not None else None


class LiveFeeds:
    """The followers of all runs of an engine."""

    def __init__(self) -> None:
        self._followers: dict[str, list[LiveEvents]] = {}
        self._cache: CommitCache | None = None
        self._cached_for = 0
        """How many readers have the cache."""
        self._writing: dict[str, asyncio.Event | None] = {}
        """The runs for which a write is in flight; an event if somebody waits for its end."""

    @contextlib.contextmanager
    def subscribe(self, run_id: str) -> Iterator[LiveEvents]:
        """What comes of a run from now on, also if it is executed here only later."""
        events = LiveEvents(partial(self.settled, run_id))
        self._followers.setdefault(run_id, []).append(events)
        try:
            yield events
        finally:
            followers = self._followers[run_id]
            followers.remove(events)
            if not followers:
                del self._followers[run_id]

    @contextlib.contextmanager
    def commits(self) -> Iterator[CommitCache]:
        """What is committed from now on; all readers share it."""
        if self._cache is None:
            self._cache = CommitCache(self.settled)
        self._cached_for += 1
        try:
            yield self._cache
        finally:
            self._cached_for -= 1
            if not self._cached_for:
                self._cache = None

    async def settled(self, run_id: str) -> None:
        """Returns when the write that is in flight for a run has ended."""
        if run_id in self._writing:
            ended = self._writing[run_id] = self._writing[run_id] or asyncio.Event()
            await ended.wait()

    def publish(self, run_id: str, after: int, event: Event) -> None:
        """Hands over a transient event that follows the one with the number `after`."""
        for follower in self._followers.get(run_id, ()):
            follower.publish(after, event)

    def is_followed(self, run_id: str) -> bool:
        return run_id in self._followers

    def commit(self, committed: Committed) -> None:
        for follower in self._followers.get(committed.run_id, ()):
            follower.commit(committed)
        if self._cache is not None and committed.position:
            self._cache.add(committed)

    def begin_write(self, run_id: str) -> None:
        self._writing.setdefault(run_id, None)

    def end_write(self, run_id: str) -> None:
        """The write has failed, or what it committed was handed over."""
        ended = self._writing.pop(run_id, None)
        if ended is not None:
            ended.set()
