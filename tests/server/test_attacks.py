"""Attacks on a running server: each is refused with the right status, and executes nothing.

Many attacks have tests elsewhere, which are not repeated here:

    names, origins, CORS, CSRF
        test_security.py: test_other_names_are_refused, test_other_origins_are_refused,
        test_other_sites_may_link_and_nothing_else, test_cookie_needs_an_origin_to_change_something
    null, empty, garbled and expired credentials, a token in a query
        test_security.py: test_garbled_tokens_are_refused, test_one_kind_of_credential_is_not_another,
        test_tokens_do_not_belong_in_addresses; test_access.py: test_sessions_codes_and_tokens_expire
    roles, foreign ids, mass assignment, streams
        test_security.py: test_every_route_needs_a_credential, test_every_route_refuses_lesser_roles,
        test_foreign_groups_do_not_exist, test_unknown_fields_are_refused_everywhere;
        test_events.py: test_stream_ends_when_the_caller_may_not_read_any_more
    content types, sizes of bodies
        test_security.py: test_bodies_are_json, test_bodies_have_a_bounded_size
    listening beyond loopback without a token
        test_system.py: test_server_does_not_listen_to_the_world_without_a_token
    names of workflows, files, links, NUL
        test_workflows.py: test_names_that_are_refused
        workflow/test_policy.py: test_missing_and_forbidden_files_are_told_apart_by_nothing
    private addresses, redirects, re-resolution, keys for another address
        llm/test_addresses.py; workflow/test_policy.py: test_a_key_with_another_address_is_refused
    expressions and patterns in every field of a run
        workflow/test_bounded_fields.py
    floods of runs and streams, slow readers
        test_system.py: test_starts_beyond_the_limit_are_refused
        test_events.py: test_slow_client_is_told_and_catches_up_in_bounded_memory,
        test_hub_refuses_too_many_streams_and_those_after_its_end
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree

import httpx2
import pytest

from roundel.drawing.assembly import draw
from roundel.drawing.svg import svg
from roundel.nodes.loading import draft_text_plan
from roundel.server.identity import ROLES
from roundel.server.security import HEADERS
from roundel.server.supervisor import Supervisor
from roundel.workflow.allow_list import AllowedModel, Policy
from tests.server.api import BASE, Server, serving
from tests.server.live import ROOT, client_of, listening, loop_text
from tests.server.test_security import example_of, filled, operations, problem, raw

SECRET = "sk-canary-0123456789"
JSON = {"content-type": "application/json"}


def story(work: Callable[[Server], Awaitable[None]], **options: Any) -> None:
    async def tell() -> None:
        async with serving(**options) as server:
            await work(server)

    asyncio.run(tell())


def graph(*nodes: dict[str, Any], edges: list[dict[str, Any]] | None = None, **more: Any) -> str:
    return json.dumps(
        {"graph": {"nodes": list(nodes), "edges": edges or [], "start": nodes[0]["id"]}, **more}
    )


# Texts that use what nobody has allowed: checked, forecast, saved, opened and started.


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What happened in a server that got hostile texts over every route that takes one."""
    folder = tmp_path_factory.mktemp("attacked")
    shared = folder / "shared"
    shared.mkdir()
    inner = "graph: {nodes: [{id: A, type: passthrough}], start: A}\n"
    (shared / "inner.yaml").write_text(inner)
    (shared / "notes.md").write_text("notes\n")
    (folder / "secret.yaml").write_text(inner)
    (folder / "secret.md").write_text("secret\n")
    (shared / "link.yaml").symlink_to("../secret.yaml")
    (shared / "link.md").symlink_to("../secret.md")
    done = subprocess.run(
        [sys.executable, "-m", "tests.server.attack_process", str(shared)],
        cwd=folder,
        env={**os.environ, "OPENAI_API_KEY": SECRET, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {"found": json.loads(done.stdout), "shared": str(shared), "errors": done.stderr}


def test_texts_import_start_and_open_nothing(attacked: dict[str, Any]) -> None:
    for found in attacked["found"]:
        assert found["modules"] == []
        assert found["events"] == [], "no process, no connection, no file: only workers read these texts"
        events = [event for event in found["worker"] if attacked["shared"] not in event]
        assert events == [], "no process, no connection, no file outside of the allowed folder"
    watched = [event for found in attacked["found"] for event in found["worker"]]
    assert any(attacked["shared"] in event for event in watched), "the hook works"
    assert attacked["errors"] == ""


def test_texts_are_refused_with_the_right_status(attacked: dict[str, Any]) -> None:
    expected = {"check": {200}, "forecast": {200}, "save": {201}, "open": {200}, "run": {422}, "try": {200}}
    expected["picture"] = {200, 422}  # of some there is nothing to draw
    # One text has a secret written out, and is not even saved.
    unsaved = {"save": {422}, "open": {404}, "run": {404}}
    for found in attacked["found"]:
        others = [one for one in found["statuses"] if one[1] not in expected[one[0]]]
        assert [one for one in others if one[1] not in unsaved[one[0]]] == []
        assert len(others) == 3, others
        assert found["runs"] == 0, "nothing was started"


AGENT = {"id": "A", "type": "agent"}
ADDRESSES = (
    "http://169.254.169.254/latest",
    "http://2130706433/v1",
    "http://0x7f000001/v1",
    "http://017700000001/v1",
    "http://127.1/v1",
    "http://[::ffff:127.0.0.1]/v1",
    "http://[::ffff:7f00:1]/v1",
    "http://[64:ff9b::7f00:1]/v1",
    "http://localhost:1/v1",
    "https://models.example.evil/v1",
    "https://models.example@evil.example/v1",
    "https://models.example/v1/../../x",
    "https://models.example:444/v1",
    "file:///etc/passwd",
    "gopher://models.example/v1",
)
MCP: tuple[Any, ...] = (
    {"command": "sh", "args": ["-c", "touch /tmp/x"]},
    {"command": "uvx", "args": ["evil"]},
    {"url": "http://169.254.169.254/mcp"},
    {"url": "https://docs.example@evil.example/mcp"},
)


@pytest.mark.parametrize("address", ADDRESSES)
def test_other_addresses_are_refused_before_anything_is_sent(address: str) -> None:
    """A key is listed for one address: it is sent to no other, and no other is connected to."""
    policy = Policy(models=(AllowedModel(base_url="https://models.example/v1", key="LISTED_KEY"),))

    async def work(server: Server) -> None:
        author = await server.client("author")
        for key in ({}, {"api_key": "${LISTED_KEY}"}):
            config = {"model": "openai:gpt-4o", "base_url": address, **key}
            profile: dict[str, Any] = {"models": {"m": config}}
            for text in (
                graph({**AGENT, "config": config}),
                graph({**AGENT, "config": {"model": "m"}}, **profile),
            ):
                answer = await author.post("/api/v1/runs", json={"workflow": {"text": text}})
                codes = {one["code"] for one in problem(answer, 422)["diagnostics"]}
                assert codes & {"not-allowed", "bad-value", "bad-url"}, (address, codes)
                assert SECRET not in answer.text
        assert (await author.get("/api/v1/runs")).json()["runs"] == []

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LISTED_KEY", SECRET)
        story(work, policy=policy)


@pytest.mark.parametrize("server_of_text", MCP, ids=str)
def test_other_tool_servers_are_refused(server_of_text: Any) -> None:
    async def work(server: Server) -> None:
        author = await server.client("author")
        text = graph({**AGENT, "config": {"tools": ["t"]}}, tools={"t": {"mcp": server_of_text}})
        for script in (None, {"A": ["x"]}):
            answer = await author.post("/api/v1/runs", json={"workflow": {"text": text}, "script": script})
            assert "not-allowed" in {one["code"] for one in problem(answer, 422)["diagnostics"]}
        assert (await author.get("/api/v1/runs")).json()["runs"] == []

    story(work)


def test_text_is_not_run_by_lesser_roles() -> None:
    async def work(server: Server) -> None:
        author = await server.client("author")
        text, script = loop_text(2), {"Writer": ["x"]}
        saved = {"if-none-match": "*"}
        await author.put("/api/v1/workflows/review", json={"text": text}, headers=saved)
        started = await author.post("/api/v1/runs", json={"workflow": "review", "script": script})
        run_id = started.json()["id"]
        await server.context.runs.result(run_id)
        for role in ROLES[: ROLES.index("author")]:
            client = await server.client(role)
            bodies: tuple[tuple[str, dict[str, Any]], ...] = (
                ("/api/v1/runs", {"script": script}),
                (f"/api/v1/runs/{run_id}/fork", {"at": "Writer[2]"}),
                (f"/api/v1/runs/{run_id}/retry", {}),
                (f"/api/v1/runs/{run_id}/replay", {}),
            )
            for path, body in bodies:
                problem(await client.post(path, json={**body, "workflow": {"text": text}}), 403)
        assert len((await author.get("/api/v1/runs")).json()["runs"]) == 1

    story(work)


# Every route, with values that no client sends by mistake.

HALF = "\ud800"
TEXTS = (
    HALF,
    "a\0b",
    "x\r\nset-cookie: a=b",
    "' OR 1=1 --",
    "../../etc/passwd",
    "%",
    "\u202e",
    "",
    "9" * 400,
)
NUMBERS: tuple[Any, ...] = (-1, 2**63, 10**30, 1e308, float("inf"), float("nan"), True, "1", [1])
ANYTHING: tuple[Any, ...] = (None, -1, 2**70, float("inf"), HALF, [], {}, {HALF: 1}, {"a\0": "\0"}, "x")


def resolved(document: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return schema


def hostile(document: dict[str, Any], schema: dict[str, Any], base: Any = None) -> Iterator[Any]:
    """Values for a schema, each with one hostile part. `base` has what is required."""
    schema = resolved(document, schema)
    kind = schema.get("type")
    if "anyOf" in schema:
        for option in schema["anyOf"]:
            yield from hostile(document, option)
    elif kind == "string":
        yield from TEXTS
    elif kind in ("integer", "number"):
        yield from NUMBERS
    elif kind == "array":
        yield from ([value] for value in hostile(document, schema.get("items", {})))
    elif kind == "object" and schema.get("properties"):
        for name, field in schema["properties"].items():
            yield from ({**(base or {}), name: value} for value in hostile(document, field))
    elif kind == "object":
        inner = schema.get("additionalProperties")
        yield from (
            {"k": value} for value in (hostile(document, inner) if isinstance(inner, dict) else ANYTHING)
        )
        yield from ({text: 1} for text in TEXTS)
    elif kind is None:
        yield from ANYTHING


def spelt(value: Any) -> str | None:
    """A value as a part of a URL; None if it cannot be one."""
    return (
        None
        if isinstance(value, (list, dict))
        else quote(str(value).encode("utf-8", "surrogatepass"), safe="")
    )


@pytest.mark.parametrize("paused", [True, False])
def test_no_value_of_a_client_is_a_defect_of_the_server(
    paused: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """For every field of every body, and for every parameter: the server answers, and not with 500; no answer
    has a header of the client; and no log entry a line of the client."""

    async def work(server: Server) -> None:
        root, document = await server.client("admin"), server.app.openapi()
        body: dict[str, Any] = {"text": loop_text(2)}
        await root.put("/api/v1/workflows/x", json=body, headers={"if-none-match": "*"})
        start = {"workflow": "x", "script": {"Writer": ["x"]}, "paused": paused}
        run_id = (await root.post("/api/v1/runs", json=start)).json()["id"]
        count = 0

        async def attack(method: str, path: str, content: Any, headers: dict[str, Any]) -> None:
            nonlocal count
            count += 1
            sent = json.dumps(content).encode() if content is not None else None
            answer = await root.request(
                method, path, content=sent, headers={**headers, **(JSON if sent else {})}, timeout=60
            )
            assert answer.status_code < 500, (method, path, sent, answer.text)
            assert "set-cookie" not in answer.headers and "\n" not in answer.headers.get("location", "")

        for method, path in operations(server):
            if method == "DELETE" or path == "/api/v1/session":
                continue
            known = document["paths"][path][method.lower()]
            filled_path = filled(path, run_id).replace("workflows/nothing", "workflows/x")
            query = "?follow=false" if path.endswith("/events") else ""
            example = example_of(server, method, path)
            headers = {"if-match": "*"} if method == "PUT" else {}
            if example is not None:
                schema = known["requestBody"]["content"]["application/json"]["schema"]
                for content in (*hostile(document, schema, example), *ANYTHING):
                    await attack(method, filled_path, content, headers)
            for parameter in known.get("parameters", ()):
                name, place = parameter["name"], parameter["in"]
                if name == "follow":
                    continue
                for value in {
                    *filter(None, map(spelt, hostile(document, parameter["schema"]))),
                    *map(spelt, TEXTS),
                }:
                    assert value is not None
                    if place == "path":
                        await attack(
                            method,
                            filled(path.replace(f"{{{name}}}", value or "x"), run_id) + query,
                            example,
                            headers,
                        )
                    elif place == "query":
                        more = f"{query}&" if query else "?"
                        await attack(method, f"{filled_path}{more}{name}={value}", example, headers)
                    elif place == "header":
                        await attack(method, filled_path + query, example, {**headers, name: value})
        assert count > 500

    with caplog.at_level(logging.INFO):
        story(work)
    messages = [record.getMessage() for record in caplog.records if record.name.startswith("roundel")]
    assert messages and not [message for message in messages if "\n" in message]


@pytest.mark.parametrize("number", ["Infinity", "-Infinity", "NaN", "1e400"])
def test_limits_are_numbers(number: str) -> None:
    async def work(server: Server) -> None:
        author = await server.client("author")
        text = json.dumps(loop_text(2))
        for name in ("rounds", "tokens", "cost_usd", "seconds", "Writer.rounds"):
            content = f'{{"workflow": {{"text": {text}}}, "script": {{}}, "limits": {{"{name}": {number}}}}}'
            problem(await author.post("/api/v1/runs", content=content, headers=JSON), 422)
        body = {"workflow": {"text": loop_text(5)}, "script": {"Writer": ["x"]}, "limits": {"rounds": 2}}
        run_id = (await author.post("/api/v1/runs", json=body)).json()["id"]
        assert (await server.context.runs.result(run_id)).status == "suspended_locked"
        checks = '["cause_understood", "cost_accepted", "workflow_reviewed"]'
        content = f'{{"reason": "x", "checks": {checks}, "limits": {{"rounds": {number}}}}}'
        refused = await author.post(f"/api/v1/runs/{run_id}/unlock", content=content, headers=JSON)
        assert refused.status_code in (409, 422), refused.text
        assert (await author.get(f"/api/v1/runs/{run_id}")).json()["status"] == "suspended_locked"

    story(work)


# Expressions and patterns.

BOMBS: dict[str, Any] = {
    "condition": [
        {"cel": "data.x.map(a, data.x.map(b, data.x.map(c, c))).size() > 0"},
        {"cel": "text.matches('^(\\\\w+\\\\s?)*$')"},
        {"cel": "(" * 900 + "1" + ")" * 900 + " > 0"},
        {"type": "keyword", "config": {"regex": ["^(a+)+$"]}},
    ],
    "processor": [
        {"type": "regex_extract", "config": {"pattern": "(.*)*x"}},
        {"type": "regex_extract", "config": {"pattern": "(((a{1,99}){1,99}){1,99}){1,99}b"}},
        {"type": "regex_extract", "config": {"pattern": "", "multiple": True, "template": "y" * 19_000}},
    ],
    "score": [{"regex": "((?:a|aa)+)$"}, "data.x.map(a, data.x.map(b, data.x)).size()"],
    "template": ["{{ data.x.map(a, data.x.map(b, data.x)) }}", "{{ " + "text + " * 300 + "text }}"],
}


@pytest.mark.parametrize("kind", BOMBS)
def test_bombs_are_tried_without_harm(kind: str) -> None:
    async def work(server: Server) -> None:
        client = await server.client("operator")
        for config in BOMBS[kind]:
            body = {"kind": kind, "config": config, "text": "a" * 50_000 + "!", "data": {"x": [*range(2000)]}}
            answer = await client.post("/api/v1/try", json=body, timeout=60)
            assert answer.status_code == 200 and len(answer.content) < 1_100_000
        assert (await client.get("/healthz")).status_code == 200

    story(work)


@pytest.mark.parametrize("kind", ["condition", "processor", "score", "template"])
def test_bombs_are_checked_and_run_without_harm(kind: str) -> None:
    """A text with one is refused, or its run ends: by a failure if it costs too much."""

    async def work(server: Server) -> None:
        author = await server.client("author")
        for config in BOMBS[kind]:
            middle: dict[str, Any] = {"id": "N", "type": "passthrough"}
            edge: dict[str, Any] = {"from": "N", "to": "B"}
            if kind == "condition":
                edge["condition"] = config
            elif kind == "processor":
                edge["process"] = config
            elif kind == "score":
                middle = {"id": "N", "type": "loop", "config": {"score": config, "exit_on_score": 1}}
            else:
                middle = {"id": "N", "type": "agent", "config": {"prompt": config}}
            text = graph(middle, {"id": "B", "type": "passthrough"}, edges=[edge])
            checked = await author.post("/api/v1/check", json={"text": text}, timeout=60)
            assert checked.status_code == 200
            given = {"text": "a" * 5_000 + "!", "data": {"x": [*range(2000)]}}
            body = {"workflow": {"text": text}, "input": given, "script": {"N": ["x"]}}
            if kind == "condition" and "cel" in config:
                paused = await author.post("/api/v1/runs", json={**body, "breakpoints": [config]}, timeout=60)
                assert paused.status_code in (202, 422), paused.text
                if paused.status_code == 202:
                    await server.context.runs.result(paused.json()["id"])
            started = await author.post("/api/v1/runs", json=body, timeout=60)
            if started.status_code != 422:
                assert started.status_code == 202, started.text
                result = await server.context.runs.result(started.json()["id"])
                assert result.status in ("completed", "failed", "suspended_locked")

    story(work)


# Injection.

SQL = (
    "' OR '1'='1",
    "x'; DROP TABLE runs; --",
    "%",
    "_",
    "\\",
    "'",
    '"',
    "x' UNION SELECT * FROM documents --",
    "*",
)


def test_filters_are_values_and_no_sql(tmp_path: Path) -> None:
    async def work(server: Server) -> None:
        root, red = await server.client("admin"), await server.client("admin", groups=["red"])
        body = {"workflow": {"text": loop_text(2)}, "script": {"Writer": ["x"]}, "group": "blue"}
        assert (await root.post("/api/v1/runs", json=body)).status_code == 202
        await root.put(
            "/api/v1/workflows/hidden?group=blue", json={"text": "x"}, headers={"if-none-match": "*"}
        )
        await root.post("/api/v1/memory/blue", json={"text": "hidden"})
        for evil in SQL:
            for client in (root, red):
                for name in ("q", "workflow", "group"):
                    found = await client.get("/api/v1/runs", params={name: evil})
                    assert found.status_code == 200 and found.json()["runs"] == [], (name, evil)
                for name in ("q", "group"):
                    found = await client.get("/api/v1/workflows", params={name: evil})
                    assert found.status_code == 200 and found.json()["workflows"] == []
                for path in ("runs", "workflows", "audit", "memory/red"):
                    refused = await client.get(f"/api/v1/{path}", params={"cursor": evil, "sort": evil})
                    assert refused.status_code in (403, 422), path
                await client.get("/api/v1/tokens", params={"cursor": evil})
                assert (await client.get("/api/v1/runs", params={"status": evil})).status_code == 422
                await client.get("/api/v1/memory/red/search", params={"q": evil, "kind": evil})
                found = await client.get("/api/v1/memory/red", params={"kind": evil})
                assert found.status_code == 200 and found.json()["entries"] == []
        assert len((await root.get("/api/v1/runs")).json()["runs"]) == 1
        assert (await red.get("/api/v1/workflows")).json()["workflows"] == []

    story(work, store=f"sqlite:///{tmp_path / 'runs.db'}")


SCRIPTS = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</text></svg><script>x</script>",
    "]]><!--",
)


@pytest.mark.parametrize("evil", SCRIPTS)
def test_scripts_in_a_text_stay_text(evil: str) -> None:
    """Answers are JSON, never HTML, under a policy that runs no inline script; drawings escape labels."""

    async def work(server: Server) -> None:
        author = await server.client("author")
        name = evil.replace("/", "|")
        text = graph(
            {"id": evil, "type": "agent", "name": evil, "config": {"role": evil}},
            {"id": "B", "type": "literal", "config": {"content": evil}},
            edges=[{"from": evil, "to": "B", "condition": {"type": "keyword", "config": {"any": [evil]}}}],
        )
        saved = await author.put(
            f"/api/v1/workflows/{quote(name, safe='')}",
            json={"text": text, "description": evil},
            headers={"if-none-match": "*"},
        )
        assert saved.status_code == 201, saved.text
        body = {"workflow": name, "input": evil, "script": {evil: [evil]}}
        started = await author.post("/api/v1/runs", json=body)
        assert started.status_code == 202, started.text
        run_id = started.json()["id"]
        await server.context.runs.result(run_id)
        answers = [
            saved,
            await author.get("/api/v1/workflows"),
            await author.post("/api/v1/check", json={"text": text}),
            await author.get(f"/api/v1/{quote(evil, safe='')}"),
            *[
                await author.get(f"/api/v1/runs/{run_id}{part}")
                for part in ("", "/output", "/script", "/state", "/events?follow=false", "/rounds", "/view")
            ],
        ]
        kinds = ("application/json", "application/problem+json", "application/yaml", "application/jsonl")
        for answer in answers:
            assert answer.headers["content-type"].partition(";")[0] in kinds
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert "unsafe-inline" not in answer.headers["content-security-policy"]
        plan, report = draft_text_plan(text, {}, policy=Policy())
        assert plan is not None
        picture = ElementTree.fromstring(svg(draw(plan, report.findings)))
        names = {element.tag.rpartition("}")[2] for element in picture.iter()}
        assert not names & {"script", "img", "foreignObject", "a"}
        assert not [
            key for element in picture.iter() for key in element.attrib if key.lower().startswith("on")
        ]

    story(work)


def test_line_breaks_do_not_reach_headers_logs_or_streams(caplog: pytest.LogCaptureFixture) -> None:
    evil = "x\r\nset-cookie: a=b\r\n\r\nevent: end"

    async def work(server: Server) -> None:
        root = await server.client("admin")
        body = {
            "workflow": {"text": loop_text(2)},
            "script": {"Writer": [evil]},
            "group": evil,
            "paused": True,
        }
        started = await root.post("/api/v1/runs", json=body)
        assert started.status_code == 202, started.text
        run_id = started.json()["id"]
        for action in ("pause", "lock", "stop"):
            answer = await root.post(f"/api/v1/runs/{run_id}/{action}", json={"reason": evil})
            assert answer.status_code in (200, 409) and "set-cookie" not in answer.headers
        lines = await root.get(f"/api/v1/runs/{run_id}/events", params={"follow": "false"})
        assert all(json.loads(line)["event"] for line in lines.text.split("\n") if line)
        literal = graph({"id": evil, "type": "literal", "config": {"content": evil}})
        named = await root.post("/api/v1/runs", json={"workflow": {"text": literal}})
        assert named.status_code in (202, 422), named.text
        if named.status_code == 202:
            await server.context.runs.result(named.json()["id"])
        # As bytes, since no client library sends a line break in a header.
        host = ("host", "127.0.0.1:8420")
        token = ("authorization", root.headers["authorization"])
        stream = await raw(
            server, host, token, ("last-event-id", "1\nevent: end"), path=f"/api/v1/runs/{run_id}/events"
        )
        problem(stream, 422)
        content = json.dumps({**body, "group": "g"}).encode()
        sent = await raw(
            server,
            *(host, token, ("content-type", "application/json"), ("content-length", str(len(content)))),
            ("idempotency-key", evil),
            method="POST",
            path="/api/v1/runs",
            chunks=(content,),
        )
        assert sent.status_code in (202, 422) and "set-cookie" not in sent.headers

    with caplog.at_level(logging.INFO):
        story(work)
    assert not [record for record in caplog.records if "\n" in record.getMessage()]


def test_error_of_a_run_is_one_line_of_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A run that is not resumed: the reason may quote its text."""

    async def work(server: Server) -> None:
        author = await server.client("author")
        body = {"workflow": {"text": loop_text(2)}, "script": {"Writer": ["x"]}, "paused": True}
        run_id = (await author.post("/api/v1/runs", json=body)).json()["id"]

        async def refuse(_run_id: str) -> None:
            raise ValueError("no function 'x\r\n2026-01-01 ERROR forged'")

        monkeypatch.setattr(server.context, "check_allowed", refuse)
        await Supervisor(server.context)._resume(await server.context.runs.store.row(run_id))

    with caplog.at_level(logging.WARNING, "roundel.server"):
        story(work)
    (refused,) = [record.getMessage() for record in caplog.records if record.name == "roundel.server"]
    assert "forged" in refused and "\n" not in refused


# Addresses, browsers and floods.


def test_token_in_a_path_is_refused() -> None:
    async def work(server: Server) -> None:
        token = (await server.context.identities.create_token("x", "admin", None)).secret
        headers = (("host", "localhost"), ("authorization", f"Bearer {token}"))
        for path in (f"/api/v1/runs/{token}", f"/{token}", f"/api/v1/workflows/{token}/versions"):
            problem(await raw(server, *headers, path=path), 400)
            problem(await raw(server, headers[0], path=path), 400)
        name = await raw(server, *headers, path="/api/v1/workflows/rdl_notes")
        problem(name, 404)

    story(work)


@pytest.mark.parametrize(
    "path",
    [
        *("/api/v1/workflows/..%2f..%2fetc%2fpasswd", "/api/v1/workflows/%00", "/api/v1/workflows/a%00b"),
        *("/api/v1/runs/..%2f..%2fruns.db", "/api/v1/runs/%2e%2e", "/static/../../etc/passwd"),
        *("/api/v1/memory/..%2f..%2fetc", "/api/v1//runs", "/api/v1/runs/%0d%0aset-cookie:%20a=b"),
        *("/api/v1/workflows/%e2%80%aex", "/api/v1/workflows/.env", "//evil.example/", "/api/v1/runs/"),
    ],
)
def test_paths_lead_nowhere(path: str) -> None:
    async def work(server: Server) -> None:
        client = await server.client("admin")
        answer = await client.get(httpx2.URL(BASE).copy_with(raw_path=path.encode()))
        assert answer.status_code in (404, 422) or answer.json() == {"entries": [], "next": None}, answer.text
        assert "root:" not in answer.text and "set-cookie" not in answer.headers

    story(work)


def test_page_of_another_site_cannot_use_the_cookie() -> None:
    """All of it at once: a preflight, a form, a fetch with a cookie, and a page whose name resolves here."""

    async def work(server: Server) -> None:
        code = await server.context.identities.create_code("x")
        browser = await server.anyone()
        signed = await browser.post("/api/v1/session", json={"code": code})
        cookie = ("cookie", signed.headers["set-cookie"].partition(";")[0])
        own, body = ("host", "127.0.0.1:8420"), b'{"name": "x", "role": "admin"}'
        kind, length = ("content-type", "application/json"), ("content-length", str(len(body)))
        evil = ("origin", "http://evil.example")
        post: Any = {"method": "POST", "path": "/api/v1/tokens", "chunks": (body,)}
        preflight = await raw(
            server,
            own,
            evil,
            ("access-control-request-method", "POST"),
            method="OPTIONS",
            path="/api/v1/tokens",
        )
        assert not [name for name in preflight.headers if name.startswith("access-control")]
        problem(preflight, 403)
        problem(await raw(server, own, cookie, evil, kind, length, **post), 403)
        problem(await raw(server, own, cookie, ("origin", "null"), kind, length, **post), 403)
        form = ("content-type", "application/x-www-form-urlencoded")
        problem(await raw(server, own, cookie, ("origin", BASE), form, length, **post), 415)
        rebound = ("host", "evil.example:8420"), ("origin", "http://evil.example:8420")
        problem(await raw(server, *rebound, cookie, kind, length, **post), 421)
        problem(await raw(server, *rebound, cookie), 421)
        tokens = await browser.get("/api/v1/tokens")
        assert tokens.json()["tokens"] == []

    story(work)


RAW = {
    "a header without end": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 200_000,
    "thousands of headers": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 30_000 + b"\r\n",
    "two lengths": (
        b"POST /api/v1/session HTTP/1.1\r\nHost: localhost\r\n"
        b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}"
    ),
    "a negative length": b"POST /api/v1/session HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
    "a folded header": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: a\r\n\tb: c\0\r\n\r\n",
    "a NUL in a header": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: a\0b\r\n\r\n",
    "no host": b"GET /healthz HTTP/1.1\r\n\r\n",
    "another protocol": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"x" * 100 + b"\r\n\r\n",
}


def test_requests_that_are_none_are_refused_on_the_wire(tmp_path: Path) -> None:
    async def tell() -> None:
        async with listening(f"sqlite:///{tmp_path / 'runs.db'}") as (address, runs, _serving):
            port = int(address.rpartition(":")[2])
            for name, sent in RAW.items():
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(sent)
                answer = b""
                with contextlib.suppress(ConnectionError):
                    answer = await reader.readuntil(b"\r\n")
                assert not answer or answer.split()[1] in (b"400", b"413", b"421", b"431"), (name, answer)
                writer.close()
                with contextlib.suppress(ConnectionError):
                    await writer.wait_closed()
            async with await client_of(runs, address) as client:
                assert (await client.get("/api/v1/runs")).json()["runs"] == []

    asyncio.run(tell())


def test_flood_of_starts_and_bodies_is_refused_and_stores_nothing() -> None:
    async def work(server: Server) -> None:
        author = await server.client("author")
        text = graph({"id": "A", "type": "human"})
        slow = {"workflow": {"text": loop_text(100_000)}, "script": {"Writer": ["x"]}}
        first = await author.post("/api/v1/runs", json=slow)
        assert first.status_code == 202, first.text
        answers = [await author.post("/api/v1/runs", json={"workflow": {"text": text}}) for _ in range(5)]
        assert {answer.status_code for answer in answers} == {429}
        assert all(answer.headers["retry-after"] for answer in answers)
        assert len((await author.get("/api/v1/runs")).json()["runs"]) == 1
        many = {**slow, "breakpoints": ["Writer"] * 101}
        problem(await author.post("/api/v1/runs", json=many), 422)
        problem(await author.post("/api/v1/check", json={"text": "x" * 5_000_001}), 422)
        problem(await author.post("/api/v1/check", content=b" " * (7 * 1024 * 1024), headers=JSON), 413)
        run_id = first.json()["id"]
        assert (await author.post(f"/api/v1/runs/{run_id}/stop", json={})).status_code == 200

    story(work, max_active_runs=1)


def test_answers_without_a_body_have_the_headers_too() -> None:
    async def work(server: Server) -> None:
        client = await server.client("admin")
        for method, path in (("HEAD", "/healthz"), ("GET", "/"), ("GET", "/login"), ("GET", "/favicon.ico")):
            answer = await client.request(method, path)
            for name, value in HEADERS.items():
                assert answer.headers[name] == value, (method, path)

    story(work)
