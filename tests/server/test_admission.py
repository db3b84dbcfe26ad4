"""Before a body is parsed: who sends it, how large it is, and what it is made of."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import httpx2
import pytest

from roundel.journal.documents import Document
from roundel.server.admission import (
    BODY_LIMIT,
    DEFAULT_BODY,
    MAX_DEPTH,
    MAX_DIGITS,
    MAX_VALUES,
    SIGN_IN_BODY,
    TEXT_BODY,
    Route,
    check_structure,
)
from roundel.server.bodies import MAX_ENTRIES
from roundel.server.bodies import MAX_ERRORS as MAX_LISTED
from roundel.server.openapi import ROUTERS
from roundel.server.problems import MAX_ERRORS, Problem
from roundel.server.security import MAX_BODY
from tests.server.api import Server, serving
from tests.server.test_security import example_of, filled, operations, problem

JSON = {"content-type": "application/json"}


def story(work: Callable[[Server], Awaitable[None]], **options: Any) -> None:
    async def tell() -> None:
        async with serving(**options) as server:
            await work(server)

    asyncio.run(tell())


class Sender:
    """A client that counts how much of its body the app has received."""

    def __init__(self, server: Server, **headers: str) -> None:
        self._server, self._headers = server, headers
        self.received = 0

    async def send(
        self, method: str, path: str, *chunks: bytes, length: int | None = None
    ) -> httpx2.Response:
        """Sends a body in chunks; without a length, it is not announced."""
        waiting, sent = list(chunks), list[Any]()
        self.received = 0

        async def receive() -> Any:
            if not waiting:
                return {"type": "http.disconnect"}
            chunk = waiting.pop(0)
            self.received += len(chunk)
            return {"type": "http.request", "body": chunk, "more_body": bool(waiting)}

        async def send(message: Any) -> None:
            sent.append(message)

        announced = (
            {"content-length": str(length)} if length is not None else {"transfer-encoding": "chunked"}
        )
        headers = {"host": "127.0.0.1:8420", **JSON, **self._headers, **announced}
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "scheme": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
            "client": ("127.0.0.1", 50000),
            "server": ("127.0.0.1", 8420),
            "state": {},
        }
        await self._server.app(scope, receive, send)
        content = b"".join(message.get("body", b"") for message in sent[1:])
        return httpx2.Response(sent[0]["status"], headers=sent[0]["headers"], content=content)


async def sender(server: Server, role: Any) -> Sender:
    token = await server.context.identities.create_token(role, role, None)
    return Sender(server, authorization=f"Bearer {token.secret}")


# Who.


def test_every_route_knows_the_caller_before_it_reads_a_body() -> None:
    async def work(server: Server) -> None:
        anyone, viewer = Sender(server), await sender(server, "viewer")
        document, count = server.app.openapi(), 0
        for method, path in operations(server):
            operation = document["paths"][path][method.lower()]
            if "requestBody" not in operation or operation["x-role"] == "anyone":
                continue
            body = json.dumps(example_of(server, method, path)).encode()
            problem(await anyone.send(method, filled(path), body, length=len(body)), 401)
            assert anyone.received == 0, (method, path)
            if operation["x-role"] != "viewer":
                problem(await viewer.send(method, filled(path), body, length=len(body)), 403)
                assert viewer.received == 0, (method, path)
            count += 1
        assert count > 15

    story(work)


def test_all_routes_are_of_the_class_that_does_this() -> None:
    routes = [route for router in ROUTERS for route in router.routes]
    assert len(routes) > 50
    assert [route for route in routes if not isinstance(route, Route)] == []


def test_a_request_looks_for_its_caller_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(server: Server) -> None:
        client = await server.client("admin")
        asked: list[tuple[str, str]] = []
        get = server.context.documents.get

        async def noted(collection: str, key: str) -> Document | None:
            asked.append((collection, key))
            return await get(collection, key)

        monkeypatch.setattr(server.context.documents, "get", noted)
        assert (await client.get("/api/v1/me")).status_code == 200
        assert (await client.post("/api/v1/check", json={"text": "x"})).status_code == 200
        assert [collection for collection, _ in asked] == ["tokens", "tokens"]

    story(work)


# How large.


def test_each_route_has_its_own_limit_for_bodies() -> None:
    async def work(server: Server) -> None:
        document, limits = server.app.openapi(), {}
        admin = await sender(server, "admin")
        for method, path in operations(server):
            operation = document["paths"][path][method.lower()]
            if "requestBody" not in operation:
                assert BODY_LIMIT not in operation
                continue
            limit = limits[path] = operation[BODY_LIMIT]
            spaces = b" " * 1024
            assert limit % len(spaces) == 0
            announced = await admin.send(method, filled(path), spaces, length=limit + 1)
            assert problem(announced, 413)["type"].endswith(":too-large")
            assert admin.received == 0
            chunks = (spaces,) * (limit // len(spaces) + 50)
            problem(await admin.send(method, filled(path), *chunks), 413)
            assert admin.received == limit + len(spaces), "it stops reading at once"
        assert limits["/api/v1/session"] == SIGN_IN_BODY[BODY_LIMIT] <= 4096
        assert limits["/api/v1/runs/{run_id}/pause"] == DEFAULT_BODY < 100_000
        with_text = [path for path, limit in limits.items() if limit == TEXT_BODY[BODY_LIMIT] == MAX_BODY]
        assert {"/api/v1/runs", "/api/v1/check", "/api/v1/workflows/{name}"} <= set(with_text)

    story(work)


def test_route_without_a_body_reads_none() -> None:
    async def work(server: Server) -> None:
        admin = await sender(server, "admin")
        path = "/api/v1/runs/nothing/resume"
        problem(await admin.send("POST", path, b"x" * 1000, length=DEFAULT_BODY + 1), 413)
        problem(await admin.send("POST", path, b"x" * 1000), 404)
        assert admin.received == 0

    story(work)


def test_a_client_that_leaves_in_the_middle_is_no_defect(caplog: pytest.LogCaptureFixture) -> None:
    async def work(server: Server) -> None:
        admin = await sender(server, "admin")
        left = await admin.send("POST", "/api/v1/tokens", length=100)
        assert "not complete" in problem(left, 400)["detail"]

    story(work)
    # The access log may be on: a server configures the loggers of its process.
    assert [one for one in caplog.records if one.levelno >= logging.WARNING] == []


# What it is made of.


def refused(content: bytes) -> int:
    try:
        check_structure(content)
    except Problem as found:
        return found.status
    return 0


@pytest.mark.parametrize("value", [b"1", b'"x"', b"{}", b"[]", b'"\\\\"', b'"\\""', b'"[,{"', b'{"a":1}'])
def test_values_are_counted_outside_of_texts(value: bytes) -> None:
    inner = value.count(b":")
    most = (MAX_VALUES - 1) // (1 + inner)
    assert refused(b"[" + b",".join([value] * (most // 2)) + b"]") == 0
    assert refused(b"[" + b",".join([value] * MAX_VALUES) + b"]") == 422
    assert refused(b"[" + b",".join([value] * 2_000_000) + b"]") == 422


def test_texts_may_contain_anything() -> None:
    text = 'a, {"b": ["c\\d", \\"e\\"]}\n' * 100_000 + "[{" * 100_000 + "\\"
    assert refused(json.dumps({"text": text, "list": [text[:100]] * 100}).encode()) == 0
    assert refused(json.dumps(["x,y" * 10] * (MAX_VALUES - 1)).encode()) == 0


def test_depth_is_bounded() -> None:
    assert refused(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH) == 0
    assert refused(b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1)) == 422
    assert refused(b'{"a":' * (MAX_DEPTH + 1)) == 422
    assert refused(b"[" + b",".join([b"[[]]"] * 1000) + b"]") == 0, "many, and not deep"


def test_bodies_have_one_encoding() -> None:
    """In another one, a quotation mark would be part of other characters."""
    for encoding in ("utf-16", "utf-16-le", "utf-16-be", "utf-32"):
        assert refused(json.dumps({"text": "x"}).encode(encoding)) == 400
    assert refused(json.dumps({"text": "∢"}, ensure_ascii=False).encode()) == 0


def test_errors_of_a_body_are_bounded() -> None:
    async def work(server: Server) -> None:
        client = await server.client("admin")

        async def errors(path: str, body: Any) -> list[Any]:
            found: list[Any] = problem(await client.post(path, json=body), 422)["errors"]
            return found

        unknown = {f"key{number}": number for number in range(MAX_LISTED + 1)}
        some = dict(list(unknown.items())[: MAX_LISTED - 1])
        good = {"name": "x", "role": "viewer"}
        assert len(await errors("/api/v1/tokens", good | some)) == MAX_ERRORS
        (only,) = await errors("/api/v1/tokens", good | unknown)
        assert only["location"] == ["body"] and str(len(unknown)) in only["message"]
        many: dict[str, list[int]] = {
            key: [] for key in (f"key{number}" for number in range(MAX_ENTRIES + 1))
        }
        for name in ("variables", "limits"):
            (only,) = await errors("/api/v1/runs", {"workflow": "x", name: many})
            assert only["location"] == ["body", name] and str(MAX_ENTRIES) in only["message"]
        number = b'{"name": "x", "role": "viewer", "expires_in": 1' + b"0" * MAX_DIGITS + b"}"
        problem(await client.post("/api/v1/tokens", content=number, headers=JSON), 400)

    story(work)
