"""A session with an MCP server: its transport, its lifetime and its errors.

The contexts of a session must be left by the task that entered them, and calls come from many tasks. So
each session has a task of its own: it connects, lists the tools, becomes ready, waits until it is closed
or the server dies, and disconnects. A caller only sends a request and awaits its answer. A session never
starts again; `McpConnection` (mcp.py) opens the next one.

The parts, in the order of the module:

- `StderrTail` collects the last lines of a program, for error messages.
- `stdio_transport` and `http_transport` connect to a program or to an address.
- `McpErrors` turns failures into messages that say what to do and contain no secrets.
- `McpSession` is the session.

The package `mcp` is imported inside of functions only: it is an extra, and takes a second to import.
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
    from mcp.types import CallToolResult, Implementation, RequestParamsMeta, Tool

MAX_LINES = 10
MAX_LINE_LENGTH = 400
"""Characters of a line that are shown."""
MAX_READ_BYTES = 64 * 1024
"""Bytes of a line that are buffered: a server may never end its line."""
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f]")


class StderrTail:
    """The last lines that a server wrote to its standard error, for the error message that says why it
    failed.

    Nothing of it reaches the terminal of the user, where it would disturb the live view. It has to be
    read all the time: a full pipe would block the server."""

    def __init__(self, clean: Callable[[str], str]) -> None:
        self._clean = clean
        """Masks secrets. It gets a line before the line is cut: half a secret would not be
        recognised."""
        self._lines: deque[str] = deque(maxlen=MAX_LINES)
        self._reader: Thread | None = None

    def writer(self) -> TextIO:
        """The end of a pipe for the server. A thread reads the other end, since not every event loop can
        read pipes. It is a daemon, because a child of the server may hold the pipe open."""
        reading, writing = os.pipe()
        self._reader = Thread(target=self._read, args=(reading,), name="mcp-stderr", daemon=True)
        self._reader.start()
        return os.fdopen(writing, "w", encoding="utf-8")

    async def finish(self) -> None:
        """Waits for the last lines of a server that has ended; not for long, since a child may hold the
        pipe."""
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
"""The largest event of a server: an answer may contain an image. The limit of the package is 1 MiB."""
CONNECT_TIMEOUT = 30
"""Seconds."""


@asynccontextmanager
async def stdio_transport(
    server: McpServer, folder: Path | None, tail: StderrTail, on_end: Callable[[], None]
) -> AsyncIterator[TransportStreams]:
    """Starts the command of a server. `on_end` is called when the server closes its output, as when it
    dies."""
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
            stderr.close()  # now only the program has the pipe open, so the reader ends with the program
            yield _NotifyingStream(reading, on_end), writing


@asynccontextmanager
async def http_transport(
    server: McpServer, on_status: Callable[[int], None], networks: tuple[str, ...] | None = None
) -> AsyncIterator[TransportStreams]:
    """Connects by streamable HTTP. Reading has no time limit here, because each call has its own.

    `on_status` gets the status of each response. The package turns a 404 into a general error, and only
    the status tells that the session is unknown. `networks` are the private networks that the server may be
    in (addresses.py); None checks no address."""
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    from roundel.llm.addresses import CheckedTransport

    async def report_status(response: Response) -> None:
        on_status(response.status_code)

    client = httpx2.AsyncClient(
        headers=server.headers,
        timeout=httpx2.Timeout(CONNECT_TIMEOUT, read=None),
        event_hooks={"response": [report_status]},
        transport=None if networks is None else CheckedTransport(networks),
    )
    async with (
        client,
        streamable_http_client(server.url, http_client=client, max_sse_event_size=MAX_EVENT_BYTES) as streams,
    ):
        yield streams


def _working_folder(server: McpServer, folder: Path | None) -> Path | None:
    """The working folder of the program: `cwd`, relative to the folder of the workflow."""
    working_folder = folder / server.cwd if folder else Path(server.cwd) if server.cwd else None
    if working_folder is not None and not working_folder.is_dir():
        raise NodeError(
            f"cannot start '{server.command}': its folder '{working_folder}' does not exist; check 'cwd'"
        )
    return working_folder


class _NotifyingStream:
    """A stream that reports its end at once. The session of the package would notice it only at its next
    call, and that call would fail instead of starting a new session."""

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
    """Error messages about one server: they say what to do, and contain no secrets.

    Headers, environment and the credentials in addresses are registered as secrets when it is created,
    before anything can be logged or fail."""

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
        """The text with its secrets masked."""
        return self._secrets.mask(text)

    def mask_logs(self) -> None:
        """Masks secrets in the logs of the package, which contain addresses and messages of servers."""
        mask_client_logs(self._secrets)

    def startup_error(self, cause: BaseException | None, status: int, lines: tuple[str, ...]) -> NodeError:
        """An error for a server that could not be started or reached."""
        why = (
            self._describe_reach_error(cause, status)
            if self._server.url
            else self._describe_start_error(cause)
        )
        return NodeError(self.clean(why + _format_stderr(lines)))

    def connection_error(self, tool: str, cause: BaseException | None, lines: tuple[str, ...]) -> NodeError:
        """An error for a server that ended during a call. Whether the call had an effect is unknown, so
        the call is not repeated here; the model gets the error."""
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
    """The first error inside of nested exception groups, which task groups raise."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _strip_credentials(url: str) -> str:
    """An address without user, password and query, which may contain keys."""
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


