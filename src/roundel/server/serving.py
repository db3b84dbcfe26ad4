"""Runs the server until it is told to stop: opens the store, listens, and shuts down in order.

1. no new connections; the streams of events end, and clients connect again elsewhere or later
2. requests in progress finish, for some seconds
3. calls in flight of runs finish, for some seconds; then the leases are released (supervisor.py)
4. the store is closed
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable

import uvicorn
from fastapi import FastAPI

from roundel.runs.runs import Runs
from roundel.server.app import create_app
from roundel.server.context import ServerContext, ServerSettings
from roundel.server.security import LOOPBACK

REQUEST_SECONDS = 5
"""How long requests may take to finish at shutdown."""


class NotProtected(Exception):
    """The server would be reachable from other machines, and nobody has a token."""


class _Server(uvicorn.Server):
    """Ends the streams first: uvicorn would wait for their clients."""

    def __init__(
        self, config: uvicorn.Config, context: ServerContext, on_listening: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._context, self._on_listening = context, on_listening

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._on_listening()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._context.is_ready = False
        await self._context.hub.close()
        await super().shutdown(sockets)


async def serve(
    runs: Runs,
    settings: ServerSettings,
    *,
    certificate: str | None = None,
    key: str | None = None,
    proxy_headers: bool = False,
    on_ready: Callable[[str], None] = lambda _url: None,
) -> None:
    """Serves until a signal. `on_ready` gets the URL with which the first browser signs in.

    NotProtected if it would listen beyond this machine and there is no token; OSError if the address is in use."""
    context = ServerContext(runs, runs.store.documents(), settings)
    if not is_loopback(settings.host) and not await context.identities.is_set_up():
        raise NotProtected
    app: FastAPI = create_app(context)
    listener = _bind(settings)
    port = listener.getsockname()[1]
    code = await context.identities.create_code("first browser")
    scheme = "https" if certificate else "http"
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=proxy_headers,
        timeout_graceful_shutdown=REQUEST_SECONDS,
        ssl_certfile=certificate,
        ssl_keyfile=key,
    )
    host = "127.0.0.1" if settings.host in ("0.0.0.0", "::") else settings.host
    shown = f"[{host}]" if ":" in host else host
    url = f"{scheme}://{shown}:{port}/login?code={code}"
    try:
        await _Server(config, context, lambda: on_ready(url)).serve(sockets=[listener])
    finally:
        listener.close()


def _bind(settings: ServerSettings) -> socket.socket:
    """Opens the port before anything else happens, so that an address in use is a plain error."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
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
