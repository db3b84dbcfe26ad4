"""How an MCP server is reached: a program with pipes, or an address."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from roundel.llm.mcp_stderr import StderrTail
from roundel.nodes.services import NodeError
from roundel.workflow.tool_source import McpServer

if TYPE_CHECKING:
    from httpx2 import Response
    from mcp.client._transport import ReadStream, TransportStreams

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
