"""Texts over HTTP: workers read what is new, the server compiles what has passed, and others are served."""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from roundel.journal.registry import open_store
from roundel.runs.runs import Runs
from roundel.server import library, worker_pool
from roundel.server.context import ServerContext
from roundel.workflow.allow_list import Policy
from tests.server.api import Server, serving
from tests.server.live import client_of, listening, start_server

CHECK, RUNS = "/api/v1/check", "/api/v1/runs"
TEXT = "graph: {nodes: [{id: A, type: agent}], start: A}"
BROKEN = TEXT.replace("agent", "agnt")
SECRET = """
vars: {key: {secret: true}}
graph: {nodes: [{id: A, type: agent, config: {role: "Sign with ${key}."}}], start: A}
"""
SCRIPT = {"A": ["a"]}
LITERAL = "graph: {nodes: [{id: L, type: literal, config: {content: CONTENT}}], start: L}"


def dag(size: int) -> str:
    """A graph in which each node has an edge to all that follow."""
    names = [f"n{number}" for number in range(size)]
    edges = [{"from": one, "to": other} for at, one in enumerate(names) for other in names[at + 1 :]]
    nodes = [{"id": name, "type": "passthrough"} for name in names]
    return json.dumps({"graph": {"nodes": nodes, "edges": edges, "start": names[0]}})


def story(tell: Callable[[Server], Awaitable[None]], **options: Any) -> None:
    async def main() -> None:
        async with serving(**options) as server:
            await tell(server)

    asyncio.run(main())


def start_of(text: str, **more: Any) -> dict[str, Any]:
    return {"workflow": {"text": text}, "script": SCRIPT, **more}


def worker_pids(context: ServerContext) -> list[int]:
    return [one.process.pid for one in context.workers._workers]


async def begun(context: ServerContext) -> None:
    """Returns when a worker has a job."""
    while not any(one.task for one in context.workers._workers):  # noqa: ASYNC110
        await asyncio.sleep(0)


def children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]


class Calls:
    """Which calls of a function the server made itself: the real one, and a list of its first arguments."""

    def __init__(self, patch: pytest.MonkeyPatch, name: str) -> None:
        self.found: list[Any] = []
        function = getattr(library, name)

        def call(*arguments: Any, **options: Any) -> Any:
            self.found.append(arguments[0])
            return function(*arguments, **options)

        patch.setattr(library, name, call)


# What the server does itself.


def test_the_server_compiles_a_text_that_has_passed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = Calls(monkeypatch, "draft_text_plan")

    async def tell(server: Server) -> None:
        author = await server.client("author")
        saved = await author.put("/api/v1/workflows/a", json={"text": TEXT}, headers={"if-none-match": "*"})
        assert saved.status_code == 201 and compiled.found == []
        for _ in range(3):
            started = await author.post(RUNS, json={"workflow": "a", "script": SCRIPT})
            assert started.status_code == 202, started.text
            assert (await server.context.runs.result(started.json()["id"])).output == "a"
        assert compiled.found == [TEXT]

    story(tell)


def test_the_server_compiles_no_text_with_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = Calls(monkeypatch, "draft_text_plan")

    async def tell(server: Server) -> None:
        author = await server.client("author")
        for path in (CHECK, "/api/v1/forecast"):
            assert (await author.post(path, json={"text": BROKEN})).status_code == 200
        saved = await author.put("/api/v1/workflows/a", json={"text": BROKEN}, headers={"if-none-match": "*"})
        assert saved.json()["draft"] and saved.json()["diagnostics"]
        for workflow in ("a", {"text": BROKEN}):
            refused = await author.post(RUNS, json={"workflow": workflow})
            assert refused.status_code == 422 and refused.json()["diagnostics"][0]["code"] == "unknown-type"
        assert compiled.found == []

    story(tell)


def test_a_script_is_read_by_a_worker_first(monkeypatch: pytest.MonkeyPatch) -> None:
    read = Calls(monkeypatch, "script_from")
    odd = {"A": [{f"unknown_{number}": 1 for number in range(500)}]}

    async def tell(server: Server) -> None:
        author = await server.client("author")
        run_id = (await author.post(RUNS, json=start_of(TEXT))).json()["id"]
        await server.context.runs.result(run_id)
        read.found.clear()
        for path in (RUNS, f"{RUNS}/{run_id}/fork", f"{RUNS}/{run_id}/retry"):
            refused = await author.post(path, json={"script": odd, "workflow": {"text": TEXT}})
            assert refused.status_code == 422 and "unknown_0" in refused.text
        assert read.found == []
        other = {"A": ["b"]}
        for _ in range(2):
            assert (await author.post(RUNS, json=start_of(TEXT, script=other))).status_code == 202
        assert read.found == [other]

    story(tell)


