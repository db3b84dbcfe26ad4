"""The list that an array loop finds in an answer, and the values that it gathers."""

from __future__ import annotations

import json
from typing import Any

import pytest

import roundel
from roundel.nodes.array_values import find_array, message_value
from roundel.workflow.message import Message
from tests.deadline import Deadline


def found(text: str) -> Any:
    span = find_array(text)
    return None if span is None else json.loads(text[span[0] : span[1]])


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ('Here are the topics:\n\n["tea", "milk"]\n\nTell me if you need more.', ["tea", "milk"]),
        ('Sure!\n```json\n["tea", "milk"]\n```\nAnything else?', ["tea", "milk"]),
        ('```\n["tea"]```', ["tea"]),
        ('The topics are: ["tea", "milk"].', ["tea", "milk"]),
        ('I choose ["tea"] and nothing else.', ["tea"]),
        ('The list is `["tea"]`', ["tea"]),
        ("主题：[1, 2]", [1, 2]),
        ("There is nothing to do: []", []),
        ('[\n  {"id": 1},\n  {"id": 2}\n]\nDone.', [{"id": 1}, {"id": 2}]),
        ('[["a"], ["b"]] is it', [["a"], ["b"]]),
        # References are no list, wherever they stand.
        ('As said in [1] and [2, 3], the topics are\n["tea"]', ["tea"]),
        ('[1] Smith, 2020\n\n```json\n["tea"]\n```', ["tea"]),
        ('[1]\n\n["tea"]', ["tea"]),
        ("As said in [1] and [2, 3].", None),
        ("The answer is\n[1]", [1]),
        # The first of several; code that is no list does not count.
        ('```python\nprint(words[0])\n```\n```json\n["a"]\n```\n```json\n["b"]\n```', ["a"]),
        ('words["a"] is ["b"]', ["b"]),
        # Objects are no list, and what is inside of them is not looked at.
        ('The result: {"items": ["a"]}', None),
        ('```json\n{"items": [1, 2]}\n```\nor\n[3, 4]', [3, 4]),
        # Mistakes and answers that are cut off.
        ('[see below] [x] - [ ] todo\n["a"]', ["a"]),
        ('[["a"], oops]', None),
        ('Topics: ["tea", "mi', None),
        ('Topics: [["tea"], ["milk"], \n', None),
        ("[" * 5000, None),
        ("no list", None),
        ("", None),
    ],
)
def test_list_in_an_answer(text: str, items: Any) -> None:
    assert found(text) == items


@pytest.mark.parametrize(
    "text",
    [
        "[" * 1_000_000,
        "[1x\n" * 250_000,
        '["a",' * 200_000,
        "[1]" * 300_000,
        "[ " * 500_000,
        "{" * 1_000_000,
        '[{"a":' * 150_000,
        "[" * 900 + "1," * 500_000 + "x",
        '["' + "\\" * 999_999,
    ],
    ids=lambda text: repr(text[:8]),
)
def test_hostile_texts_take_linear_time(text: str) -> None:
    """Each takes a second at most; in quadratic time it would be many minutes."""
    assert Deadline(find_array)(text) is None


def gathered(*answers: Any) -> Any:
    """What an array loop gathers from a body that answers like this."""
    body = {"id": "Body", "type": "agent"}
    graph = roundel.Graph(start="Each", end="Each")
    graph.node("Each", "loop_agent", strategy={"mode": "array"}, body=body)
    result = roundel.run(graph, json.dumps(list(range(len(answers)))), script={"Body": list(answers)})
    return json.loads(result.output)


def test_loop_repeats_for_a_list_in_prose() -> None:
    body = {"id": "Body", "type": "agent"}
    graph = roundel.Graph(start="Plan", end="Each").node("Plan", "agent")
    graph.node("Each", "loop_agent", strategy={"mode": "array"}, body=body).edge("Plan", "Each")
    plan = 'Two topics [1]:\n\n```json\n["tea", "milk"]\n```\n\n[1] from your notes'
    result = roundel.run(graph, "go", script={"Plan": plan, "Body": ["a", "b"]})
    assert (result.output, result.nodes["Body"]) == ('["a", "b"]', 2)


def test_without_a_list_the_error_is_a_notice_with_data() -> None:
    body = {"id": "Body", "type": "agent"}
    graph = roundel.Graph(start="Each", end="Seen")
    graph.node("Each", "loop_agent", strategy={"mode": "array"}, body=body)
    seen: list[Message] = []

    @graph.function("Seen")
    def look(message: Message) -> str:
        seen.append(message)
        return "seen"

    graph.edge("Each", "Seen", condition={"cel": "has(data.error)"})
    assert roundel.run(graph, "three apples", script={}).output == "seen"
    (message,) = seen
    assert message.is_notice
    assert (message.data or {})["error"] == "the last message is not a JSON array: 'three apples'"


def test_results_are_values_and_never_json_inside_of_text() -> None:
    assert gathered('["a", "b"]', '{"x": [1]}', '```json\n["c"]\n```', {"text": "t", "data": {"y": [2]}}) == [
        ["a", "b"],
        {"x": [1]},
        ["c"],
        {"y": [2]},
    ]


def test_results_in_prose_stay_text() -> None:
    answers = ('The list: ["a"]', '```json\n["c"]\n```\nDone.', "3", "```json\noops\n```")
    assert gathered(*answers) == list(answers)


def test_result_of_a_vote_is_the_text_that_was_voted_on() -> None:
    tally = {"ballots": {"A": "approve"}, "share": 1.0, "approved": True, "summary": "approved: 1 of 1"}
    assert message_value(Message("a draft", data=tally)) == "a draft"
    assert message_value(Message("a draft", data={**tally, "id": 3})) == {"id": 3}
    assert message_value(Message("approved: 1 of 1", data=tally), semantics=0) == tally


def test_runs_of_version_0_keep_fences_as_text() -> None:
    assert message_value(Message('```json\n["c"]\n```'), semantics=0) == '```json\n["c"]\n```'
