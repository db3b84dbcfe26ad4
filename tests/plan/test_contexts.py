"""Warnings and errors about what agents see."""

from __future__ import annotations

from typing import Any

import pytest

from roundel.nodes.loading import check_plan
from tests.kernel.test_context import agent, loop, loop_agent


def found(workflow: Any) -> list[tuple[str, str, str]]:
    _, report = check_plan(workflow)
    return [(one.severity, one.code, one.message) for one in report.diagnostics]


def codes(workflow: Any) -> list[str]:
    return [code for _, code, _ in found(workflow)]


def test_an_agent_that_sees_neither_task_nor_own_output_is_a_warning() -> None:
    ((severity, code, message),) = found(loop(agent("Writer", window=0)))
    assert (severity, code) == ("warning", "blind-agent")
    assert message == (
        "in round 2 of loop 'Writer', 'Writer' sees neither the task nor its own last output; "
        "set `context: task`"
    )


def test_one_warning_for_a_loop() -> None:
    assert codes(loop(agent("Writer", window=0), agent("Critic", window=0))) == ["blind-agent"]


@pytest.mark.parametrize(
    "writer",
    [
        agent("Writer"),
        agent("Writer", context="message"),
        agent("Writer", window=0, context="message"),
        agent("Writer", window=3),
        agent("Writer", window=0, prompt="{{ task }}: {{ text }}"),
        agent("Writer", window=0, prompt="{{ previous }}"),
        agent("Writer", window=0, memories=["working"]),
    ],
)
def test_agents_that_see_enough(writer: dict[str, Any]) -> None:
    assert codes(loop(writer)) == []


def test_edges_that_keep_messages_are_enough() -> None:
    workflow = loop(agent("Writer", window=0))
    workflow["graph"]["edges"][1]["keep_message"] = True
    assert codes(workflow) == []


def test_a_loop_agent_that_hides_the_task() -> None:
    assert codes(loop_agent(agent("Writer"), context="fresh")) == ["blind-agent"]
    assert codes(loop_agent(agent("Writer", context="task"), context="fresh")) == []
    for context in (None, "carry", "task"):
        assert codes(loop_agent(agent("Writer"), context=context)) == []
    each = {"mode": "array"}
    assert codes(loop_agent(agent("Writer"), context="fresh", strategy=each)) == []


def test_a_window_and_a_context_are_two_answers_to_one_question() -> None:
    ((severity, code, message),) = found(loop(agent("Writer", window=5, context="task")))
    assert (severity, code) == ("error", "two-contexts")
    assert message == "'Writer' has `context_window: 5` and `context: task`; keep one"


@pytest.mark.parametrize(
    ("context", "code", "text"),
    [
        ({"policy": "message", "max_tokens": 5}, "bad-context", "needs the policy history or task"),
        ({"max_token": 5}, "unknown-key", "max_token"),
        ({"budget": 5}, "unknown-key", "budget"),
        ({"max_tokens": 0}, "wrong-type", "at least 1"),
        ("tasks", "wrong-type", "one of message, task, history"),
        ({"strategy": "summarize", "profile_id": "cheap"}, "unknown-profile", "cheap"),
    ],
)
def test_wrong_contexts(context: Any, code: str, text: str) -> None:
    for workflow in (loop(agent("Writer", context=context)), loop(agent("Writer"), context=context)):
        ((severity, given, message),) = found(workflow)
        assert (severity, given) == ("error", code)
        assert text in message


def test_participants_of_a_debate_get_the_discussion() -> None:
    config = {"participants": [agent("Ada", context="task"), agent("Bo", context={"max_tokens": 100})]}
    node = {"id": "Council", "type": "debate", "config": config}
    workflow = {"graph": {"start": "Council", "end": "Council", "nodes": [node]}}
    ((severity, code, message),) = found(workflow)
    assert (severity, code) == ("warning", "without-effect")
    assert message == "`context: task` of 'Ada' has no effect in a debate"
