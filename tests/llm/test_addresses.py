"""Outgoing addresses under a policy: a real server on loopback, and a name server that the test decides."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import httpx2
import pytest

import roundel
from roundel.hosts.engine import RunSpec
from roundel.hosts.local import LocalEngine
from roundel.llm.addresses import (
    CheckedTransport,
    RefusedAddressError,
    is_allowed,
    is_ambiguous,
    parse_networks,
)
from roundel.llm.mcp import McpConnection
from roundel.nodes.loading import load_plan
from roundel.nodes.services import NodeError
from roundel.workflow.allow_list import AllowedModel, Policy
from roundel.workflow.message import Message
from roundel.workflow.tool_source import McpServer
from tests.llm.wire import Reply, Wire

LOOPBACK = ("127.0.0.0/8",)


class NameServer:
    """Answers in turn; the last answer repeats."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers, self.asked = list(answers), 0

    async def __call__(self, _host: str, _port: int) -> list[str]:
        self.asked += 1
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@contextlib.asynccontextmanager
async def server(reply: bytes, **options: Any) -> AsyncIterator[tuple[int, list[bytes]]]:
    """A server on loopback that answers each request with the same bytes."""
    requests: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                requests.append(await reader.readuntil(b"\r\n\r\n"))
                writer.write(reply)
                await writer.drain()
        writer.close()

    running = await asyncio.start_server(answer, "127.0.0.1", 0, **options)
    async with running:
        yield running.sockets[0].getsockname()[1], requests


OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


def redirect(to: str) -> bytes:
    return f"HTTP/1.1 302 Found\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n".encode()


def run(story: Callable[[], Awaitable[Any]]) -> Any:
    async def whole() -> Any:
        return await asyncio.wait_for(story(), 30)

    return asyncio.run(whole())


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "127.255.255.254", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1"),
        *("169.254.169.254", "100.64.0.1", "100.127.255.255", "0.0.0.0", "0.1.2.3", "224.0.0.1"),
        *("239.255.255.255", "240.0.0.1", "255.255.255.255", "192.0.2.1", "198.18.0.1", "198.51.100.1"),
        *("192.0.0.8", "192.88.99.1", "203.0.113.7"),
        *("::", "::1", "fe80::1", "fec0::1", "fc00::1", "fd12:3456::1", "ff02::1", "2001:db8::1", "100::1"),
        *("::ffff:127.0.0.1", "::ffff:8.8.8.8", "::127.0.0.1", "::8.8.8.8", "::ffff:0:127.0.0.1"),
        *("64:ff9b::7f00:1", "64:ff9b::808:808", "64:ff9b:1::a00:1", "2002:7f00:1::", "2002:808:808::1"),
        *("2001:0:808:808::1", "2001::1"),
        *("168.63.129.16", "::ffff:168.63.129.16", "64:ff9b::a83f:8110"),
    ],
)
def test_addresses_that_are_not_public(address: str) -> None:
    assert not is_allowed(ip_address(address), ())


@pytest.mark.parametrize("address", ["8.8.8.8", "1.1.1.1", "172.32.0.1", "2606:4700::1111", "2a00:1450::1"])
def test_public_addresses(address: str) -> None:
    assert is_allowed(ip_address(address), ())


@pytest.mark.parametrize(
    "address",
    [
        *("168.63.129.16", "169.254.169.254", "169.254.170.2", "100.100.100.200", "192.0.0.192"),
        "169.254.0.23",
        *("fd00:ec2::254", "fd20:ce::254", "fe80::a9fe:a9fe", "::ffff:169.254.169.254"),
    ],
)
def test_services_of_clouds_are_allowed_alone_and_in_no_network(address: str) -> None:
    found = ip_address(address)
    broad = parse_networks(["0.0.0.0/0", "::/0", "169.254.0.0/16", "168.63.129.0/24", "fd00:ec2::/64"])
    assert not is_allowed(found, broad)
    alone = str(getattr(found, "ipv4_mapped", None) or found)
    assert is_allowed(found, parse_networks([alone]))


