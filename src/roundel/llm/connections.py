"""HTTP clients for models, shared by all runs of the process that send the same headers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from typing import Any

from roundel.llm.resource_pool import Lease

KEPT = 200
"""Connections that wait for another request."""
SECONDS = 600.0
"""For the parts of an answer to come, unless a profile has a timeout."""
SECONDS_TO_CONNECT = 10.0
_DONE = "roundel.headers"


def http_client(headers: Mapping[str, str], lease: Lease) -> Any:
    """The client for all who send the same headers; None without the package."""
    try:
        import httpx2
    except ImportError:
        return None  # the client library is missing too, and says so next

    def make() -> Any:
        return httpx2.AsyncClient(
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=KEPT),
            timeout=httpx2.Timeout(SECONDS, connect=SECONDS_TO_CONNECT, pool=None),
            follow_redirects=True,
            verify=_trusted(),
            event_hooks={"request": [_adding(headers)]} if headers else None,
        )

    return lease.take(("http", *sorted(headers.items())), make, lambda client: client.aclose())


@cache
def _trusted() -> Any:
    """The certificates of those who may be trusted; to read them takes longer than many a run."""
    import httpx2

    return httpx2.create_ssl_context()


def _adding(headers: Mapping[str, str]) -> Callable[[Any], Awaitable[None]]:
    """Puts headers on a request as it leaves. Client libraries write what they are given into their logs,
    and headers are where gateways want their keys."""

    async def add(request: Any) -> None:
        if _DONE not in request.extensions:  # a redirect keeps what may be sent there, and no more
            request.extensions[_DONE] = True
            request.headers.update(headers)

    return add
