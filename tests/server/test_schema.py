"""The OpenAPI document is true: Schemathesis derives requests from it, valid ones and others, and compares
each answer with what the document says.

There is no socket. Every operation gets a server of its own, with runs in several states, a saved workflow,
an entry of memory and a token; the ids of these take the place of generated ones now and then. Requests are
the same in each run of the tests; ROUNDEL_EXAMPLES=500 makes more of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import os
import re
from collections.abc import Iterator
from typing import Any

import httpx2
import hypothesis
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase
from hypothesis import strategies as st
from schemathesis import checks
from schemathesis.config import SchemathesisConfig
from schemathesis.generation import GenerationMode

from roundel.runs.runs import Runs
from roundel.server.admission import ANYONE
from roundel.server.identity import ROLES
from roundel.server.openapi import describe_api
from roundel.server.problems import MEDIA_TYPE, TITLES, TYPE_PREFIX
from tests.server.api import BASE, Server, serving
from tests.server.live import loop_text
from tools.api_docs import DOCS, PAGE, ApiPages
from tools.api_docs import SCHEMA as SCHEMA_FILE

EXAMPLES = int(os.environ.get("ROUNDEL_EXAMPLES", "6"))
CALLERS = ("admin", "viewer", ANYONE)
"""An admin who sees all groups, a viewer of a group in which there is nothing, and somebody without a
token."""
CHECKS = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
]
ASKING = """\
graph:
  id: asking
  nodes:
    - {id: Ask, type: human, config: {description: Is it good?}}
  start: Ask
  end: Ask
"""
TEXT = loop_text(3)
SCRIPT = {"Writer": ["tea is green", "tea is black", "tea is white"]}
SELF_CHECKS = ["cause_understood", "cost_accepted", "workflow_reviewed"]


DOCUMENT = describe_api()
OPERATIONS = {
    operation["operationId"]: (method.upper(), path)
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
}
SCHEMA = schemathesis.openapi.from_dict(copy.deepcopy(DOCUMENT), config=SchemathesisConfig())


class World:
    """A server with something in it, and clients of it."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.clients: dict[str, httpx2.AsyncClient] = {}
        self.known: dict[str, list[Any]] = {}
        """Values of path parameters that exist."""
        self.state: dict[str, Any] = {}

    async def prepare(self) -> None:
        admin = self.clients["admin"] = await self.server.client("admin")
        self.clients["viewer"] = await self.server.client("viewer", ["elsewhere"])
        self.clients[ANYONE] = await self.server.anyone()
        saved = await admin.put(
            "/api/v1/workflows/saved", json={"text": TEXT}, headers={"If-None-Match": "*"}
        )
        assert saved.status_code == 201, saved.text
        again = await admin.put(
            "/api/v1/workflows/saved", json={"text": f"{TEXT}\n"}, headers={"If-Match": '"1"'}
        )
        assert again.is_success, again.text
        self.runs = {
            "completed": await self._start({"workflow": "saved", "script": SCRIPT}, "completed"),
            "waiting": await self._start({"workflow": {"text": ASKING}}, "waiting"),
            "paused": await self._start({"workflow": "saved", "script": SCRIPT, "paused": True}, "paused"),
            "failed": await self._start(
                {"workflow": "saved", "script": {"Writer": [{"error": "no reply"}]}}, "failed"
            ),
            "locked": await self._start({"workflow": "saved", "script": SCRIPT, "paused": True}, "paused"),
        }
        locked = await admin.post(f"/api/v1/runs/{self.runs['locked']}/lock", json={"reason": "to look"})
        assert locked.json()["status"] == "suspended_locked", locked.text
        added = await admin.post("/api/v1/memory/red", json={"text": "Tea comes from China."})
        token = await admin.post("/api/v1/tokens", json={"name": "robot", "role": "viewer"})
        self.secret = token.json()["secret"]
        self.known = {
            "run_id": list(self.runs.values()),
            "address": ["Writer[1]/Writer"],
            "name": ["saved"],
            "group": ["red", "~"],
            "entry_id": [added.json()["entries"][0]["id"]],
            "token_id": [token.json()["id"]],
            "version": [1],
        }

    async def _start(self, body: dict[str, Any], status: str) -> str:
        answer = await self.clients["admin"].post("/api/v1/runs", json=body)
        assert answer.status_code == 202, answer.text
        run_id: str = answer.json()["id"]
        runs: Runs = self.server.context.runs
        with contextlib.suppress(Exception):  # a run that fails
            await runs.result(run_id)
        assert (await runs.store.row(run_id)).status == status
        return run_id


