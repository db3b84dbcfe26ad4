"""Servers that know nothing newer than `initialize`, whatever they do with `server/discover`."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from roundel.llm.mcp import McpConnection
from roundel.workflow.tool_source import McpServer
from tests.llm.servers.handshake import HABITS

SERVER = str(Path(__file__).parent / "servers" / "handshake.py")


@pytest.fixture(autouse=True)
def little_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package waits ten seconds for an answer to `server/discover`."""
    monkeypatch.setattr("mcp.client.session.DISCOVER_TIMEOUT_SECONDS", 2.0)


def asked(server: McpServer) -> str:
    async def story() -> str:
        connection = McpConnection(server, None, name="old")
        try:
            (weather,) = await connection.tools()
            return await weather.call({"place": "Oslo"}, "key")
        finally:
            await connection.close()

    return asyncio.run(asyncio.wait_for(story(), 60))


@contextmanager
def http_server(habit: str) -> Iterator[str]:
    with subprocess.Popen(
        [sys.executable, SERVER, "http", habit], stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        try:
            yield f"http://127.0.0.1:{server.stdout.readline().strip()}/mcp"
        finally:
            server.terminate()


@pytest.mark.parametrize("habit", HABITS[:-1])
def test_a_program_that_knows_only_initialize_is_used(habit: str) -> None:
    assert asked(McpServer(command=sys.executable, args=(SERVER, "stdio", habit))) == "rain in Oslo"


@pytest.mark.parametrize("habit", HABITS)
def test_an_address_that_knows_only_initialize_is_used(habit: str) -> None:
    with http_server(habit) as url:
        assert asked(McpServer(url=url)) == "rain in Oslo"
