"""Live events for any number of clients: each run is followed once, and each event is encoded once.

A `RunFeed` follows one run in the store, whichever process executes it, and keeps the newest events encoded
in a window. Each client has a position in it, and nothing else: no queue, so a client that does not read
costs no memory. A client whose next event has left the window is told so (`behind`), and reads from the
store until it has caught up. The run never waits for any of this: the feed reads what is committed.

    window      the newest WINDOW_BYTES of encoded events, at least one
    client      a number: the last event that it has got; nothing is missing, nothing comes twice
    transient   text as it is written, progress: the newest few, for those who are there; a slow client
                misses some

A feed exists while it has clients. `EventHub` has all feeds of a server.
"""

from __future__ import annotations

import asyncio
import contextlib
from bisect import bisect_right
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from typing import Any

from roundel.kernel.events import Event
from roundel.runs.runs import Runs
from roundel.server.problems import Problem
from roundel.server.sse import encode_notice, encode_sse

WINDOW_BYTES = 4 * 1024 * 1024
WRITE_BYTES = 256 * 1024
"""The most bytes of one write to a client."""
MAX_TRANSIENT = 256
MAX_STREAMS = 1000
END = encode_notice("end")
BEHIND = encode_notice("behind")


class EventWindow:
    """The newest encoded events, by position. Positions rise, and may have gaps."""

    def __init__(self, after: int, limit: int = WINDOW_BYTES) -> None:
        self.start = after
        """Every event after this position is in the window."""
        self._positions: list[int] = []
        self._bodies: list[bytes] = []
        self._limit, self.size = limit, 0

    def append(self, position: int, body: bytes) -> None:
        self._positions.append(position)
        self._bodies.append(body)
        self.size += len(body)
        if self.size > self._limit:
            self._shrink()

    def _shrink(self) -> None:
        """Drops the oldest events. By half of the window, so that its lists are not moved for each event."""
        drop = 0
        while self.size > self._limit // 2 and drop < len(self._bodies) - 1:
            self.size -= len(self._bodies[drop])
            drop += 1
        if drop:
            self.start = self._positions[drop - 1]
            del self._positions[:drop], self._bodies[:drop]

    def after(self, position: int) -> Iterator[tuple[int, bytes]]:
        """The events after a position, which must not be before `start`."""
        for index in range(bisect_right(self._positions, position), len(self._positions)):
            yield self._positions[index], self._bodies[index]


