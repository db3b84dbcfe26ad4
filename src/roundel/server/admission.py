"""What a request has to pass on its way into a route: who sends it, and then what its body is like.

FastAPI reads and parses the body of a request before it asks any dependency, so a route whose dependency
checks the caller would parse for everybody. `Route` is the class of all routes here, and does this first:

    1. the caller, and whether the role is enough (`caller(role)` in context.py says which role)
    2. the size of the body: the `x-body-limit` of the route, counted while it is received
    3. its structure: how many values it has and how deeply they are nested, before it is parsed

A parsed value takes many times the memory of its text, and each that is not expected would become an error.
The structure is therefore counted in the bytes, with a few passes at the speed of C, and not while parsing. A
text of megabytes is one value.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Literal

from fastapi import Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from starlette.requests import ClientDisconnect

from roundel.server.context import admit
from roundel.server.identity import ROLES, Role
from roundel.server.problems import Problem
from roundel.server.security import MAX_BODY, UNSAFE

ANYONE: Literal["anyone"] = "anyone"
"""The role of a route that needs neither a token nor a session."""
BODY_LIMIT = "x-body-limit"
"""The member of an operation in the OpenAPI document."""
DEFAULT_BODY = 64 * 1024
"""Bytes of a body, unless the route says otherwise."""
SIGN_IN_BODY = {BODY_LIMIT: 4 * 1024}
"""For `openapi_extra=` of a route: the body is a credential, and the caller is unknown."""
PART_BODY = {BODY_LIMIT: 1024 * 1024}
"""The same for a body with a part of a workflow, or a list."""
TEXT_BODY = {BODY_LIMIT: MAX_BODY}
"""The same for a body with a text."""
MAX_VALUES = 20_000
"""Values in a body, those inside others included."""
MAX_DEPTH = 200
"""How deeply the values of a body may be nested."""
MAX_DIGITS = 400
"""Digits of a whole number: the time to read one is quadratic."""
_BRACKETS = b"{}[]"
_OTHERS = bytes(code for code in range(256) if code not in _BRACKETS)


class Route(APIRoute):
    """A route that knows the caller before it reads the body, and reads only a body of bounded size."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        role, limit, has_body = role_of(self), body_limit(self), self.body_field is not None

        async def respond(request: Request) -> Response:
            if role != ANYONE:
                await admit(request, role)
            if request.method in UNSAFE:
                if int(request.headers.get("content-length", 0)) > limit:
                    raise _too_large(limit)
                if has_body:
                    request = _RequestWithBody(request, await _read(request, limit))
            return await handle(request)

        return respond


def role_of(route: APIRoute) -> Role | Literal["anyone"]:
    """The role that a route needs, as its dependency says."""
    found: list[Role] = [role for role in _roles(route.dependant) if role is not None]
    return max(found, key=ROLES.index) if found else ANYONE


def _roles(dependant: Dependant) -> Iterable[Any]:
    yield getattr(dependant.call, "role", None)
    for inner in dependant.dependencies:
        yield from _roles(inner)


def body_limit(route: APIRoute) -> int:
    """The most bytes of a body of a route."""
    limit: int = (route.openapi_extra or {}).get(BODY_LIMIT, DEFAULT_BODY)
    return limit


class _RequestWithBody(Request):
    """A request whose body was received and checked."""

    def __init__(self, request: Request, content: bytes) -> None:
        super().__init__(request.scope, request.receive)
        self._content = content

    async def body(self) -> bytes:
        return self._content

    async def json(self) -> Any:
        return json.loads(self._content, parse_int=_whole_number)


def _whole_number(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ValueError("a number has too many digits")
    return int(digits)


async def _read(request: Request, limit: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    try:
        async for part in request.stream():
            size += len(part)
            if size > limit:  # it does not say its length, or another one
                raise _too_large(limit)
            parts.append(part)
    except ClientDisconnect:
        raise Problem(400, "bad-request", "the body is not complete") from None
    content = b"".join(parts)
    check_structure(content)
    return content


def _too_large(limit: int) -> Problem:
    return Problem(413, "too-large", f"a body of this route has at most {limit} bytes")


def check_structure(content: bytes) -> None:
    """Refuses JSON with too many values, or nested too deeply. What is not JSON may pass: the parser stops
    at its first error, and everything before it has been counted."""
    if json.detect_encoding(content) not in ("utf-8", "utf-8-sig"):
        raise Problem(400, "bad-request", "a body is JSON in UTF-8")
    opened = content.count(b"{") + content.count(b"[")
    if opened + content.count(b",") < MAX_VALUES and opened <= MAX_DEPTH:
        return  # also if all of them are structure, and none is part of a text
    # Without escapes, every quotation mark begins or ends a text, and each second part is outside of texts.
    plain = content.replace(rb"\\", b"").replace(rb"\"", b"")
    if plain.count(b'"') > 4 * MAX_VALUES:  # two for each value, and two for its name
        raise _too_many()
    structure = b"".join(plain.split(b'"')[::2])
    if structure.count(b"{") + structure.count(b"[") + structure.count(b",") >= MAX_VALUES:
        raise _too_many()
    depth = 0
    for bracket in structure.translate(None, _OTHERS):
        depth += 1 if bracket in b"{[" else -1
        if depth > MAX_DEPTH:
            raise Problem(422, "bad-request", f"the body is nested more than {MAX_DEPTH} times")


def _too_many() -> Problem:
    return Problem(422, "bad-request", f"a body has at most {MAX_VALUES} values")
