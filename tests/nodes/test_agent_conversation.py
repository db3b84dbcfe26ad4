"""The tool loop: rounds, limits, results, and the final request after the last round."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import roundel
from roundel.kernel.facts import Outcome
from roundel.kernel.tool_loop import ToolLoopAction, ToolLoopCall
from roundel.kernel.unlock import CHECKS
from roundel.nodes.agent_conversation import AgentConversation, ModelCall
from tests.nodes.conversations import Told, agent, fail, look, run_conversation, wants

# Rounds and their limit.


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_tool_limit_allows_that_many_rounds_and_a_final_call(limit: int) -> None:
    story = run_conversation(
        agent(look, max_tool_calls=limit), {"A": [*[wants("look")] * limit, "an answer"]}
    )
    assert story.result.output == "an answer"
    assert story.result.data == {"stop_reason": "tool_limit", "answered": True, "tool_rounds": limit}
    assert (story.result.usage["model_calls"], story.result.usage["tool_calls"]) == (limit + 1, limit)
    (reached,) = story.named("limit_reached")
    assert reached.fields() == {"what": "tool_rounds", "limit": limit, "address": "A"}
    assert (reached.node_id, reached.address) == ("A", "A")


def test_no_limit_event_below_the_limit() -> None:
    story = run_conversation(agent(look, max_tool_calls=2), {"A": [wants("look"), "an answer"]})
    assert story.result.data == {"stop_reason": "answered", "answered": True, "tool_rounds": 1}
    assert not story.named("limit_reached")


def test_a_request_in_the_last_reply_is_ignored() -> None:
    story = run_conversation(
        agent(look, max_tool_calls=2), {"A": [{**wants("look"), "text": "I should look again"}]}
    )
    assert story.addresses() == ["A[1]/look", "A[2]/look"]
    assert story.result.output == "I should look again"
    assert story.result.usage["model_calls"] == 3


NOTHING: list[Any] = [{"text": ""}, {"text": " \n"}, wants("look"), {**wants("look"), "text": "\t"}]


@pytest.mark.parametrize("nothing", NOTHING)
@pytest.mark.parametrize("more", [{}, {"thinking": "REFLECT"}, {"output_schema": {"type": "object"}}])
def test_empty_reply_at_the_limit_is_not_an_answer(nothing: Any, more: dict[str, Any]) -> None:
    more = {"thinking": REFLECT} if "thinking" in more else more
    story = run_conversation(
        agent(look, max_tool_calls=1, **more), {"A": [wants("look"), nothing, "too late"]}
    )
    assert (story.result.status, story.result.output) == ("completed", "")
    assert story.result.data == {"stop_reason": "tool_limit", "answered": False, "tool_rounds": 1}
    assert story.result.usage["model_calls"] == 2


@pytest.mark.parametrize("on_limit", ["error", "suspend"])
def test_empty_reply_while_tools_are_offered_at_the_limit_is_not_an_answer(on_limit: str) -> None:
    story = run_conversation(
        agent(look, max_tool_calls=1, on_limit=on_limit), {"A": [wants("look"), {"text": ""}]}
    )
    assert (story.result.status, story.result.output) == ("completed", "")
    assert story.result.data == {"stop_reason": "tool_limit", "answered": False, "tool_rounds": 1}


@pytest.mark.parametrize("nothing", NOTHING)
def test_empty_reply_without_tools_is_not_an_answer(nothing: Any) -> None:
    story = run_conversation(agent(look, max_tool_calls=0), {"A": [nothing]})
    assert story.result.output == ""
    assert story.result.data == {"stop_reason": "tool_limit", "answered": False}
    assert (story.result.usage["model_calls"], story.result.usage["tool_calls"]) == (1, 0)


def test_empty_reply_before_the_limit_is_not_an_answer() -> None:
    story = run_conversation(agent(look, max_tool_calls=3), {"A": [wants("look"), {"text": ""}]})
    assert story.result.data == {"stop_reason": "no_answer", "answered": False, "tool_rounds": 1}


def test_conditions_can_use_answered() -> None:
    graph = agent(look, max_tool_calls=1).node("Good", "passthrough").node("None", "passthrough")
    graph.edge("A", "Good", condition={"cel": "data.answered"})
    graph.edge("A", "None", condition={"cel": "!data.answered && text == ''"})
    assert run_conversation(graph, {"A": [wants("look")]}).result.nodes == {"A": 1, "None": 1}
    assert run_conversation(graph, {"A": [wants("look"), "seen"]}).result.nodes == {"A": 1, "Good": 1}
    assert run_conversation(graph, {"A": ["seen"]}).result.nodes == {"A": 1, "Good": 1}


def test_data_without_text_is_an_answer() -> None:
    line = {"text": "", "data": {"place": "Oslo"}}
    story = run_conversation(agent(look, max_tool_calls=1, output_schema=PLACE), {"A": [wants("look"), line]})
    assert story.result.data is not None
    assert (story.result.data["place"], story.result.data["answered"]) == ("Oslo", True)


def test_zero_tool_limit_makes_one_call_without_tools() -> None:
    story = run_conversation(agent(look, max_tool_calls=0), {"A": [{**wants("look"), "text": "so be it"}]})
    assert story.result.output == "so be it"
    assert story.result.data == {"stop_reason": "answered", "answered": True}
    assert (story.result.usage["model_calls"], story.result.usage["tool_calls"]) == (1, 0)
    assert not story.named("tool_call")


def test_several_tool_calls_in_one_reply_are_one_round() -> None:
    story = run_conversation(agent(look, max_tool_calls=1), {"A": [wants("look", "look", "look"), "done"]})
    assert story.addresses() == ["A[1]/look", "A[1]/look#2", "A[1]/look#3"]
    assert story.result.usage["tool_calls"] == 3
    assert {event.fields()["round"] for event in story.named("tool_call")} == {1}


def test_agent_without_tools_has_no_tool_data() -> None:
    assert (
        run_conversation(roundel.Graph(start="A", end="A").node("A", "agent"), {"A": "hi"}).result.data
        is None
    )


# What happens at the limit.


def test_on_limit_error_fails_the_node() -> None:
    story = run_conversation(agent(look, max_tool_calls=2, on_limit="error"), {"A": [wants("look")]})
    assert story.result.status == "failed"
    error = "A: the model asked for tools again after 2 rounds of them, which is the limit"
    assert story.result.error == error
    assert (story.result.usage["model_calls"], story.result.usage["tool_calls"]) == (3, 2)
    assert len(story.named("limit_reached")) == 1


def test_on_limit_suspend_locks_the_run() -> None:
    story = run_conversation(agent(look, max_tool_calls=2, on_limit="suspend"), {"A": [wants("look")]})
    assert story.result.status == "suspended_locked"
    assert (story.result.usage["model_calls"], story.result.usage["tool_calls"]) == (3, 2)
    (change,) = story.named("run_state_change")
    assert change.fields()["reason"] == "limit of 2 tool_rounds at A"
    assert story.addresses() == ["A[1]/look", "A[2]/look"]


@pytest.mark.parametrize("on_limit", ["error", "suspend"])
@pytest.mark.parametrize("limit", [1, 2, 5])
def test_answer_within_the_limit_neither_fails_nor_locks(on_limit: str, limit: int) -> None:
    graph = agent(look, max_tool_calls=limit, on_limit=on_limit)
    story = run_conversation(graph, {"A": [*[wants("look")] * limit, "an answer"]})
    assert (story.result.status, story.result.output) == ("completed", "an answer")
    assert story.result.data == {"stop_reason": "answered", "answered": True, "tool_rounds": limit}
    assert (story.result.usage["model_calls"], story.result.usage["tool_calls"]) == (limit + 1, limit)
    assert not story.named("limit_reached")


@pytest.mark.parametrize("on_limit", ["answer", "error", "suspend"])
def test_zero_tool_limit_never_fails_or_locks(on_limit: str) -> None:
    line = {**wants("look"), "text": "so be it"}
    story = run_conversation(agent(look, max_tool_calls=0, on_limit=on_limit), {"A": [line]})
    assert (story.result.status, story.result.output) == ("completed", "so be it")
    assert story.result.usage["model_calls"] == 1


def test_tool_request_beyond_the_limit_is_executed_after_unlock(tmp_path: Path) -> None:
    places: list[str] = []

    def visit(place: str) -> str:
        """Goes there."""
        places.append(place)
        return f"been to {place}"

    lines = [wants("visit", place=place) for place in ("Oslo", "Rome", "Bern")]
    graph = agent(visit, max_tool_calls=1, on_limit="suspend")
    store = tmp_path / "runs.db"
    result = roundel.run(graph, "go", script={"A": [*lines, "home again"]}, store=store)
    assert (result.status, result.usage["model_calls"], places) == ("suspended_locked", 2, ["Oslo"])

    async def unlock() -> roundel.Result:
        async with roundel.Runs(store) as runs:
            limits = {"rounds": 3}
            await runs.unlock(result.run_id, "more", checks=CHECKS, limits=limits, execute=False)
        return await roundel.resume_async(result.run_id, store=store, workflow=graph)

    result = asyncio.run(unlock())
    assert (result.status, result.output) == ("completed", "home again")
    assert places == ["Oslo", "Rome", "Bern"]
    assert (result.usage["model_calls"], result.usage["tool_calls"]) == (4, 3)


# Each request has one result.


def test_calls_beyond_the_round_width_are_refused() -> None:
    called: list[str] = []

    def note(word: str) -> str:
        called.append(word)
        return word

    requests_seen = {"tool_calls": [{"name": "note", "arguments": {"word": word}} for word in "abcde"]}
    story = run_conversation(agent(note, max_calls_per_round=3), {"A": [requests_seen, "done"]})
    assert sorted(called) == ["a", "b", "c"]
    assert story.tool_calls("refused") == [("A[1]/note#4", "refused"), ("A[1]/note#5", "refused")]
    assert story.results()[:2] == ["not called: only 3 calls are allowed at once"] * 2
    (reached,) = story.named("limit_reached")
    assert reached.fields()["what"] == "calls_per_round"
    assert story.result.usage["tool_calls"] == 3


def exchanges(*acts: ToolLoopAction) -> list[tuple[str, str, str]]:
    """What the model is told of the tools that it asked for: id, status, text."""
    (loop_call,) = acts[-1].loop_calls
    question: ModelCall = loop_call.what
    return [(result.id, result.status, result.text) for one in question.exchanges for result in one.results]


def config_conversation(**config: Any) -> AgentConversation:
    return AgentConversation(agent(look, **config).workflow().graph.nodes[0].config)


def asked_for(*names: str) -> Outcome:
    calls = [{"id": f"id{number}", "name": name} for number, name in enumerate(names)]
    return Outcome(state={"reply": {"tool_calls": calls}})


def done(loop_call: ToolLoopCall, text: str = "ok", status: str = "completed") -> Outcome:
    request = loop_call.what.request
    return Outcome(state={"id": request.id, "name": request.name, "status": status, "text": text})


@pytest.mark.parametrize("seed", range(20))
def test_every_tool_call_has_one_result_in_request_order(seed: int) -> None:
    conversation = config_conversation(max_calls_per_round=5, approval=["no", "maybe"])
    has_started = conversation.on_result(
        conversation.begin(()).loop_calls[0], asked_for("a", "b", "no", "a", "maybe", "late", "later")
    )
    out, acts = list(has_started.loop_calls), [has_started]
    dice = random.Random(seed)
    while out:
        loop_call = out.pop(dice.randrange(len(out)))
        if loop_call.person_prompt is not None:
            word = "reject: not today" if loop_call.label == "no" else "approve"
            act = conversation.on_person_answer(loop_call, roundel.Message(word))
        elif loop_call.label == "b":
            act = conversation.on_failure(loop_call, "it broke")
        else:
            act = conversation.on_result(loop_call, done(loop_call))
        acts.append(act)
        if act.loop_calls and act.loop_calls[0].label:
            out.extend(act.loop_calls)
    assert exchanges(*acts) == [
        ("id0", "completed", "ok"),
        ("id1", "failed", "it broke"),
        ("id2", "rejected", "a person did not allow this call: not today"),
        ("id3", "completed", "ok"),
        ("id4", "completed", "ok"),
        ("id5", "refused", "not called: only 5 calls are allowed at once"),
        ("id6", "refused", "not called: only 5 calls are allowed at once"),
    ]


# What may go wrong with a call.


def test_tool_failures_are_reported_to_the_model() -> None:
    def leave() -> None:
        raise SystemExit(3)

    names = ["fail", "nothing", "leave"]
    story = run_conversation(agent(look, fail, leave), {"A": [wants(*names), "sorry"]})
    assert story.result.output == "sorry"
    assert sorted(story.results()) == [
        "SystemExit: 3",
        "ValueError: broken",
        "there is no tool 'nothing'; there are: fail, leave, look",
    ]
    assert {status for _, status in story.tool_calls()} == {"running", "failed"}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"wrong": 1}, "wrong arguments: there is no 'wrong'; it takes place"),
        ({"place": 7}, "wrong arguments: 'place': Expected `str`, got `int`"),
        ([1, 2], "the arguments are not a JSON object: [1, 2]"),
        ("north", "the arguments are not a JSON object: north"),
    ],
)
def test_wrong_arguments_are_reported_to_the_model(arguments: Any, expected: str) -> None:
    line = {"tool_calls": [{"name": "look", "arguments": arguments}]}
    story = run_conversation(agent(look), {"A": [line, "sorry"]})
    assert (story.result.output, story.results()) == ("sorry", [expected])
    calls = story.result.usage["tool_calls"]
    assert calls == (1 if isinstance(arguments, dict) else 0)


def test_a_model_that_fails_fails_the_node_in_any_round() -> None:
    story = run_conversation(agent(look), {"A": [wants("look"), {"error": "rate limit"}]})
    assert (story.result.status, story.result.error) == ("failed", "A: rate limit")


def test_on_error_message_applies_in_any_round() -> None:
    graph = agent(look, on_error="message", model="openai:m")
    story = run_conversation(graph, {"A": [wants("look"), {"error": "rate limit"}]})
    assert story.result.output == "Error calling model openai:m: rate limit"


def test_tool_names_are_escaped_in_addresses() -> None:
    names = ["a/b", "x[1]", "look#2", "look", "look", "", "n" * 300]
    story = run_conversation(agent(look), {"A": [wants(*names), "done"]})
    assert story.addresses() == [
        "A[1]/a%2Fb",
        "A[1]/x%5B1%5D",
        "A[1]/look%232",
        "A[1]/look",
        "A[1]/look#2",
        "A[1]/tool",
        "A[1]/" + "n" * 64,
    ]
    assert story.result.completed


# Who is quicker does not matter.


def test_calls_of_one_round_run_concurrently() -> None:
    together = threading.Barrier(3, timeout=5)

    def meet() -> str:
        together.wait()
        return "met"

    story = run_conversation(agent(meet), {"A": [wants("meet", "meet", "meet"), "done"]})
    assert story.results() == ["met", "met", "met"]


def test_a_coroutine_may_be_a_tool() -> None:
    async def rest() -> str:
        await asyncio.sleep(0)
        return "rested"

    assert run_conversation(agent(rest), {"A": [wants("rest"), "done"]}).results() == ["rested"]


def wait(seconds: float) -> str:
    """Takes its time."""
    time.sleep(seconds)
    return f"after {seconds}"


def loose(seed: int) -> Told:
    """Agents with tools in a free cycle, a loop agent and the parts of a dynamic edge, all with delays."""
    dice = random.Random(seed)

    def line(text: str, count: int = 0) -> dict[str, Any]:
        calls = [
            {"name": "wait", "arguments": {"seconds": dice.random() * 0.01}, "id": f"{text}{number}"}
            for number in range(count)
        ]
        return {"text": text, "tool_calls": calls, "delay": dice.random() * 0.01}

    inner = roundel.Graph(start="B", end="B").node("B", "agent", tools=[wait], max_tool_calls=2)
    each = {"mode": "array", "max_parallel": 3}
    graph = roundel.Graph(start="A", end="End")
    graph.node("A", "agent", tools=[wait])
    graph.node("Gate", "loop_counter", max_iterations=2)
    graph.node("Each", "loop_agent", strategy=each, body=inner)
    graph.node("C", "agent", tools=[wait])
    graph.node("End", "passthrough", only_last_message=False)
    graph.edge("A", "A", condition={"cel": "round < 2"}).edge("A", "Gate").edge("Gate", "A")
    graph.edge("Gate", "Each", process={"type": "function", "config": {"name": four}})
    split = {"type": "map", "split": {"type": "json_path", "config": {}}, "config": {"max_parallel": 2}}
    graph.edge("Each", "C", dynamic=split).edge("C", "End")
    lines = {
        name: [line(f"{name}{number}", number % 3 + 1 if number % 2 == 0 else 0) for number in range(12)]
        for name in "ABC"
    }
    return run_conversation(graph, lines)


def four(message: roundel.Message) -> str:
    return '["n", "e", "s", "w"]'


def trace(story: Told) -> Any:
    """What happened, but for how long it took, and for which of two things came first."""
    calls = [
        (event.address, event.fields()["status"], event.fields()["id"]) for event in story.named("tool_call")
    ]
    nodes = [
        (event.address, event.fields())
        for event in story.named("node_state_change")
        if event.fields()["status"] == "completed"
    ]
    return sorted(calls), sorted(nodes, key=str), story.result.summary


def test_events_do_not_depend_on_completion_order() -> None:
    first = loose(0)
    assert first.result.status == "completed", first.result.error
    addresses = first.addresses()
    running = [address for address, _ in first.tool_calls("running")]
    assert len(running) == len(set(running)) == len(addresses)
    assert {"A[1].A[1]/wait", "Each[3].B[1]/wait", "C#3[1]/wait"} <= set(addresses)
    for seed in range(1, 6):
        assert trace(loose(seed)) == trace(first)


def test_call_addresses_are_unique_when_a_participant_speaks_twice_in_a_round() -> None:
    graph = roundel.Graph(start="D", end="D")
    speakers = [{"id": name, "type": "agent", "config": {"tools": [look]}} for name in "AB"]
    pairs = [["A", "B"], ["B", "A"], ["A", "B"]]
    graph.node("D", "debate", participants=speakers, agent_pairs=pairs, max_rounds=2)
    story = run_conversation(
        graph, {"A": [wants("look"), "yes", wants("look"), "no"], "B": [wants("look"), "well"]}
    )
    running = [address for address, _ in story.tool_calls("running")]
    assert story.result.completed
    assert len(running) == len(set(running)) == 3


# Structured answers, reflection.

PLACE = {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]}


def structured(**config: Any) -> roundel.Graph:
    return roundel.Graph(start="A", end="A").node("A", "agent", output_schema=PLACE, **config)


@pytest.mark.parametrize(
    "line",
    ['{"place": "Oslo"}', 'Here:\n```json\n{"place": "Oslo"}\n```', {"text": "x", "data": {"place": "Oslo"}}],
)
def test_answer_matching_the_schema_becomes_data(line: Any) -> None:
    assert run_conversation(structured(), {"A": [line]}).result.data == {"place": "Oslo"}


def test_answer_not_matching_the_schema_is_repaired() -> None:
    story = run_conversation(structured(), {"A": ["Oslo", '{"plaice": 1}', '{"place": "Oslo"}']})
    assert story.result.data == {"place": "Oslo"}
    assert story.result.usage["model_calls"] == 3


def test_repairs_are_limited() -> None:
    story = run_conversation(structured(max_repairs=1), {"A": ["Oslo"]})
    assert story.result.status == "failed"
    assert story.result.usage["model_calls"] == 2
    assert "the answer does not fit output_schema: it is not JSON" in str(story.result.error)


def test_non_object_answer_is_stored_under_value() -> None:
    graph = roundel.Graph(start="A", end="A").node("A", "agent", output_schema={"type": "array"})
    assert run_conversation(graph, {"A": ["[1, 2]"]}).result.data == {"value": [1, 2]}


def test_tool_rounds_precede_the_structured_answer() -> None:
    graph = roundel.Graph(start="A", end="A").node("A", "agent", tools=[look], output_schema=PLACE)
    story = run_conversation(graph, {"A": [wants("look"), "Oslo", '{"place": "Oslo"}']})
    assert story.result.data == {
        "place": "Oslo",
        "stop_reason": "answered",
        "answered": True,
        "tool_rounds": 1,
    }


REFLECT = {"type": "reflection", "config": {"reflection_prompt": "Is that so?"}}


def test_reflection_replaces_the_answer() -> None:
    graph = roundel.Graph(start="A", end="A").node("A", "agent", thinking=REFLECT)
    story = run_conversation(graph, {"A": ["a guess", "the truth", "never heard"]})
    assert (story.result.output, story.result.usage["model_calls"]) == ("the truth", 2)


def test_reflection_follows_the_tool_rounds_without_tools() -> None:
    graph = agent(look, thinking=REFLECT)
    story = run_conversation(graph, {"A": [wants("look"), "a guess", {**wants("look"), "text": "the truth"}]})
    assert story.result.output == "the truth"
    assert story.addresses() == ["A[1]/look"]
    assert story.result.usage["model_calls"] == 3


def test_reflection_must_match_the_schema() -> None:
    script = {"A": ['{"place": "Bergen"}', "Oslo, I mean", '{"place": "Oslo"}']}
    story = run_conversation(structured(thinking=REFLECT), script)
    assert (story.result.data, story.result.usage["model_calls"]) == ({"place": "Oslo"}, 3)
    story = run_conversation(structured(thinking=REFLECT, max_repairs=0), script)
    assert story.result.status == "failed"


# The same call again.


def agent_with_breaker(*tools: Any, **config: Any) -> roundel.Graph:
    """The same agent, with the breaker on."""
    return roundel.Graph(start="A", end="A").node("A", "agent", tools=list(tools), **config)


def test_third_identical_tool_call_is_not_executed() -> None:
    calls: list[str] = []

    def poke(place: str) -> str:
        """Pokes something."""
        calls.append(place)
        return "nothing moves"

    story = run_conversation(
        agent_with_breaker(poke, max_tool_calls=6), {"A": [*[wants("poke", place="door")] * 5, "I give up"]}
    )
    assert story.result.output == "I give up"
    assert calls == ["door", "door"]
    assert story.result.usage["tool_calls"] == 2
    shown = [event.fields() for event in story.named("tool_call") if event.fields()["status"] != "running"]
    assert [data["status"] for data in shown] == ["completed", "completed", *["repeated"] * 3]
    assert "gave the same result" in shown[2]["result"] and "nothing moves" in shown[2]["result"]
    assert story.result.data is not None and story.result.data["tool_rounds"] == 5


def test_different_argument_or_result_resets_the_repetition_count() -> None:
    results = iter("aabbbcc")

    def peek(place: str) -> str:
        """Looks at something that changes."""
        return next(results)

    places = ["x", "x", "x", "x", "y", "x", "x"]
    story = run_conversation(
        agent_with_breaker(peek, max_tool_calls=9),
        {"A": [*(wants("peek", place=place) for place in places), "so"]},
    )
    statuses = [
        event.fields()["status"]
        for event in story.named("tool_call")
        if event.fields()["status"] != "running"
    ]
    # The first two give a, so the third is not made; the fourth neither, since nothing has changed meanwhile.
    assert statuses == ["completed", "completed", "repeated", "repeated", *["completed"] * 3]


def test_other_calls_of_a_round_with_a_repeated_one_are_executed() -> None:
    script = {"A": [wants("look"), wants("look"), wants("look", "fail"), "done"]}
    story = run_conversation(agent_with_breaker(look, fail), script)
    statuses = [
        event.fields()["status"] for event in story.named("tool_call") if event.fields()["round"] == 3
    ]
    assert sorted(statuses) == ["failed", "repeated", "running"]
    assert story.result.output == "done"


def test_polling_tool_may_repeat_identical_calls() -> None:
    graph = roundel.Graph(start="A", end="A", tools={"look": {"python": look, "poll": True}})
    graph.node("A", "agent", tools=["look"])
    story = run_conversation(graph, {"A": [*[wants("look")] * 5, "at last"]})
    assert (story.result.output, story.result.usage["tool_calls"]) == ("at last", 5)


def test_repeated_calls_are_executed_without_the_breaker() -> None:
    story = run_conversation(agent(look), {"A": [*[wants("look")] * 5, "at last"]})
    assert story.result.usage["tool_calls"] == 5