@contextlib.contextmanager
def world() -> Iterator[tuple[asyncio.Runner, World]]:
    """A world, and the loop that it lives in; it stands still between two requests."""
    with asyncio.Runner() as runner:
        stack = contextlib.AsyncExitStack()

        async def begin() -> World:
            server = await stack.enter_async_context(serving())
            created = World(server)
            await created.prepare()
            return created

        try:
            yield runner, runner.run(begin())
        finally:
            runner.run(stack.aclose())


# What a client of each operation sends who knows what they do.


def good_request(name: str, world: World) -> dict[str, Any]:
    """A request that succeeds."""
    runs = world.runs
    bodies: dict[str, Any] = {
        "start_run": {"workflow": "saved", "input": "tea", "script": SCRIPT, "group": ""},
        "pause_run": {"reason": "to look"},
        "stop_run": {},
        "lock_run": {"reason": "to look"},
        "unlock_run": {"reason": "seen", "checks": SELF_CHECKS},
        "answer_run": {"text": "yes"},
        "preview_answer": {"text": "yes"},
        "retry_run": {"script": SCRIPT},
        "fork_run": {"at": "Writer[2]", "run": False},
        "replay_run": {},
        "step_run": {},
        "change_breakpoints": {"add": ["Writer[2]"]},
        "edit_run": {"text": "coffee"},
        "put_workflow": {"text": TEXT},
        "copy_workflow": {"name": "copy"},
        "check_text": {"text": TEXT},
        "draw_text": {"text": TEXT},
        "forecast_text": {"text": TEXT},
        "try_part": {"kind": "template", "config": "{{input}}", "text": "tea"},
        "create_session": {"token": world.secret},
        "create_token": {"name": "another", "role": "viewer"},
        "promote_memory": {"text": "Rain comes from clouds."},
    }
    wanted = {
        "answer_run": "waiting",
        "preview_answer": "waiting",
        "pause_run": "waiting",
        "stop_run": "waiting",
        "resume_run": "paused",
        "step_run": "paused",
        "edit_run": "paused",
        "change_breakpoints": "paused",
        "lock_run": "paused",
        "unlock_run": "locked",
        "retry_run": "failed",
        "get_questions": "waiting",
        "get_state": "waiting",
    }
    path = {key: values[0] for key, values in world.known.items() if f"{{{key}}}" in OPERATIONS[name][1]}
    if "run_id" in path:
        path["run_id"] = runs[wanted.get(name, "completed")]
    request: dict[str, Any] = {"path_parameters": path}
    if name in bodies:
        request |= {"body": bodies[name], "media_type": "application/json"}
    if name == "put_workflow":
        request["headers"] = {"If-Match": '"2"'}
    if name == "search_memory":
        request["query"] = {"q": "tea"}
    return request


def send(runner: asyncio.Runner, world: World, caller: str, case: Any) -> Any:
    """Sends a request, and compares the answer with the document."""
    if "events" in case.operation.path:  # otherwise the answer does not end
        case.query = {**(case.query or {}), "follow": "false"}
    prepared = requests.Request(**case.as_transport_kwargs(base_url=BASE)).prepare()
    headers: Any = {
        key.encode(): value if isinstance(value, bytes) else value.encode("latin-1", "replace")
        for key, value in prepared.headers.items()
        if key.lower() not in ("authorization", "cookie", "host")
    }
    body: Any = prepared.body
    client = world.clients[caller]
    client.cookies.clear()
    request = client.build_request(prepared.method or "", prepared.url or "", headers=headers, content=body)
    answer = runner.run(client.send(request))
    case.validate_response(answer, checks=CHECKS)
    return answer


