"""Agents on a scripted model."""

from __future__ import annotations

from typing import Any

import pytest

import roundel
from roundel.llm.scripted import script_from
from roundel.nodes.agent import NODE
from roundel.nodes.services import Reply, Request


def agent(**config: Any) -> roundel.Graph:
    return roundel.Graph(start="A", end="A").node("A", "agent", **config)


def test_replies_come_in_order_and_the_last_one_repeats() -> None:
    graph = roundel.Graph(start="A", end="Out").node("A", "agent").node("Out", "passthrough")
    graph.node("Gate", "loop_counter", max_iterations=4)
    graph.edge("A", "A").edge("A", "Gate").edge("Gate", "A").edge("Gate", "Out")
    said: list[str] = []

    def note(event: roundel.Event) -> None:
        if event.node_id == "A" and event.data.get("status") == "completed":
            said.append(event.data["output"])

    roundel.run(graph, script={"A": ["one", "two"]}, on_event=note)
    assert said == ["one", "two", "two", "two"]


def test_without_a_line_an_agent_echoes_its_input() -> None:
    assert roundel.run(agent(), "hello", script={}).output == "hello"


def test_a_star_speaks_for_every_node_not_named() -> None:
    assert roundel.run(agent(), "hello", script={"*": ["ok"], "B": ["no"]}).output == "ok"


def test_data_and_tokens() -> None:
    line = {"text": "draft", "data": {"score": 92}, "tokens": {"input": 120, "output": 40}}
    result = roundel.run(agent(), script={"A": [line]})
    assert (result.output, result.data) == ("draft", {"score": 92})
    assert result.usage == {
        "model_calls": 1,
        "tool_calls": 0,
        "input_tokens": 120,
        "output_tokens": 40,
        "cost_usd": None,
        "unpriced_calls": 1,
    }


def test_an_error_fails_the_node_and_never_becomes_text() -> None:
    graph = agent()
    graph.node("B", "passthrough").edge("A", "B")
    result = roundel.run(graph, script={"A": [{"error": "rate limit"}]})
    assert (result.status, result.error) == ("failed", "A: rate limit")
    assert "B" not in result.nodes


def test_unless_the_old_behaviour_is_asked_for() -> None:
    result = roundel.run(agent(on_error="message", name="m"), script={"A": [{"error": "rate limit"}]})
    assert (result.status, result.output) == ("completed", "Error calling model m: rate limit")


class Recorder:
    """A host's services with a model that keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Request] = []

    def model(self, node: Any) -> Recorder:
        return self

    def speaker(self, address: str) -> None:
        return None

    async def reply(self, request: Request, say: Any = None) -> Reply:
        self.asked.append(request)
        return Reply("ok")


def ask(graph: roundel.Graph, *messages: roundel.Message) -> Request:
    import asyncio

    from roundel.kernel.commands import Call

    recorder = Recorder()
    node = graph.workflow().graph.nodes[0]
    behave = NODE.prepare(node, recorder)
    asyncio.run(behave(Call("A", 0, messages, None, 0, 0)))
    return recorder.asked[0]


def test_the_model_gets_role_messages_and_parameters() -> None:
    graph = agent(
        role="Be brief.", params={"temperature": 0.1}, parameters={"top_p": 1}, prompt="Now answer."
    )
    request = ask(graph, roundel.Message("hi"))
    assert request.system == "Be brief."
    assert [message.text for message in request.messages] == ["hi", "Now answer."]
    assert request.params == {"temperature": 0.1, "top_p": 1}


def test_prompt_mode_makes_one_text_of_all_input() -> None:
    one = roundel.Message("draft", metadata={"source": "Writer"})
    two = roundel.Message("the task", "assistant")
    request = ask(agent(input_mode="prompt"), one, two)
    (message,) = request.messages
    assert (
        message.text
        == "=== INPUT FROM Writer (user) ===\ndraft\n\n=== INPUT FROM TASK (assistant) ===\nthe task"
    )


def test_llm_is_another_name_and_camel_case_is_read() -> None:
    graph = roundel.Graph(start="A", end="A").node("A", "llm", profileId="p", maxToolCalls=2)
    node = graph.workflow(models={"p": {"name": "m"}}).graph.nodes[0]
    assert (node.type, node.config.profile_id, node.config.max_tool_calls) == ("agent", "p", 2)


@pytest.mark.parametrize("script", [{"A": []}, {"A": [{"tokens": "many"}]}, ["A"], {"A": [{"delay": -1}]}])
def test_a_bad_script_is_refused(script: Any) -> None:
    with pytest.raises((roundel.WorkflowError, TypeError, ValueError)):
        script_from(script)
