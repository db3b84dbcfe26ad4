"""Many clients of a server at little cost: requests and streams of events over bare sockets, and a store with
servers that can be killed and started again on the same port. For test_load.py and bench/server.py.

A client checks what it gets as it arrives: a stream that misses an event, or has one twice, fails there.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Self

from roundel.journal.sqlite import SqliteStore
from roundel.server.cursors import read_cursor
from roundel.server.identity import Identities
from tests.server.live import ServerProcess, SseReader, loop_text, start_server

CALLS = "ROUNDEL_TEST_CALLS"
SECONDS = "ROUNDEL_TEST_SECONDS"
FUNCTION = "tests.server.load:call"
LINES = {"Writer": ["one", "two", "three"]}
RETRY_SECONDS = 0.1
"""How long a client waits before it connects again."""
OnEvent = Callable[[str, bytes], None]


async def call(text: str, round: int) -> str:
    """A call that is paid for: it counts itself in a file, and takes a while. The text names the run."""
    name = text.partition("/")[0]
    with Path(os.environ[CALLS]).open("ab", buffering=0) as file:  # noqa: ASYNC230 (one short write)
        file.write(f"{name}/{round}\n".encode())
    await asyncio.sleep(float(os.environ.get(SECONDS, "0.01")))
    return f"{name}/{round}"


def calling_text(rounds: int) -> str:
    """A loop that makes so many calls that count themselves."""
    node = "{id: Writer, type: agent, config: {role: Write.}}"
    text = loop_text(rounds)
    assert node in text
    return text.replace(node, f"{{id: Writer, type: python, config: {{function: '{FUNCTION}'}}}}")


class Site:
    """A folder with a store, an allow-list and ports. Servers on it come and go; the last ones end with it,
    and so do its clients."""

    def __init__(self, folder: Path, seconds: float = 0.01) -> None:
        self.store, self.calls = folder / "runs.db", folder / "calls"
        self.allow = folder / "allow.yaml"
        self.allow.write_text(f'functions: ["{FUNCTION}"]\n', encoding="utf-8")
        self.environment = {CALLS: str(self.calls), SECONDS: str(seconds)}
        self.ports = [free_port(), free_port()]
        self.token = ""
        self._servers: list[ServerProcess] = []
        self._clients: list[Client] = []

    async def __aenter__(self) -> Self:
        store = self.open()
        self.token = (await Identities(store.documents()).create_token("test", "admin", None)).secret
        await store.close()
        return self

    async def __aexit__(self, *_: object) -> None:
        for client in self._clients:
            await client.close()
        for server in self._servers:
            await server.end(signal.SIGKILL)

    def open(self) -> SqliteStore:
        return SqliteStore(str(self.store), sync="normal")

    async def start(self, number: int = 0, *options: str) -> ServerProcess:
        """A server; two with one number cannot live at the same time."""
        given = ("--allow", str(self.allow), "--port", str(self.ports[number]))
        # All clients have one token.
        streams = ("--max-streams-per-token", "1000")
        server = await start_server(self.store, *given, *streams, *options, environment=self.environment)
        self._servers.append(server)
        return server

    def client(self, number: int = 0) -> Client:
        client = Client(self.ports[number], self.token)
        self._clients.append(client)
        return client

    def keys(self) -> list[str]:
        """The keys of the calls that were made."""
        return self.calls.read_text(encoding="utf-8").splitlines() if self.calls.exists() else []

    async def called(self, count: int) -> None:
        """Waits until so many calls were made."""
        while len(self.keys()) < count:  # noqa: ASYNC110 (the calls are made in another process)
            await asyncio.sleep(0.01)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


class Client:
    """Requests to one server, on one connection."""

    def __init__(self, port: int, token: str) -> None:
        self.port, self.token = port, token
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    def head(self, method: str, path: str, version: str, headers: Mapping[str, str]) -> bytes:
        fields = {"host": f"127.0.0.1:{self.port}", "authorization": f"Bearer {self.token}", **headers}
        lines = [f"{method} {path} HTTP/{version}", *(f"{name}: {value}" for name, value in fields.items())]
        return "\r\n".join([*lines, "", ""]).encode()

    async def request(
        self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, Any]:
        """The status and the body of an answer; OSError if the server is gone."""
        sent = json.dumps(body).encode() if body is not None else b""
        given = {"content-length": str(len(sent)), "content-type": "application/json", **(headers or {})}
        try:
            if self._streams is None:
                self._streams = await asyncio.open_connection("127.0.0.1", self.port)
            reader, writer = self._streams
            writer.write(self.head(method, path, "1.1", given) + sent)
            status, answered = await read_head(reader)
            text = await reader.readexactly(int(answered.get("content-length", 0)))
        except (OSError, EOFError) as error:
            await self.close()
            raise ConnectionError(str(error)) from error
        return status, json.loads(text) if text else None

    async def start(self, text: str, input: str = "go", key: str = "", **body: Any) -> str:
        """Starts a run, and returns its id. A server that is full is asked again."""
        headers = {"idempotency-key": key} if key else {}
        while True:
            content = {"workflow": {"text": text}, "input": input, **body}
            status, answer = await self.request("POST", "/api/v1/runs", content, headers)
            if status != 429:
                break
            await asyncio.sleep(RETRY_SECONDS)
        assert status == 202, answer
        run_id: str = answer["id"]
        return run_id

    async def close(self) -> None:
        if self._streams is not None:
            (_, writer), self._streams = self._streams, None
            await close(writer)

    async def events(
        self, path: str, last_id: str = "", *, reads: bool = True
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Opens a stream of events. HTTP/1.0, so that the body is the stream and nothing else. A client that
        does not read offers the system as little room as it can."""
        headers = {"accept": "text/event-stream", **({"last-event-id": last_id} if last_id else {})}
        if reads:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        else:
            plain = socket.socket()
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            plain.setblocking(False)
            await asyncio.get_running_loop().sock_connect(plain, ("127.0.0.1", self.port))
            reader, writer = await asyncio.open_connection(sock=plain, limit=1024)
        writer.write(self.head("GET", path, "1.0", headers))
        try:
            status, _ = await read_head(reader)
        except BaseException:
            await close(writer)
            raise
        assert status == 200, status
        return reader, writer


