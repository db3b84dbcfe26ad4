"""Server-sent events: the format, and a response that writes whatever is ready in one go.

FastAPI's own response encodes and flushes each event by itself. Here each event was encoded once for all
clients (feed.py), and everything that a client has not seen yet is one write: under load a client gets a few
large writes instead of many small ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from starlette.responses import StreamingResponse

from roundel.kernel.events import Event, encode_event

MEDIA_TYPE = "text/event-stream"
HEARTBEAT = b": \n\n"
"""A comment, which clients ignore. It keeps proxies from closing a quiet connection, and the write fails if
the client is gone."""
HEARTBEAT_SECONDS = 15.0
RETRY = b"retry: 1000\n\n"
"""How long a browser waits, in milliseconds, before it connects again."""


def encode_sse(event: Event) -> bytes:
    """One event. Transient events have no id: a client that reconnects continues after the last stored
    one."""
    number = b"id: %d\n" % event.seq if event.seq else b""
    return b"%bevent: %b\ndata: %b\n\n" % (number, event.event.encode(), encode_event(event))


def encode_notice(name: str, data: bytes = b"{}", number: int | None = None) -> bytes:
    """An event of the stream itself, such as its end."""
    position = b"id: %d\n" % number if number is not None else b""
    return b"%bevent: %b\ndata: %b\n\n" % (position, name.encode(), data)


class EventStream(StreamingResponse):
    """The response with the events of an iterator, and heartbeats while there are none."""

    media_type = MEDIA_TYPE

    def __init__(self, chunks: AsyncIterator[bytes]) -> None:
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        super().__init__(with_heartbeats(chunks), headers=headers)


async def with_heartbeats(
    chunks: AsyncIterator[bytes], seconds: float = HEARTBEAT_SECONDS
) -> AsyncIterator[bytes]:
    """The chunks, with a heartbeat after each silence."""
    yield RETRY
    pending: asyncio.Future[bytes] | None = None
    try:
        while True:
            if pending is None:
                pending = asyncio.ensure_future(anext(chunks))
            # Not `wait_for`, which would cancel the iterator, and with it lose an event.
            done, _ = await asyncio.wait([pending], timeout=seconds)
            if not done:
                yield HEARTBEAT
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
