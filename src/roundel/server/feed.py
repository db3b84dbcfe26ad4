"""Live events for any number of clients: each run is followed once, and each event is encoded once.

A `RunFeed` follows one run in the store, whichever process executes it, and keeps the newest events encoded
in a window; `StoreEvents` do the same for all runs together. Each client has a position in it, and nothing
else: no queue. A client whose next event has left the window gets the notice `behind`, and reads from the
store until it has caught up. So one that does not read costs a write or two, a replay of the run and the
entries that this has read ahead, however long the run is. The run never waits for any of this: the feed gets
what is committed, from the run itself if this process executes it, and from the store otherwise.

    window      the newest WINDOW_BYTES of encoded events, at least one
    client      a number: the last event that it has got; nothing is missing, nothing comes twice
    transient   text as it is written, progress: the newest few, for those who are there; a slow client
                misses some

A feed exists while it has clients. `EventHub` has all feeds of a server.

*All runs.* The events of one append have one position, and are encoded together. Each of them has an id of
its own, so that a client who was disconnected in the middle continues there (cursors.py): `1.7:1` is the
first event of the append at position 7, and its last one is `1.7`. Clients see only the appends of their
groups; their position passes over the others.
"""

from __future__ import annotations

import abc
import asyncio
import contextlib
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Iterator, Sequence
from functools import partial

from roundel.journal.store import ALL_RUNS, NoRun
from roundel.kernel.events import Event
from roundel.runs.runs import Runs
from roundel.runs.store_feed import ReplayPool
from roundel.server.cursors import EventCursor, cursor_text
from roundel.server.problems import Problem
from roundel.server.sse import encode_notice, encode_sse

WINDOW_BYTES = 4 * 1024 * 1024
WRITE_BYTES = 256 * 1024
"""The most bytes of one write to a client."""
MAX_TRANSIENT = 256
MAX_STREAMS = 1000
MAX_STREAMS_PER_CALLER = 100
MAX_GROUPS = 10_000
"""How many runs a feed remembers the groups of."""
NOBODY = "\0"
"""A group that no caller is a member of."""
Groups = Collection[str] | None
"""The groups that a client sees; None is all of them."""
END = encode_notice("end")
BEHIND = encode_notice("behind")
RESET = encode_notice("reset")
"""The cursor of the client counts in another version: what it knows does not fit what follows."""


class EventWindow:
    """The newest encoded events, by position. Positions rise, and may have gaps."""

    def __init__(self, after: int, limit: int = WINDOW_BYTES) -> None:
        self.start = after
        """Every event after this position is in the window."""
        self._positions: list[int] = []
        self._bodies: list[tuple[bytes, str]] = []
        """Each with the group of its run."""
        self._limit, self.size = limit, 0

    def append(self, position: int, body: bytes, group: str = "") -> None:
        self._positions.append(position)
        self._bodies.append((body, group))
        self.size += len(body)
        if self.size > self._limit:
            self._shrink()

    def _shrink(self) -> None:
        """Drops the oldest events. By half of the window, so that its lists are not moved for each event."""
        drop = 0
        while self.size > self._limit // 2 and drop < len(self._bodies) - 1:
            self.size -= len(self._bodies[drop][0])
            drop += 1
        if drop:
            self.start = self._positions[drop - 1]
            del self._positions[:drop], self._bodies[:drop]

    def after(self, position: int, groups: Groups = None) -> Iterator[tuple[int, bytes]]:
        """The events after a position, which must not be before `start`; empty bodies in place of those of
        other groups."""
        for index in range(bisect_right(self._positions, position), len(self._positions)):
            body, group = self._bodies[index]
            yield self._positions[index], body if groups is None or group in groups else b""


