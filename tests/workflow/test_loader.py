"""Diagnostics of workflows that can be read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import roundel
from roundel.nodes.loading import check as check_workflow


def codes(source: Any) -> list[str]:
    return [found.code for found in check_workflow(source)[1].diagnostics]


def test_warnings_are_the_same_for_every_source(tmp_path: Path) -> None:
    graph = roundel.Graph(start="A", end="A").node("A", "literal", content="x", colour="blue")
    file = tmp_path / "flow.yaml"
    file.write_text(
        "graph: {start: A, end: A, nodes: [{id: A, type: literal, config: {content: x, colour: blue}}]}"
    )
    assert codes(graph) == codes(graph.mapping()) == codes(file) == ["unknown-key"]


def test_missing_function_is_reported_before_the_run() -> None:
    graph = roundel.Graph(start="A", end="A").node("A", "python", function="nowhere:double")
    assert codes(graph) == ["unknown-function"]


def test_a_registered_function_is_called_by_its_name() -> None:
    @roundel.function("tests.shout")
    def shout(text: str) -> str:
        return text.upper()

    graph = roundel.Graph(start="A", end="A").node("A", "python", function="tests.shout")
    assert roundel.run(graph, "ab").output == "AB"


def test_settings_without_effect_are_warned_about() -> None:
    node = {"id": "A", "type": "human", "timeout": 3, "retry": {"max_attempts": 2}}
    graph = {"nodes": [node], "start": "A", "end": "A", "limits": {"tokens": 0, "rounds": 4}}
    found = check_workflow({"graph": graph})[1].diagnostics
    assert [item.code for item in found] == ["without-effect"] * 2
    assert sorted(item.message.split("'")[1] for item in found) == ["retry", "timeout"]
    assert {item.hint for item in found} == {
        "",
        "the time that a person has to answer is 'timeout' in the config",
    }


DURATIONS = [
    ("90", 90), ("1.5", 1.5), ('"90"', 90), ("90s", 90), ("30m", 1800), ("2h", 7200), ("3d", 259_200),
    ("0.5 h", 1800), ("\"${T}\"", 120),
]  # fmt: skip


@pytest.mark.parametrize(("text", "seconds"), DURATIONS)
def test_a_duration_is_a_number_of_seconds_or_has_a_unit(text: str, seconds: float, tmp_path: Path) -> None:
    file = tmp_path / "flow.yaml"
    file.write_text(HUMAN.replace("TIMEOUT", text), encoding="utf-8")
    (node,) = roundel.load(file, {"T": "2m"} if "${T}" in text else {}).graph.nodes
    assert node.config.timeout == seconds


@pytest.mark.parametrize("text", ["0", "-1", "0s", "2 weeks", "2x", "h", "[1]", ".inf", "36501d", "true"])
def test_a_wrong_duration_is_an_error_with_its_line(text: str, tmp_path: Path) -> None:
    file = tmp_path / "flow.yaml"
    file.write_text(HUMAN.replace("TIMEOUT", text), encoding="utf-8")
    (found,) = check_workflow(file, {})[1].diagnostics
    assert (found.code, found.line, found.column) == ("wrong-type", 5, 25)
    assert "or a text such as 90s, 30m, 2h or 3d" in found.message


HUMAN = """graph:
  nodes:
    - id: Boss
      type: human
      config: {timeout: TIMEOUT, default: "no"}
  start: Boss
  end: Boss
