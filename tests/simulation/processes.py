"""Server processes of a simulated world, and requests to them.

A process is what `roundel serve` makes of a store: the app with its routes, the engine, the supervisor. Only
the socket is missing: requests are ASGI calls on the loop of the process. The apps are made once for all
worlds, one for each place in which a process can run, since that takes longer than a whole case; everything
that has a state belongs to the context, which is new for each process.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from msgspec import Struct

from roundel.hosts.local import LocalEngine
from roundel.runs.runs import Runs
from roundel.server.app import create_app
from roundel.server.context import ServerContext, ServerSettings
from roundel.server.cursors import read_cursor
from roundel.workflow.policy import Policy
from tests.server.live import SseReader
from tests.simulation.disk import Connection
from tests.simulation.loops import SimulatedLoop
from tests.simulation.workers import SimulatedPool

if TYPE_CHECKING:
    from tests.simulation.world import World

POLICY = Policy(functions=("tests.simulation.workloads:*",))
_apps: dict[int, FastAPI] = {}


class Answer(Struct, frozen=True):
    """The answer to a request. A process that died before it answered has given none."""

    status: int
    body: Any


class Process:
    """A server process. `World.boot` creates it."""

    def __init__(self, world: World, place: int, number: int, lethal: float) -> None:
        self.world, self.place, self.number = world, place, number
        self.is_alive = True
        self.loop = SimulatedLoop(world.clock)
        self.loop.process = self  # type: ignore[attr-defined]
        dice = random.Random(world.dice.random())
        self.store = Connection(world.store, world.disk, dice, self.die, lethal)
        store: Any = self.store
        self.engine = LocalEngine(lambda: store, policy=POLICY)
        runs = Runs(store, engine=self.engine, on_warnings=None)
        self.context = ServerContext(runs, self.store.documents(), ServerSettings(policy=POLICY))
        self.context.workers = SimulatedPool(POLICY, world.dice.random())
        self.app = _app(place, self.context)
        self._stopping: asyncio.Event
        self.life = self.spawn(self._live())

    async def _live(self) -> None:
        self._stopping = asyncio.Event()
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(self.store.close)
            stack.push_async_callback(self.engine.close)
            await stack.enter_async_context(self.app.router.lifespan_context(self.app))
            await self._stopping.wait()

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        return self.loop.create_task(work)

    def shut_down(self) -> None:
        """Begins an orderly end, as SIGTERM does."""
        self._stopping.set()

    def die(self) -> None:
        """Ends the process at once, as SIGKILL does."""
        self.is_alive = False
        for claim in self.store.claims.values():
            self.world.store.abandon(claim)

    # Requests.

    def request(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> asyncio.Task[Answer]:
        return self.spawn(self._request(method, path, body, headers or {}))

    async def _request(self, method: str, path: str, body: Any, headers: dict[str, str]) -> Answer:
        data = b"" if body is None else json.dumps(body).encode()
        status, parts = 0, []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": data, "more_body": False}

        async def send(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            else:
                parts.append(message.get("body", b""))

        await self.app(self._scope(method, path, headers, bool(data)), receive, send)
        text = b"".join(parts)
        return Answer(status, json.loads(text) if text else None)

    def _scope(
        self, method: str, path: str, headers: dict[str, str], has_body: bool = False
    ) -> dict[str, Any]:
        path, _, query = path.partition("?")
        sent = {"host": "127.0.0.1", "authorization": f"Bearer {self.world.token}", **headers}
        if has_body:
            sent["content-type"] = "application/json"
        return {
            "type": "http",
            "http_version": "1.1",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in sent.items()],
            "client": ("127.0.0.1", 40_000),
            "server": ("127.0.0.1", 8420),
            "scheme": "http",
            "root_path": "",
            "state": {},
        }

    def stream(self, run_id: str, reader: Reader, patience: int) -> asyncio.Task[None]:
        """Reads the events of a run. The connection is cut after `patience` writes."""
        return self.spawn(self._stream(run_id, reader, patience))

    async def _stream(self, run_id: str, reader: Reader, patience: int) -> None:
        cut, dice = asyncio.Event(), random.Random(patience)
        sse, writes = SseReader(), 0

        async def receive() -> dict[str, Any]:
            await cut.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            nonlocal writes
            if message["type"] != "http.response.body":
                reader.status = message["status"]
                return
            if reader.status != 200 or cut.is_set():
                return
            await asyncio.sleep(dice.choice((0, 0, 0.01, 1.0)))  # a client that is slow to read
            reader.take(sse.feed(message.get("body", b"")))
            writes += 1
            if writes >= patience:
                cut.set()

        after = {"last-event-id": str(reader.last)} if reader.last else {}
        scope = self._scope("GET", f"/api/v1/runs/{run_id}/events", after)
        with contextlib.suppress(asyncio.CancelledError):
            await self.app(scope, receive, send)


class Reader:
    """A client that reads all events of a run, over any number of connections."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.is_done = False
        self.status = 0

    def has_ended(self) -> bool:
        return self.is_done

    @property
    def last(self) -> int:
        return self.ids[-1] if self.ids else 0

    def take(self, events: list[tuple[str, str, str]]) -> None:
        for number, name, _ in events:
            if name == "end":
                self.is_done = True
            elif number:
                self.ids.append(read_cursor(number).position)


def _app(place: int, context: ServerContext) -> FastAPI:
    if place not in _apps:
        _apps[place] = create_app(context)
    _apps[place].state.context = context
    return _apps[place]
