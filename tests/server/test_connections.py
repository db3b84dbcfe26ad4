"""Clients that open connections and say nothing, little, or too slowly: all others are served."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import logging
import resource
import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from roundel.server.connections import (
    BODY_SECONDS,
    END_SECONDS,
    HEAD_SECONDS,
    MAX_DESCRIPTORS,
    MIN_CONNECTIONS,
    STALL_SECONDS,
    Connections,
    accept_batch,
    connection_limit,
    handle_loop_error,
    logger,
    raise_descriptor_limit,
)
from roundel.server.logs import RepeatFilter
from roundel.server.serving import Serving
from tests.server.live import ServerProcess, client_of, listening, loop_text, start_server
from tests.server.test_tls import certificate

HEALTH = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"
START = {"workflow": {"text": loop_text(3)}, "script": {"Writer": ["one", "two", "three"]}}
SECONDS = 20
"""Much longer than anything here takes, and shorter than any client would wait."""


class Opened:
    """A connection as it is."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self._writer = reader, writer

    def send(self, content: bytes) -> None:
        self._writer.write(content)

    async def status(self) -> int:
        """The status of the next response; 0 if the connection was closed instead."""
        with contextlib.suppress(ConnectionError):
            line = await self.reader.readline()
            return int(line.split()[1]) if line else 0
        return 0

    async def is_closed(self) -> bool:
        """Whether the server closes it, which it does without an answer."""
        with contextlib.suppress(ConnectionError):
            return await self.reader.read(1) == b""
        return True

    def close(self) -> None:
        self._writer.close()


@contextlib.asynccontextmanager
async def opening(address: str) -> AsyncIterator[Any]:
    """Opens connections to a server, and closes them at the end."""
    port, opened = int(address.rpartition(":")[2]), list[Opened]()

    async def connect(source: str = "127.0.0.1") -> Opened:
        found = await asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0))
        opened.append(Opened(*found))
        return opened[-1]

    try:
        async with asyncio.timeout(SECONDS):
            yield connect
    finally:
        for one in opened:
            one.close()


def connections_of(serving: Serving) -> Connections:
    assert serving._server is not None
    return serving._server._connections


async def until(condition: Any) -> None:
    while not condition():  # noqa: ASYNC110 (the socket of another task)
        await asyncio.sleep(0.01)


def store(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'runs.db'}"


# How many.


def test_silent_connections_give_way_to_new_ones(tmp_path: Path) -> None:
    async def story() -> None:
        async with (
            listening(store(tmp_path), max_connections=10) as (address, runs, serving),
            opening(address) as connect,
        ):
            silent = [await connect() for _ in range(40)]
            async with await client_of(runs, address) as client:
                assert (await client.get("/healthz")).status_code == 200
                assert (await client.post("/api/v1/runs", json=START)).status_code == 202
            assert len(connections_of(serving)) <= 10
            assert all([await one.is_closed() for one in silent[:30]]), "the oldest"
            silent[-1].send(HEALTH)
            assert await silent[-1].status() == 200

    asyncio.run(story())


def test_requests_in_progress_do_not_give_way(tmp_path: Path) -> None:
    async def story() -> None:
        async with (
            listening(store(tmp_path), max_connections=2) as (address, runs, _serving),
            opening(address) as connect,
        ):
            client = await client_of(runs, address)
            token = client.headers["authorization"].encode()
            request = b"GET /api/v1/events HTTP/1.1\r\nhost: localhost\r\nauthorization: %b\r\n\r\n" % token
            busy = [await connect(), await connect()]
            for one in busy:
                one.send(request)
                assert await one.status() == 200
            refused = await connect()
            assert await refused.status() == 503
            while await refused.reader.readline() not in (b"\r\n", b""):
                pass
            assert await refused.is_closed()
            assert b"retry" in await busy[0].reader.readuntil(b"retry: 1000"), "its stream goes on"
            await client.aclose()

    asyncio.run(story())


def test_an_address_has_a_limit_of_its_own(tmp_path: Path) -> None:
    """Others do not suffer for it, and this machine, where a proxy would be, has none."""

    async def story() -> None:
        limits: dict[str, Any] = {"max_connections": 50, "max_connections_per_address": 5}
        async with (
            listening(store(tmp_path), host="127.0.0.1", **limits) as (address, _runs, serving),
            opening(address) as connect,
        ):
            others = [await connect("127.0.0.1") for _ in range(10)]
            silent = [await connect("127.0.0.2") for _ in range(20)]
            silent[-1].send(HEALTH)
            assert await silent[-1].status() == 200
            assert all([await one.is_closed() for one in silent[:15]])
            await until(lambda: len(connections_of(serving)) == 15)
            for one in others:
                one.send(HEALTH)
                assert await one.status() == 200

    asyncio.run(story())


