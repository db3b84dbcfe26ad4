"""Server-sent events: the format, and a response that writes whatever is ready in one go.

FastAPI's own response encodes and flushes each event by itself. Here each event was encoded once for all
clients (feed.py), and everything that a client has not seen yet is one write: under load a client gets a few
large writes instead of many small ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from roundel.kernel.events import Event, encode_event
from roundel.server.cursors import cursor_text

MEDIA_TYPE = "text/event-stream"
HEARTBEAT = b": \n\n"
"""A comment, which clients ignore. It keeps proxies from closing a quiet connection, and the write fails if
the client is gone."""
HEARTBEAT_SECONDS = 15.0
RETRY = b"retry: 1000\n\n"
"""How long a browser waits, in milliseconds, before it connects again."""


IsValid = Callable[[], Awaitable[bool]]


async def _always_valid() -> bool:
    return True


def encode_sse(event: Event, cursor: str = "") -> bytes:
    """One event; its id is the cursor of its `seq`, or another one. Transient events have none: a client that
    reconnects continues after the last stored one."""
    cursor = cursor or (cursor_text(event.seq) if event.seq else "")
    line = b"id: %b\n" % cursor.encode() if cursor else b""
    return b"%bevent: %b\ndata: %b\n\n" % (line, event.event.encode(), encode_event(event))


def encode_notice(name: str) -> bytes:
    """An event of the stream itself, such as its end."""
    return b"event: %b\ndata: {}\n\n" % name.encode()


class CountedResponse(StreamingResponse):
    """A response with the chunks of an iterator that calls `on_end` when it ends, however it ends."""

    def __init__(
        self,
        chunks: AsyncIterator[bytes],
        on_end: Callable[[], None],
        headers: Mapping[str, str] | None = None,
        media_type: str | None = None,
    ) -> None:
        super().__init__(chunks, headers=headers, media_type=media_type)
        self._on_end = on_end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._on_end()


class EventStream(CountedResponse):
    """The response with the events of an iterator, and heartbeats while there are none. It ends when
    `is_valid` does not hold any more, which is looked at with each heartbeat."""

    media_type = MEDIA_TYPE

    def __init__(self, chunks: AsyncIterator[bytes], is_valid: IsValid, on_end: Callable[[], None]) -> None:
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        self._chunks = with_heartbeats(chunks, is_valid)
        super().__init__(self._chunks, on_end, headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            # A client that leaves during a write leaves the iterator where it is; the feed counts clients.
            await self._chunks.aclose()


async def with_heartbeats(
    chunks: AsyncIterator[bytes], is_valid: IsValid = _always_valid, seconds: float = HEARTBEAT_SECONDS
) -> AsyncGenerator[bytes]:
    """The chunks, with a heartbeat after each silence."""
    yield RETRY
    loop = asyncio.get_running_loop()
    pending: asyncio.Future[bytes] | None = None
    check = loop.time() + seconds
    try:
        while True:
            if pending is None:
                pending = asyncio.ensure_future(anext(chunks))
            # Not `wait_for`, which would cancel the iterator, and with it lose an event.
            done, _ = await asyncio.wait([pending], timeout=max(0.0, check - loop.time()))
            if loop.time() >= check:
                check = loop.time() + seconds
                if not await is_valid():
                    return
                if not done:
                    yield HEARTBEAT
            if not done:
                continue
            try:
                chunk = pending.result()
            except StopAsyncIteration:
                return
            finally:
                pending = None
            yield chunk
    finally:
        if pending is not None:
            pending.cancel()
            await asyncio.gather(pending, return_exceptions=True)
        close = getattr(chunks, "aclose", None)
        if close is not None:
            await close()
