"""Scripts: which line answers, and what a line may say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import roundel
from roundel.llm.script import load_script, script_from
from roundel.workflow.diagnostics import Report
from tests.nodes.conversations import agent, look, run_conversation, wants


def test_lines_are_used_in_order_and_the_last_repeats() -> None:
    script = script_from({"A": ["one", 2, {"text": "three"}], "*": "any"})
    replies = [script.line("A", ordinal) for ordinal in range(4)]
    assert [line.text for line in replies if line] == ["one", "2", "three", "three"]
    other = script.line("B", 7)
    assert other is not None and other.text == "any"


def test_line_may_target_one_address() -> None:
    late, later = {"text": "late", "at": "W[2]/A"}, {"text": "later", "at": "W[2]/A", "call": 1}
    script = script_from({"A": [late, later, "else"]})
    calls = [("W[2]/A", 0), ("W[2]/A", 1), ("W[1]/A", 0)]
    replies = [script.line("A", 2, address, call) for address, call in calls]
    assert [line.text for line in replies if line] == ["late", "later", "else"]


def test_lines_with_addresses_are_used_in_any_order() -> None:
    """An agent in two rounds; the lines stand in no order at all."""
    graph = agent(look)
    graph.node("Gate", "loop_counter", max_iterations=2).node("Out", "passthrough")
    graph.edge("A", "A", condition={"cel": "round < 2"}).edge("A", "Gate").edge("Gate", "A").edge(
        "Gate", "Out"
    )
    script = {
        "A": [
            {"at": "A[2]/A", "call": 1, "text": "second"},
            {"at": "A[1]/A", "call": 1, "text": "first"},
            {"at": "A[2]/A", **wants("look", place="b")},
            {"at": "A[1]/A", **wants("look", place="a")},
        ]
    }
    story = run_conversation(graph, script)
    assert story.results() == ["seen a", "seen b"]
    outputs = [event.data["output"] for event in story.named("node_state_change") if "output" in event.data]
    assert outputs[:2] == ["first", "second"]


def test_tool_calls_get_ids_unless_given() -> None:
    line = {"tool_calls": [{"name": "look", "id": "mine"}, {"name": "look"}]}
    story = run_conversation(agent(look), {"A": [line, wants("look"), "done"]})
    ids = [event.data["id"] for event in story.named("tool_call") if event.data["status"] == "running"]
    assert ids == ["mine", "call_1_2", "call_2_1"]


def test_approval_decisions_have_their_own_script_lines() -> None:
    script = script_from({"A": "said", "A/look": ["yes", "no"], "*": "any"})
    replies = [script.decision("A", "look", ordinal) for ordinal in range(3)]
    assert [line.text for line in replies if line] == ["yes", "no", "no"]
    assert script.decision("A", "peek", 0) is None, "a star consents to nothing"


@pytest.mark.parametrize(
    ("name", "warned"), [("A", False), ("A/look", False), ("*", False), ("B", True), ("B/look", True)]
)
def test_unknown_node_name_is_a_warning(name: str, warned: bool) -> None:
    report = Report()
    script_from({name: "x"}).check(["A", "C/D"], report)
    assert bool(report.diagnostics) is warned


def test_node_id_may_contain_a_slash() -> None:
    report = Report()
    script_from({"C/D": "x", "C/D/look": "yes"}).check(["C/D"], report)
    assert not report.diagnostics


@pytest.mark.parametrize(
    "line",
    [
        {"tool_calls": {"name": "look"}},
        {"tool_calls": [{"arguments": {}}]},
        {"tool_calls": ["look"]},
        {"call": "first"},
        {"tokens": {"input": -1}},
        {"data": [1]},
    ],
)
def test_invalid_line_is_rejected(line: Any, tmp_path: Path) -> None:
    with pytest.raises(roundel.WorkflowError):
        script_from({"A": [line]})


def test_script_file_errors_have_a_location(tmp_path: Path) -> None:
    file = tmp_path / "script.yaml"
    file.write_text("A:\n  - text: hello\n    tool_cals: []\n")
    with pytest.raises(roundel.WorkflowError) as caught:
        load_script(file)
    (found,) = caught.value.diagnostics
    assert (found.code, found.severity, found.line) == ("unknown-key", "error", 3)
    assert "tool_calls" in found.hint
    file.write_text("A:\n  - text: hello\n    mood: good\n")
    _, report = load_script(file)
    (found,) = report.diagnostics
    assert (found.code, found.severity, found.line) == ("unknown-key", "warning", 3)
