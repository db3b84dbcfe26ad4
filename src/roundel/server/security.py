"""What every request has to pass before a route sees it, and what every response carries.

A browser sends requests to this server on behalf of any page that it shows. Three checks keep such pages out,
on loopback too, where no password would otherwise be asked:

    Host       has to be a name of this server. A page whose own name resolves to 127.0.0.1 (DNS
               rebinding) has another one, and everything that it sends has it as well.
    Origin     if it is there, has to be this server: no page of another origin may even read.
    a cookie   counts for a request that changes something only together with an Origin, which browsers
               always send then, and other pages cannot forge.

`Sec-Fetch-Site`, where a browser sends it, closes what is left: images and scripts of another site come
without an Origin, and would not be able to read an answer, but could open streams. A link to this server may
be followed from anywhere.

Bodies are JSON and nothing else, of bounded size (each route has a smaller bound, admission.py): a form or a
text that another page could post without asking is refused by its type. Credentials in a URL would end up in
logs and in the history of browsers, so they are refused, too.

It is plain ASGI and no `BaseHTTPMiddleware`, which would put a queue between a stream and its client. It also
answers what no handler has caught: the handler of Starlette for that is outside of all middleware, and its
responses would not have the headers.
"""

from __future__ import annotations

import ipaddress
import re
import time
from collections.abc import Iterable
from urllib.parse import unquote_plus

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from roundel.server.identity import TOKEN_PREFIX
from roundel.server.logs import begin_request, end_request, log_access
from roundel.server.problems import Problem, internal_error, problem_of

MAX_BODY = 6 * 1024 * 1024
"""Bytes: a workflow of 5 MB fits, with the JSON around it."""
MAX_QUERY = 8 * 1024
UNSAFE = frozenset({"POST", "PUT", "PATCH", "DELETE"})
LOOPBACK = ("127.0.0.1", "localhost", "::1")
WILDCARDS = ("0.0.0.0", "::", "")
"""Addresses to listen at that stand for all of the machine's; no request is sent to one of them."""
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


STRICT_TRANSPORT = "max-age=31536000"
_HOST = re.compile(
    r"(\[[0-9a-f:.]{2,45}\]|[a-z0-9_][a-z0-9_.-]{0,253})(:[0-9]{1,5})?", re.ASCII | re.IGNORECASE
)

_TOKEN = re.compile(rf"{TOKEN_PREFIX}[0-9a-f]{{12}}_")
"""A token in a path, where the beginning alone could be part of a name."""


class RequestGuard:
    """The outermost layer of the app."""

    def __init__(self, app: ASGIApp, *, hosts: Iterable[str]) -> None:
        self._app = app
        self._hosts = frozenset(host.lower() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # there are no web sockets
            raise RuntimeError(f"unexpected scope {scope['type']}")
        begin = time.perf_counter()
        record, token = begin_request(scope["headers"])
        response = _GuardedResponse(send, is_public_tls(scope), record.id)
        try:
            self._check(scope)
            await self._app(scope, receive, response.send)
        except Exception as error:
            # What has begun cannot be replaced. Without its end, the server closes the connection, and the
            # client notices that something is missing.
            found = problem_of(error) or internal_error(error)
            if not response.status:
                await found.response()(scope, receive, response.send)
        finally:
            client = scope.get("client")
            log_access(
                *(scope["method"], scope["path"], response.status, time.perf_counter() - begin),
                *(response.size, client[0] if client else ""),
            )
            end_request(token)

    def _check(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self._knows(hosts[0], scope):
            raise Problem(421, "misdirected", "the Host header is not a name of this server")
        origins = headers.getlist("origin")
        if origins and (len(origins) > 1 or not _is_own(origins[0], hosts[0], scope)):
            raise Problem(403, "forbidden", "another origin may not call this server")
        if _is_embedded(scope["method"], headers):
            raise Problem(403, "forbidden", "other sites may only link to this server")
        query: bytes = scope.get("query_string", b"")
        if len(query) > MAX_QUERY:
            raise Problem(414, "too-large", "the query is too long")
        if TOKEN_PREFIX in unquote_plus(query.decode("latin-1")) or _TOKEN.search(scope["path"]):
            raise Problem(400, "bad-request", "a token belongs in the Authorization header, never in a URL")
        if scope["method"] in UNSAFE:
            self._check_body(headers)

    def _check_body(self, headers: Headers) -> None:
        length = headers.get("content-length")
        has_body = (length is not None and length != "0") or "transfer-encoding" in headers
        if length is not None and (not _is_number(length) or int(length) > MAX_BODY):
            raise Problem(413, "too-large", f"a body has at most {MAX_BODY} bytes")
        types = headers.getlist("content-type")
        if has_body and (
            len(types) != 1 or types[0].partition(";")[0].strip(" \t").lower() != "application/json"
        ):
            raise Problem(415, "unsupported-media-type", "the content type of a body is application/json")

    def _knows(self, host: str, scope: Scope) -> bool:
        name = host_name(host)
        if name in self._hosts:
            return True
        # The address that the client has connected to. A page whose name resolves to it has that name here.
        server = scope.get("server")
        return server is not None and name == server[0] and _is_address(name)


class _GuardedResponse:
    """Adds the headers that every response has, and counts its bytes."""

    def __init__(self, send: Send, public_tls: bool, request_id: str) -> None:
        self._send, self._public_tls, self._request_id = send, public_tls, request_id
        self.status = self.size = 0
        """The status is 0 until the response begins."""

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.body":
            self.size += len(message.get("body", b""))
        elif message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
            headers.setdefault("cache-control", "no-store")
            headers["x-request-id"] = self._request_id
            if self._public_tls:
                headers.setdefault("strict-transport-security", STRICT_TRANSPORT)
        await self._send(message)


def host_name(host: str) -> str:
    """The name in a Host header, in lower case, without the port and the brackets of an IPv6 address; empty
    if it is none."""
    found = _HOST.fullmatch(host)
    return found[1].strip("[]").lower() if found is not None else ""


def host_port(host: str) -> int:
    """The port in a Host header; 0 if there is none."""
    found = _HOST.fullmatch(host)
    return int(found[2][1:]) if found is not None and found[2] else 0


def is_public_tls(scope: Scope) -> bool:
    """Whether a request came over TLS, and not to a name of this machine alone: there, a browser that
    has to use nothing but TLS would apply it to every other server on the machine as well."""
    if scope["scheme"] != "https":
        return False
    name = host_name(Headers(scope=scope).get("host", ""))
    return bool(name) and name not in LOOPBACK


def _is_own(origin: str, host: str, scope: Scope) -> bool:
    return origin.lower() == f"{scope['scheme']}://{host.lower()}"


def _is_embedded(method: str, headers: Headers) -> bool:
    """Whether another site sends this as a part of a page, and not because somebody follows a link."""
    if headers.get("sec-fetch-site") not in ("cross-site", "same-site"):
        return False
    return method != "GET" or headers.get("sec-fetch-mode") != "navigate"


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 20