@pytest.mark.parametrize("name", OPERATIONS)
def test_answers_are_what_the_schema_says(name: str) -> None:
    method, path = OPERATIONS[name]
    operation = SCHEMA[path][method]
    modes = [operation.as_strategy(generation_mode=mode) for mode in GenerationMode]
    with world() as (runner, here):
        for caller in reversed(CALLERS):  # the admin, whose requests change something, comes last
            answer = send(runner, here, caller, operation.Case(**good_request(name, here)))
            if caller == "admin":
                assert answer.is_success, f"{answer.status_code} {answer.text}"

        @hypothesis.settings(
            max_examples=EXAMPLES * len(CALLERS) * len(modes),
            derandomize=True,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @hypothesis.given(st.one_of(modes), st.sampled_from(CALLERS), st.integers(0, 29))
        def explore(case: Any, caller: str, choice: int) -> None:
            for key in case.path_parameters or {}:
                if choice and key in here.known:
                    values = here.known[key]
                    case.path_parameters[key] = values[choice % len(values)]
            if choice % 3 and isinstance(case.body, dict) and case.body:
                # One generated field in a body that is good otherwise reaches further than all of them.
                field = sorted(case.body)[choice % len(case.body)]
                case.body = {**good_request(name, here)["body"], field: case.body[field]}
            send(runner, here, caller, case)

        explore()


# The document itself.


def test_every_route_says_which_role_it_needs() -> None:
    roles = {
        name: DOCUMENT["paths"][path][method.lower()]["x-role"] for name, (method, path) in OPERATIONS.items()
    }
    assert set(roles.values()) == {*ROLES, ANYONE}
    assert {name for name, role in roles.items() if role == ANYONE} == {
        *("create_session", "get_health", "get_readiness")
    }
    assert roles["start_run"] == "operator" and roles["get_metrics"] == "admin"


@pytest.mark.parametrize("name", OPERATIONS)
def test_roles_are_those_that_the_routes_check(name: str) -> None:
    method, path = OPERATIONS[name]
    role = DOCUMENT["paths"][path][method.lower()]["x-role"]

    async def story() -> None:
        async with serving() as server:
            filled = re.sub(r"\{\w+\}", "1", path)
            anyone = await (await server.anyone()).request(method, filled)
            assert (anyone.status_code == 401) == (role != ANYONE)
            if role in ROLES[1:]:
                below = await server.client(ROLES[ROLES.index(role) - 1])
                assert (await below.request(method, filled)).status_code == 403
            if role != ANYONE:
                enough = await (await server.client(role)).request(method, filled, params={"follow": "false"})
                assert enough.status_code not in (401, 403)

    asyncio.run(story())


def test_everything_in_the_document_is_described() -> None:
    missing: list[str] = []
    for name, (method, path) in OPERATIONS.items():
        operation = DOCUMENT["paths"][path][method.lower()]
        missing += [name] if not operation.get("description") else []
        missing += [
            f"{name} {one['name']}" for one in operation.get("parameters", ()) if not one.get("description")
        ]
    for name, schema in DOCUMENT["components"]["schemas"].items():
        fields = schema.get("properties", {})
        missing += [f"{name}.{field}" for field, about in fields.items() if not about.get("description")]
        missing += [name] if fields and not schema.get("description") else []
    assert not missing


def test_every_problem_is_in_the_document() -> None:
    types = DOCUMENT["components"]["schemas"]["Problem"]["properties"]["type"]["enum"]
    assert types == [f"{TYPE_PREFIX}{name}" for name in TITLES]
    narrowed = [
        response["content"][MEDIA_TYPE]["schema"]["allOf"][1]["properties"]["type"]["enum"]
        for response in DOCUMENT["components"]["responses"].values()
    ]
    # No operation of the document answers with the one that is missing: it is about other methods.
    assert set(types) - {kind for kinds in narrowed for kind in kinds} == {f"{TYPE_PREFIX}method-not-allowed"}


def test_headers_and_media_types_are_in_the_document() -> None:
    def operation(name: str) -> dict[str, Any]:
        method, path = OPERATIONS[name]
        found: dict[str, Any] = DOCUMENT["paths"][path][method.lower()]
        return found

    def headers(name: str) -> list[str]:
        return [one["name"] for one in operation(name)["parameters"] if one["in"] == "header"]

    assert headers("start_run") == ["Idempotency-Key"]
    assert headers("put_workflow") == ["If-Match", "If-None-Match"]
    for name in ("run_events", "all_events"):
        assert headers(name) == ["Last-Event-ID"]
        assert set(operation(name)["responses"]["200"]["content"]) == {
            "text/event-stream",
            "application/jsonl",
        }
    created = [("start_run", "202"), ("fork_run", "201"), ("create_token", "201"), ("put_workflow", "201")]
    for name, status in created:
        assert "Location" in operation(name)["responses"][status]["headers"]
    assert {"412", "428"} <= set(operation("put_workflow")["responses"])
    assert operation("start_run")["security"] == [{"token": []}, {"session": []}]
    assert "security" not in operation("get_health")


def test_the_server_serves_this_document() -> None:
    async def story() -> None:
        async with serving() as server:
            assert (await (await server.anyone()).get("/api/v1/openapi.json")).json() == DOCUMENT

    asyncio.run(story())


@pytest.mark.parametrize("name", [SCHEMA_FILE, PAGE])
def test_the_copies_in_the_manual_are_up_to_date(name: str) -> None:
    assert (DOCS / name).read_text(encoding="utf-8") == ApiPages().written()[name], (
        "out of date; run: make tables"
    )
