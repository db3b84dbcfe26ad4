"""Runs the server until it is stopped: opens the store, listens, and shuts down in order.

1. no new connections; the streams of events end, and clients connect again elsewhere or later
2. requests in progress finish, for some seconds, and so do the calls in flight of runs, which begin nothing
   new; then the leases are released (supervisor.py)
3. the store is closed
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
import ssl
from collections.abc import Callable
from typing import Any

import uvicorn
from fastapi import FastAPI

from roundel.runs.runs import Runs
from roundel.server.app import create_app
from roundel.server.connections import (
    KEEP_ALIVE_SECONDS,
    Connections,
    accept_batch,
    connection_limit,
    handle_loop_error,
    protocol_factory,
    raise_descriptor_limit,
)
from roundel.server.context import ServerContext, ServerSettings
from roundel.server.security import LOOPBACK, WILDCARDS

REQUEST_SECONDS = 5
"""How long requests may take to finish at shutdown."""
WAITING_CONNECTIONS = 1024
"""Connections that the system holds until the server accepts them."""
TICKS_PER_SECOND = 10
"""How often uvicorn calls `on_tick`."""


class NotProtected(Exception):
    """The server would be reachable from other machines, and nobody has a token."""


class BadCertificate(Exception):
    """The certificate or its key cannot be used."""


class _Server(uvicorn.Server):
    """Ends the streams first: uvicorn would wait for their clients. Signals are left to the caller."""

    def __init__(
        self,
        config: uvicorn.Config,
        context: ServerContext,
        connections: Connections,
        on_listening: Callable[[], None],
    ) -> None:
        super().__init__(config)
        self._context, self._connections, self._on_listening = context, connections, on_listening

    def capture_signals(self) -> contextlib.AbstractContextManager[None]:  # type: ignore[override]
        return contextlib.nullcontext()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(WAITING_CONNECTIONS)  # again: asyncio takes the number for its batches as well
        if self.started:
            self._on_listening()

    async def on_tick(self, counter: int) -> bool:
        if counter % TICKS_PER_SECOND == 0:
            self._connections.sweep(asyncio.get_running_loop().time())
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._context.is_ready = False
        self._connections.end_handshakes()
        await self._context.hub.close()
        # At the same time as requests: a run must not begin one call after the other meanwhile.
        release = asyncio.create_task(self._context.release())
        await super().shutdown(sockets)
        await release


class Serving:
    """One server. `serve` is its whole life; `stop`, which any task of its event loop may call, ends it in
    order."""

    def __init__(
        self,
        runs: Runs,
        settings: ServerSettings,
        *,
        certificate: str | None = None,
        key: str | None = None,
        proxy_headers: bool = False,
    ) -> None:
        self._runs, self._settings = runs, settings
        self._certificate, self._key, self._proxy_headers = certificate, key, proxy_headers
        self._server: _Server | None = None
        self._stopping = False

    def stop(self) -> None:
        self._stopping = True
        if self._server is not None:
            self._server.should_exit = True

    async def serve(
        self, on_ready: Callable[[str], None] = lambda _url: None, *, with_code: bool = True
    ) -> None:
        """Serves until `stop`. `on_ready` gets the URL with which the first browser signs in; without a code,
        that of the server.

        NotProtected if it would listen beyond this machine and there is no token; OSError if the address is
        in use; BadCertificate."""
        settings = self._settings
        context = ServerContext(self._runs, self._runs.store.documents(), settings)
        if not is_loopback(settings.host) and not await context.identities.is_set_up():
            raise NotProtected
        most = connection_limit(settings.max_connections, raise_descriptor_limit())
        connections = Connections(most, settings.max_connections_per_address)
        listener = _bind(settings)
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(handle_loop_error)
        try:
            config = self._config(create_app(context), connections)
            url = self._address(listener.getsockname()[1])
            if with_code:
                url += f"/login?code={await context.identities.create_code('first browser')}"
            self._server = _Server(config, context, connections, lambda: on_ready(url))
            if not self._stopping:
                await self._server.serve(sockets=[listener])
        finally:
            listener.close()
            loop.set_exception_handler(None)

    def _config(self, app: FastAPI, connections: Connections) -> uvicorn.Config:
        # uvicorn takes whatever creates a protocol, but says that it is a class.
        protocol: Any = protocol_factory(connections, self._tls_context())
        return uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            server_header=False,
            # On h11, and not on httptools, which reads headers of any length.
            http=protocol,
            ws="none",
            lifespan="on",
            proxy_headers=self._proxy_headers,
            backlog=accept_batch(connections.most),
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=REQUEST_SECONDS,
        )

    def _tls_context(self) -> ssl.SSLContext | None:
        if self._certificate is None:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            context.load_cert_chain(self._certificate, self._key)
        except OSError as error:
            raise BadCertificate(str(error)) from error
        return context

    def _address(self, port: int) -> str:
        host = self._settings.host
        if host in WILDCARDS:
            host = next(iter(self._settings.names), "127.0.0.1")
        shown = f"[{host}]" if ":" in host else host
        return f"{'https' if self._certificate else 'http'}://{shown}:{port}"


def _bind(settings: ServerSettings) -> socket.socket:
    """Opens the port before anything else happens, so that an address in use is a plain error."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # With the protocol: asyncio looks at it before it turns off Nagle's algorithm, which would hold back the
    # body of each answer until the client has acknowledged its head, some 40 ms later.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((settings.host, settings.port))
    except OSError:
        listener.close()
        raise
    return listener


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server that listens there."""
    if host in LOOPBACK:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