def test_networks_of_the_operator() -> None:
    networks = parse_networks(["10.1.0.0/16", "64:ff9b::/96", "fd00::/8"])
    for address in ("10.1.2.3", "::ffff:10.1.2.3", "fd00::1", "64:ff9b::808:808", "64:ff9b::a01:203"):
        assert is_allowed(ip_address(address), networks)
    for address in ("10.2.0.1", "::ffff:10.2.0.1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "::1"):
        assert not is_allowed(ip_address(address), networks)


@pytest.mark.parametrize(
    "host",
    ["2130706433", "0x7f000001", "0x7f.1", "127.1", "0177.0.0.1", "127.0.0.01", "0", "1.2.3.0x4", "8.8.8.8."],
)
def test_numbers_that_are_no_plain_address_are_refused(host: str) -> None:
    assert is_ambiguous(host)
    # The HTTP client refuses some of them before they get there.
    with pytest.raises((RefusedAddressError, httpx2.InvalidURL)):
        run(lambda: get(f"http://{host}/", CheckedTransport(LOOPBACK)))


@pytest.mark.parametrize("host", ["8.8.8.8", "a.example", "1a.example", "[::1]", "::1", "example.0x"])
def test_names_and_plain_addresses_are_not_ambiguous(host: str) -> None:
    assert is_ambiguous(host) == (host == "example.0x")


async def get(url: str, transport: CheckedTransport, **options: Any) -> httpx2.Response:
    async with httpx2.AsyncClient(transport=transport, **options) as client:
        return await client.get(url)


def test_a_name_of_a_private_address_is_refused_before_anything_is_sent() -> None:
    async def story() -> None:
        async with server(OK) as (port, requests):
            for answers in (["127.0.0.1"], ["8.8.8.8", "127.0.0.1"], ["::ffff:127.0.0.1"], ["fe80::1%lo"]):
                transport = CheckedTransport(resolver=NameServer(answers))
                with pytest.raises(RefusedAddressError) as caught:
                    await get(f"http://models.example:{port}/", transport)
                assert "models.example" in str(caught.value)
                assert "127.0.0.1" not in str(caught.value)
            with pytest.raises(RefusedAddressError):
                await get(f"http://127.0.0.1:{port}/", CheckedTransport())
            with pytest.raises(RefusedAddressError):
                await get(f"http://localhost:{port}/", CheckedTransport())
            assert requests == []

    run(story)


def test_a_name_is_resolved_once_and_the_host_header_has_the_name() -> None:
    """The second answer of the name server would lead elsewhere: it is never asked for."""

    async def story() -> None:
        names = NameServer(["127.0.0.1"], ["169.254.169.254"])
        async with server(OK) as (port, requests):
            transport = CheckedTransport(LOOPBACK, resolver=names)
            response = await get(f"http://models.example:{port}/v1", transport)
            assert response.text == "ok"
            assert names.asked == 1
            assert f"host: models.example:{port}".encode() in requests[0].lower()

    run(story)


def test_a_name_that_changes_its_address_is_checked_for_each_connection() -> None:
    async def story() -> None:
        names = NameServer(["127.0.0.1"], ["10.0.0.1"])
        async with server(OK.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n", 1)) as (port, requests):
            transport = CheckedTransport(LOOPBACK, resolver=names)
            async with httpx2.AsyncClient(transport=transport) as client:
                await client.get(f"http://models.example:{port}/")
                with pytest.raises(RefusedAddressError):
                    await client.get(f"http://models.example:{port}/")
            assert len(requests) == 1

    run(story)


@pytest.mark.parametrize("to", ["http://other.example/", "https://models.example/", "//169.254.169.254/x"])
def test_a_redirect_to_another_origin_is_refused(to: str) -> None:
    async def story() -> None:
        async with server(redirect(to)) as (port, requests):
            transport = CheckedTransport(LOOPBACK, resolver=NameServer(["127.0.0.1"]))
            with pytest.raises(RefusedAddressError, match="redirects to another host"):
                await get(f"http://models.example:{port}/", transport, follow_redirects=True)
            assert len(requests) == 1

    run(story)


def test_a_redirect_on_the_same_host_is_followed() -> None:
    async def story() -> int:
        async with server(redirect("/next")) as (port, requests):
            transport = CheckedTransport(LOOPBACK, resolver=NameServer(["127.0.0.1"]))
            with pytest.raises(httpx2.TooManyRedirects):
                await get(f"http://models.example:{port}/", transport, follow_redirects=True, max_redirects=2)
            return len(requests)

    assert run(story) == 3


def certificate(folder: Path, name: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """The contexts of a server that proves to be `name`, and of a client that trusts it."""
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl")
    key, proof = folder / "key.pem", folder / "certificate.pem"
    subject = ["-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}"]
    made = ["-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-keyout", str(key), "-out", str(proof)]
    subprocess.run(["openssl", "req", *made, *subject], check=True, capture_output=True)
    of_server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    of_server.load_cert_chain(proof, key)
    return of_server, ssl.create_default_context(cafile=str(proof))


def test_a_certificate_is_verified_for_the_name_and_not_for_the_address(tmp_path: Path) -> None:
    of_server, of_client = certificate(tmp_path, "models.example")

    async def story() -> None:
        async with server(OK, ssl=of_server) as (port, _):
            names = NameServer(["127.0.0.1"])
            transport = CheckedTransport(LOOPBACK, resolver=names, verify=of_client)
            assert (await get(f"https://models.example:{port}/", transport)).text == "ok"
            for host in ("other.example", "127.0.0.1"):
                transport = CheckedTransport(LOOPBACK, resolver=names, verify=of_client)
                with pytest.raises(httpx2.ConnectError, match="certificate"):
                    await get(f"https://{host}:{port}/", transport)

    run(story)


def test_the_next_address_is_tried_and_an_unknown_name_is_an_error() -> None:
    async def unknown(_host: str, _port: int) -> list[str]:
        raise OSError(1, "no such name")

    async def story() -> None:
        async with server(OK) as (port, _):
            names = NameServer(["127.0.0.99", "127.0.0.1"])
            response = await get(f"http://a.example:{port}/", CheckedTransport(LOOPBACK, resolver=names))
            assert response.text == "ok"
            with pytest.raises(httpx2.ConnectError, match="is not known"):
                await get(f"http://a.example:{port}/", CheckedTransport(resolver=unknown))
            with pytest.raises(httpx2.ConnectError, match="has no address"):
                await get(f"http://a.example:{port}/", CheckedTransport(resolver=NameServer([])))

    run(story)


# Through a run


def asks(url: str, **config: Any) -> dict[str, Any]:
    node = {"id": "A", "type": "agent", "config": {"model": "openai:gpt-4o", "base_url": url, **config}}
    return {"graph": {"start": "A", "end": "A", "nodes": [node]}}


async def run_under(policy: Policy, workflow: dict[str, Any], folder: Path) -> Any:
    async with roundel.Runs(folder / "runs.db") as runs:
        engine = LocalEngine(lambda: runs.store, policy=policy)
        run_id = await engine.start(RunSpec(load_plan(workflow, policy=policy), (Message("go"),)))
        result = await engine.wait(run_id)
        await engine.close()
        return result


def test_a_model_gets_the_key_that_it_is_listed_with(
    wire: Wire, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The text names no key, and the usual variable of the provider has another one."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-provider")
    monkeypatch.setenv("LOCAL_KEY", "sk-of-the-endpoint")
    wire.replies(Reply(text="hello"))
    models = (AllowedModel(base_url=wire.openai_url, key="LOCAL_KEY"), AllowedModel(provider="openai"))
    policy = Policy(models=models, networks=LOOPBACK)
    result = run(lambda: run_under(policy, asks(wire.openai_url), tmp_path))
    assert result.output == "hello"
    headers = {name.lower(): value for name, value in wire.requests[0].headers.items()}
    assert headers["authorization"] == "Bearer sk-of-the-endpoint"


def test_an_endpoint_without_a_key_gets_none_of_the_environment(
    wire: Wire, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-provider")
    wire.replies(Reply(text="hello"))
    policy = Policy(models=(AllowedModel(base_url=wire.openai_url),), networks=LOOPBACK)
    assert run(lambda: run_under(policy, asks(wire.openai_url), tmp_path)).output == "hello"
    assert "sk-of-the-provider" not in str(wire.requests[0].headers)


def test_a_private_address_fails_the_node_at_once_although_it_is_listed(wire: Wire, tmp_path: Path) -> None:
    """The list of models says what a text may name; networks are a second list."""
    policy = Policy(models=(AllowedModel(base_url=wire.openai_url),))
    retry = {"max_attempts": 5, "min_wait_seconds": 60, "max_wait_seconds": 60}
    workflow = asks(wire.openai_url, retry=retry)
    result = run(lambda: run_under(policy, workflow, tmp_path))
    assert result.status == "failed"
    assert "private network that the allow-list lacks" in result.error
    assert wire.requests == []


def test_a_private_mcp_server_is_not_reached() -> None:
    async def story() -> None:
        async with server(OK) as (port, requests):
            connection = McpConnection(McpServer(url=f"http://127.0.0.1:{port}/mcp"), None, networks=())
            with pytest.raises(NodeError, match="private network"):
                await connection.tools()
            await connection.close()
            assert requests == []

    run(story)
