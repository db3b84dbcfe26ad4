"""The part of HTTP that the clients use, on one connection, with the faults that a reply requests."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import suppress
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from tests.llm.wire.recorded import DIALECTS, Recorded
from tests.llm.wire.reply import Reply


class Left(ConnectionError):
    """The client went away while it was being answered."""


class Cut(ConnectionError):
    """The reply asks for the connection to break here."""


class Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def answer(self, request: Recorded, reply: Reply) -> None:
        await self._pause(reply.delay)
        if reply.status == 200 and reply.raw is None and request.streams:
            await self._stream(request, reply)
        else:
            await self._whole(request, reply)

    async def _whole(self, request: Recorded, reply: Reply) -> None:
        body = _body(request, reply)
        streamed = reply.status == 200 and request.streams
        head = _head(reply, streamed) + f"content-length: {len(body)}\r\n\r\n".encode()
        if reply.cut_after is None:
            await self._send(head + body)
        else:
            await self._send(head + body[: len(body) // 2])
            raise Cut

    async def _stream(self, request: Recorded, reply: Reply) -> None:
        await self._send(_head(reply, True) + b"transfer-encoding: chunked\r\n\r\n")
        for count, data in enumerate(request.dialect.events(reply, request.model, request.body)):
            if count == reply.cut_after:
                raise Cut
            await self._pause(reply.chunk_delay if count else 0.0)
            await self._send(b"%x\r\n%b\r\n" % (len(data), data))
        await self._send(b"0\r\n\r\n")

    async def _send(self, data: bytes) -> None:
        self._writer.write(data)
        try:
            await self._writer.drain()
        except ConnectionError as error:
            raise Left from error

    async def _pause(self, seconds: float) -> None:
        """Wait, but not for a client that has left: nothing else comes from it before it is answered."""
        if not seconds:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._reader.read(1)
            raise Left


def _head(reply: Reply, streamed: bool) -> bytes:
    phrase = HTTPStatus(reply.status).phrase if reply.status in list(HTTPStatus) else "Error"
    lines = [f"HTTP/1.1 {reply.status} {phrase}"]
    usual = "text/event-stream" if streamed else "application/json"
    lines.append(f"content-type: {reply.content_type or usual}")
    if reply.retry_after is not None:
        lines.append(f"retry-after: {reply.retry_after:g}")
    return "".join(f"{line}\r\n" for line in lines).encode()


def _body(request: Recorded, reply: Reply) -> bytes:
    if reply.raw is not None:
        return reply.raw
    if reply.status == 200:
        return json.dumps(request.dialect.whole(reply, request.model)).encode()
    body = reply.error_body
    if body is None:
        body = request.dialect.failure(reply.status, _message(request, reply), reply.retry_after)
    return body.encode() if isinstance(body, str) else json.dumps(body).encode()


def _message(request: Recorded, reply: Reply) -> str:
    if reply.status == 401:
        return f"Incorrect API key provided: {request.key}."
    if reply.status == 404 and not request.served:
        return f"Unknown request URL: {request.method} {request.path}."
    return f"The provider answered with status {reply.status}."


async def read(reader: asyncio.StreamReader) -> Recorded:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.rstrip().split("\r\n")
    method, target, _ = first.split(" ")
    pairs = (line.split(":", 1) for line in lines)
    headers = {name.lower(): value.strip() for name, value in pairs}
    content = await reader.readexactly(int(headers.get("content-length", "0")))
    url = urlsplit(target)
    provider, _, rest = url.path.removeprefix("/").partition("/")
    known = provider in DIALECTS
    path = f"/{rest}" if known else url.path
    return Recorded(
        provider if known else "", method, path, url.query, headers, _parsed(content), time.monotonic()
    )


def _parsed(content: bytes) -> dict[str, Any]:
    with suppress(ValueError):
        if isinstance(body := json.loads(content), dict):
            return body
    return {}
