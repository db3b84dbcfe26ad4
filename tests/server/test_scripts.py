"""Scripts of callers: they drive no tools and approve nothing, whichever way they reach a run (decision 53).

The tool notes its calls in a file (tests/server/counted.py), so that nothing of the engine is replaced.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import zlib
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx2
import pytest

from roundel.hosts.local import LocalEngine
from roundel.journal.registry import open_store
from roundel.llm.script import ALL_RIGHTS, script_from
from roundel.runs.runs import Runs
from roundel.workflow.policy import Policy
from tests.server import counted
from tests.server.api import Server, serving

TOOL, NAME = "tests.server.counted:call", "tests_server_counted_call"
POLICY = Policy(functions=(TOOL,))
TEXT = """
graph:
  id: deliver
  nodes:
    - {id: Ask, type: human, config: {description: Go on?}}
    - {id: Agent, type: agent, config: {tools: [TOOL], APPROVAL}}
  edges: [{from: Ask, to: Agent}]
  start: Ask
""".replace("TOOL", f"'{TOOL}'")
FREE, APPROVED = TEXT.replace(", APPROVAL", ""), TEXT.replace("APPROVAL", "approval: always")
NEW = {"if-none-match": "*"}


def call(text: str, **more: Any) -> dict[str, Any]:
    return {"tool_calls": [{"name": NAME, "arguments": {"text": text}, **more}]}


def script(text: str, **more: Any) -> dict[str, Any]:
    """A script that calls the tool, and approves the call."""
    return {"Ask": ["yes"], "Agent": [call(text, **more), "done"], f"Agent/{NAME}": ["approve"]}


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "calls"
    monkeypatch.setenv(counted.CALLS, str(file))
    return file


def story(work: Callable[[Server], Awaitable[None]], store: str = "") -> None:
    async def tell() -> None:
        async with serving(store, policy=POLICY) as server:
            author = await server.client("author")
            for name, text in (("free", FREE), ("approved", APPROVED)):
                saved = await author.put(f"/api/v1/workflows/{name}", json={"text": text}, headers=NEW)
                assert saved.json()["errors"] == 0, saved.text
            await work(server)

    asyncio.run(tell())


async def started(client: httpx2.AsyncClient, server: Server, name: str, **body: Any) -> str:
    """The id of a run that is idle."""
    answer = await client.post("/api/v1/runs", json={"workflow": name, "input": "go", **body})
    assert answer.status_code == 202, answer.text
    return await idle(server, answer.json()["id"])


async def idle(server: Server, run_id: str) -> str:
    await server.context.runs.result(run_id)
    return run_id


async def with_engine(file: Path, work: Callable[[Runs], Awaitable[None]]) -> None:
    """Another process, as far as the store can tell."""
    opened = open_store(str(file))
    engine = LocalEngine(lambda: opened, policy=POLICY)
    try:
        async with Runs(opened, engine=engine, on_warnings=None) as service:
            await work(service)
    finally:
        await engine.close()
        await opened.close()


async def tool_results(server: Server, run_id: str) -> list[tuple[str, str]]:
    found = [event async for event in server.context.runs.follow(run_id, live=False)]
    return [
        (event.fields()["status"], event.fields()["result"])
        for event in found
        if event.event == "tool_call" and "result" in event.fields()
    ]


def test_script_of_an_operator_calls_no_tools(calls: Path) -> None:
    async def work(server: Server) -> None:
        operator, author = await server.client("operator"), await server.client("author")
        run_id = await started(operator, server, "free", script=script("evil"))
        ((status, result),) = await tool_results(server, run_id)
        assert status == "failed" and "give the call a `result` in the script" in result
        assert (await server.context.runs.result(run_id)).completed
        # The results may come from the script.
        run_id = await started(operator, server, "free", script=script("evil", result="sent"))
        assert await tool_results(server, run_id) == [("completed", "sent")]
        assert counted.lines(calls) == []
        await started(author, server, "free", script=script("mine"))
        assert counted.lines(calls) == ["mine"]
        admin = await server.client("admin")
        log = await admin.get("/api/v1/audit", params={"action": "run.start"})
        noted = [one["details"]["script"] for one in log.json()["entries"]]
        assert noted == [{"rights": ["tools"]}, {"rights": []}, {"rights": []}]

    story(work)


def test_no_script_approves_a_call(calls: Path) -> None:
    async def work(server: Server) -> None:
        author, operator = await server.client("author"), await server.client("operator")
        run_id = await started(author, server, "approved", script=script("mine"))
        assert counted.lines(calls) == []
        view = (await operator.get(f"/api/v1/runs/{run_id}")).json()
        assert view["status"] == "waiting" and view["question"]["tool"]["name"] == NAME
        await operator.post(f"/api/v1/runs/{run_id}/answer", json={"text": "approve"})
        await idle(server, run_id)
        assert counted.lines(calls) == ["mine"], "a person did"
        run_id = await started(operator, server, "approved", script=script("evil", result="sent"))
        assert (await operator.get(f"/api/v1/runs/{run_id}")).json()["status"] == "waiting"
        # A call that is never made needs no approval.
        run_id = await started(operator, server, "approved", script=script("evil"))
        assert (await server.context.runs.result(run_id)).completed
        assert counted.lines(calls) == ["mine"]

    story(work)


def test_script_of_an_operator_gets_no_rights_by_a_fork_or_a_retry(calls: Path) -> None:
    async def work(server: Server) -> None:
        author, operator = await server.client("author"), await server.client("operator")
        failing = {**script("mine"), "Agent": [{"error": "broken"}]}
        of_author = await started(author, server, "free", script=script("mine"))
        failed = await started(author, server, "free", script=failing)
        assert counted.lines(calls) == ["mine"]
        before = counted.lines(calls)

        async def begun(path: str, body: dict[str, Any]) -> None:
            answer = await operator.post(f"/api/v1/runs/{path}", json=body)
            assert answer.status_code in (200, 201), answer.text
            await idle(server, answer.json()["id"])

        # A script of the operator's own, and that of the author, which a fork inherits.
        await begun(f"{of_author}/fork", {"at": "Agent", "script": script("evil")})
        await begun(f"{of_author}/fork", {"at": "Agent"})
        await begun(f"{of_author}/fork", {"at": "Agent", "workflow": "approved"})
        await begun(f"{failed}/retry", {"script": script("evil")})
        assert (await server.context.runs.result(failed)).completed
        assert counted.lines(calls) == before
        admin = await server.client("admin")
        for action in ("run.fork", "run.retry"):
            log = await admin.get("/api/v1/audit", params={"action": action})
            assert log.json()["entries"][-1]["details"]["script"] == {"rights": []}
        log = await admin.get("/api/v1/audit", params={"action": "run.fork"})
        noted = [one["details"]["script"] for one in log.json()["entries"]]
        assert noted[:2] == [{"rights": [], "inherited": True}] * 2

    story(work)


def test_rights_of_a_script_are_stored_with_the_run(tmp_path: Path, calls: Path) -> None:
    """Two runs wait for their first answer, and the process that continues them has not seen their start."""
    store = tmp_path / "runs.db"
    waiting = {name: one for name, one in script("x").items() if name != "Ask"}
    runs: dict[str, str] = {}

    async def start(server: Server) -> None:
        for role in ("operator", "author"):
            client = await server.client(role)
            given = {**waiting, "Agent": [call(role), "done"]}
            runs[role] = await started(client, server, "free", script=given)

    async def go_on(service: Runs) -> None:
        for run_id in runs.values():
            await service.answer(run_id, "yes", execute=True)
            assert (await service.result(run_id)).completed

    story(start, str(store))
    asyncio.run(with_engine(store, go_on))
    assert counted.lines(calls) == ["author"]


@pytest.mark.parametrize(("started_by", "expected"), [("", ["x"]), ("0123456789ab", [])])
def test_script_that_was_stored_without_rights(
    tmp_path: Path, calls: Path, started_by: str, expected: list[str]
) -> None:
    """A run of the command line does what it did. Of one that was started over HTTP nobody knows whether its
    caller was an author."""

    waiting = {name: one for name, one in script("x").items() if name != "Ask"}
    file = tmp_path / "runs.db"
    (tmp_path / "free.yaml").write_text(FREE)

    async def start(service: Runs) -> None:
        replies = script_from(waiting)
        assert replies.rights == ALL_RIGHTS
        workflow = str(tmp_path / "free.yaml")
        await service.result(await service.start(workflow, "go", script=replies, started_by=started_by))

    async def go_on(service: Runs) -> None:
        (row,) = await service.store.rows()
        assert row.status == "waiting"
        await service.answer(row.id, "yes", execute=True)
        assert (await service.result(row.id)).completed

    asyncio.run(with_engine(file, start))
    with closing(sqlite3.connect(file)) as db, db:
        (body,) = db.execute("SELECT body FROM pins").fetchone()
        pinned = json.loads(zlib.decompress(body))
        assert pinned.pop("script_rights") == [*ALL_RIGHTS]
        db.execute("UPDATE pins SET body = ?", (zlib.compress(json.dumps(pinned).encode()),))
    asyncio.run(with_engine(file, go_on))
    assert counted.lines(calls) == expected