"""


def test_default_answers_are_text_or_a_mapping() -> None:
    def check(**config: Any) -> list[str]:
        node = {"id": "A", "type": "human", "config": config}
        found = check_workflow({"graph": {"nodes": [node], "start": "A", "end": "A"}})[1].diagnostics
        return [f"{item.severity} {item.message}" for item in found]

    assert check(timeout="2h", default="") == check(timeout=3, default={"approved": False}) == []
    (wrong,) = check(timeout="2h", default=7)
    assert wrong == "error 'default' of a human node must be text or a mapping, not 7"
    assert check(default="no") == ["warning 'default' has no effect without 'timeout'"]


VECTORS = {"model": "small", "params": {"dimensions": 256, "use_chunking": True}}
FILES = {"file_sources": {"path": "."}, "index_path": "index.json"}
SETTINGS = {
    "'index_path' has no effect": {"name": "m", "type": "file", "config": FILES},
    "'use_chunking' has no effect": {"name": "m", "type": "simple", "config": {"embedding": VECTORS}},
}


@pytest.mark.parametrize("said", SETTINGS)
def test_memory_settings_without_effect_are_warned_about(said: str) -> None:
    graph = {"nodes": [{"id": "A", "type": "agent"}], "start": "A", "memory": [SETTINGS[said]]}
    _, report = check_workflow({"graph": graph})
    (found,) = report.diagnostics
    assert (found.code, found.severity, said in found.message) == ("without-effect", "warning", True)


@pytest.mark.parametrize("size", [0, "a", 1.5, True])
def test_vector_length_must_be_positive(size: Any) -> None:
    embedding = {"model": "small", "params": {"dimensions": size}}
    memory = {"name": "m", "type": "simple", "config": {"embedding": embedding}}
    graph = {"nodes": [{"id": "A", "type": "agent"}], "start": "A", "memory": [memory]}
    assert codes({"graph": graph}) == ["wrong-type"]


@pytest.mark.parametrize("where", ["auto_load", "auto_fill"])
def test_disabling_tool_discovery_has_no_effect(where: str) -> None:
    tool = {"name": "mean", "auto_fill": where != "auto_fill"}
    config = {"tools": [tool], "auto_load": where != "auto_load"}
    agent = {"id": "A", "type": "agent", "config": {"tooling": {"type": "function", "config": config}}}
    _, report = check_workflow({"graph": {"nodes": [agent], "start": "A"}})
    assert [item.message for item in report.diagnostics if item.code == "without-effect"] == [
        f"'{where}: false' has no effect in this version"
    ]


def test_settings_next_to_the_graph_of_a_subgraph_file_apply(tmp_path: Path) -> None:
    (tmp_path / "outer.yaml").write_text(
        "vars: {WORD: outer, OTHER: shared}\n"
        "graph:\n"
        "  start: Sub\n"
        "  nodes: [{id: Sub, type: subgraph, config: {type: file, config: {path: inner.yaml}}}]\n"
    )
    (tmp_path / "inner.yaml").write_text(
        "vars: {WORD: inner}\n"
        "limits: {rounds: 3}\n"
        "colour: blue\n"
        "graph:\n"
        "  start: A\n"
        "  end: B\n"
        "  nodes: [{id: A, type: literal, config: {content: x}}, {id: B, type: passthrough}]\n"
        "  edges:\n"
        "    - {from: A, to: A, condition: {cel: 'round < 5'}}\n"
        "    - {from: A, to: B, condition: {cel: \"vars.WORD == 'never' || vars.OTHER == 'never'\"}}\n"
    )
    _, report = check_workflow(tmp_path / "outer.yaml")
    assert [(found.code, found.line) for found in report.diagnostics if found.code == "unknown-key"] == [
        ("unknown-key", 3)
    ]
    result = roundel.run(tmp_path / "outer.yaml")
    assert (result.status, result.nodes["A"]) == ("suspended_locked", 3)


def test_an_override_that_no_file_of_the_workflow_knows_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "part.yaml").write_text(
        "vars: {SIZE: 3}\ngraph: {start: A, nodes: [{id: A, type: literal, config: {content: '${TOPIC}'}}]}"
    )
    file = tmp_path / "flow.yaml"
    file.write_text(
        "vars: {LONG: '${SHORT}', SHORT: x}\n"
        "graph: {start: P, nodes: [{id: P, type: subgraph, config: {type: file, config: {path: part.yaml}}}]}"
    )
    # Known in the subgraph alone, used in a placeholder alone, or hidden by another override.
    for given in ({"SIZE": 4, "TOPIC": "tea"}, {"TOPIC": "tea", "LONG": "y", "SHORT": "z"}):
        assert check_workflow(file, given)[1].errors == []
    workflow, report = check_workflow(file, {"TOPIC": "tea", "SIZES": 4, "COLOUR": "red"})
    assert workflow is None
    assert [(found.code, found.message, found.hint) for found in report.errors] == [
        (
            "unknown-variable",
            "the workflow has no variable 'COLOUR'",
            "its variables: LONG, SHORT, SIZE, TOPIC",
        ),
        ("unknown-variable", "the workflow has no variable 'SIZES'", "did you mean 'SIZE'?"),
    ]


def test_variables_for_a_workflow_in_which_they_are_replaced_are_an_error() -> None:
    graph = roundel.Graph("g", start="A").node("A", "literal", content="${TOPIC}")
    with pytest.raises(roundel.WorkflowError, match="did you mean 'TOPIC'"):
        roundel.run(graph, variables={"TOPIC": "tea", "TOPICS": "milk"})
    assert roundel.run(graph, variables={"TOPIC": "tea"}).output == "tea"
    plan = roundel.prepare(graph, {"TOPIC": "tea"})
    with pytest.raises(ValueError, match="variables= is for what loads the workflow"):
        roundel.run(plan, variables={"TOPIC": "milk"})
    with pytest.raises(ValueError, match="variables= needs a workflow in which they are not replaced yet"):
        roundel.run(plan.workflow, variables={"TOPIC": "milk"})