async def close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


async def read_head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    pairs = (line.partition(": ") for line in lines if line)
    return int(first.split(" ")[1]), {name.lower(): value for name, _, value in pairs}


class Follower:
    """A client that follows events until it has everything, and connects again whenever it loses the server:
    by itself, too, if `leaves` says so after an event."""

    def __init__(
        self,
        client: Client,
        path: str,
        on_event: OnEvent = lambda _id, _data: None,
        leaves: Callable[[], bool] = lambda: False,
    ) -> None:
        self.client, self.path = client, path
        self._on_event, self._leaves = on_event, leaves
        self.last_id = ""
        self.count = self.bytes = 0
        self.connections = 0
        self.is_done = False

    async def follow(self) -> None:
        while not self.is_done:
            try:
                reader, writer = await self.client.events(self.path, self.last_id)
            except (OSError, EOFError):
                await asyncio.sleep(RETRY_SECONDS)
                continue
            self.connections += 1
            try:
                await self._read(reader)
            except OSError:
                pass
            finally:
                await close(writer)

    async def _read(self, reader: asyncio.StreamReader) -> None:
        sse = SseReader()
        while data := await reader.read(1 << 16):
            self.bytes += len(data)
            for number, name, body in sse.feed(data):
                if number:
                    self.check(number, body)
                    self.last_id = number
                    self.count += 1
                    self._on_event(number, body.encode())
                self.is_done = self.is_last(name)
                if self.is_done or self._leaves():
                    return

    def check(self, number: str, body: str) -> None:
        """Fails if the event does not follow the one with `last_id`."""
        raise NotImplementedError

    def is_last(self, name: str) -> bool:
        raise NotImplementedError


class RunFollower(Follower):
    """Follows one run to its end."""

    def __init__(self, client: Client, run_id: str, **options: Any) -> None:
        super().__init__(client, f"/api/v1/runs/{run_id}/events", **options)

    def check(self, number: str, body: str) -> None:
        before = read_cursor(self.last_id or "0").position
        seq = read_cursor(number).position
        assert seq == before + 1, f"{number} came after {self.last_id}"
        assert body.startswith(f'{{"seq":{seq},'), body[:100]

    def is_last(self, name: str) -> bool:
        return name == "end"


class StoreFollower(Follower):
    """Follows all runs, from the first event of the store, until so many have finished."""

    def __init__(self, client: Client, finished: int, **options: Any) -> None:
        super().__init__(client, "/api/v1/events?after=0", **options)
        self._wanted, self.finished = finished, 0
        self.newest: Counter[str] = Counter()
        """The last `seq` of each run."""

    def check(self, number: str, body: str) -> None:
        assert place(number) > place(self.last_id), f"{number} came after {self.last_id}"
        event = json.loads(body)
        run_id = event["run_id"]
        assert event["seq"] == self.newest[run_id] + 1, (
            f"{run_id}: {event['seq']} after {self.newest[run_id]}"
        )
        self.newest[run_id] += 1

    def is_last(self, name: str) -> bool:
        self.finished += name == "run_finished"
        return self.finished >= self._wanted


def place(number: str) -> tuple[int, float]:
    """The place of an id in the stream of all runs: the one without a part is the last of its append."""
    cursor = read_cursor(number or "0")
    return cursor.position, cursor.part or float("inf")


def memory(process: int) -> int:
    """The bytes of memory that a process has."""
    pages = int(Path(f"/proc/{process}/statm").read_text(encoding="utf-8").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


async def wait_for_end(site: Site, run_ids: Iterable[str]) -> dict[str, str]:
    """The status of each run, once none of them is executed any more."""
    store, waiting, position = site.open(), set(run_ids), 0
    found: dict[str, str] = {}
    try:
        while waiting:
            for run_id in list(waiting):
                row = await store.row(run_id)
                if row.status != "running" and not row.owner:
                    found[run_id] = row.status
                    waiting.discard(run_id)
            try:
                async with asyncio.timeout(0.1):  # to release a run appends nothing
                    position = await store.wait_for_append(position)
            except TimeoutError:
                pass
            await asyncio.sleep(0.05)
    finally:
        await store.close()
    return found
