"""Agents on a scripted model."""

from __future__ import annotations

from typing import Any

import pytest

import roundel
from roundel.hosts import services
from roundel.llm.script import ScriptedModel, script_from
from roundel.nodes import TYPES
from roundel.nodes.agent import NODE
from roundel.nodes.services import Reply, Request
from roundel.workflow.loader import examine_mapping
from tests.events import node_status
from tests.nodes.conversations import fail, look, run_conversation, wants


def agent(**config: Any) -> roundel.Graph:
    return roundel.Graph(start="A", end="A").node("A", "agent", **config)


def test_replies_are_used_in_order_and_the_last_repeats() -> None:
    graph = roundel.Graph(start="A", end="Out").node("A", "agent").node("Out", "passthrough")
    graph.node("Gate", "loop_counter", max_iterations=4)
    graph.edge("A", "A").edge("A", "Gate").edge("Gate", "A").edge("Gate", "Out")
    replies: list[str] = []

    def note(event: roundel.Event) -> None:
        if event.node_id == "A" and node_status(event) == "completed":
            replies.append(event.fields()["output"])

    roundel.run(graph, script={"A": ["one", "two"]}, on_event=note)
    assert replies == ["one", "two", "two", "two"]


def test_without_a_line_an_agent_echoes_its_input() -> None:
    assert roundel.run(agent(), "hello", script={}).output == "hello"


def test_star_is_the_reply_of_every_unnamed_node() -> None:
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


def test_model_error_fails_the_node() -> None:
    graph = agent()
    graph.node("B", "passthrough").edge("A", "B")
    result = roundel.run(graph, script={"A": [{"error": "rate limit"}]})
    assert (result.status, result.error) == ("failed", "A: rate limit")
    assert "B" not in result.nodes


def test_on_error_message_returns_the_error_as_text() -> None:
    result = roundel.run(agent(on_error="message", name="m"), script={"A": [{"error": "rate limit"}]})
    assert (result.status, result.output) == ("completed", "Error calling model m: rate limit")


class Recorder:
    """A host's services with a model that keeps what it was asked."""

    def __init__(self) -> None:
        self.requests_seen: list[Request] = []

    def model(self, node: Any) -> Recorder:
        return self

    def speaker(self, address: str) -> None:
        return None

    async def reply(self, request: Request, say: Any = None) -> Reply:
        self.requests_seen.append(request)
        return Reply("ok")


def ask(graph: roundel.Graph, *messages: roundel.Message) -> Request:
    import asyncio

    from roundel.kernel.commands import Call

    recorder = Recorder()
    node = graph.workflow().graph.nodes[0]
    behave = NODE.prepare(node, recorder)
    asyncio.run(behave(Call("A", 0, messages, None, 0, 0)))
    return recorder.requests_seen[0]


def test_the_model_gets_role_messages_and_parameters() -> None:
    graph = agent(
        role="Be brief.", params={"temperature": 0.1}, parameters={"top_p": 1}, prompt="Now answer."
    )
    request = ask(graph, roundel.Message("hi"))
    assert request.system == "Be brief."
    assert [message.text for message in request.messages] == ["hi", "Now answer."]
    assert request.params == {"temperature": 0.1, "top_p": 1}


def test_prompt_mode_joins_all_input_into_one_text() -> None:
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


def test_a_profile_that_is_named_as_a_model_is_a_warning() -> None:
    agents = [{"id": name, "type": "agent", "config": {"model": name}} for name in ("fast", "openai:gpt-4o")]
    graph = {"nodes": agents, "start": "fast", "end": "fast"}
    _, report = examine_mapping({"graph": graph, "models": {"fast": {"model": "openai:gpt-4o"}}}, TYPES)
    [found] = [found for found in report.diagnostics if found.code == "profile-as-model"]
    assert found.message.startswith("'fast' is a model profile")
    assert found.hint == "write `profile_id: fast`"


