"""Workflow files as they are written elsewhere run as they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import roundel
from roundel.hosts import services
from roundel.llm.script import ScriptedModel
from roundel.nodes.services import Reply, Request, StreamCallback
from tests.events import node_status

HERE = Path(__file__).parent
VARIABLES = {"MODEL": "m", "BASE_URL": "http://localhost", "API_KEY": "none"}


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for variable, value in VARIABLES.items():
        monkeypatch.setenv(variable, value)


def run(name: str, script: dict[str, Any]) -> tuple[roundel.Result, dict[str, list[str]]]:
    """The result, and what each execution was given, by address."""
    given: dict[str, list[str]] = {}

    def note(event: roundel.Event) -> None:
        if node_status(event) == "completed":
            given.setdefault(str(event.address), []).append(event.fields().get("output", ""))

    result = roundel.run(HERE / f"{name}.yaml", "go", script=script, on_event=note)
    return result, given


@pytest.mark.parametrize("name", [path.stem for path in sorted(HERE.glob("*.yaml"))])
def test_files_load_without_errors(name: str) -> None:
    workflow, report = roundel.check(HERE / f"{name}.yaml")
    assert workflow is not None, report.diagnostics
    assert report.ok


def test_two_cycles_one_after_the_other() -> None:
    script = {
        "Collector": ["```python\nboom\n```", "```python\nprint('three changes')\n```"],
        "Writer": ["notes v1", "notes v2"],
        "Proofreader": ["CONTINUE: a typo", "fine"],
    }
    result, said = run("release_notes", script)
    assert result.output == "fine"
    assert {name: loop["rounds"] for name, loop in result.loops.items()} == {"Collector": 2, "Writer": 2}
    assert said["Collector[2]/Runner"] == ["three changes\n"]


def test_map_and_tree() -> None:
    script = {"Planner": ["eat", "sleep", "look"], "Editor": ["eat and sleep", "look", "all of it"]}
    result, said = run("travel", script)
    assert result.output == "all of it"
    assert result.nodes["Planner"] == 3
    assert result.nodes["Editor"] == 3
    assert [said[f"Planner#{number}"] for number in (1, 2, 3)] == [["eat"], ["sleep"], ["look"]]


def test_a_counter_with_an_edge_given_twice() -> None:
    result, _ = run("counted", {})
    assert (result.output, result.nodes) == ("finished", {"Draft": 3, "Critic": 3, "Gate": 3, "Done": 1})
    _, report = roundel.check(HERE / "counted.yaml")
    assert [(found.code, found.line) for found in report.diagnostics] == [("duplicate-edge", 20)]


def test_keyword_verdict_ends_the_loop() -> None:
    script = {
        "Actor": ["draft one", "draft two"],
        "Judge": ["Verdict: CONTINUE", "Score: 1\nverdict: stop"],
        "Notes": ["more colour"],
    }
    result, _ = run("reflect", script)
    assert result.status == "completed"
    assert result.output == "draft two", "an agent without a line says its last input: the last draft"
    assert result.loops["Actor"]["rounds"] == 2


def test_memories(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Request] = []

    class Listening(ScriptedModel):
        async def reply(self, request: Request, say: StreamCallback | None = None) -> Reply:
            asked.append(request)
            return await super().reply(request, say)

    monkeypatch.setattr(services, "ScriptedModel", Listening)
    _, report = roundel.check(HERE / "recollect.yaml")
    found = [(one.code, one.severity, one.line) for one in report.diagnostics]
    without_effect = [("without-effect", "warning", line) for line in (23, 24, 26)]
    assert found == [("unknown-key", "warning", 12), *without_effect]
    for number in (1, 2):
        script = {"Doer": [f"draft {number}"], "Learner": [f"lesson {number}"]}
        result = roundel.run(HERE / "recollect.yaml", "go", script=script, store="runs.db")
        assert (result.status, result.output) == ("completed", f"lesson {number}")
    reminded = [request.messages[0].text for request in asked if len(request.messages) > 1]
    assert reminded == [
        "===== Related Memories =====\n\n[1] lesson 1\n\n[2] draft 1\n\n===== End of Memory ====="
    ]
