"""The last lines that a server wrote to its standard error, for the error that says why it failed.

Nothing of it reaches our own terminal, where it would tear the live view apart.

How an MCP server is reached: a program with pipes, or an address.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TextIO

from roundel.nodes.services import NodeError
from roundel.workflow.tool_source import McpServer

if TYPE_CHECKING:
    from httpx2 import Response
    from mcp.client._transport import ReadStream, TransportStreams

MAX_LINES = 10
MAX_LINE_LENGTH = 400
"""Characters that are shown of a line."""
MAX_READ_BYTES = 64 * 1024
"""Bytes that are held of one: a server may never end its line."""
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f]")


class StderrTail:
    def __init__(self, clean: Callable[[str], str]) -> None:
        self._clean = clean
        """Masks secrets. It sees a line before that is cut: half a secret would no longer be found."""
        self._lines: deque[str] = deque(maxlen=MAX_LINES)
        self._reader: Thread | None = None

    def writer(self) -> TextIO:
        """The end for the server. A thread reads the other end: not every event loop reads pipes."""
        reading, writing = os.pipe()
        self._reader = Thread(target=self._read, args=(reading,), name="mcp-stderr", daemon=True)
        self._reader.start()
        return os.fdopen(writing, "w", encoding="utf-8")

    async def finish(self) -> None:
        """Waits for what an ended server wrote last; not for long, since a child of it may hold the pipe."""
        if self._reader is not None:
            await asyncio.to_thread(self._reader.join, 0.5)

    def lines(self) -> tuple[str, ...]:
        return tuple(self._lines)

    def _read(self, descriptor: int) -> None:
        with os.fdopen(descriptor, "rb") as pipe:
            while line := pipe.readline(MAX_READ_BYTES):
                if text := self._clean(_CONTROL.sub("", line.decode("utf-8", "replace")).rstrip()):
                    self._lines.append(text[:MAX_LINE_LENGTH])


MAX_EVENT_BYTES = 32 * 1024 * 1024
"""An answer may hold an image; the package's own bound is 1 MiB."""
CONNECT_TIMEOUT = 30


@asynccontextmanager
async def stdio_transport(
    server: McpServer, folder: Path | None, tail: StderrTail, on_end: Callable[[], None]
) -> AsyncIterator[TransportStreams]:
    """Starts the server's command; `on_end` is called when it closes its output, as it does when it dies."""
    from mcp.client.stdio import StdioServerParameters, stdio_client

    parameters = StdioServerParameters(
        command=server.command,
        args=list(server.args),
        env={**os.environ, **server.env} if server.inherit_env else server.env,
        cwd=_working_folder(server, folder),
        encoding_error_handler="replace",
    )
    with tail.writer() as stderr:
        async with stdio_client(parameters, stderr) as (reading, writing):
            stderr.close()  # only the program holds it now, so it ends with the program
            yield _NotifyingStream(reading, on_end), writing


@asynccontextmanager
async def http_transport(
    server: McpServer, on_status: Callable[[int], None]
) -> AsyncIterator[TransportStreams]:
    """Streamable HTTP. Calls have time limits of their own, so reading has none here."""
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    async def report_status(response: Response) -> None:
        on_status(response.status_code)

    client = httpx2.AsyncClient(
        headers=server.headers,
        timeout=httpx2.Timeout(CONNECT_TIMEOUT, read=None),
        event_hooks={"response": [report_status]},
    )
    async with (
        client,
        streamable_http_client(server.url, http_client=client, max_sse_event_size=MAX_EVENT_BYTES) as streams,
    ):
        yield streams


def _working_folder(server: McpServer, folder: Path | None) -> Path | None:
    """Where the program runs: `cwd`, seen from the workflow's folder."""
    working_folder = folder / server.cwd if folder else Path(server.cwd) if server.cwd else None
    if working_folder is not None and not working_folder.is_dir():
        raise NodeError(
            f"cannot start '{server.command}': its folder '{working_folder}' is not there; check 'cwd'"
        )
    return working_folder


class _NotifyingStream:
    """A stream that tells when it ends; the session by itself would find out at its next call."""

    def __init__(self, stream: ReadStream[Any], on_end: Callable[[], None]) -> None:
        self._stream = stream
        self._on_end = on_end

    async def receive(self) -> Any:
        return await self._stream.receive()

    async def aclose(self) -> None:
        await self._stream.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self._stream.__anext__()
        except StopAsyncIteration:
            self._on_end()
            raise

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._stream.__aexit__(kind, error, trace)
