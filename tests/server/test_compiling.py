"""A workflow that is started is compiled once, and one that the server knows is not compiled again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import roundel
from roundel.hosts import stored_run
from roundel.nodes import loading
from roundel.plan import model_choice
from roundel.plan.graph import compile_workflow
from roundel.runs import runs as service
from roundel.runs.runs import Runs
from tests.server.api import serving
from tests.server.live import loop_text

LINES = {"Writer": ["one", "two", "three"]}


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the workflows that this process has compiled, in order."""
    names: list[str] = []

    def counting(workflow: Any, *more: Any) -> Any:
        names.append(workflow.name)
        return compile_workflow(workflow, *more)

    for module in (stored_run, loading, model_choice, service):
        monkeypatch.setattr(module, "compile_workflow", counting)
    return names


@pytest.mark.parametrize("stored", [True, False])
def test_a_start_compiles_once(stored: bool, compiled: list[str]) -> None:
    async def story() -> None:
        graph = roundel.Graph("once", start="Writer", end="Writer").node("Writer", "agent")
        async with Runs("memory:") as runs:
            run_id = await runs.start(graph, "x", script=LINES, stored=stored)
            assert (await runs.wait(run_id)).completed

    asyncio.run(story())
    assert len(compiled) == 1


def test_a_start_with_another_group_and_a_model_compiles_once_more(compiled: list[str]) -> None:
    async def story() -> None:
        plan = roundel.prepare(roundel.Graph("once", start="Writer", end="Writer").node("Writer", "agent"))
        compiled.clear()
        async with Runs("memory:") as runs:
            run_id = await runs.start(plan, "x", script=LINES, group="tea", model="openai:some")
            assert (await runs.wait(run_id)).completed
            assert (await runs.row(run_id)).group == "tea"
            assert (await runs.inspect(run_id)).plan.workflow.default_model == "openai:some"

    asyncio.run(story())
    assert compiled == ["once", "once"], "one of them to inspect the run"


def test_the_server_compiles_a_text_once_for_all_its_runs(compiled: list[str]) -> None:
    async def story() -> None:
        async with serving() as server:
            author = await server.client("author")
            body = {"workflow": {"text": loop_text(3)}, "input": "x", "script": LINES}
            for _ in range(3):
                answer = await author.post("/api/v1/runs", json=body)
                assert answer.status_code == 202, answer.text
                await server.context.runs.result(answer.json()["id"])

    asyncio.run(story())
    assert len(compiled) == 1