def test_silent_handshakes_count_as_well(tmp_path: Path) -> None:
    async def story() -> None:
        public, private = certificate(tmp_path)
        options = ("--tls-certificate", str(public), "--tls-key", str(private), "--max-connections", "10")
        server = await start_server(tmp_path / "store.db", *options)
        try:
            async with opening(server.address) as connect:
                silent = [await connect() for _ in range(40)]
                trust = ssl.create_default_context(cafile=str(public))
                async with httpx2.AsyncClient(base_url=server.address, verify=trust) as client:
                    assert (await client.get("/healthz")).status_code == 200
                assert all([await one.is_closed() for one in silent[:30]])
        finally:
            assert await server.end() == 0

    asyncio.run(story())


# How long.


def test_what_takes_too_long_is_closed(tmp_path: Path) -> None:
    async def story() -> None:
        async with listening(store(tmp_path)) as (address, runs, serving), opening(address) as connect:
            connections, now = connections_of(serving), asyncio.get_running_loop().time()
            token = (await client_of(runs, address)).headers["authorization"].encode()
            head = (
                b"POST /api/v1/check HTTP/1.1\r\nhost: localhost\r\nauthorization: %b\r\n"
                b"content-type: application/json\r\ncontent-length: 100\r\n\r\n" % token
            )
            silent, slow_head, slow_body, idle = [await connect() for _ in range(4)]
            slow_head.send(HEALTH[:-2])
            slow_body.send(head + b'{"text"')
            idle.send(HEALTH)
            assert await idle.status() == 200
            await idle.reader.readuntil(b'{"status":"ok"}')
            await until(lambda: len(connections) == 4)
            connections.sweep(now + HEAD_SECONDS - 5)
            assert len(connections) == 4
            # What is busy is known only when the server has read it.
            await until(lambda: sum(not one._is_silent for one in connections._all) == 1)
            connections.sweep(now + HEAD_SECONDS + 5)
            assert len(connections) == 1
            for one in (silent, slow_head, idle):
                assert await one.is_closed()
            connections.sweep(now + BODY_SECONDS + 5)
            assert not len(connections)
            assert await slow_body.is_closed()

    asyncio.run(story())


def test_a_stream_may_take_as_long_as_it_likes(tmp_path: Path) -> None:
    async def story() -> None:
        async with (
            listening(store(tmp_path)) as (address, runs, serving),
            await client_of(runs, address) as client,
            client.stream("GET", "/api/v1/events"),
        ):
            now = asyncio.get_running_loop().time()
            connections_of(serving).sweep(now + 1000 * HEAD_SECONDS)
            assert len(connections_of(serving)) == 1

    asyncio.run(story())


@pytest.mark.parametrize("is_closing", [False, True])
def test_a_client_that_does_not_read_is_closed(tmp_path: Path, is_closing: bool) -> None:
    async def story() -> None:
        async with listening(store(tmp_path)) as (address, _runs, serving), opening(address) as connect:
            connections, now = connections_of(serving), asyncio.get_running_loop().time()
            client = await connect()
            client.reader._transport.pause_reading()
            client.send(b"GET /api/v1/openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n" * 100)
            await until(lambda: any(one._stalled_since is not None for one in connections._all))
            if is_closing:
                next(iter(connections._all)).transport.close()
            connections.sweep(now)
            seconds = END_SECONDS if is_closing else STALL_SECONDS
            connections.sweep(now + seconds - 5)
            assert len(connections) == 1
            connections.sweep(now + seconds + SECONDS + 5)
            assert not len(connections)

    asyncio.run(story())


# Descriptors.


async def started(tmp_path: Path, descriptors: int, *options: str) -> ServerProcess:
    """A server that may have so many descriptors, and cannot raise that."""
    return await start_server(tmp_path / "store.db", *options, descriptors=descriptors)


