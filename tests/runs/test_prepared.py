"""Runs of workflows that were built in Python, taken up by another process."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path
from typing import Any

import pytest

import roundel as engine
from roundel.plan.graph import compile_workflow
from tests.cli.stored_runs import roundel

SCRIPT = {"Writer": ["a draft", "a better draft"]}
MAPPING: dict[str, Any] = {
    "graph": {
        "id": "built",
        "start": "Subject",
        "end": "Final",
        "nodes": [
            {"id": "Subject", "type": "literal", "config": {"content": "about ${subject}"}},
            {"id": "Writer", "type": "agent"},
            {"id": "Editor", "type": "human", "config": {"description": "Good ${subject}?"}},
            {"id": "Final", "type": "passthrough"},
        ],
        "edges": [
            {"from": "Subject", "to": "Writer"},
            {"from": "Writer", "to": "Editor"},
            {"from": "Editor", "to": "Final"},
        ],
    }
}


def graph() -> engine.Graph:
    made = engine.Graph("built", start="Subject", end="Final")
    made.node("Subject", "literal", content="about ${subject}")
    made.node("Writer", "agent")
    made.node("Editor", "human", description="Good ${subject}?")
    made.node("Final", "passthrough")
    for source, target in (("Subject", "Writer"), ("Writer", "Editor"), ("Editor", "Final")):
        made.edge(source, target)
    return made


def prepared(how: str) -> Any:
    """With a variable that only whoever prepared it knows."""
    source = MAPPING if how.startswith("mapping") else graph()
    variables = {"subject": "tea"}
    return engine.prepare(source, variables) if how.endswith("plan") else engine.load(source, variables)


@pytest.mark.parametrize("how", ["graph, plan", "graph, workflow", "mapping, plan", "mapping, workflow"])
def test_a_prepared_graph_without_functions_is_resumed_elsewhere(tmp_path: Path, how: str) -> None:
    place = ["--store", "runs.db"]
    waiting = engine.run(prepared(how), "go", script=SCRIPT, store=tmp_path / "runs.db")
    assert waiting.status == "waiting"
    log = roundel(tmp_path, "log", "last", *place)
    assert (log.exit_code, "Subject  completed  about tea" in log.stdout) == (0, True), log.output
    assert "Good tea?" in roundel(tmp_path, "answer", "last", *place).stdout
    recorded = roundel(tmp_path, "answer", "last", "yes", "--no-run", *place)
    assert recorded.exit_code == 0, recorded.output
    resumed = roundel(tmp_path, "resume", "last", *place)
    assert (resumed.exit_code, resumed.stdout) == (0, "yes\n"), resumed.output
    replayed = roundel(tmp_path, "replay", "last", *place)
    assert (replayed.exit_code, "would take the same path" in replayed.stdout) == (0, True), replayed.output
    forked = roundel(tmp_path, "fork", "last", "--at", "Subject", *place)
    assert forked.exit_code == 4, forked.output
    assert "about tea" in roundel(tmp_path, "log", "last", *place).stdout


def test_mapping_with_a_subgraph_file_stores_both_texts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    inner = "graph: {start: Person, nodes: [{id: Person, type: human}]}"
    (tmp_path / "inner.yaml").write_text(inner)
    node = {"id": "Inner", "type": "subgraph", "config": {"type": "file", "config": {"path": "inner.yaml"}}}
    outer = {"graph": {"id": "outer", "start": "Inner", "nodes": [node]}}
    assert engine.run(outer, "go", store=tmp_path / "runs.db").status == "waiting"
    (tmp_path / "inner.yaml").unlink()
    answered = roundel(tmp_path, "answer", "last", "yes", "--store", "runs.db")
    assert (answered.exit_code, answered.stdout) == (0, "yes\n"), answered.output
    log = roundel(tmp_path, "log", "last", "--store", "runs.db").stdout
    assert re.search(r"Inner/Person  answered by \S+  yes", log), log


def test_a_prepared_file_keeps_its_variables(tmp_path: Path) -> None:
    node = "{id: Person, type: human, config: {description: 'More ${subject}?'}}"
    (tmp_path / "flow.yaml").write_text(
        f"vars: {{subject: coffee}}\ngraph: {{start: Person, nodes: [{node}]}}\n"
    )
    plan = engine.prepare(tmp_path / "flow.yaml", {"subject": "tea"})
    assert engine.run(plan, "go", store=tmp_path / "runs.db").status == "waiting"
    assert "More tea?" in roundel(tmp_path, "answer", "last", "--store", "runs.db").stdout


def test_prepared_graph_with_functions_reports_missing_code(tmp_path: Path) -> None:
    made = engine.Graph("coded", start="Shout")
    made.node("Shout", "python", function=lambda text: text.upper())
    engine.run(engine.prepare(made), "go", store=tmp_path / "runs.db")
    log = roundel(tmp_path, "log", "last", "--store", "runs.db")
    assert (log.exit_code, "Shout  completed  GO" in log.stdout) == (0, True), log.output
    forked = roundel(tmp_path, "fork", "last", "--at", "Shout", "--store", "runs.db")
    assert forked.exit_code == 2
    assert "was given in Python, and its code is not stored" in forked.stderr
    assert "runs.fork(run, workflow=…)" in forked.stderr
    new = roundel(tmp_path, "fork", "last", "--at", "Shout", "--no-run", "--store", "runs.db")
    assert new.exit_code == 0, "what cannot be executed here can be forked"
    assert new.stdout.strip() == roundel(tmp_path, "runs", "--store", "runs.db").stdout.split("\n")[1][:12]
    assert engine.resume("last", workflow=made, store=tmp_path / "runs.db").output == "GO"


def test_a_start_compiles_the_workflow_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the run is stored or not; and not at all if the plan is there already."""
    made: list[str] = []

    def counting(workflow: Any, *rest: Any) -> Any:
        made.append(workflow.name)
        return compile_workflow(workflow, *rest)

    for name, module in list(sys.modules.items()):
        if name.startswith("roundel") and getattr(module, "compile_workflow", None) is compile_workflow:
            monkeypatch.setattr(module, "compile_workflow", counting)

    async def started(source: Any, stored: bool) -> None:
        async with engine.Runs("memory:") as runs:
            run_id = await runs.start(source, "go", script=SCRIPT, stored=stored)
            await runs.result(run_id)

    passing = {"graph": {"nodes": [{"id": "Print", "type": "passthrough"}], "start": "Print", "end": "Print"}}
    plan = engine.prepare(passing)
    for stored in (True, False):
        made.clear()
        asyncio.run(started(passing, stored))
        assert len(made) == 1
        asyncio.run(started(plan, stored))
        assert len(made) == 1