def test_plans_with_secrets_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = Calls(monkeypatch, "draft_text_plan")

    async def tell(server: Server) -> None:
        author = await server.client("author")
        for _ in range(2):
            body = start_of(SECRET, variables={"key": "a-secret-of-somebody"})
            assert (await author.post(RUNS, json=body)).status_code == 202
        assert compiled.found == [SECRET, SECRET]
        kept = [made for made, _ in server.context.accepted._found.values()]
        assert kept.count(None) == 1 and "a-secret-of-somebody" not in repr(kept)

    story(tell)


def test_a_text_that_names_files_is_read_each_time(tmp_path: Path) -> None:
    inner = tmp_path / "inner.yaml"
    node = {"id": "S", "type": "subgraph", "config": {"type": "file", "config": {"path": str(inner)}}}
    text = json.dumps({"graph": {"nodes": [node], "start": "S"}})

    async def tell(server: Server) -> None:
        author = await server.client("author")
        outputs = []
        for content in ("one", "two"):
            inner.write_text(LITERAL.replace("CONTENT", content))
            run_id = (await author.post(RUNS, json=start_of(text))).json()["id"]
            outputs.append((await server.context.runs.result(run_id)).output)
        assert outputs == ["one", "two"]

    story(tell, policy=Policy(files=(str(tmp_path),)))


# What others notice.


def test_a_stuck_worker_is_503_for_its_caller_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    async def tell(server: Server) -> None:
        viewer, author = await server.client("viewer"), await server.client("author")
        assert (await viewer.post(CHECK, json={"text": TEXT})).status_code == 200
        (pid,) = worker_pids(server.context)
        os.kill(pid, signal.SIGSTOP)
        checks = [asyncio.create_task(viewer.post(CHECK, json={"text": TEXT})) for _ in range(4)]
        await begun(server.context)
        started = await author.post(RUNS, json=start_of(TEXT))  # of a text that is new
        assert started.status_code == 202, started.text
        assert (await author.get("/healthz")).status_code == 200
        assert not any(one.done() for one in checks)
        os.kill(pid, signal.SIGKILL)
        statuses = [(await one).status_code for one in checks]
        assert statuses == [503, 200, 200, 200] and checks[0].result().headers["retry-after"]
        assert server.context.workers.restarts == 1

    monkeypatch.setattr(worker_pool, "LONG_SECONDS", 3600.0)
    monkeypatch.setattr(worker_pool, "JOB_SECONDS", 60.0)
    monkeypatch.setattr(worker_pool, "WAIT_SECONDS", 60.0)
    story(tell)


def test_dense_graphs_of_a_viewer_do_not_keep_others_from_starting_runs() -> None:
    bomb = dag(120)

    async def tell(server: Server) -> None:
        viewer, author = await server.client("viewer"), await server.client("author")
        checks = [asyncio.create_task(viewer.post(CHECK, json={"text": bomb})) for _ in range(4)]
        for number in range(5):
            started = await author.post(RUNS, json=start_of(f"{TEXT} # {number}"))
            assert started.status_code == 202, started.text
            assert (await author.get("/healthz")).status_code == 200
        for one in checks:
            one.cancel()
        await asyncio.gather(*checks, return_exceptions=True)

    story(tell)


def test_a_client_that_goes_away_frees_its_worker(tmp_path: Path) -> None:
    async def tell() -> None:
        store = f"sqlite:///{tmp_path / 'runs.db'}"
        async with (
            listening(store, text_workers=1) as (address, runs, serving),
            await client_of(runs, address) as client,
        ):
            assert (await client.post(f"{address}{CHECK}", json={"text": TEXT})).status_code == 200
            assert serving._server is not None
            context = serving._server._context
            (pid,) = worker_pids(context)
            os.kill(pid, signal.SIGSTOP)
            check = asyncio.create_task(client.post(f"{address}{CHECK}", json={"text": TEXT}))
            await begun(context)
            check.cancel()
            assert (await client.post(f"{address}{CHECK}", json={"text": TEXT})).status_code == 200
            assert context.workers.restarts == 1 and pid not in worker_pids(context)

    asyncio.run(tell())


def test_a_server_that_is_killed_leaves_no_worker(tmp_path: Path) -> None:
    async def tell() -> None:
        server = await start_server(tmp_path / "runs.db")
        store = open_store(f"sqlite:///{tmp_path / 'runs.db'}")
        async with Runs(store) as runs, await client_of(runs, server.address) as client:
            assert (await client.post(CHECK, json={"text": TEXT})).status_code == 200
        await store.close()
        workers = [os.pidfd_open(pid) for pid in children(server.process.pid)]
        assert workers
        await server.end(signal.SIGKILL)
        for worker in workers:
            ready, _, _ = select.select([worker], [], [], 60)
            os.close(worker)
            assert ready, "it still lives"

    asyncio.run(tell())