def test_few_descriptors_are_enough_for_those_who_ask(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Many more clients than descriptors: there are always some for the store, and no traceback."""

    async def story() -> None:
        server = await started(tmp_path, 64)
        try:
            async with opening(server.address) as connect:
                first = await connect()
                first.send(HEALTH)
                assert await first.status() == 200
                for _ in range(150):
                    await connect()
                async with httpx2.AsyncClient(base_url=server.address, timeout=SECONDS) as client:
                    for _ in range(5):
                        assert (await client.get("/healthz")).status_code == 200
                        assert (await client.get("/readyz")).status_code == 200
                        await connect()
                    signed = await client.post("/api/v1/session", json={"code": server.code})
                    assert signed.status_code == 200, signed.text
                    run = await client.post("/api/v1/runs", json=START, headers={"origin": server.address})
                    assert run.status_code == 202, run.text
        finally:
            assert await server.end() == 0

    asyncio.run(story())
    assert "Traceback" not in capfd.readouterr().err


def test_a_thousand_silent_connections_without_a_token(tmp_path: Path) -> None:
    async def story() -> None:
        server = await started(tmp_path, 1024)
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        try:
            async with opening(server.address) as connect:
                for _ in range(min(1100, most - 200)):
                    await connect()
                async with httpx2.AsyncClient(base_url=server.address, timeout=SECONDS) as client:
                    assert (await client.get("/healthz")).status_code == 200
                    await client.post("/api/v1/session", json={"code": server.code})
                    run = await client.post("/api/v1/runs", json=START, headers={"origin": server.address})
                    assert run.status_code == 202, run.text
        finally:
            assert await server.end() == 0

    asyncio.run(story())


def test_half_of_the_descriptors_are_for_connections() -> None:
    assert connection_limit(4096, 1024) == 512
    assert connection_limit(100, 1024) == 100
    assert connection_limit(4096, 10) == MIN_CONNECTIONS
    assert (accept_batch(8), accept_batch(32), accept_batch(4096)) == (1, 4, 64)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
        raised = raise_descriptor_limit()
        assert raised == resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 256
        assert raised <= MAX_DESCRIPTORS
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_connection_that_cannot_be_accepted_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        with socket.socket() as listener:
            for _ in range(100):
                error = OSError(errno.EMFILE, "Too many open files")
                handle_loop_error(loop, {"message": "x", "exception": error, "socket": listener})
        assert [one.exc_info for one in caplog.records] == [None]
        assert "Too many open files" in caplog.text
        handle_loop_error(loop, {"message": "another", "exception": ValueError("x")})
        assert [one.name for one in caplog.records] == [logger.name, "asyncio"]

    (repeats,) = [one for one in logger.filters if isinstance(one, RepeatFilter)]
    repeats.forget()
    with caplog.at_level(logging.WARNING):
        asyncio.run(story())


# Streams.


def test_one_viewer_cannot_take_all_streams(tmp_path: Path) -> None:
    async def story() -> None:
        async with (
            listening(store(tmp_path), max_streams=100, max_streams_per_caller=3) as (address, runs, serving),
            opening(address) as connect,
        ):
            viewers = [await client_of(runs, address, "viewer") for _ in range(2)]
            request = b"GET /api/v1/events HTTP/1.1\r\nhost: localhost\r\nauthorization: %b\r\n\r\n"
            greedy = [await connect() for _ in range(20)]
            for one in greedy:  # all at once
                one.send(request % viewers[0].headers["authorization"].encode())
            statuses = [await one.status() for one in greedy]
            assert sorted(statuses) == [200] * 3 + [429] * 17
            for path in ("events", "events?follow=false"):
                refused = await viewers[0].get(f"/api/v1/{path}")
                assert refused.status_code == 429 and refused.headers["retry-after"]
            async with viewers[1].stream("GET", "/api/v1/events") as stream:
                assert stream.status_code == 200
            for one in greedy:
                one.close()
            hub = serving._server._context.hub  # type: ignore[union-attr]
            await until(lambda: not hub._callers)
            async with viewers[0].stream("GET", "/api/v1/events") as stream:
                assert stream.status_code == 200
            for viewer in viewers:
                await viewer.aclose()

    asyncio.run(story())


# The attack that anybody could make.


def test_bodies_of_strangers_do_not_keep_the_others_waiting(tmp_path: Path) -> None:
    """Megabytes of unknown fields, without a credential. They used to be parsed, with an error for each."""
    keys = json.dumps({f"key{number}": 0 for number in range(300_000)}).encode()

    async def story() -> None:
        async with listening(store(tmp_path)) as (address, runs, _serving):
            ended = asyncio.Event()
            statuses: list[int] = []

            async def attack() -> None:
                async with httpx2.AsyncClient(base_url=address, timeout=SECONDS) as client:
                    headers = {"content-type": "application/json"}
                    while not ended.is_set():
                        answer = await client.post("/api/v1/session", content=keys, headers=headers)
                        statuses.append(answer.status_code)

            attackers = [asyncio.create_task(attack()) for _ in range(4)]
            async with await client_of(runs, address) as client:
                await until(lambda: len(statuses) >= 4)
                assert (await client.get("/healthz")).status_code == 200
                assert (await client.post("/api/v1/runs", json=START)).status_code == 202
            ended.set()
            await asyncio.gather(*attackers)
            assert set(statuses) == {413}

    asyncio.run(story())
