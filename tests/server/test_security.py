"""What keeps others out: names, origins, credentials, roles, groups, bodies and headers.

The lists of routes come from the OpenAPI document, so that a new route is tested without being added here."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from http.cookies import SimpleCookie
from typing import Any

import httpx2
import pytest

from roundel.server.identity import ROLES, Role
from roundel.server.security import HEADERS, MAX_BODY, MAX_QUERY, host_name
from tests.server.api import BASE, Server, serving
from tests.server.live import loop_text

PUBLIC = {("GET", "/healthz"), ("GET", "/readyz"), ("POST", "/api/v1/session")}
"""Routes that need no token."""


def story(work: Callable[[Server], Any], **options: Any) -> None:
    async def tell() -> None:
        async with serving(**options) as server:
            await work(server)

    asyncio.run(tell())


def problem(answer: httpx2.Response, status: int) -> dict[str, Any]:
    """Checks that an answer is a problem, with all headers that every answer has."""
    assert answer.status_code == status, (answer.status_code, answer.text[:300])
    assert answer.headers["content-type"] == "application/problem+json"
    check_headers(answer)
    body: dict[str, Any] = answer.json()
    assert body["status"] == status and body["type"].startswith("urn:roundel:problem:")
    assert "Traceback" not in answer.text and ".py" not in answer.text
    return body


def check_headers(answer: httpx2.Response) -> None:
    for name, value in HEADERS.items():
        assert answer.headers[name] == value
    assert answer.headers["cache-control"] == "no-store"
    assert "access-control-allow-origin" not in answer.headers
    assert "server" not in answer.headers


async def raw(
    server: Server,
    *headers: tuple[str, str],
    method: str = "GET",
    path: str = "/api/v1/me",
    query: str = "",
    chunks: tuple[bytes, ...] = (),
    scheme: str = "http",
    address: str = "127.0.0.1",
) -> httpx2.Response:
    """A request as it is, for headers that no client library would send."""
    messages: list[dict[str, Any]] = [
        {"type": "http.request", "body": chunk, "more_body": True} for chunk in chunks
    ]
    messages.append({"type": "http.request", "body": b"", "more_body": False})
    sent: list[Any] = []

    async def receive() -> Any:
        return messages.pop(0) if messages else {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "scheme": scheme,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode("latin-1"),
        "root_path": "",
        "headers": [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers],
        "client": ("127.0.0.1", 50000),
        "server": (address, 8420),
        "state": {},
    }
    await server.app(scope, receive, send)
    body = b"".join(message.get("body", b"") for message in sent[1:])
    return httpx2.Response(sent[0]["status"], headers=sent[0]["headers"], content=body)


async def bearer(server: Server, role: Role = "admin") -> tuple[str, str]:
    token = await server.context.identities.create_token(role, role, None)
    return ("authorization", f"Bearer {token.secret}")


# Names and origins.

GOOD_HOSTS = (
    *("127.0.0.1:8420", "127.0.0.1", "localhost:8420", "LOCALHOST:8420", "LocalHost", "[::1]:8420", "[::1]"),
    *("roundel.example.org", "Roundel.Example.ORG:443"),
)
BAD_HOSTS = (
    *("evil.example", "evil.example:8420", "127.0.0.1.evil.example", "localhost.evil.example", ""),
    *(
        "localhost.",
        "127.0.0.1.",
        "127.0.0.2",
        "0.0.0.0:8420",
        "[::]:8420",
        "::1",
        "[::1",
        "[::1]evil",
        "127.1",
    ),
    *("evil@127.0.0.1", "127.0.0.1@evil.example", "127.0.0.1:8420:1", "127.0.0.1:x", "127.0.0.1 evil"),
    *("127.0.0.1/evil", "127.0.0.1,evil.example", "2130706433", "0x7f.1", "roundel.example.org.evil", "*"),
)


@pytest.mark.parametrize("host", GOOD_HOSTS)
def test_server_is_reached_under_its_names(host: str) -> None:
    async def work(server: Server) -> None:
        answer = await raw(server, ("host", host), await bearer(server))
        assert answer.status_code == 200

    story(work, names=("roundel.example.org",))


@pytest.mark.parametrize("host", BAD_HOSTS)
def test_other_names_are_refused(host: str) -> None:
    async def work(server: Server) -> None:
        problem(await raw(server, ("host", host), await bearer(server)), 421)
        problem(await raw(server, ("host", host), path="/healthz"), 421)

    story(work, host="0.0.0.0", names=("roundel.example.org",))


def test_a_request_has_one_host() -> None:
    async def work(server: Server) -> None:
        token = await bearer(server)
        problem(await raw(server, token), 421)
        problem(await raw(server, token, ("host", "localhost"), ("host", "localhost")), 421)
        problem(await raw(server, token, ("host", "localhost"), ("host", "evil.example")), 421)

    story(work)


def test_address_of_the_connection_is_a_name_too() -> None:
    async def work(server: Server) -> None:
        token = await bearer(server)
        own = await raw(server, ("host", "192.168.1.5:8420"), token, address="192.168.1.5")
        assert own.status_code == 200
        problem(await raw(server, ("host", "192.168.1.6:8420"), token, address="192.168.1.5"), 421)
        problem(await raw(server, ("host", "evil.example"), token, address="evil.example"), 421)

    story(work, host="0.0.0.0")


@pytest.mark.parametrize(
    "origin",
    [
        *("null", "", "http://evil.example", "http://evil.example:8420", "https://127.0.0.1:8420", "file://"),
        *("http://127.0.0.1", "http://127.0.0.1:8421", "http://localhost:8420", "http://127.0.0.1:8420/"),
        *("http://127.0.0.1:8420.evil.example", "http://evil@127.0.0.1:8420", "//127.0.0.1:8420"),
        *("http://127.0.0.1:8420 http://evil.example", "http://127.0.0.1:8420, http://evil.example"),
    ],
)
def test_other_origins_are_refused(origin: str) -> None:
    async def work(server: Server) -> None:
        token, host = await bearer(server), ("host", "127.0.0.1:8420")
        for method, path in (("GET", "/api/v1/me"), ("POST", "/api/v1/session"), ("OPTIONS", "/api/v1/runs")):
            problem(await raw(server, host, token, ("origin", origin), method=method, path=path), 403)

    story(work)


def test_own_origin_is_the_address_of_the_page() -> None:
    async def work(server: Server) -> None:
        token = await bearer(server)
        for host in ("127.0.0.1:8420", "localhost:8420", "[::1]:8420"):
            answer = await raw(server, ("host", host), token, ("origin", f"http://{host}"))
            assert answer.status_code == 200
        two = (("origin", "http://localhost"), ("origin", "http://localhost"))
        problem(await raw(server, ("host", "localhost"), token, *two), 403)
        secure = await raw(
            server, ("host", "localhost"), token, ("origin", "https://localhost"), scheme="https"
        )
        assert secure.status_code == 200

    story(work)


def test_other_sites_may_link_and_nothing_else() -> None:
    async def work(server: Server) -> None:
        token, host = await bearer(server), ("host", "127.0.0.1:8420")
        for site in ("cross-site", "same-site"):
            fetched = ("sec-fetch-site", site)
            for mode in ("no-cors", "cors", "websocket"):
                problem(await raw(server, host, token, fetched, ("sec-fetch-mode", mode)), 403)
            problem(await raw(server, host, token, fetched), 403)
            link = (fetched, ("sec-fetch-mode", "navigate"))
            assert (await raw(server, host, *link, path="/")).status_code == 200
            problem(await raw(server, host, *link, method="POST", path="/api/v1/session"), 403)
        for site in ("none", "same-origin"):
            assert (await raw(server, host, token, ("sec-fetch-site", site))).status_code == 200

    story(work)


@pytest.mark.parametrize("host", ["a" * 300, "a\x00b", "[:" + ":" * 60 + "]", "[::1]:999999", ":80", "[]"])
def test_a_name_that_is_none_is_empty(host: str) -> None:
    assert host_name(host) == ""


def test_tls_is_required_from_then_on_except_on_this_machine() -> None:
    async def work(server: Server) -> None:
        token, name = await bearer(server), ("host", "roundel.example.org")
        secure = await raw(server, name, token, scheme="https")
        assert secure.headers["strict-transport-security"].startswith("max-age=")
        assert "strict-transport-security" not in (await raw(server, name, token)).headers
        local = await raw(server, ("host", "localhost"), token, scheme="https")
        assert "strict-transport-security" not in local.headers

    story(work, names=("roundel.example.org",))


# Credentials.


@pytest.mark.parametrize(
    "header",
    [
        *("", "Bearer", "Bearer ", "Bearer null", "Bearer undefined", "Basic YWRtaW46YWRtaW4=", "rdl_a_b"),
        *("Bearer rdl_", "Bearer rdl__", "Bearer rdl_a", "Bearer rdl_a_", "Bearer rdl__b", "Bearer \xff"),
        *("Bearer rdl_' OR 1=1 --_x", "Bearer " + "x" * 10_000, "Bearer rdl_%00_%00", "Token x", "bearer"),
    ],
)
def test_garbled_tokens_are_refused(header: str) -> None:
    async def work(server: Server) -> None:
        answer = await raw(server, ("host", "localhost"), ("authorization", header))
        problem(answer, 401)
        assert answer.headers["www-authenticate"] == "Bearer"

    story(work)


def test_every_change_of_a_token_is_noticed() -> None:
    async def work(server: Server) -> None:
        _, header = await bearer(server)
        token = header.removeprefix("Bearer ")
        for number in range(len(token)):
            other = token[:number] + ("A" if token[number] != "A" else "B") + token[number + 1 :]
            answer = await raw(server, ("host", "localhost"), ("authorization", f"Bearer {other}"))
            assert answer.status_code == 401
        for other in (token[:-1], token + "A", token.swapcase(), f"{token} {token}"):
            answer = await raw(server, ("host", "localhost"), ("authorization", f"Bearer {other}"))
            assert answer.status_code == 401
        # The scheme has no case, and a valid cookie does not make up for an invalid token.
        lower = await raw(server, ("host", "localhost"), ("authorization", f"bearer {token}"))
        assert lower.status_code == 200

    story(work)


def test_invalid_token_beside_a_valid_cookie() -> None:
    async def work(server: Server) -> None:
        browser = await server.anyone()
        code = await server.context.identities.create_code("x")
        await browser.post("/api/v1/session", json={"code": code})
        assert (await browser.get("/api/v1/me")).status_code == 200
        problem(await browser.get("/api/v1/me", headers={"authorization": "Bearer nope"}), 401)

    story(work)


def test_one_kind_of_credential_is_not_another() -> None:
    async def work(server: Server) -> None:
        identities = server.context.identities
        token = (await identities.create_token("x", "admin", None)).secret
        code = await identities.create_code("x")
        principal = await identities.verify_token(token)
        assert principal is not None
        session = (await identities.create_session(principal)).secret
        bare = token.removeprefix("rdl_")
        for header in (code, session, bare, f"rdl_{code}", f"rdl_{session}"):
            problem(await raw(server, ("host", "localhost"), ("authorization", f"Bearer {header}")), 401)
        for cookie in (code, token, bare, "", "_", "null"):
            problem(await raw(server, ("host", "localhost"), ("cookie", f"roundel_session_80={cookie}")), 401)
        client = await server.anyone()
        for other in (session, token, bare):
            problem(await client.post("/api/v1/session", json={"code": other}), 401)
        for other in (session, code, bare):
            problem(await client.post("/api/v1/session", json={"token": other}), 401)

    story(work)


def test_tokens_do_not_belong_in_addresses() -> None:
    async def work(server: Server) -> None:
        name, header = await bearer(server)
        token = header.removeprefix("Bearer ")
        for query in (f"token={token}", f"access_token={token}", token, token.replace("_", "%5F")):
            problem(await raw(server, ("host", "localhost"), (name, header), query=query), 400)
            problem(await raw(server, ("host", "localhost"), query=query), 400)

    story(work)


def test_cookie_needs_an_origin_to_change_something() -> None:
    async def work(server: Server) -> None:
        browser = await server.anyone()
        code = await server.context.identities.create_code("x")
        answer = await browser.post("/api/v1/session", json={"code": code})
        cookie = SimpleCookie(answer.headers["set-cookie"])["roundel_session_8420"].value
        headers = (("host", "127.0.0.1:8420"), ("cookie", f"roundel_session_8420={cookie}"))
        assert (await raw(server, *headers)).status_code == 200
        for method, path in operations(server):
            if method == "GET" or (method, path) in PUBLIC:
                continue
            refused = await raw(server, *headers, method=method, path=filled(path))
            assert refused.status_code in (403, 422), (method, path, refused.text)
            assert refused.status_code == 403 or "origin" not in refused.text.lower()
        body = json.dumps({"name": "x", "role": "viewer"}).encode()
        more = (("content-type", "application/json"), ("content-length", str(len(body))))
        options: Any = {"method": "POST", "path": "/api/v1/tokens", "chunks": (body,)}
        problem(await raw(server, *headers, *more, **options), 403)
        own = await raw(server, *headers, *more, ("origin", BASE), **options)
        assert own.status_code == 201

    story(work)


# Roles and groups.


def operations(server: Server) -> list[tuple[str, str]]:
    document = server.app.openapi()
    return [(method.upper(), path) for path, known in document["paths"].items() for method in known]


def filled(path: str, run_id: str = "nothing") -> str:
    values = {"run_id": run_id, "group": "blue", "token_id": "abc", "entry_id": "1", "version": "1"}
    for name, value in values.items():
        path = path.replace(f"{{{name}}}", value)
    while "{" in path:
        path = path[: path.index("{")] + "nothing" + path[path.index("}") + 1 :]
    return path


def example_of(server: Server, method: str, path: str) -> Any:
    """The smallest body that the schema of a route allows; None if it has none."""
    document = server.app.openapi()
    operation = document["paths"][path][method.lower()]
    if "requestBody" not in operation:
        return None
    return _example(document, operation["requestBody"]["content"]["application/json"]["schema"])


def _example(document: dict[str, Any], schema: dict[str, Any]) -> Any:
    if "$ref" in schema:
        return _example(document, document["components"]["schemas"][schema["$ref"].rpartition("/")[2]])
    if "anyOf" in schema:
        return _example(document, schema["anyOf"][0])
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type")
    if kind == "object":
        fields = schema.get("properties", {})
        return {name: _example(document, fields[name]) for name in schema.get("required", ())}
    return {"string": "x", "integer": 1, "number": 1, "boolean": True, "array": []}.get(str(kind))


def test_every_route_needs_a_credential() -> None:
    async def work(server: Server) -> None:
        nobody = await server.anyone()
        for method, path in operations(server):
            answer = await nobody.request(method, filled(path), json=example_of(server, method, path))
            if (method, path) in PUBLIC:
                assert answer.status_code in (200, 401, 422)
            else:
                assert answer.status_code == 401, (method, path, answer.status_code, answer.text)
            check_headers(answer)

    story(work)


ROLE_OF_ROUTE: dict[tuple[str, str], Role] = {
    ("GET", "/api/v1/tokens"): "admin",
    ("POST", "/api/v1/tokens"): "admin",
    ("DELETE", "/api/v1/tokens/{token_id}"): "admin",
    ("GET", "/api/v1/audit"): "admin",
    ("GET", "/metrics"): "admin",
    ("DELETE", "/api/v1/memory/{group}"): "author",
    ("DELETE", "/api/v1/session"): "viewer",
}
"""Where the rule does not hold that reading takes a viewer, and everything else at least an operator."""


def test_every_route_refuses_lesser_roles() -> None:
    """The role of each route is found by trying: the rule has no exception that nobody wrote down."""

    async def work(server: Server) -> None:
        clients = {role: await server.client(role) for role in ROLES}
        for method, path in operations(server):
            if (method, path) in PUBLIC:
                continue
            if "events" in path and method == "GET":
                continue  # streams; they have tests of their own
            refused = []
            for role in ROLES:
                body = example_of(server, method, path)
                answer = await clients[role].request(method, filled(path), json=body)
                if answer.status_code == 403 and "requires the role" in answer.text:
                    refused.append(role)
            least = ROLES[len(refused)]
            assert refused == list(ROLES[: len(refused)]), "a role contains those before it"
            known = ROLE_OF_ROUTE.get((method, path))
            if known is not None:
                assert least == known, (method, path)
            elif method == "GET" or path.removeprefix("/api/v1/") in ("check", "forecast", "picture", "try"):
                assert least in ("viewer", "operator", "author"), (method, path)
                assert method != "GET" or least == "viewer", (method, path)
            else:
                assert least in ("operator", "author"), (method, path, least)

    story(work)


def test_foreign_groups_do_not_exist() -> None:
    """For every route about a run: a run of another group is answered like one that does not exist."""

    async def work(server: Server) -> None:
        red, root = await server.client("admin", groups=["red"]), await server.client("admin")
        body = {
            "workflow": {"text": loop_text(3)},
            "script": {"Writer": ["x"]},
            "group": "blue",
            "paused": True,
        }
        started = await root.post("/api/v1/runs", json=body)
        assert started.status_code == 202, started.text
        run_id = started.json()["id"]
        before = (await root.get(f"/api/v1/runs/{run_id}")).json()
        count = 0
        for method, path in operations(server):
            if "{run_id}" not in path and "{group}" not in path:
                continue
            example = example_of(server, method, path)
            foreign = await red.request(method, filled(path, run_id), json=example)
            missing = await red.request(method, filled(path, "nothing"), json=example)
            if foreign.status_code == 422:
                continue  # the example is not good enough to get that far
            problem(foreign, 404)
            assert foreign.content == missing.content, (method, path)
            count += 1
        assert count > 15
        assert (await root.get(f"/api/v1/runs/{run_id}")).json() == before, "nothing has changed"
        assert (await red.get("/api/v1/runs")).json()["runs"] == []
        assert (await red.get("/api/v1/runs", params={"group": "blue"})).json()["runs"] == []
        assert (await red.get("/api/v1/runs", params={"q": run_id})).json()["runs"] == []
        problem(await red.post("/api/v1/runs", json=body), 403)

    story(work)


def test_group_of_a_run_is_that_of_the_caller_whatever_the_text_says() -> None:
    async def work(server: Server) -> None:
        red = await server.client("author", groups=["red", "green"])
        text = loop_text(3) + "memory: {group_id: blue}\n"
        body: dict[str, Any] = {"workflow": {"text": text}, "script": {"Writer": ["x"]}}
        for group, expected in ((None, "red"), ("green", "green")):
            started = await red.post("/api/v1/runs", json={**body, "group": group})
            assert started.status_code == 202, started.text
            run_id = started.json()["id"]
            await server.context.runs.result(run_id)
            assert (await red.get(f"/api/v1/runs/{run_id}")).json()["group"] == expected
            plan = await server.context.runs.plan(run_id)
            assert plan.workflow.memory.group_id == expected
            fork = {"at": "Writer[2]", "workflow": {"text": text}, "run": False}
            forked = await red.post(f"/api/v1/runs/{run_id}/fork", json=fork)
            assert forked.status_code == 201, forked.text
            row = await server.context.runs.row(forked.json()["id"])
            plan = await server.context.runs.plan(row.id)
            assert (row.group, plan.workflow.memory.group_id) == (expected, expected)
            assert row.started_by, "a server continues it after a crash"

    story(work)


def test_beginning_of_an_id_names_nothing() -> None:
    async def work(server: Server) -> None:
        root = await server.client("admin")
        body = {"workflow": {"text": loop_text(3)}, "script": {"Writer": ["x"]}, "paused": True}
        run_id = (await root.post("/api/v1/runs", json=body)).json()["id"]
        for name in ("last", run_id[:-1], run_id[:1], run_id.upper() + "x"):
            problem(await root.get(f"/api/v1/runs/{name}"), 404)
            problem(await root.post(f"/api/v1/runs/{name}/stop", json={}), 404)

    story(work)


# Bodies.


def test_unknown_fields_are_refused_everywhere() -> None:
    async def work(server: Server) -> None:
        root = await server.client("admin")
        count = 0
        for method, path in operations(server):
            example = example_of(server, method, path)
            if not isinstance(example, dict):
                continue
            answer = await root.request(method, filled(path), json={**example, "is_admin": True})
            assert problem(answer, 422)["errors"], (method, path)
            count += 1
        assert count > 10

    story(work)


def test_bodies_have_a_bounded_size() -> None:
    async def work(server: Server) -> None:
        token, host = await bearer(server), ("host", "localhost")
        kind = ("content-type", "application/json")
        options: Any = {"method": "POST", "path": "/api/v1/tokens"}
        for length in (str(MAX_BODY + 1), "9" * 30, "-1", "1e3", "\xb2", "", "0x10"):
            answer = await raw(server, token, host, kind, ("content-length", length), **options)
            problem(answer, 413)
        chunked = ("transfer-encoding", "chunked")
        chunks = (b" " * (1024 * 1024),) * 8
        problem(await raw(server, token, host, kind, chunked, chunks=chunks, **options), 413)
        # One that is announced as short, and is not.
        short = ("content-length", "10")
        problem(await raw(server, token, host, kind, short, chunks=chunks, **options), 413)
        long_query = await raw(server, token, host, query="x" * (MAX_QUERY + 1))
        problem(long_query, 414)

    story(work)


@pytest.mark.parametrize(
    "kind",
    [
        *("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "", "json"),
        *("text/plain; application/json", "application/jsonp", "application/json, text/plain", "*/*"),
        *("application/xml", "application/json\x0b;x"),
    ],
)
def test_bodies_are_json(kind: str) -> None:
    async def work(server: Server) -> None:
        body = b'{"name": "x", "role": "viewer"}'
        headers = (await bearer(server), ("host", "localhost"), ("content-length", str(len(body))))
        options: Any = {"method": "POST", "path": "/api/v1/tokens", "chunks": (body,)}
        problem(await raw(server, *headers, ("content-type", kind), **options), 415)
        problem(await raw(server, *headers, **options), 415)
        two = (("content-type", "application/json"), ("content-type", "text/plain"))
        problem(await raw(server, *headers, *two, **options), 415)
        good = await raw(server, *headers, ("content-type", "Application/JSON; charset=utf-8"), **options)
        assert good.status_code == 201

    story(work)


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"{", b"null", b"[]", b'"x"', b"\xff\xfe", b"[" * 100_000, b'{"a":' * 50_000, b"NaN"),
        *(b'{"name": "\\ud800", "role": "viewer"}', b'{"name": NaN, "role": "viewer"}'),
        *(
            b'{"name": "x", "role": "viewer", "expires_in": NaN}',
            b'{"name": "x", "role": "viewer", "role": 1}',
        ),
        *(b'{"name": "x", "role": "viewer", "expires_in": 1e999}', b'{"__proto__": 1}'),
    ],
)
def test_broken_bodies_are_the_fault_of_the_client(body: bytes) -> None:
    async def work(server: Server) -> None:
        client = await server.client("admin")
        headers = {"content-type": "application/json"}
        answer = await client.post("/api/v1/tokens", content=body, headers=headers)
        problem(answer, answer.status_code)
        assert answer.status_code in (400, 413, 422)
        started = await client.post("/api/v1/runs", content=body, headers=headers)
        assert problem(started, started.status_code)["status"] in (400, 422)

    story(work)


# Responses.


def test_every_error_is_a_problem_with_all_headers() -> None:
    async def work(server: Server) -> None:
        client = await server.client("admin")
        problem(await client.get("/api/v1/nothing"), 404)
        problem(await client.get("/api/v1/runs/../../etc/passwd"), 404)
        problem(await client.get("/%2e%2e/%2e%2e/etc/passwd"), 404)
        problem(await client.patch("/api/v1/runs"), 405)
        problem(await client.request("TRACE", "/api/v1/runs"), 405)
        problem(await client.request("OPTIONS", "/api/v1/runs"), 405)
        problem(await client.get("/api/v1/runs", params={"limit": 0}), 422)
        problem(await client.get("/docs"), 404)
        check_headers(await client.get("/api/v1/me"))
        check_headers(await client.get("/metrics"))

    story(work)


def test_defect_is_answered_without_details(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(server: Server) -> None:
        client = await server.client("admin")

        async def broken(*_given: Any, **_named: Any) -> Any:
            raise RuntimeError("the password is swordfish")

        monkeypatch.setattr(server.context.documents, "entries", broken)
        answer = await client.get("/api/v1/audit")
        body = problem(answer, 500)
        assert len(body["reference"]) == 12 and "swordfish" not in answer.text

    story(work)


def test_input_does_not_reach_headers() -> None:
    async def work(server: Server) -> None:
        client = await server.client("admin")
        evil = "x\r\nset-cookie: a=b"
        created = await client.post("/api/v1/tokens", json={"name": evil, "role": "viewer", "groups": [evil]})
        assert created.status_code == 201 and "set-cookie" not in created.headers
        listed = await client.get("/api/v1/tokens", params={"cursor": evil})
        assert "set-cookie" not in listed.headers
        login = await client.get("/login", params={"code": evil})
        assert login.status_code == 401 and "set-cookie" not in login.headers
        assert evil not in login.text

    story(work)


def test_login_leads_nowhere_else() -> None:
    async def work(server: Server) -> None:
        code = await server.context.identities.create_code("x")
        browser = await server.anyone()
        for more in ({"next": "http://evil.example"}, {"redirect": "//evil.example"}):
            answer = await browser.get("/login", params={"code": "a_b", **more})
            assert "location" not in answer.headers
        answer = await browser.get("/login", params={"code": code, "next": "//evil.example"})
        assert answer.headers["location"] == "/"
        check_headers(answer)

    story(work)