class RunFeed:
    """The live events of one run. `EventHub.stream` creates it for the first client."""

    def __init__(self, runs: Runs, run_id: str, window_bytes: int = WINDOW_BYTES) -> None:
        self._runs, self._run_id, self._window_bytes = runs, run_id, window_bytes
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
        """Begins to follow the run where it is now. Clients read what was before from the store."""
        kept = await self._runs.store.kept(self._run_id)
        if kept is not None:  # a pruned run has events, and no state
            seq = max((event.seq for event in kept), default=0)
        else:
            seq = (await self._runs.inspect(self._run_id)).state.seq
        self._window = EventWindow(seq, self._window_bytes)
        self._task = asyncio.create_task(self._follow(seq), name=f"roundel-feed-{self._run_id}")

    async def _follow(self, after: int) -> None:
        assert self._window is not None
        try:
            async for event in self._runs.follow(self._run_id, after=after):
                self._window.append(event.seq, encode_sse(event))
                self._wake()
            self._over = True
        except Exception as error:  # the store is closed, or the run was deleted: clients learn of it
            self._error = error
        self._wake()

    def _wake(self) -> None:
        """Wakes all clients that wait. Those that do not will look at the window anyway."""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def publish_transient(self, event: Event) -> None:
        self._transients += 1
        self._transient.append((self._transients, encode_sse(event)))
        self._wake()

    async def stream(self, after: int) -> AsyncGenerator[bytes]:
        """The events after a number, each once and in order, until the run is over."""
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
                async for reached, chunk in self._from_store(position, window):
                    position = reached
                    yield chunk
                is_new = False
                if position == before:
                    return  # the run was deleted, or replaced; the client finds out when it comes again
                continue
            is_new = is_behind = False
            chunk, position = _gather(window, position)
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

    async def _from_store(self, position: int, window: EventWindow) -> AsyncIterator[tuple[int, bytes]]:
        """What the window does not have any more, in writes of bounded size."""
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

    async def close(self) -> None:
        """Ends the streams of all clients; they may connect again, to another server."""
        self._closed = True
        self._wake()
        tasks = [self.started, *([self._task] if self._task is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _gather(window: EventWindow, position: int) -> tuple[bytes, int]:
    """The next events of a client as one write, and its new position."""
    parts: list[bytes] = []
    size, reached = 0, position
    for number, body in window.after(position):
        parts.append(body)
        size, reached = size + len(body), number
        if size >= WRITE_BYTES:
            break
    return b"".join(parts), reached


class EventHub:
    """The feeds of a server, one for each run that somebody follows."""

    def __init__(self, runs: Runs, max_streams: int = MAX_STREAMS, window_bytes: int = WINDOW_BYTES) -> None:
        self._runs, self._max_streams, self._window_bytes = runs, max_streams, window_bytes
        self._feeds: dict[str, RunFeed] = {}
        self._closed = asyncio.Event()
        self.clients = 0

    def check(self) -> None:
        """Refuses one more stream than the operator allows, and all of them once the server shuts down."""
        if self._closed.is_set():
            raise Problem(503, "unavailable", "the server is shutting down", headers={"retry-after": "1"})
        if self.clients >= self._max_streams:
            detail = f"{self.clients} streams of events are open already; try again later"
            raise Problem(429, "too-many-requests", detail, headers={"retry-after": "5"})

    async def stream(self, run_id: str, after: int) -> AsyncIterator[bytes]:
        """The events of a run for one client."""
        if self._closed.is_set():
            return
        feed = self._feeds.get(run_id)
        # A client that is slow to take the end of a run keeps its feed; the run may have been retried since.
        if feed is None or feed.is_done:
            feed = self._feeds[run_id] = RunFeed(self._runs, run_id, self._window_bytes)
        feed.clients += 1
        self.clients += 1
        try:
            await asyncio.shield(feed.started)  # other clients may wait for it, too
            async with contextlib.aclosing(feed.stream(after)) as chunks:
                async for chunk in chunks:
                    yield chunk
        finally:
            self.clients -= 1
            await self._leave(run_id, feed)

    async def until_closed(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Chunks of a stream that has no feed, until they end or the server shuts down."""
        self.clients += 1
        closed = asyncio.ensure_future(self._closed.wait())
        pending: asyncio.Future[bytes] | None = None
        try:
            while not closed.done():
                pending = asyncio.ensure_future(anext(chunks))
                await asyncio.wait([pending, closed], return_when=asyncio.FIRST_COMPLETED)
                if not pending.done():
                    return
                try:
                    yield pending.result()
                except StopAsyncIteration:
                    return
        finally:
            self.clients -= 1
            tasks: list[asyncio.Future[Any]] = [closed] if pending is None else [closed, pending]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            close = getattr(chunks, "aclose", None)
            if close is not None:
                await close()

    async def _leave(self, run_id: str, feed: RunFeed) -> None:
        feed.clients -= 1
        if not feed.clients:
            if self._feeds.get(run_id) is feed:
                del self._feeds[run_id]
            await feed.close()

    def publish_transient(self, event: Event) -> None:
        """Passes on an event of a run that this process executes and that is not stored."""
        feed = self._feeds.get(event.run_id)
        if feed is not None:
            feed.publish_transient(event)

    async def close(self) -> None:
        """Ends all streams; clients connect again, later or elsewhere."""
        self._closed.set()
        feeds, self._feeds = list(self._feeds.values()), {}
        for feed in feeds:
            with contextlib.suppress(Exception):
                await feed.close()
