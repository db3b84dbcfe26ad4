"""Approval of tool calls by people: valid answers, and where the question is asked."""

from __future__ import annotations

import json
from typing import Any

import pytest

import roundel
from roundel.nodes.agent_conversation import read_decision
from tests.nodes.conversations import agent, look, run_conversation, wants

ARGUMENTS = {"place": "here"}


@pytest.mark.parametrize("text", ["approve", "Yes", " ok ", "OK!", "y", "同意", "Approved."])
def test_words_of_consent_approve(text: str) -> None:
    replies = read_decision(roundel.Message(text), ARGUMENTS)
    assert (replies.approved, replies.arguments) == (True, ARGUMENTS)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("reject", ""),
        ("no", ""),
        ("", ""),
        ("No.", ""),
        ("no: too far", ": too far"),
        ("拒绝: 太远", ": 太远"),
        ("look at the map first", ": look at the map first"),
        ("yes: but not today", ": yes: but not today"),
        ("[1]", ": [1]"),
    ],
)
def test_any_other_text_rejects_with_that_reason(text: str, reason: str) -> None:
    replies = read_decision(roundel.Message(text), ARGUMENTS)
    assert (replies.approved, replies.reason) == (False, f"a person did not allow this call{reason}")


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ('{"place": "there"}', {"place": "there"}),
        ("{}", {}),
        ('{"arguments": {"place": "there"}}', {"place": "there"}),
        ('{"approve": true}', ARGUMENTS),
        ('{"approve": true, "arguments": {}}', {}),
        ('{"approve": true, "place": "there"}', {"approve": True, "place": "there"}),
    ],
)
def test_json_object_replaces_arguments_or_is_a_decision(text: str, arguments: dict[str, Any]) -> None:
    replies = read_decision(roundel.Message(text), ARGUMENTS)
    assert (replies.approved, replies.arguments) == (True, arguments)


@pytest.mark.parametrize(
    "data",
    [
        {"approve": False},
        {"approve": "no"},
        {"approve": None},
        {"approve": 0},
        {"approve": False, "arguments": {"place": "there"}},
        {"arguments": "there"},
    ],
)
def test_data_without_consent_rejects(data: dict[str, Any]) -> None:
    assert not read_decision(roundel.Message("yes", data=data), ARGUMENTS).approved
    assert not read_decision(roundel.Message(json.dumps(data)), ARGUMENTS).approved, "the same, typed"


@pytest.mark.parametrize("data", [{"approve": True}, {"approve": "yes"}, {"arguments": {"place": "here"}}])
def test_data_with_consent_approves(data: dict[str, Any]) -> None:
    replies = read_decision(roundel.Message("", data=data), ARGUMENTS)
    assert (replies.approved, replies.arguments) == (True, ARGUMENTS)


# In a run.


def test_approval_is_requested_before_the_call() -> None:
    story = run_conversation(
        agent(look, approval="always"), {"A": [wants("look", place="there"), "done"], "A/look": "yes"}
    )
    (requests_seen,) = story.named("human_input_required")
    assert requests_seen.address == "A[1]/look"
    assert requests_seen.fields() == {
        "prompt": "May the tool 'look' be called?",
        "tool": {"name": "look", "arguments": {"place": "there"}},
        "caller": "A",
    }
    assert story.tool_calls() == [
        ("A[1]/look", "waiting"),
        ("A[1]/look", "running"),
        ("A[1]/look", "completed"),
    ]
    assert story.results() == ["seen there"]


def test_rejection_is_reported_to_the_model_and_the_run_continues() -> None:
    script = {"A": [wants("look"), "as you wish"], "A/look": "no: it is dark"}
    story = run_conversation(agent(look, approval=["look"]), script)
    assert story.result.output == "as you wish"
    assert story.tool_calls() == [("A[1]/look", "waiting"), ("A[1]/look", "rejected")]
    assert story.results() == ["a person did not allow this call: it is dark"]
    assert story.result.usage["tool_calls"] == 0


def test_replaced_arguments_are_used_and_shown() -> None:
    script = {
        "A": [wants("look", place="there"), "done"],
        "A/look": {"data": {"arguments": {"place": "home"}}},
    }
    story = run_conversation(agent(look, approval="always"), script)
    assert story.results() == ["seen home"]
    shown = [event.fields()["arguments"] for event in story.named("tool_call")]
    assert shown == [{"place": "there"}, {"place": "home"}, {"place": "home"}]


def peek() -> str:
    return "peeked"


@pytest.mark.parametrize(
    ("approval", "expected"),
    [("always", 2), ("never", 0), (["look"], 1), ([], 0), (["look", "peek"], 2)],
)
def test_approval_setting_selects_the_tools(approval: Any, expected: int) -> None:
    script = {"A": [wants("look", "peek"), "done"], "A/look": "yes", "A/peek": "yes"}
    story = run_conversation(agent(look, peek, approval=approval), script)
    assert len(story.named("human_input_required")) == expected
    assert sorted(story.results()) == ["peeked", "seen here"]


def test_misspelt_tool_in_approval_is_rejected() -> None:
    with pytest.raises(roundel.WorkflowError, match="'approval' names the tool 'lok', which does not exist"):
        run_conversation(agent(look, approval=["lok"]), {"A": "x"})


def test_invalid_calls_need_no_approval() -> None:
    line = {"tool_calls": [{"name": "look", "arguments": "north"}, {"name": "fly"}]}
    story = run_conversation(agent(look, approval="always"), {"A": [line, "sorry"]})
    assert story.result.output == "sorry"
    assert sorted(story.results()) == [
        "the arguments are not a JSON object: north",
        "there is no tool 'fly'; there are: look",
    ]
    assert not story.named("human_input_required")


