"""One HTTP server for all providers, each under its own prefix.

It runs on an event loop in a thread of its own, so a test may block, run its own loop, or run none.
Connections are kept alive, as the clients expect of the real thing.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self, TypeAlias

from tests.llm.wire.connection import Connection, Left, read
from tests.llm.wire.recorded import Recorded
from tests.llm.wire.reply import Reply

# A function is called in the server's thread and must not block.
Answer: TypeAlias = Reply | Callable[[Recorded], Reply]


class Wire:
    def __init__(self) -> None:
        self.requests: list[Recorded] = []
        # Requests whose client left before it had the whole answer.
        self.hung_up: list[Recorded] = []
        # The most requests that were ever in hand at once.
        self.peak = 0
        self.accepted = 0
        """How many connections were ever made."""
        self._busy = 0
        self._replies: deque[Answer] = deque()
        self._failures: list[Exception] = []
        self._connections: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="wire", daemon=True)
        self._origin = ""

    @property
    def openai_url(self) -> str:
        return f"{self._origin}/openai/v1"

    @property
    def anthropic_url(self) -> str:
        return f"{self._origin}/anthropic"

    @property
    def google_url(self) -> str:
        return f"{self._origin}/google"

    def replies(self, *replies: Answer) -> None:
        """Answer with these in the order of arrival, whatever the provider; the last repeats.

        A second call drops what is left of the first.
        """
        self._replies = deque(replies)

    def __enter__(self) -> Self:
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(self._open(), self._loop).result()
        host, port = self._server.sockets[0].getsockname()
        self._origin = f"http://{host}:{port}"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        if self._failures and error is None:
            raise self._failures[0]

    async def _open(self) -> asyncio.Server:
        return await asyncio.start_server(self._connected, "127.0.0.1", 0, backlog=1024)

    async def _close(self) -> None:
        self._server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await self._server.wait_closed()

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.create_task(self._converse(reader, writer))
        self.accepted += 1
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                await self._exchange(await read(reader), Connection(reader, writer))
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # One side has hung up, which is how every conversation ends.
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def _exchange(self, request: Recorded, connection: Connection) -> None:
        self.requests.append(request)
        self._busy += 1
        self.peak = max(self.peak, self._busy)
        try:
            await connection.answer(request, self._reply(request))
        except Left:
            self.hung_up.append(request)
            raise
        finally:
            self._busy -= 1

    def _reply(self, request: Recorded) -> Reply:
        """A mistake of the test is told to the client as an error, and to the test when the wire closes."""
        if not request.served:
            return Reply(status=404)
        try:
            answer = self._replies[0]
            if len(self._replies) > 1:
                self._replies.popleft()
            return answer if isinstance(answer, Reply) else answer(request)
        except IndexError:
            self._failures.append(AssertionError(f"no reply is queued for {request.provider}{request.path}"))
        except Exception as error:
            self._failures.append(error)
        return Reply(status=500, error_body="the test gave no reply")
