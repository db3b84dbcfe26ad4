"""What a page reads to continue with the events of a run, and the views that a server keeps."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from roundel.runs.fold import RunFold
from roundel.runs.view import ViewSnapshot
from roundel.server.routes import inspection
from roundel.server.view_cache import MAX_RUNS
from tests.server.api import Server, serving
from tests.server.live import loop_text
from tests.server.load import LINES

RUNS = "/api/v1/runs"


def story(work: Callable[[Server], Awaitable[None]]) -> None:
    async def tell() -> None:
        async with serving("") as server:
            await work(server)

    asyncio.run(tell())


async def finished(server: Server, rounds: int) -> str:
    client = await server.client("author")
    body = {"workflow": {"text": loop_text(rounds)}, "script": LINES}
    run_id: str = (await client.post(RUNS, json=body)).json()["id"]
    assert (await server.context.runs.result(run_id)).completed
    return run_id


def test_a_view_is_what_the_events_tell() -> None:
    async def work(server: Server) -> None:
        run_id = await finished(server, 7)
        client = await server.client("viewer")
        answer = await client.get(f"{RUNS}/{run_id}/view")
        assert answer.status_code == 200
        view = msgspec.json.decode(answer.content, type=ViewSnapshot)
        fold = RunFold()
        async for event in server.context.runs.follow(run_id, live=False):
            fold.apply(event)
        assert view == fold.snapshot()
        assert (view.status, len(view.loops[0].rounds)) == ("completed", 7)
        assert view == await server.context.runs.view(run_id)
        assert "is_pruned" not in answer.json()

    story(work)


def test_a_view_continues_where_the_last_request_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(server: Server) -> None:
        run_id = await finished(server, 5)
        client = await server.client("viewer")
        applied = 0
        apply = RunFold.apply

        def counted(self: RunFold, event: Any) -> None:
            nonlocal applied
            applied += 1
            apply(self, event)

        monkeypatch.setattr(RunFold, "apply", counted)
        first = (await client.get(f"{RUNS}/{run_id}/view")).json()
        assert applied == first["seq"]
        await asyncio.gather(*(client.get(f"{RUNS}/{run_id}/{part}") for part in ("view", "rounds") * 3))
        assert applied == first["seq"], "rounds and view share one fold"
        await server.context.runs.prune(run_id, keep="last")
        pruned = (await client.get(f"{RUNS}/{run_id}/view")).json()
        assert pruned["is_pruned"] and [one["number"] for one in pruned["loops"][0]["rounds"]] == [5]
        assert pruned["seq"] == first["seq"]

    story(work)


def test_only_the_newest_views_are_kept() -> None:
    async def work(server: Server) -> None:
        client, run_id = await server.client("viewer"), ""
        for _ in range(MAX_RUNS + 2):
            run_id = await finished(server, 1)
            assert (await client.get(f"{RUNS}/{run_id}/view")).status_code == 200
        known = server.context.views._known
        assert len(known) == MAX_RUNS and run_id in known

    story(work)


def test_a_view_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(server: Server) -> None:
        run_id = await finished(server, 3)
        client = await server.client("viewer")
        monkeypatch.setattr(inspection, "MAX_EXECUTIONS", 5)
        answer = await client.get(f"{RUNS}/{run_id}/view")
        assert answer.status_code == 409 and "read its rounds, in pages" in answer.json()["detail"]
        monkeypatch.setattr(inspection, "MAX_EXECUTIONS", 100)
        monkeypatch.setattr(inspection, "MAX_VIEW_BYTES", 100)
        assert (await client.get(f"{RUNS}/{run_id}/view")).status_code == 409

    story(work)