@pytest.mark.parametrize("keys", [("max_tool_calls", "maxToolCalls"), ("maxToolCalls", "max_tool_calls")])
def test_both_spellings_of_a_key_are_a_warning_and_the_later_counts(keys: tuple[str, str]) -> None:
    given = dict(zip(keys, (2, 5), strict=True))
    graph = {"nodes": [{"id": "A", "type": "agent", "config": given}], "start": "A", "end": "A"}
    workflow, report = examine_mapping({"graph": graph}, TYPES)
    assert workflow is not None
    [found] = [found for found in report.diagnostics if found.code == "two-spellings"]
    assert found.message.endswith(
        f"node 'A' has both '{keys[0]}' and '{keys[1]}', which mean the same; '{keys[1]}' counts"
    )
    assert workflow.graph.nodes[0].config.max_tool_calls == 5


@pytest.mark.parametrize("script", [{"A": []}, {"A": [{"tokens": "many"}]}, ["A"], {"A": [{"delay": -1}]}])
def test_invalid_script_is_rejected(script: Any) -> None:
    with pytest.raises((roundel.WorkflowError, TypeError, ValueError)):
        script_from(script)


# What the model is asked in each of several calls.


@pytest.fixture
def requests_seen(monkeypatch: pytest.MonkeyPatch) -> list[Request]:
    """All that the scripted model was asked."""
    requests: list[Request] = []

    class Attentive(ScriptedModel):
        async def reply(self, request: Request, say: Any = None) -> Reply:
            requests.append(request)
            return await super().reply(request, say)

    monkeypatch.setattr(services, "ScriptedModel", Attentive)
    return requests


def texts(request: Request) -> list[tuple[str, str]]:
    return [(message.role, message.text) for message in (*request.messages, *request.after)]


def test_tools_are_callable_in_every_round_but_the_last(requests_seen: list[Request]) -> None:
    run_conversation(
        agent(tools=[look, fail], max_tool_calls=2), {"A": [wants("look"), wants("fail"), "done"]}
    )
    assert [(request.may_call, request.call, request.ordinal) for request in requests_seen] == [
        (True, 0, 0),
        (True, 1, 1),
        (False, 2, 2),
    ]
    # The last call names them too: there are providers that want to know them for what was said before.
    assert all([tool.name for tool in request.tools] == ["look", "fail"] for request in requests_seen)
    assert [len(request.exchanges) for request in requests_seen] == [0, 1, 2]
    first, second = requests_seen[2].exchanges
    assert [(result.id, result.status, result.text) for result in (*first.results, *second.results)] == [
        ("call_1_1", "completed", "seen here"),
        ("call_2_1", "failed", "ValueError: broken"),
    ]


def test_zero_tool_limit_offers_no_tools(requests_seen: list[Request]) -> None:
    dynamic = {"tool_ids": ["look"]}
    graph = roundel.Graph(start="A", end="A", tools={"look": look})
    run_conversation(
        graph.node("A", "agent", role="Be brief.", dynamic_tools=dynamic, max_tool_calls=0), {"A": "done"}
    )
    (request,) = requests_seen
    assert (request.tools, request.may_call, request.system) == ((), False, "Be brief.")


def test_dynamic_tools_are_described_once_and_other_tools_are_not(requests_seen: list[Request]) -> None:
    graph = roundel.Graph(start="A", end="A", tools={"look": look, "fail": fail})
    dynamic = {"toolIds": ["look"], "descriptionTemplate": "- {toolName}: {toolDescription}"}
    graph.node("A", "agent", role="Be brief.", tools=["fail", "look"], dynamicTools=dynamic)
    run_conversation(graph, {"A": [wants("look"), "done"]})
    assert [request.system for request in requests_seen] == ["Be brief.\n\n- look: Looks somewhere."] * 2
    assert [tool.name for tool in requests_seen[0].tools] == ["fail", "look"]


def test_dynamic_tools_default_to_name_and_description(requests_seen: list[Request]) -> None:
    graph = roundel.Graph(start="A", end="A", tools={"look": look, "fail": fail})
    run_conversation(graph.node("A", "agent", dynamic_tools={"tool_ids": ["look", "fail"]}), {"A": "done"})
    assert requests_seen[0].system == "look: Looks somewhere.\nfail: Always fails."