def test_unanswered_approval_leaves_the_run_waiting() -> None:
    story = run_conversation(agent(look, peek, approval=["look"]), {"A": [wants("look", "peek"), "done"]})
    assert story.result.status == "waiting"
    assert story.tool_calls("completed") == [("A[1]/peek", "completed")]
    assert story.named("run_state_change")[-1].fields()["reason"] == "for A[1]/look"


def test_ask_callback_receives_approval_questions() -> None:
    requests_seen: list[roundel.Question] = []

    async def ask(question: roundel.Question) -> str:
        requests_seen.append(question)
        return "approve"

    story = run_conversation(
        agent(look, approval="always"), {"A": [wants("look", place="there"), "done"]}, ask=ask
    )
    assert story.result.completed
    (question,) = requests_seen
    assert (question.address, question.node_id) == ("A[1]/look", "A")
    assert question.tool == {"name": "look", "arguments": {"place": "there"}}


def test_scripted_approvals_are_used_in_order() -> None:
    """One answer for each time that the agent's tool is asked about: in one reply, in rounds, in runs."""
    graph = agent(look, peek, approval="always")
    graph.node("Gate", "loop_counter", max_iterations=2).node("Out", "passthrough")
    graph.edge("A", "A", condition={"cel": "round < 2"}).edge("A", "Gate").edge("Gate", "A").edge(
        "Gate", "Out"
    )
    script = {
        "A": [wants("look", "peek", "look"), wants("look"), "one", wants("look", "peek"), "two"],
        "A/look": ["yes", "no: second", "yes", "no: fourth"],
        "A/peek": ["yes", "no: another"],
    }
    story = run_conversation(graph, script)
    assert sorted(story.tool_calls("completed", "rejected")) == [
        ("A[1].A[1]/look", "completed"),
        ("A[1].A[1]/look#2", "rejected"),
        ("A[1].A[1]/peek", "completed"),
        ("A[1].A[2]/look", "completed"),
        ("A[2].A[1]/look", "rejected"),
        ("A[2].A[1]/peek", "rejected"),
    ]


def inside() -> roundel.Graph:
    return agent(look, approval="always")


def test_approval_in_a_subgraph() -> None:
    graph = roundel.Graph(start="S", end="S").node("S", "subgraph", graph=inside())
    script: dict[str, Any] = {"A": [wants("look"), "done"], "A/look": "yes"}
    story = run_conversation(graph, script)
    assert story.tool_calls("completed") == [("S/A[1]/look", "completed")]
    waits = run_conversation(graph, {"A": script["A"]})
    assert waits.result.status == "waiting"


@pytest.mark.parametrize("width", [1, 3])
def test_approval_in_the_rounds_of_a_loop_agent(width: int) -> None:
    graph = roundel.Graph(start="L", end="L")
    strategy = {"mode": "array", "max_parallel": width}
    graph.node("L", "loop_agent", strategy=strategy, body=inside())
    lines: list[Any] = [wants("look"), "one", wants("look"), "two", wants("look"), "three"]
    if width > 1:  # each counts from its own number on, and the first is the slowest
        lines = [*({**wants("look"), "delay": 0.01 * left} for left in (3, 2, 1)), "done"]
    script = {"A": lines, "A/look": ["yes", "no: not you", "no"]}
    story = run_conversation(graph, script, '["n", "e", "s"]')
    first = [
        pair for pair in sorted(story.tool_calls("completed", "rejected")) if pair[0].endswith("A[1]/look")
    ]
    assert first == [
        ("L[1].A[1]/look", "completed"),
        ("L[2].A[1]/look", "rejected"),
        ("L[3].A[1]/look", "rejected"),
    ]


def test_approval_in_the_parts_of_a_dynamic_edge() -> None:
    graph = roundel.Graph(start="In", end="A").node("In", "passthrough")
    graph.node("A", "agent", tools=[look], approval="always")
    split = {"type": "map", "split": {"type": "json_path", "config": {}}, "config": {"max_parallel": 2}}
    graph.edge("In", "A", dynamic=split)
    lines = [*({**wants("look"), "delay": 0.01 * left} for left in (3, 1, 0)), "done"]
    script = {"A": lines, "A/look": ["yes", "no"]}
    story = run_conversation(graph, script, '["n", "e", "s"]')
    first = [pair for pair in sorted(story.tool_calls("completed", "rejected")) if "[1]" in pair[0]]
    assert first == [("A#1[1]/look", "completed"), ("A#2[1]/look", "rejected"), ("A#3[1]/look", "rejected")]


def test_other_branches_continue_while_an_approval_is_open() -> None:
    graph = roundel.Graph(start=["A", "B"], end=["C"])
    graph.node("A", "agent", tools=[look], approval="always").node("B", "agent").node("C", "agent")
    graph.edge("B", "C")
    story = run_conversation(graph, {"A": [wants("look")], "C": "done"})
    assert story.result.status == "waiting"
    assert story.result.nodes == {"A": 1, "B": 1, "C": 1}


def test_scripted_approval_error_fails_the_call() -> None:
    story = run_conversation(
        agent(look, approval="always"), {"A": [wants("look"), "so be it"], "A/look": {"error": "gone"}}
    )
    assert (story.result.output, story.results()) == ("so be it", ["gone"])
