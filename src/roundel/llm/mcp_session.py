"""The last lines that a server wrote to its standard error, for the error that says why it failed.

Nothing of it reaches our own terminal, where it would tear the live view apart.

How an MCP server is reached: a program with pipes, or an address.

What went wrong with an MCP server, in words that say what to do and leave out what is secret.

A session with an MCP server, from its opening to its end.

The contexts of a session must be left by the task that entered them, and calls come from many tasks.
So each session has a keeper, a task of its own: it opens, lists the tools, says that it is ready, waits
until it is told to close or the server dies, and closes. Who calls only sends and awaits an answer.
A session never comes back to life; `McpConnection` opens the next one.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import re
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TextIO, cast
from urllib.parse import urlsplit, urlunsplit

from roundel.llm.clients import mask_client_logs
from roundel.nodes.services import NodeError, ToolError
from roundel.workflow.secrets import SecretMasker
from roundel.workflow.tool_source import McpServer

if TYPE_CHECKING:
    from httpx2 import Response
    from mcp import Client
    from mcp.client._transport import ReadStream, TransportStreams
    from mcp.types import CallToolResult, RequestParamsMeta, Tool

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


class McpErrors:
    """The errors of one server."""

    def __init__(self, server: McpServer, name: str, secrets: SecretMasker) -> None:
        self._server = server
        self._secrets = secrets
        for header in server.headers.values():
            secrets.add_header(header)
        secrets.add(*server.env.values())
        secrets.add_urls(" ".join((server.url, *server.args)))
        self._location = f" at {_strip_credentials(server.url)}" if name and server.url else ""
        self.label = f"MCP server '{self.clean(name or server.command or _strip_credentials(server.url))}'"

    def clean(self, text: str) -> str:
        """The text without secrets."""
        return self._secrets.mask(text)

    def mask_logs(self) -> None:
        """The package logs addresses and what servers say."""
        mask_client_logs(self._secrets)

    def startup_error(self, cause: BaseException | None, status: int, lines: tuple[str, ...]) -> NodeError:
        """The server could not be started or reached."""
        why = (
            self._describe_reach_error(cause, status)
            if self._server.url
            else self._describe_start_error(cause)
        )
        return NodeError(self.clean(why + _format_stderr(lines)))

    def connection_error(self, tool: str, cause: BaseException | None, lines: tuple[str, ...]) -> NodeError:
        """The server went away during a call; whether the call had an effect is not known."""
        if self._server.url and _is_connect_error(cause):
            return self.startup_error(cause, 0, lines)
        reason = f" ({_error_text(cause)})" if cause else ""
        text = f"{self.label} ended during the call of '{tool}'{reason}; the next call connects again"
        return NodeError(self.clean(text + _format_stderr(lines)))

    def _describe_start_error(self, cause: BaseException | None) -> str:
        command = self._server.command
        match cause:
            case NodeError():
                return str(cause)
            case FileNotFoundError():
                why = f"the command '{command}' was not found"
                return f"cannot start {self.label}: {why}; install it, or give its full path as 'command'"
            case TimeoutError():
                return self._describe_timeout()
            case OSError():
                why = cause.strerror or _error_text(cause)
                return f"cannot start {self.label}: {why}; check 'command' ({command})"
        if _is_connection_closed(cause):
            return f"{self.label} ended before it was ready; check 'command', 'args' and 'env'"
        return f"cannot use {self.label}: {_error_text(cause)}"

    def _describe_reach_error(self, cause: BaseException | None, status: int) -> str:
        from httpx2 import TransportError

        label = self.label + self._location
        if isinstance(cause, TimeoutError):
            return self._describe_timeout()
        if isinstance(cause, TransportError):
            return f"cannot reach {label}: {_error_text(cause)}; is it running, is 'url' right?"
        if status:
            answer = f"{status} {_status_phrase(status)}".rstrip()
            return f"{label} answered {answer}; check 'url' and 'headers'"
        return f"cannot use {label}: {_error_text(cause)}"

    def _describe_timeout(self) -> str:
        seconds = f"{self._server.startup_timeout:g}"
        return (
            f"{self.label} was not ready after {seconds} seconds; if it needs more, raise 'startup_timeout'"
        )


def root_cause(error: BaseException) -> BaseException:
    """The first error inside the groups that task groups make."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _strip_credentials(url: str) -> str:
    """An address without a user, a password and a query, which may hold keys."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _format_stderr(lines: tuple[str, ...]) -> str:
    return "\nits last lines:" + "".join(f"\n  {line}" for line in lines) if lines else ""


def _error_text(cause: BaseException | None) -> str:
    return (str(cause) or type(cause).__name__) if cause else "no reason is known"


def _status_phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


def _is_connect_error(cause: BaseException | None) -> bool:
    from httpx2 import ConnectError, ConnectTimeout

    return isinstance(cause, (ConnectError, ConnectTimeout))


def _is_connection_closed(cause: BaseException | None) -> bool:
    from mcp.types import CONNECTION_CLOSED

    return getattr(cause, "code", None) == CONNECTION_CLOSED


IDEMPOTENCY_META_KEY = "roundel/idempotency-key"
GRACE_SECONDS = 2.0
"""For a polite goodbye; then what can be cut off is cut off."""
STOP_SECONDS = 7.0
"""The package asks, then ends, then kills a program, and takes up to 6.5 seconds for it."""


class SessionExpired(Exception):
    """The server does not know the session any more, and has not looked at the call."""


class McpSession:
    def __init__(
        self, server: McpServer, folder: Path | None, errors: McpErrors, previous: McpSession | None
    ) -> None:
        import anyio

        self.ended = False
        self._server = server
        self._folder = folder
        self._errors = errors
        self._tail = StderrTail(errors.clean)
        self._status = 0
        self._calls = 0
        self._stopped = False
        self._cause: BaseException | None = None
        self._client: Client | None = None
        self._closing = asyncio.Event()
        self._scope = anyio.CancelScope()
        self._ready: asyncio.Future[list[Tool]] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._run(previous), name=errors.label)

    async def tools(self) -> list[Tool]:
        """What the server offers, once it is ready. One caller who gives up does not stop the others."""
        if not self._ready.done():
            waiting: set[asyncio.Future[Any]] = {self._ready, self._task}
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if not self._ready.done():
            raise NodeError(f"{self._errors.label} was cut off before it was ready")
        return self._ready.result()

    async def call(
        self, name: str, arguments: dict[str, Any], key: str, seconds: float | None
    ) -> CallToolResult:
        self._calls += 1
        try:
            return await self._send(name, arguments, key, seconds)
        finally:
            self._calls -= 1
            if self.ended and not self._calls:
                self._closing.set()

    async def close(self) -> None:
        """Ends the session, politely at first; returns in any case."""
        self._stopped = True
        self._closing.set()
        if not self._ready.done():
            self._scope.cancel()
        for seconds, next_step in ((GRACE_SECONDS, self._scope.cancel), (STOP_SECONDS, self._task.cancel)):
            if await self._wait_until_done(seconds):
                return
            next_step()
        await self._wait_until_done(1)

    async def _send(
        self, name: str, arguments: dict[str, Any], key: str, seconds: float | None
    ) -> CallToolResult:
        from mcp import MCPError
        from mcp.types import CONNECTION_CLOSED, METHOD_NOT_FOUND

        if self._client is None or self.ended:
            raise await self._connection_error(name, None)
        meta = cast("RequestParamsMeta", {IDEMPOTENCY_META_KEY: key})
        try:
            async with asyncio.timeout(seconds):
                return await self._client.call_tool(name, arguments, meta=meta)
        except TimeoutError:
            raise ToolError(f"no answer after {seconds or 0:g} seconds") from None
        except MCPError as error:
            if error.code == CONNECTION_CLOSED:
                raise await self._connection_error(name, error) from None
            if self._status == HTTPStatus.NOT_FOUND and error.code != METHOD_NOT_FOUND:
                self.ended = True  # other calls that are under way may still find that out for themselves
                raise SessionExpired from None
            raise ToolError(self._errors.clean(error.message or f"error {error.code}")) from None
        except Exception as error:
            # Such as a result that is not of the schema that the server itself gave.
            raise ToolError(self._errors.clean(str(error) or type(error).__name__)) from None

    async def _wait_until_done(self, seconds: float | None = None) -> bool:
        await asyncio.wait({self._task}, timeout=seconds)
        return self._task.done()

    async def _run(self, previous: McpSession | None) -> None:
        try:
            with self._scope:
                if previous is not None:
                    await previous._wait_until_done()
                await self._serve()
            if self._scope.cancelled_caught and not self._stopped:
                self._cause = TimeoutError()
        except Exception as error:
            self._cause = root_cause(error)
        finally:
            self.ended = True
            await self._tail.finish()
            self._fail_startup()

    async def _serve(self) -> None:
        await asyncio.to_thread(
            _import_mcp
        )  # the package takes a second to import, and the live view goes on
        self._errors.mask_logs()
        from importlib.metadata import version

        import anyio
        from mcp import Client
        from mcp.types import Implementation

        self._scope.deadline = anyio.current_time() + self._server.startup_timeout
        about = Implementation(name="roundel", version=version("roundel"))
        async with Client(self._transport(), client_info=about, cache=None) as client:
            tools = await _list_tools(client)
            self._scope.deadline = math.inf
            self._client = client
            self._ready.set_result(tools)
            try:
                await self._closing.wait()
            finally:
                self.ended = True

    def _transport(self) -> Any:
        if self._server.url:
            return http_transport(self._server, self._note_status)
        return stdio_transport(self._server, self._folder, self._tail, self._note_end)

    def _note_status(self, status: int) -> None:
        self._status = status if status >= 400 else 0

    def _note_end(self) -> None:
        self.ended = True
        self._closing.set()

    def _fail_startup(self) -> None:
        if self._ready.done():
            return
        if self._stopped:
            error = NodeError(f"{self._errors.label} was closed before it was ready")
        else:
            error = self._errors.startup_error(self._cause, self._status, self._tail.lines())
        self._ready.set_exception(error)
        self._ready.exception()  # seen, even if all who asked have given up

    async def _connection_error(self, name: str, error: Exception | None) -> NodeError:
        """A call got no answer because the session broke; the keeper knows why, if it ends."""
        if error is not None and str(error) != "Connection closed":
            return self._errors.connection_error(name, error, ())
        if self._stopped:
            return NodeError(f"{self._errors.label} was closed during the call of '{name}'")
        await self._wait_until_done(GRACE_SECONDS)
        return self._errors.connection_error(name, self._cause, self._tail.lines())


def _import_mcp() -> None:
    import mcp  # noqa: F401

    # Without a handler the package's warnings would be printed into the terminal.
    for name in ("mcp", "client"):
        logger = logging.getLogger(name)
        if not logger.handlers:
            logger.addHandler(logging.NullHandler())


async def _list_tools(client: Client) -> list[Tool]:
    page = await client.list_tools()
    tools = list(page.tools)
    while page.next_cursor:
        page = await client.list_tools(cursor=page.next_cursor)
        tools += page.tools
    return tools