def test_dynamic_tools_that_name_none_add_nothing(requests_seen: list[Request]) -> None:
    run_conversation(agent(role="Be brief.", tools=[look], dynamic_tools={"tool_ids": []}), {"A": "done"})
    assert requests_seen[0].system == "Be brief."


SCHEMA = {"type": "object", "required": ["score"]}


def test_schema_is_in_the_prompt_and_mismatches_are_sent_back(requests_seen: list[Request]) -> None:
    run_conversation(agent(role="Judge.", output_schema=SCHEMA), {"A": ["good", '{"score": 9}']}, "tea")
    told_schema = (
        'Answer with JSON alone. It must fit this JSON Schema:\n{"type": "object", "required": ["score"]}'
    )
    assert requests_seen[0].system == f"Judge.\n\n{told_schema}"
    assert requests_seen[0].schema == SCHEMA
    user, assistant, correction = texts(requests_seen[1])
    assert (user, assistant) == (("user", "tea"), ("assistant", "good"))
    assert correction[1].startswith("Your answer does not fit the JSON Schema: it is not JSON")


def reflecting(**config: Any) -> roundel.Graph:
    thinking = {"type": "reflection", "config": {"reflection_prompt": "Is that so?"}}
    return agent(thinking=thinking, **config)


def test_reflection_sees_input_answer_and_prompt(requests_seen: list[Request]) -> None:
    run_conversation(reflecting(role="Judge."), {"A": ["good", "very good"]}, "tea")
    assert texts(requests_seen[1]) == [
        ("user", "=== INPUT FROM TASK (user) ===\ntea"),
        ("assistant", "good"),
        ("user", "Is that so?"),
    ]
    assert requests_seen[1].system == "Judge."


def test_mismatching_reflection_is_repaired(requests_seen: list[Request]) -> None:
    script = {"A": ['{"score": 1}', "2 I mean", '{"score": 2}']}
    assert run_conversation(reflecting(output_schema=SCHEMA), script, "tea").result.data == {"score": 2}
    assert [role for role, _ in texts(requests_seen[2])] == ["user", "assistant", "user", "assistant", "user"]
    assert [text for _, text in texts(requests_seen[2])][:4] == [
        "tea",
        '{"score": 1}',
        "Is that so?",
        "2 I mean",
    ]


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "thing"}, "'thing' is not valid"),
        ({"properties": {"a": {"$ref": "#/$defs/A"}}}, "it refers to '#/$defs/A', which it does not contain"),
        ({"$ref": "https://example.org/schema"}, "it refers to 'https://example.org/schema'"),
    ],
)
def test_check_reports_an_invalid_output_schema(schema: dict[str, Any], expected: str) -> None:
    _, report = roundel.check(agent(output_schema=schema))
    (found,) = report.diagnostics
    assert found.code == "bad-schema"
    assert expected in found.message


def test_a_schema_may_refer_to_itself() -> None:
    tree = {
        "$defs": {"T": {"type": "object", "properties": {"next": {"$ref": "#/$defs/T"}}}},
        "$ref": "#/$defs/T",
    }
    story = run_conversation(
        agent(output_schema=tree), {"A": ['{"next": {"next": 1}}', '{"next": {"next": {}}}']}
    )
    assert (story.result.data, story.result.usage["model_calls"]) == ({"next": {"next": {}}}, 2)


def test_check_reports_unknown_profiles() -> None:
    graph = roundel.Graph(start="A", end="A", models={"quick": {"model": "openai:m"}})
    graph.node("A", "agent", profile_id="quik", fallback=["quick", "slow"])
    _, report = roundel.check(graph)
    assert [(found.code, found.message) for found in report.diagnostics] == [
        ("unknown-profile", "there is no model profile 'quik'"),
        ("unknown-profile", "there is no model profile 'slow'"),
    ]
    assert report.diagnostics[0].hint == "did you mean 'quick'?"


@pytest.mark.parametrize("approval", ["sometimes", 1, {"look": True}])
def test_approval_is_always_never_or_a_list(approval: Any) -> None:
    _, report = roundel.check(agent(tools=[look], approval=approval))
    (found,) = report.diagnostics
    assert found.code == "wrong-type"
