"""The tools of a workflow: where they come from, and what an agent offers of them."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

import roundel
from roundel.nodes import loading
from roundel.workflow.functions import _registered
from tests.nodes.conversations import Told, agent, look, run_conversation, wants


def workflow(beside: dict[str, Any], /, **config: Any) -> dict[str, Any]:
    nodes = [{"id": "A", "type": "agent", "config": config}]
    return {"tools": beside, "graph": {"nodes": nodes, "start": "A", "end": "A"}}


def results(story: Told) -> list[str]:
    assert story.result.completed, story.result.error
    return story.results()


# Tools of the file.


def test_tool_from_the_import_path() -> None:
    source = workflow({"mean": {"python": "statistics:mean"}}, tools=["mean"])
    assert results(run_conversation(source, {"A": [wants("mean", data=[1, 2, 6]), "done"]})) == ["3"]


def test_tool_from_a_module_next_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "ours.py").write_text("def twice(text: str) -> str:\n    return text * 2\n")
    file = tmp_path / "workflow.yaml"
    file.write_text(
        "tools: {double: {python: 'ours:twice', prefix: our}}\n"
        "graph: {nodes: [{id: A, type: agent, config: {tools: double}}], start: A}\n"
    )
    assert results(run_conversation(file, {"A": [wants("our_double", text="ab"), "done"]})) == ["abab"]


def test_invalid_tool_name_is_sanitised() -> None:
    source = workflow({"my tool!": {"python": "statistics:mean"}}, tools=["my tool!"])
    assert results(run_conversation(source, {"A": [wants("my_tool_", data=[1]), "done"]})) == ["1"]


def test_tool_timeout_is_enforced() -> None:
    def sleep() -> None:
        time.sleep(20)

    def give_up() -> None:
        raise TimeoutError("the other side is slow")

    tools = {
        "sleep": {"python": sleep, "timeout": 0.05},
        "give_up": {"python": give_up, "timeout": 60},  # it must not be the machine that is slow
    }
    graph = roundel.Graph(start="A", end="A", tools=tools).node("A", "agent", tools=list(tools))
    started = time.monotonic()
    story = run_conversation(graph, {"A": [wants("sleep", "give_up"), "done"]})
    assert sorted(results(story)) == ["TimeoutError: the other side is slow", "no answer after 0.05 seconds"]
    assert time.monotonic() - started < 10


def test_invalid_unicode_in_tool_results_is_replaced() -> None:
    def read(broken: bool) -> str:
        if broken:
            raise ValueError("b\udcff")
        return "a\udcff"

    calls = [{"name": "read", "arguments": {"broken": broken}} for broken in (False, True)]
    story = run_conversation(agent(read), {"A": [{"tool_calls": calls}, "done"]})
    assert sorted(results(story)) == ["ValueError: b?", "a?"]
    assert all(msgspec.json.encode(event) for event in story.events)


@pytest.mark.parametrize(
    ("tools", "offered", "code", "expected"),
    [
        ({}, ["men"], "unknown-tool", "there is no tool 'men'"),
        ({"mean": {"python": "statistics:mean"}}, ["men"], "unknown-tool", "did you mean 'mean'?"),
        ({"mean": {}}, ["mean"], "tool-source", "neither 'python' nor 'mcp'"),
        ({"mean": {"python": "nowhere:mean"}}, ["mean"], "unknown-function", "nowhere"),
        ({"s": {"mcp": {}}}, ["s"], "mcp-server", "neither a 'command' nor a 'url'"),
        ({"s": {"mcp": {"command": "a", "url": "b"}}}, ["s"], "mcp-server", "both a 'command' and a 'url'"),
    ],
)
def test_check_reports_unavailable_tools(
    tools: dict[str, Any], offered: list[str], code: str, expected: str
) -> None:
    _, report = loading.check(workflow(tools, tools=offered))
    found = next(one for one in report.diagnostics if one.code == code)
    assert expected in f"{found.message} {found.hint}"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"python": "builtins:max"}, "the function 'max' has no signature"),
        ({"python": "statistics:men"}, "module 'statistics' has no function 'men'"),
        ({"python": "statistics:mean", "parameters": {"type": 3}}, "is no JSON Schema"),
    ],
)
def test_tools_that_fail_to_load_are_reported_before_the_run(source: dict[str, Any], expected: str) -> None:
    with pytest.raises(roundel.WorkflowError, match=expected) as caught:
        run_conversation(workflow({"tool": source}, tools=["tool"]), {"A": "never"})
    assert caught.value.diagnostics[0].code in ("cannot-run", "unknown-function")


def test_duplicate_tool_names_are_reported_before_the_run() -> None:
    tools = {"a b": {"python": "statistics:mean"}, "a.b": {"python": "statistics:median"}}
    with pytest.raises(
        roundel.WorkflowError, match="two tools have the name 'a_b'; give one of them a prefix"
    ):
        run_conversation(workflow(tools, tools=["a b", "a.b"]), {"A": "never"})


def test_a_tool_that_is_named_twice_is_offered_once() -> None:
    dynamic = {"tool_ids": ["mean"]}
    source = workflow({"mean": {"python": "statistics:mean"}}, tools=["mean", "mean"], dynamic_tools=dynamic)
    assert results(run_conversation(source, {"A": [wants("mean", data=[3]), "done"]})) == ["3"]


# Tools of Python.


@pytest.fixture
def registered() -> Any:
    before = dict(_registered["tool"])
    yield
    _registered["tool"].clear()
    _registered["tool"].update(before)


@pytest.mark.usefixtures("registered")
def test_a_function_may_be_registered() -> None:
    @roundel.tool("spy")
    def watch(place: str) -> str:
        return f"watched {place}"

    assert results(
        run_conversation(workflow({}, tools=["spy"]), {"A": [wants("spy", place="x"), "done"]})
    ) == ["watched x"]


def test_functions_in_a_graph_are_named_and_numbered() -> None:
    def look(place: str) -> str:
        return f"another look at {place}"

    graph = agent(look).node("B", "agent", tools=[globals()["look"]]).edge("A", "B")
    script = {"A": [wants("look", place="x"), "one"], "B": [wants("look_2", place="y"), "two"]}
    assert results(run_conversation(graph, script)) == ["another look at x", "seen y"]


def test_graph_accepts_tools_and_models() -> None:
    def twice(word: str) -> str:
        return word * 2

    graph = roundel.Graph(
        start="A",
        end="A",
        models={"default": {"model": "openai:m"}},
        tools={
            "double": twice,
            "mean": {"python": "statistics:mean"},
            "look": {"python": look, "timeout": 9},
        },
    )
    graph.node("A", "agent", tools=["double", "mean", "look"])
    assert set(graph.workflow().tools) == {"double", "look", "mean"}
    assert graph.workflow().models["default"].provider_and_name == ("openai", "m")
    assert set(graph.workflow(tools={"more": look}).tools) == {"double", "look", "mean", "more"}
    assert results(run_conversation(graph, {"A": [wants("double", word="ab"), "done"]})) == ["abab"]


def test_function_does_not_shadow_a_named_tool() -> None:
    def mean(data: list[float]) -> str:
        return "my own mean"

    outer = roundel.Graph(start="A", end="B", tools={})
    inner = roundel.Graph(start="C", end="C", tools={"mean": {"python": "statistics:mean"}})
    inner.node("C", "agent", tools=["mean"])
    outer.node("A", "agent", tools=[mean]).node("B", "subgraph", graph=inner).edge("A", "B")
    script = {"A": [wants("mean_2", data=[1]), "one"], "C": [wants("mean", data=[4]), "two"]}
    assert results(run_conversation(outer, script)) == ["my own mean", "4"]


def test_tool_name_is_unique_in_the_whole_workflow() -> None:
    inner = roundel.Graph(start="C", end="C", tools={"f": look}).node("C", "agent", tools=["f"])
    outer = roundel.Graph(start="B", end="B", tools={"f": {"python": "statistics:mean"}})
    outer.node("B", "subgraph", graph=inner)
    with pytest.raises(roundel.WorkflowError, match="'f' under 'tools' differs from the entry"):
        outer.workflow()


def test_python_agents_accept_functions_as_tools() -> None:
    loop = roundel.LoopAgent("L", roundel.Agent("A", tools=[look]), roundel.LoopMode.count(2))
    story = run_conversation(loop, {"A": [wants("look", place="a"), "one", wants("look", place="b"), "two"]})
    assert results(story) == ["seen a", "seen b"]
    assert story.addresses() == ["L[1].A[1]/look", "L[2].A[1]/look"]


# Tools of the files of subgraphs.


def files(folder: Path, outer: str, inner: str) -> Path:
    (folder / "inner.yaml").write_text(
        f"{inner}\ngraph: {{nodes: [{{id: A, type: agent, config: {{tools: mean}}}}], start: A}}\n"
    )
    config = "{type: file, config: {path: inner.yaml}}"
    (folder / "outer.yaml").write_text(
        f"{outer}\ngraph: {{nodes: [{{id: S, type: subgraph, config: {config}}}], start: S}}\n"
    )
    return folder / "outer.yaml"


MEAN, MEDIAN = "tools: {mean: {python: 'statistics:mean'}}", "tools: {mean: {python: 'statistics:median'}}"


@pytest.mark.parametrize(("outer", "inner"), [(MEAN, ""), ("", MEAN), (MEAN, MEAN)])
def test_tools_are_shared_between_file_and_subgraph(outer: str, inner: str, tmp_path: Path) -> None:
    file = files(tmp_path, outer, inner)
    story = run_conversation(file, {"A": [wants("mean", data=[1, 2, 6]), "done"]})
    assert results(story) == ["3"]
    assert story.addresses() == ["S/A[1]/mean"]


def test_conflicting_tool_definitions_are_rejected(tmp_path: Path) -> None:
    _, report = loading.check(files(tmp_path, MEAN, MEDIAN))
    (found,) = report.errors
    assert (found.code, found.line) == ("two-meanings", 1)


# Tooling of the dialect.

FUNCTIONS = '''
from os.path import join

def _hidden() -> str:
    return "hidden"

def add(one: int, other: int) -> int:
    """Adds."""
    return one + other

def times(one: int, other: int, _context: dict) -> int:
    """Multiplies."""
    return one * other
'''


def dialect(folder: Path, *names: str, **more: Any) -> Path:
    place = folder / "functions" / "function_calling"
    place.mkdir(parents=True)
    (place / "sums.py").write_text(FUNCTIONS)
    tooling = {"type": "function", "config": {"tools": [{"name": name} for name in names]}, **more}
    file = folder / "workflow.yaml"
    file.write_text(json.dumps(workflow({}, tooling=[tooling])))
    return file


def test_tool_from_the_tools_folder(tmp_path: Path) -> None:
    file = dialect(tmp_path, "add")
    assert results(run_conversation(file, {"A": [wants("add", one=1, other=2), "done"]})) == ["3"]


def test_all_functions_of_a_module_are_offered(tmp_path: Path) -> None:
    file = dialect(tmp_path, "sums:All", prefix="our")
    story = run_conversation(
        file, {"A": [wants("our_add", "our_times", "our_join", "our__hidden", one=3, other=4), "done"]}
    )
    there = "there are: our_add, our_times"
    assert sorted(results(story)) == [
        "12",
        "7",
        f"there is no tool 'our__hidden'; {there}",
        f"there is no tool 'our_join'; {there}",
    ]


@pytest.mark.parametrize("name", ["nothing", "nowhere:All"])
def test_missing_tool_is_a_warning_and_not_offered(name: str, tmp_path: Path) -> None:
    file = dialect(tmp_path, name, "add")
    _, report = loading.check(file)
    (found,) = report.diagnostics
    assert (found.code, found.severity) == ("missing-tool", "warning")
    assert f"the tool '{name}' is not here" in found.message
    assert results(run_conversation(file, {"A": [wants("add", one=1, other=2), "done"]})) == ["3"]


def test_tooling_may_be_written_without_a_list(tmp_path: Path) -> None:
    config = {"tools": [{"name": "statistics:mean", "description": "The mean"}], "timeout": 5}
    source = workflow({}, tooling={"type": "function", "config": config})
    assert results(run_conversation(source, {"A": [wants("mean", data=[1, 3]), "done"]})) == ["2"]
