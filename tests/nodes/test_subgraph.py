"""Graphs as nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import roundel
from tests.events import node_status

INNER = """
graph:
  start: Inner
  end: Inner
  nodes: [{id: Inner, type: literal, config: {content: "from ${NAME}"}}]
"""

OUTER = """
vars: {NAME: outside}
graph:
  start: Sub
  end: Out
  nodes:
    - {id: Sub, type: subgraph, config: {type: file, config: {path: inner.yaml}}}
    - {id: Out, type: passthrough}
  edges: [{from: Sub, to: Out}]
"""


@pytest.mark.parametrize("place", ["inner.yaml", "subgraphs/inner.yaml"])
def test_file_next_to_the_workflow_or_in_its_subgraphs_folder(tmp_path: Path, place: str) -> None:
    (tmp_path / "subgraphs").mkdir()
    (tmp_path / "outer.yaml").write_text(OUTER)
    (tmp_path / place).write_text(INNER)
    assert roundel.run(tmp_path / "outer.yaml").output == "from outside"


def test_a_file_in_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep/outer.yaml").write_text(OUTER)
    (tmp_path / "inner.yaml").write_text(INNER)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(roundel.WorkflowError, match="outside the workflow's folder"):
        roundel.run("deep/outer.yaml")
    assert roundel.run("deep/outer.yaml", allow_paths=".").output == "from outside"


def test_own_variables_override_those_of_the_outer_file(tmp_path: Path) -> None:
    (tmp_path / "outer.yaml").write_text(OUTER)
    (tmp_path / "inner.yaml").write_text("vars: {NAME: inside}" + INNER)
    assert roundel.run(tmp_path / "outer.yaml").output == "from inside"


def inner_loop() -> roundel.Graph:
    graph = roundel.Graph(start="W", end="Done")
    graph.node("W", "agent").node("Done", "passthrough").node("Gate", "loop_counter", max_iterations=2)
    return graph.edge("W", "W").edge("W", "Gate").edge("Gate", "W").edge("Gate", "Done")


def test_addresses_include_subgraphs_and_their_loops() -> None:
    outer = roundel.Graph(start="A", end="Out").node("A", "passthrough").node("Out", "passthrough")
    outer.node("Sub", "subgraph", graph=inner_loop()).node("Gate2", "loop_counter", max_iterations=2)
    outer.edge("A", "Sub").edge("Sub", "A").edge("Sub", "Gate2").edge("Gate2", "A").edge("Gate2", "Out")
    events: list[roundel.Event] = []
    result = roundel.run(outer, script={}, on_event=events.append)
    ran = [event.address for event in events if node_status(event) == "running"]
    assert "A[2]/Sub/W[1]/W" in ran
    assert "A[2]/Sub/Done" in ran
    assert result.loops["W"] == {"rounds": 4, "exit_reason": "max_iterations_reached", "entries": 2}


def test_output_is_the_last_message_of_the_end_node() -> None:
    inner = roundel.Graph(start="A", end="A").node("A", "passthrough", only_last_message=False)
    outer = roundel.Graph(start=["X", "Y"], end="Out").node("X", "literal", content="x")
    outer.node("Y", "literal", content="y").node("Sub", "subgraph", graph=inner)
    outer.node("Out", "passthrough", only_last_message=False)
    outer.edge("X", "Sub").edge("Y", "Sub").edge("Sub", "Out")
    events: list[roundel.Event] = []
    assert roundel.run(outer, on_event=events.append).output == "y"


def test_subgraph_not_reaching_its_end_is_reported_and_triggers_nothing() -> None:
    inner = roundel.Graph(start="A", end="B").node("A", "agent").node("B", "passthrough")
    inner.edge("A", "B", condition={"type": "keyword", "config": {"any": ["never"]}})
    outer = (
        roundel.Graph(start="Sub", end="Out").node("Sub", "subgraph", graph=inner).node("Out", "passthrough")
    )
    outer.edge("Sub", "Out")
    events: list[roundel.Event] = []
    result = roundel.run(outer, script={}, on_event=events.append)
    assert (result.status, result.output, result.nodes) == ("completed", "", {"Sub": 1, "A": 1})
    missed = [
        (event.address, event.fields()["edges"]) for event in events if event.event == "end_not_reached"
    ]
    assert missed == [("Sub", ["A → B"]), (None, ["Sub → Out"])]


def test_human_node_in_a_subgraph_waits_for_input() -> None:
    inner = roundel.Graph(start="Ask", end="Ask").node("Ask", "human", description="well?")
    outer = roundel.Graph(start="Sub", end="Sub").node("Sub", "subgraph", graph=inner)
    events: list[roundel.Event] = []
    assert roundel.run(outer, on_event=events.append).status == "waiting"
    assert [event.address for event in events if event.event == "human_input_required"] == ["Sub/Ask"]
    assert roundel.run(outer, script={"Ask": "fine"}).output == "fine"


def test_a_failure_inside_fails_the_run_with_its_address() -> None:
    inner: Any = roundel.Graph(start="A", end="A").node("A", "agent")
    outer = roundel.Graph(start="Sub", end="Sub").node("Sub", "subgraph", graph=inner)
    assert roundel.run(outer, script={"A": [{"error": "no"}]}).error == "Sub/A: no"


def test_a_cap_inside_locks_the_whole_run() -> None:
    inner = roundel.Graph(start="A", end="B", limits={"rounds": 3}).node("A", "literal", content="a")
    inner.node("B", "passthrough")
    inner.edge("A", "A").edge("A", "B", condition={"type": "keyword", "config": {"any": ["z"]}})
    outer = roundel.Graph(start="Sub", end="Sub").node("Sub", "subgraph", graph=inner)
    result = roundel.run(outer)
    assert (result.status, result.nodes["A"]) == ("suspended_locked", 3)


@pytest.mark.parametrize("graph_limits", ["", "  limits: {tool_calls: 5}\n", "  limits: {rounds: 9}\n"])
@pytest.mark.parametrize("file_limits", ["", "limits: {model_calls: 7}\n"])
def test_limits_of_a_subgraph_file_complete_those_of_its_graph(
    tmp_path: Path, graph_limits: str, file_limits: str
) -> None:
    (tmp_path / "outer.yaml").write_text(OUTER)
    (tmp_path / "inner.yaml").write_text(file_limits + INNER.lstrip() + graph_limits)
    found = roundel.load(tmp_path / "outer.yaml").graph.nodes[0].config.graph.limits
    assert (found.tool_calls, found.rounds, found.model_calls) == (
        5 if "tool_calls" in graph_limits else None,
        9 if "rounds" in graph_limits else None,
        7 if file_limits else None,
    )


def test_ids_with_address_characters_are_escaped() -> None:
    inner = roundel.Graph(start="T", end="T").node("T", "literal", content="inside")
    outer = roundel.Graph(start=["In", "In/T", "X[1]#2"], end="Join").node("In", "subgraph", graph=inner)
    outer.node("In/T", "literal", content="outside").node("X[1]#2", "literal", content="100%")
    outer.node("Join", "passthrough", only_last_message=False)
    outer.edge("In", "Join").edge("In/T", "Join").edge("X[1]#2", "Join")
    events: list[roundel.Event] = []
    result = roundel.run(outer, on_event=events.append)
    assert result.status == "completed"
    ran = [event.address for event in events if node_status(event) == "running"]
    assert ran == ["In", "In%2FT", "X%5B1%5D%232", "In/T", "Join"]
    assert [event.node_id for event in events if event.address == "In%2FT"] == ["In/T", "In/T"]
