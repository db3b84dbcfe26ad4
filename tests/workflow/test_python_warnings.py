"""Warnings in Python: what they say, at which line, and how a program filters them."""

from __future__ import annotations

import asyncio
import inspect
import pickle
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import roundel
from roundel import RoundelWarning
from roundel.cli.output import print_warnings

DOUBTFUL = roundel.Graph("tea", start="A", end="A").node("A", "agent", colour="blue")
FILE = "graph: {start: A, nodes: [{id: A, type: agent, colour: blue}]}"
SCRIPT = {"A": "tea"}
EACH = roundel.LoopAgent("Each", roundel.Agent("A"), roundel.LoopMode.array())
"""It warns while it runs: its input is no array."""


@pytest.fixture(autouse=True)
def caught() -> Iterator[list[warnings.WarningMessage]]:
    """All warnings of a test."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        yield found


def here() -> int:
    """The line that calls this."""
    frame = inspect.currentframe()
    assert frame is not None and frame.f_back is not None
    return frame.f_back.f_lineno


def places(caught: list[warnings.WarningMessage]) -> list[tuple[str, int]]:
    assert {one.category for one in caught} <= {RoundelWarning}
    return [(one.filename, one.lineno) for one in caught]


def codes(result: roundel.Result) -> list[str]:
    return [found.code for found in result.warnings]


def test_a_run_has_its_warnings_and_python_gets_them_at_the_line_of_the_call(caught: Any) -> None:
    result = roundel.run(DOUBTFUL, script={"A": "tea", "Writer": "milk"})
    line = here() - 1
    assert codes(result) == ["unknown-key", "unknown-node"]
    assert [found.severity for found in result.warnings] == ["warning", "warning"]
    assert places(caught) == [(__file__, line)] * 2
    assert str(caught[0].message).startswith("<python>: node 'A' has an unknown key 'colour' (known keys: ")
    assert str(caught[1].message) == "<script>: the script names 'Writer', which is not a node [unknown-node]"
    assert caught[0].message.diagnostic == result.warnings[0]


def test_warnings_of_the_run_itself_come_with_its_result(caught: Any, tmp_path: Path) -> None:
    result = roundel.run(EACH, "no array", script=SCRIPT, store=tmp_path / "runs.db")
    line = here() - 1
    (found,) = result.warnings
    assert (found.code, found.severity) == ("run-warning", "warning")
    assert found.message.startswith("Each: There is nothing to repeat")
    assert "warnings" not in result.summary
    assert places(caught) == [(__file__, line)]

    async def read() -> roundel.Result:
        async with roundel.Runs(tmp_path / "runs.db", on_warnings=None) as runs:
            return await runs.result("last")

    assert asyncio.run(read()).warnings == (found,), "another process reads the same"
    assert len(caught) == 1


def test_a_resumed_run_has_the_warnings_from_before(caught: Any, tmp_path: Path) -> None:
    graph = roundel.Graph("ask", start="Each", end="Editor").add(EACH).node("Editor", "human")
    place = tmp_path / "runs.db"
    first = roundel.run(graph.edge("Each", "Editor"), "no array", script=SCRIPT, store=place)
    assert (first.status, codes(first)) == ("waiting", ["run-warning"])
    again = roundel.resume("last", store=place)
    assert (again.status, again.warnings) == ("waiting", first.warnings)


def test_the_same_warning_in_many_rounds_is_one(caught: Any) -> None:
    graph = (
        roundel.Graph("again", start="Text", end="Out").node("Text", "literal", content="no array").add(EACH)
    )
    graph.node("Gate", "loop_counter", max_iterations=5).node("Out", "passthrough")
    graph.edge("Text", "Each").edge("Each", "Gate").edge("Gate", "Out").edge("Each", "Text").edge(
        "Gate", "Text"
    )
    events: list[roundel.Event] = []
    result = roundel.run(graph, script=SCRIPT, on_event=events.append)
    assert len([event for event in events if event.event == "warning"]) == 5
    (found,) = (found for found in result.warnings if found.code == "run-warning")
    assert found.message.startswith("Text[1]/Each: There is nothing to repeat")


def test_every_way_to_load_a_workflow_warns_at_the_line_of_the_call(caught: Any, tmp_path: Path) -> None:
    file, place = tmp_path / "flow.yaml", tmp_path / "runs.db"
    file.write_text(FILE)
    lines: list[int] = []

    async def story() -> None:
        await roundel.run_async(file, script=SCRIPT)
        lines.append(here() - 1)
        async for _ in roundel.stream(file, script=SCRIPT):
            pass
        lines.append(here() - 2)
        async with roundel.Runs(place) as runs:
            run_id = await runs.start(file, script=SCRIPT)
            lines.append(here() - 1)
            assert codes(await runs.result(run_id)) == ["unknown-key"]
            await runs.replay(run_id, workflow=file)
            lines.append(here() - 1)
            new = await runs.fork(run_id, "A", workflow=file)
            lines.append(here() - 1)
            assert codes(await runs.resume(new)) == ["unknown-key"]

    roundel.load(file)
    lines.append(here() - 1)
    plan = roundel.prepare(file)
    lines.append(here() - 1)
    DOUBTFUL.workflow()
    lines.append(here() - 1)
    asyncio.run(story())
    assert places(caught) == [(__file__, line) for line in lines]
    caught.clear()
    assert codes(roundel.run(plan, script=SCRIPT)) == ["unknown-key"]
    assert not caught, "`prepare` has warned already"


def test_a_task_warns_at_the_line_that_started_the_event_loop(caught: Any) -> None:
    async def story() -> None:
        await asyncio.create_task(roundel.run_async(DOUBTFUL, script=SCRIPT))

    asyncio.run(story())
    line = here() - 1
    assert places(caught) == [(__file__, line)]


def test_by_default_a_line_warns_once_however_often_it_is_executed(caught: Any) -> None:
    warnings.simplefilter("default")
    for _ in range(3):
        roundel.run(DOUBTFUL, script=SCRIPT)
    assert len(caught) == 1


def test_a_program_filters_warnings_and_makes_them_errors(caught: Any) -> None:
    warnings.filterwarnings("ignore", message=".*unknown key 'colour'", category=RoundelWarning)
    result = roundel.run(DOUBTFUL, script={**SCRIPT, "B": "milk"})
    assert ([one.message.diagnostic.code for one in caught], len(result.warnings)) == (["unknown-node"], 2)
    warnings.simplefilter("error", RoundelWarning)
    events: list[roundel.Event] = []
    with pytest.raises(RoundelWarning, match="unknown key 'colour'") as raised:
        roundel.run(DOUBTFUL, script=SCRIPT, on_event=events.append)
    assert events == [], "refused before the run begins"
    again = pickle.loads(pickle.dumps(raised.value))
    assert (str(again), again.diagnostic) == (str(raised.value), raised.value.diagnostic)


@pytest.mark.parametrize("handler", [None, print_warnings])
def test_commands_and_servers_handle_warnings_themselves(
    caught: Any, handler: Callable[..., Any] | None, capsys: pytest.CaptureFixture[str]
) -> None:
    async def story() -> roundel.Result:
        async with roundel.Runs(on_warnings=handler) as runs:
            run_id = await runs.start(DOUBTFUL, "no array", script={"B": "milk"}, stored=False)
            return await runs.result(run_id)

    assert codes(asyncio.run(story())) == ["unknown-key", "unknown-node"]
    assert not caught
    said = capsys.readouterr().err
    assert ("[unknown-key]" in said, "[unknown-node]" in said) == (bool(handler), bool(handler))
