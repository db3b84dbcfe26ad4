"""What every request has to pass before a route sees it, and what every response carries.

A browser sends requests to this server on behalf of any page that it shows. Three checks keep such pages out,
on loopback too, where no password would otherwise be asked:

    Host       has to be a name of this server. A page whose own name resolves to 127.0.0.1 (DNS
               rebinding) has another one, and everything that it sends has it as well.
    Origin     if it is there, has to be this server: no page of another origin may even read.
    a cookie   counts for a request that changes something only together with an Origin, which browsers
               always send then, and other pages cannot forge.

Bodies are JSON and nothing else, of bounded size: a form or a text that another page could post without
asking is refused by its type. Credentials in a URL would end up in logs and in the history of browsers, so
they are refused, too.

It is plain ASGI and no `BaseHTTPMiddleware`, which would put a queue between a stream and its client.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any
from urllib.parse import unquote_plus, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from roundel.server.identity import TOKEN_PREFIX
from roundel.server.problems import Problem

MAX_BODY = 6 * 1024 * 1024
"""Bytes: a workflow of 5 MB fits, with the JSON around it."""
MAX_QUERY = 8 * 1024
UNSAFE = frozenset({"POST", "PUT", "PATCH", "DELETE"})
LOOPBACK = ("127.0.0.1", "localhost", "::1")
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; worker-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


class RequestGuard:
    """The outermost layer of the app."""

    def __init__(self, app: ASGIApp, *, hosts: Iterable[str], behind_tls: bool = False) -> None:
        self._app = app
        self._hosts = frozenset(host.lower() for host in hosts)
        self._headers = dict(HEADERS)
        if behind_tls:
            self._headers["strict-transport-security"] = "max-age=31536000"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # there are no web sockets
            raise RuntimeError(f"unexpected scope {scope['type']}")
        send = self._with_headers(send)
        try:
            self._check(scope)
        except Problem as problem:
            await problem.response()(scope, receive, send)
            return
        body = _BoundedBody(receive)
        try:
            await self._app(scope, body.receive, send)
        except _TooLarge:
            too_large = Problem(413, "too-large", f"a body has at most {MAX_BODY} bytes")
            await too_large.response()(scope, receive, send)

    def _check(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self._knows(hosts[0]):
            raise Problem(421, "misdirected", "the Host header is not a name of this server")
        origin = headers.get("origin")
        if origin is not None and not self._is_own(origin, hosts[0], scope):
            raise Problem(403, "forbidden", "another origin may not call this server")
        query: bytes = scope.get("query_string", b"")
        if len(query) > MAX_QUERY:
            raise Problem(414, "too-large", "the query is too long")
        if TOKEN_PREFIX in unquote_plus(query.decode("latin-1")):
            raise Problem(400, "bad-request", "a token belongs in the Authorization header, never in a URL")
        if scope["method"] in UNSAFE:
            self._check_body(headers)

    def _check_body(self, headers: Headers) -> None:
        length = headers.get("content-length")
        has_body = (length is not None and length != "0") or "transfer-encoding" in headers
        if length is not None and (not length.isdigit() or int(length) > MAX_BODY):
            raise Problem(413, "too-large", f"a body has at most {MAX_BODY} bytes")
        types = headers.getlist("content-type")
        if has_body and (len(types) != 1 or types[0].partition(";")[0].strip().lower() != "application/json"):
            raise Problem(415, "unsupported-media-type", "the content type of a body is application/json")

    def _knows(self, host: str) -> bool:
        return host_name(host) in self._hosts

    def _is_own(self, origin: str, host: str, scope: Scope) -> bool:
        parts = urlsplit(origin)
        return parts.scheme == scope["scheme"] and parts.netloc.lower() == host.lower()

    def _with_headers(self, send: Send) -> Send:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in self._headers.items():
                    headers.setdefault(name, value)
                headers.setdefault("cache-control", "no-store")
            await send(message)

        return send_with_headers


def host_name(host: str) -> str:
    """The name in a Host header, in lower case, without the port and the brackets of an IPv6 address."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.rpartition(":")[0].lower() if host.count(":") == 1 else host.lower()


class _TooLarge(Exception):
    pass


class _BoundedBody:
    """Counts a body that does not say its length."""

    def __init__(self, receive: Callable[[], Awaitable[MutableMapping[str, Any]]]) -> None:
        self._receive, self._left = receive, MAX_BODY

    async def receive(self) -> MutableMapping[str, Any]:
        message = await self._receive()
        if message["type"] == "http.request":
            self._left -= len(message.get("body", b""))
            if self._left < 0:
                raise _TooLarge
        return message