class EventFeed(abc.ABC):
    """Live events for any number of clients. `EventHub` creates one for the first client."""

    def __init__(self, runs: Runs, window_bytes: int = WINDOW_BYTES) -> None:
        self._runs, self._window_bytes = runs, window_bytes
        self._window: EventWindow | None = None
        self._over = self._closed = False
        self._error: Exception | None = None
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._transient: deque[tuple[int, bytes]] = deque(maxlen=MAX_TRANSIENT)
        self._transients = 0
        self.clients = 0
        self.started = asyncio.ensure_future(self._start())
        """Done when clients can read; fails if there is no such run."""

    @property
    def is_done(self) -> bool:
        """Whether it will not bring anything new, although the run may: after a retry, say."""
        return self._over or self._closed or self._error is not None

    async def _start(self) -> None:
        """Begins to follow where the run or the store is now. Clients read what was before from the store."""
        newest = await self._newest()
        self._window = EventWindow(newest, self._window_bytes)
        self._task = asyncio.create_task(self._work(newest, self._window), name="roundel-feed")

    async def _work(self, after: int, window: EventWindow) -> None:
        try:
            await self._follow(after, window)
            self._over = True
        except Exception as error:  # the store is closed, or the run was deleted: clients learn of it
            self._error = error
        self._wake()

    @abc.abstractmethod
    async def _newest(self) -> int:
        """The position of the newest event."""

    @abc.abstractmethod
    async def _follow(self, after: int, window: EventWindow) -> None:
        """Puts the events after a position into the window, and calls `_wake`."""

    @abc.abstractmethod
    def _from_store(
        self, position: int, window: EventWindow, groups: Groups
    ) -> AsyncIterator[tuple[int, bytes]]:
        """What the window does not have any more, in writes of bounded size, each with the position that it
        reaches."""

    def _wake(self) -> None:
        """Wakes all clients that wait. Those that do not will look at the window anyway."""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def _publish_transient(self, event: Event) -> None:
        self._transients += 1
        self._transient.append((self._transients, encode_sse(event)))
        self._wake()

    async def stream(self, after: int, groups: Groups = None) -> AsyncGenerator[bytes]:
        """The events after a position, each once and in order, until the run is over."""
        window = self._window
        assert window is not None
        position, transient = after, self._transients
        is_new, is_behind = True, False
        while True:
            # A client may be suspended at each `yield` for as long as it likes, and the window move on
            # meanwhile: so it is looked at again after each of them, and before anything is taken from it.
            if position < window.start:
                if not (is_new or is_behind):
                    is_behind = True
                    yield BEHIND
                before = position
                async for reached, chunk in self._from_store(position, window, groups):
                    position = reached
                    if chunk:
                        yield chunk
                is_new = False
                if position == before:
                    return  # the run was deleted, or replaced; the client finds out when it comes again
                continue
            is_new = is_behind = False
            chunk, position = _gather(window, position, groups)
            chunk += b"".join(body for number, body in self._transient if number > transient)
            transient = self._transients
            if chunk:
                yield chunk
            elif self._error is not None or self._closed:
                return
            elif self._over:
                yield END
                return
            else:
                await self._changed.wait()

    async def close(self) -> None:
        """Ends the streams of all clients; they may connect again, to another server."""
        self._closed = True
        self._wake()
        tasks = [self.started, *([self._task] if self._task is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _gather(window: EventWindow, position: int, groups: Groups) -> tuple[bytes, int]:
    """The next events of a client as one write, and its new position."""
    parts: list[bytes] = []
    size, reached = 0, position
    for number, body in window.after(position, groups):
        parts.append(body)
        size, reached = size + len(body), number
        if size >= WRITE_BYTES:
            break
    return b"".join(parts), reached


class RunFeed(EventFeed):
    """The live events of one run; the positions are the `seq` of its events."""

    def __init__(self, runs: Runs, run_id: str, window_bytes: int = WINDOW_BYTES) -> None:
        self._run_id = run_id
        super().__init__(runs, window_bytes)

    async def _newest(self) -> int:
        known = await self._runs.store.last_event(self._run_id)
        if known is not None:
            return known
        kept = await self._runs.store.kept(self._run_id)
        if kept is not None:  # a pruned run has events, and no state
            return max((event.seq for event in kept), default=0)
        # Its last facts were stored by a version that did not store the number beside them.
        return (await self._runs.inspect(self._run_id)).state.seq

    async def _follow(self, after: int, window: EventWindow) -> None:
        async for event in self._runs.follow(self._run_id, after=after):
            if event.seq:
                window.append(event.seq, encode_sse(event))
                self._wake()
            else:
                self._publish_transient(event)

    async def _from_store(
        self, position: int, window: EventWindow, groups: Groups
    ) -> AsyncIterator[tuple[int, bytes]]:
        parts: list[bytes] = []
        size = 0
        async for event in self._runs.follow(self._run_id, after=position, live=False):
            parts.append(encode_sse(event))
            size += len(parts[-1])
            position = event.seq
            if size >= WRITE_BYTES:
                yield position, b"".join(parts)
                parts, size = [], 0
                # Events are made by a replay, which is work. A client that takes all of them at once must
                # not keep the others waiting.
                await asyncio.sleep(0)
                if position >= window.start:
                    return
        if parts:
            yield position, b"".join(parts)


class StoreEvents(EventFeed):
    """The live events of all runs, by position of the store, and without transient events."""

    def __init__(self, runs: Runs, window_bytes: int = WINDOW_BYTES) -> None:
        self._groups: dict[str, str] = {}
        """The groups of runs, which never change."""
        self._pool = ReplayPool()
        """The replays of all clients that are behind: any number of them must not cost more memory than
        one."""
        super().__init__(runs, window_bytes)

    async def _newest(self) -> int:
        return await self._runs.position()

    async def _follow(self, after: int, window: EventWindow) -> None:
        async for position, events in self._runs.follow_all(after=after):
            group = await self._group(events[0].run_id)
            window.append(position, encode_append(position, events), group)
            self._wake()

    async def _group(self, run_id: str) -> str:
        if run_id not in self._groups:
            if len(self._groups) >= MAX_GROUPS:
                self._groups.clear()
            self._groups[run_id] = await _group_of(self._runs, run_id)
        return self._groups[run_id]

    async def _from_store(
        self, position: int, window: EventWindow, groups: Groups
    ) -> AsyncIterator[tuple[int, bytes]]:
        newest = await self._runs.position()
        wanted = None if groups is None else tuple(groups)
        parts: list[bytes] = []
        size = 0
        async for reached, events in self._runs.follow_all(
            after=position, groups=wanted, live=False, pool=self._pool
        ):
            parts.append(encode_append(reached, events))
            size += len(parts[-1])
            position = reached
            if size >= WRITE_BYTES:
                yield position, b"".join(parts)
                parts, size = [], 0
                await asyncio.sleep(0)
                if position >= window.start:
                    return
        # The rest up to there belongs to others.
        yield max(position, newest), b"".join(parts)


async def _group_of(runs: Runs, run_id: str) -> str:
    try:
        return (await runs.store.row(run_id)).group
    except NoRun:  # deleted meanwhile, so nobody is shown what it did, except for those who see everything
        return NOBODY


def encode_append(position: int, events: Sequence[Event], skip: int = 0) -> bytes:
    """The events of one append, without the first `skip`."""
    return b"".join(
        encode_sse(event, cursor_text(position, number if number < len(events) else 0))
        for number, event in enumerate(events, 1)
        if number > skip
    )


class EventHub:
    """The feeds of a server, one for each run that somebody follows."""

    def __init__(
        self,
        runs: Runs,
        max_streams: int = MAX_STREAMS,
        max_streams_per_caller: int = MAX_STREAMS_PER_CALLER,
        window_bytes: int = WINDOW_BYTES,
    ) -> None:
        self._runs, self._window_bytes = runs, window_bytes
        self._max_streams, self._max_streams_per_caller = max_streams, max_streams_per_caller
        self._callers: Counter[str] = Counter()
        """Open streams by caller."""
        self._feeds: dict[str, EventFeed] = {}
        self._closed = asyncio.Event()
        self.clients = 0

    def reserve(self, caller: str) -> Callable[[], None]:
        """Counts a stream for a caller, until what is returned is called; refuses one more than a caller may
        have, so that nobody takes all of them. Counted before the stream begins: many that begin at the same
        time must not be too many together."""
        self.check()
        count = self._callers[caller]
        if count >= self._max_streams_per_caller:
            detail = f"you have {count} open event streams; close some of them, or try again later"
            raise Problem(429, "too-many-requests", detail, headers={"retry-after": "5"})
        self._callers[caller] += 1
        return partial(self._release, caller)

    def _release(self, caller: str) -> None:
        self._callers[caller] -= 1
        if not self._callers[caller]:
            del self._callers[caller]

    def check(self) -> None:
        """Refuses one more stream than the operator allows, and all of them once the server shuts down."""
        if self._closed.is_set():
            raise Problem(503, "unavailable", "the server is shutting down", headers={"retry-after": "1"})
        if self.clients >= self._max_streams:
            detail = f"{self.clients} event streams are already open; try again later"
            raise Problem(429, "too-many-requests", detail, headers={"retry-after": "5"})

    async def _join(self, run_id: str, after: int, groups: Groups = None) -> AsyncGenerator[bytes]:
        if self._closed.is_set():
            return
        feed = self._feeds.get(run_id)
        # A client that is slow to take the end of a run keeps its feed; the run may have been retried since.
        if feed is None or feed.is_done:
            feed = self._feeds[run_id] = self._create(run_id)
        feed.clients += 1
        self.clients += 1
        try:
            await asyncio.wait([feed.started])  # not cancelled with this client: others may wait for it, too
            if feed.started.cancelled():
                return  # the server shuts down
            feed.started.result()
            async with contextlib.aclosing(feed.stream(after, groups)) as chunks:
                async for chunk in chunks:
                    yield chunk
        finally:
            self.clients -= 1
            await self._leave(run_id, feed)

    async def stream_all(self, groups: Groups, cursor: EventCursor | None) -> AsyncIterator[bytes]:
        """The events of all runs of some groups for one client, after a place or from now on."""
        after = await self._runs.position() if cursor is None else cursor.position
        part = 0
        if cursor is not None and cursor.part:
            # Everything before the append is known, and some of it; of another version, that is begun anew.
            after, part = max(0, after - 1), 0 if cursor.is_outdated else cursor.part
        if cursor is not None and cursor.is_outdated:
            yield RESET
        if part:
            wanted = None if groups is None else tuple(groups)
            async for position, events in self._runs.follow_all(after=after, groups=wanted, live=False):
                if position == after + 1:
                    yield encode_append(position, events, part)
                break
            after += 1
        async with contextlib.aclosing(self._join(ALL_RUNS, after, groups)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def counted(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """What is stored, for one client. It counts as a stream, since it also holds a replay."""
        self.clients += 1
        try:
            async for chunk in chunks:
                yield chunk
        finally:
            self.clients -= 1

    async def stream(self, run_id: str, cursor: EventCursor) -> AsyncIterator[bytes]:
        """The events of a run for one client; all of them if its cursor is of another version."""
        if cursor.is_outdated:
            yield RESET
        after = 0 if cursor.is_outdated else cursor.position
        async with contextlib.aclosing(self._join(run_id, after)) as chunks:
            async for chunk in chunks:
                yield chunk

    def _create(self, run_id: str) -> EventFeed:
        if run_id == ALL_RUNS:
            return StoreEvents(self._runs, self._window_bytes)
        return RunFeed(self._runs, run_id, self._window_bytes)

    async def _leave(self, run_id: str, feed: EventFeed) -> None:
        feed.clients -= 1
        if not feed.clients:
            if self._feeds.get(run_id) is feed:
                del self._feeds[run_id]
            await feed.close()

    async def close(self) -> None:
        """Ends all streams; clients connect again, later or elsewhere."""
        self._closed.set()
        feeds, self._feeds = list(self._feeds.values()), {}
        for feed in feeds:
            with contextlib.suppress(Exception):
                await feed.close()
