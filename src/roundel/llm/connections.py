"""HTTP clients for models, shared by all runs of the process that send the same headers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from typing import Any

from roundel.llm.resource_pool import ResourceLease

MAX_IDLE_CONNECTIONS = 200
"""Connections that wait for another request."""
READ_TIMEOUT = 600.0
"""For the parts of an answer to come, unless a profile has a timeout."""
CONNECT_TIMEOUT = 10.0
_HEADERS_ADDED = "roundel.headers"


def http_client(headers: Mapping[str, str], lease: ResourceLease) -> Any:
    """The client for all who send the same headers; None without the package."""
    try:
        import httpx2
    except ImportError:
        return None  # the client library is missing too, and says so next

    def make() -> Any:
        return httpx2.AsyncClient(
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=MAX_IDLE_CONNECTIONS),
            timeout=httpx2.Timeout(READ_TIMEOUT, connect=CONNECT_TIMEOUT, pool=None),
            follow_redirects=True,
            verify=_ssl_context(),
            event_hooks={"request": [_add_headers_hook(headers)]} if headers else None,
        )

    return lease.take(("http", *sorted(headers.items())), make, lambda client: client.aclose())


@cache
def _ssl_context() -> Any:
    """The certificates of those who may be trusted; to read them takes longer than many a run."""
    import httpx2

    return httpx2.create_ssl_context()


def _add_headers_hook(headers: Mapping[str, str]) -> Callable[[Any], Awaitable[None]]:
    """Puts headers on a request as it leaves. Client libraries write what they are given into their logs,
    and headers are where gateways want their keys."""

    async def add(request: Any) -> None:
        if _HEADERS_ADDED not in request.extensions:  # a redirect keeps what may be sent there, and no more
            request.extensions[_HEADERS_ADDED] = True
            request.headers.update(headers)

    return add
