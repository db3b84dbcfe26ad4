"""TLS and proxies, with `roundel serve` in a process of its own and real connections."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import ssl
from pathlib import Path

import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.server.live import ServerProcess, SseReader, loop_text, start_server


def certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate for this machine and `roundel.test`, which is its own authority, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "roundel.test")])
    now = datetime.datetime.now(datetime.UTC)
    names = [x509.DNSName("roundel.test"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    public, private = folder / "certificate.pem", folder / "key.pem"
    public.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return public, private


async def sign_in(client: httpx2.AsyncClient, code: str, origin: str, **headers: str) -> httpx2.Response:
    return await client.post("/api/v1/session", json={"code": code}, headers={"origin": origin, **headers})


async def forwarded_sign_in(
    client: httpx2.AsyncClient, address: str, code: str, trusted: bool
) -> httpx2.Response:
    """What a proxy passes on that a browser sent over TLS; a server that does not trust it sees no TLS."""
    headers = {"x-forwarded-for": address, "x-forwarded-proto": "https"}
    origin = str(client.base_url).rstrip("/")
    return await sign_in(client, code, origin.replace("http:", "https:") if trusted else origin, **headers)


def test_a_browser_signs_in_and_follows_a_run_over_tls(tmp_path: Path) -> None:
    async def work() -> None:
        public, private = certificate(tmp_path)
        options = ("--tls-certificate", str(public), "--tls-key", str(private), "--name", "roundel.test")
        server = await start_server(tmp_path / "store.db", *options)
        try:
            assert server.address.startswith("https://127.0.0.1:")
            trust = ssl.create_default_context(cafile=str(public))
            async with httpx2.AsyncClient(base_url=server.address, verify=trust, timeout=30) as client:
                await follow_a_run(client, server)
            async with httpx2.AsyncClient(base_url=server.address, timeout=30) as stranger:
                with pytest.raises(httpx2.ConnectError):  # a certificate that nobody has vouched for
                    await stranger.get("/healthz")
            plain = server.address.replace("https", "http")
            async with httpx2.AsyncClient(base_url=plain, timeout=30) as client:
                with pytest.raises(httpx2.TransportError):
                    await client.get("/healthz")
        finally:
            assert await server.end() == 0

    asyncio.run(work())


async def follow_a_run(client: httpx2.AsyncClient, server: ServerProcess) -> None:
    health = await client.get("/healthz", headers={"host": "roundel.test"})
    assert health.headers["strict-transport-security"].startswith("max-age=")
    assert "strict-transport-security" not in (await client.get("/healthz")).headers
    signed = await sign_in(client, server.code, server.address)
    cookie = signed.headers["set-cookie"]
    assert cookie.startswith("__Host-") and "Secure" in cookie and "HttpOnly" in cookie
    body = {"workflow": {"text": loop_text(3)}, "script": {"Writer": ["one", "two", "three"]}}
    started = await client.post("/api/v1/runs", json=body, headers={"origin": server.address})
    assert started.status_code == 202, started.text
    reader, names = SseReader(), []
    async with client.stream("GET", f"{started.headers['location']}/events") as stream:
        async for chunk in stream.aiter_bytes():
            names += [name for _, name, _ in reader.feed(chunk)]
    assert names[-2:] == ["run_finished", "end"]


@pytest.mark.parametrize("trusted", [True, False])
def test_proxy_headers_count_only_with_the_option(tmp_path: Path, trusted: bool) -> None:
    async def work() -> None:
        server = await start_server(tmp_path / "store.db", *(["--proxy-headers"] if trusted else []))
        try:
            async with httpx2.AsyncClient(base_url=server.address, timeout=30) as client:
                tries = [await forwarded_sign_in(client, "192.0.2.1", "wrong", trusted) for _ in range(12)]
                assert (tries[0].status_code, tries[-1].status_code) == (401, 429)
                # Another client of the proxy does not suffer for it; without the option, both are the proxy.
                other = await forwarded_sign_in(client, "192.0.2.2", "wrong", trusted)
                assert other.status_code == (401 if trusted else 429)
                valid = await forwarded_sign_in(client, "192.0.2.1", server.code, trusted)
                assert valid.status_code == 200, valid.text
                assert valid.headers["set-cookie"].startswith("__Host-") == trusted
        finally:
            assert await server.end() == 0

    asyncio.run(work())