def _hung_up(cause: BaseException) -> bool:
    """Whether a server ended, or closed the connection, instead of answering."""
    from httpx2 import ReadError, RemoteProtocolError

    return _is_connection_closed(cause) or isinstance(cause, (ReadError, RemoteProtocolError))


IDEMPOTENCY_META_KEY = "roundel/idempotency-key"
"""Where a server finds the idempotency key of a call: in the metadata of the request."""
GRACE_SECONDS = 2.0
"""For an orderly end of a session; after that it is cancelled."""
STOP_SECONDS = 7.0
"""For the end of a program after the cancellation. The package closes its input, then terminates it,
then kills it, which takes up to 6.5 seconds."""


class SessionExpired(Exception):
    """The server does not know the session any more. It has not executed the call, so the call can be
    repeated in a new session without risk."""


class McpSession:
    """One session with a server, from its opening to its end. `McpConnection` creates it, on a running
    event loop.

    Lifecycle: opening → ready → ended. `_ready` gets the tools or the error of the startup. `ended` is
    set as soon as no more calls may begin; the task itself ends later, after the transport is closed. A
    session never starts again."""

    def __init__(
        self,
        server: McpServer,
        folder: Path | None,
        errors: McpErrors,
        previous: McpSession | None,
        networks: tuple[str, ...] | None = None,
    ) -> None:
        import anyio

        self.ended = False
        self._server = server
        self._folder = folder
        self._networks = networks
        self._errors = errors
        self._tail = StderrTail(errors.clean)
        self._status = 0
        """The last HTTP status if it is an error; else 0."""
        self._calls = 0
        """Calls in flight. An expired session is closed only after the last of them."""
        self._stopped = False
        """Whether `close` was called: the end is then no failure of the server."""
        self._cause: BaseException | None = None
        """Why the task of the session ended."""
        self._client: Client | None = None
        self._output_ended = False
        """The program closed its output."""
        self._closing = asyncio.Event()
        self._scope = anyio.CancelScope()
        self._ready: asyncio.Future[list[Tool]] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._run(previous), name=errors.label)

    async def tools(self) -> list[Tool]:
        """The tools of the server, once it is ready. A caller that is cancelled does not stop the
        startup, on which others may wait: `asyncio.wait` does not cancel what it waits for."""
        if not self._ready.done():
            waiting: set[asyncio.Future[Any]] = {self._ready, self._task}
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if not self._ready.done():  # the task itself was cancelled, as when the event loop ends
            raise NodeError(f"{self._errors.label} was cut off before it was ready")
        return self._ready.result()

    async def call(
        self, name: str, arguments: dict[str, Any], key: str, seconds: float | None
    ) -> CallToolResult:
        """Calls a tool. ToolError is for the model, NodeError says that the server is gone, and
        SessionExpired that the call should be made in a new session."""
        self._calls += 1
        try:
            return await self._send(name, arguments, key, seconds)
        finally:
            self._calls -= 1
            if self.ended and not self._calls:
                self._closing.set()

    async def close(self) -> None:
        """Ends the session, in steps: an orderly end, then a cancellation inside of the task, then a
        cancellation of the task itself. It returns in any case, so that a server that hangs cannot keep
        the process from ending."""
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
                # No new calls, but the session is not closed yet: other calls in flight may still be
                # answered.
                self.ended = True
                raise SessionExpired from None
            raise ToolError(self._errors.clean(error.message or f"error {error.code}")) from None
        except Exception as error:
            # For example a result that violates the schema that the server itself declared.
            raise ToolError(self._errors.clean(str(error) or type(error).__name__)) from None

    async def _wait_until_done(self, seconds: float | None = None) -> bool:
        await asyncio.wait({self._task}, timeout=seconds)
        return self._task.done()

    async def _run(self, previous: McpSession | None) -> None:
        """The task of the session. It enters and leaves all contexts, which have to be left by the task
        that entered them, while calls come from many tasks."""
        try:
            with self._scope:
                if previous is not None:
                    # Two programs of one server never run at the same time.
                    await previous._wait_until_done()
                await self._serve()
            if self._scope.cancelled_caught and not self._stopped:  # the deadline of the startup
                self._cause = TimeoutError()
        except Exception as error:
            self._cause = root_cause(error)
        finally:
            self.ended = True
            # The lines that the server wrote last explain why it failed, so the error is built after
            # them.
            await self._tail.finish()
            self._fail_startup()

    async def _serve(self) -> None:
        # In a thread: importing the package takes a second, during which the event loop must stay
        # responsive.
        await asyncio.to_thread(_import_mcp)
        self._errors.mask_logs()  # after the import, since a filter applies only to loggers that exist
        from importlib.metadata import version

        import anyio
        from mcp.types import Implementation

        # The deadline covers the start and the list of tools, not the import. It is lifted once the
        # server is ready.
        self._scope.deadline = anyio.current_time() + self._server.startup_timeout
        about = Implementation(name="roundel", version=version("roundel"))
        try:
            await self._connect(about, "auto")
        except Exception as error:
            if self._ready.done() or self._stopped or not _hung_up(root_cause(error)):
                raise
            # The first request of the mode `auto` is one that older servers do not know. The package goes on
            # with `initialize` if they refuse it; some end, and have to be started again.
            await self._tail.finish()
            self._tail, self._output_ended = StderrTail(self._errors.clean), False
            await self._connect(about, "legacy")

    async def _connect(self, about: Implementation, mode: str) -> None:
        """Connects, becomes ready, and stays until the session is closed."""
        from mcp import Client

        async with Client(self._transport(), client_info=about, cache=None, mode=mode) as client:
            tools = await _list_tools(client)
            self._scope.deadline = math.inf
            self._client = client
            self._ready.set_result(tools)
            if self._output_ended:
                self._closing.set()
            try:
                await self._closing.wait()
            finally:  # before the client closes: no call may begin on a closing session
                self.ended = True

    def _transport(self) -> Any:
        if self._server.url:
            return http_transport(self._server, self._note_status, self._networks)
        return stdio_transport(self._server, self._folder, self._tail, self._note_end)

    def _note_status(self, status: int) -> None:
        # A success resets it, so that an old error is not taken for the cause of a later one.
        self._status = status if status >= 400 else 0

    def _note_end(self) -> None:
        """The program closed its output: no call can be answered any more, so the session closes at
        once. Before it is ready, the startup fails by itself, and may begin again."""
        self._output_ended = True
        if self._ready.done():
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
        self._ready.exception()  # marks it as retrieved, since all callers may have been cancelled

    async def _connection_error(self, name: str, error: Exception | None) -> NodeError:
        """An error for a call that got no answer because the session ended. The task of the session
        knows the cause, so wait for its end, but not for ever."""
        if error is not None and str(error) != "Connection closed":
            return self._errors.connection_error(name, error, ())
        if self._stopped:
            return NodeError(f"{self._errors.label} was closed during the call of '{name}'")
        await self._wait_until_done(GRACE_SECONDS)
        return self._errors.connection_error(name, self._cause, self._tail.lines())


def _import_mcp() -> None:
    import mcp  # noqa: F401

    # Without a handler, Python would print the warnings of the package to the terminal.
    for name in ("mcp", "client"):
        logger = logging.getLogger(name)
        if not logger.handlers:
            logger.addHandler(logging.NullHandler())


async def _list_tools(client: Client) -> list[Tool]:
    """All tools of a server, which may list them in pages."""
    page = await client.list_tools()
    tools = list(page.tools)
    while page.next_cursor:
        page = await client.list_tools(cursor=page.next_cursor)
        tools += page.tools
    return tools
