"""Completion of a node: its usage is counted and shown, and its messages walk its edges."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import msgspec
import pytest

from roundel.kernel.commands import Call, Command, EvaluateEdges
from roundel.kernel.facts import (
    Attempt,
    CallRecord,
    EdgeResult,
    EdgesEvaluated,
    Fact,
    Failed,
    Finished,
    Outcome,
    Stopped,
    Usage,
)
from roundel.kernel.payloads import ModelCallEnded
from roundel.kernel.token_surge import FIRST_CALLS
from roundel.workflow.message import Message
from tests.kernel.simulator import Simulator, plan_of

Dict = dict[str, Any]


def agent(name: str = "A", **fields: Any) -> Dict:
    return {"id": name, "type": "agent", **fields}


def passing(name: str) -> Dict:
    return {"id": name, "type": "passthrough", "config": {"only_last_message": False}}


def graph(*nodes: Dict, edges: list[Dict] | None = None, **fields: Any) -> Dict:
    return {"graph": {"nodes": nodes, "edges": edges or [], "start": nodes[0]["id"], **fields}}


def shown(run: Simulator, name: str = "model_call") -> list[Dict]:
    return [event.fields() for event in run.events if event.event == name]


# What was used.


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (Usage(1, 0, 10, 3), {"input_tokens": 10, "output_tokens": 3}),
        (Usage(1, 0, 0, 3), {"input_tokens": 0, "output_tokens": 3}),
        (
            Usage(1, 0, 10, 3, 0.5, model="m"),
            {"input_tokens": 10, "output_tokens": 3, "model": "m", "cost_usd": 0.5},
        ),
        (
            Usage(1, 0, 10, 3, unpriced_calls=1, model="m"),
            {"input_tokens": 10, "output_tokens": 3, "model": "m"},
        ),
        (
            Usage(cached=True, model="m"),
            {"input_tokens": 0, "output_tokens": 0, "model": "m", "cost_usd": 0, "cached": True},
        ),
        (Usage(1), {}),
    ],
)
def test_model_call_event_reports_usage(usage: Usage, expected: Dict) -> None:
    run = Simulator(plan_of(graph(agent())), {}).start("go")
    run.apply(Finished("A", Outcome((Message("done"),), usage=usage), run.now()))
    begun, ended = shown(run)
    assert begun == {"status": "running", "call": 1, "purpose": "answer", "ordinal": 0}
    total = ended.pop("total")
    assert ended == {"status": "completed", "call": 1, "purpose": "answer", **expected}
    assert total == run.state.usage_summary()
    assert (total["output_tokens"], total.get("cached_calls", 0)) == (usage.output_tokens, int(usage.cached))


def test_what_the_host_knows_of_a_call_is_part_of_its_event() -> None:
    run = Simulator(plan_of(graph(agent())), {}).start("go")
    record = CallRecord(
        2.5, (Attempt("m", "busy", 429, 20.0, 0.5, 20.0),), "length", 0.25, "r1", context="c0ffee"
    )
    run.apply(Finished("A", Outcome((Message("done"),), usage=Usage(1, model="m"), call=record), run.now()))
    ended = run.events[-3].data
    assert isinstance(ended, ModelCallEnded)
    assert (ended.seconds, ended.first_token, ended.stop, ended.context) == (2.5, 0.25, "length", "c0ffee")
    assert ended.attempts == record.attempts


def test_a_failed_model_call_ends_and_counts() -> None:
    run = Simulator(plan_of(graph(agent())), {}).start("go")
    run.apply(Failed("A", "too busy", run.now(), error_type="RateLimited", call=CallRecord(3)))
    ended = shown(run)[-1]
    assert (ended["status"], ended["error"], ended["type"]) == ("failed", "too busy", "RateLimited")
    assert (ended["seconds"], ended["total"]["model_calls"]) == (3, 1)
    assert run.events[-1].fields()["failed_at"] == "A"


def test_a_cancelled_model_call_ends_and_is_counted_apart() -> None:
    run = Simulator(plan_of(graph(agent())), {}).start("go")
    run.apply(Stopped("enough", run.now(), by="mei"))
    ended, finished = shown(run)[-1], run.events[-1].fields()
    assert (ended["status"], ended["total"]["cancelled_calls"]) == ("cancelled", 1)
    assert (finished["usage"]["model_calls"], finished["usage"]["cancelled_calls"]) == (0, 1)
    assert finished["by"] == "mei"


def test_embeddings_have_an_event_of_their_own() -> None:
    run = Simulator(plan_of(graph(agent())), {}).start("go")
    aside = Usage(0, 0, 7, 0, 0.1, model="e")
    outcome = Outcome((Message("done"),), usage=Usage(1, 0, 10, 3), aside=aside)
    run.apply(Finished("A", outcome, run.now()))
    (used,) = shown(run, "aside_usage")
    assert used.pop("total")["input_tokens"] == 7, "the call of the model comes after it"
    assert used == {"purpose": "embedding", "model": "e", "input_tokens": 7, "cost_usd": 0.1}
    assert run.state.usage["input_tokens"] == 17


@pytest.mark.parametrize("aside", [False, True])
def test_side_usage_counts_but_is_not_a_token_surge(aside: bool) -> None:
    """Embeddings for a memory, say: the forecast knows nothing of them."""
    names = [f"A{number}" for number in range(FIRST_CALLS + 2)]
    edges = [{"from": one, "to": other} for one, other in pairwise(names)]
    workflow = graph(*map(agent, names), edges=edges, end=names[-1])
    run = Simulator(plan_of({**workflow, "breaker": {"dead_loop": False}}), {}).start("go")
    small, large = Usage(1, 0, 10, 10), Usage(0 if aside else 1, 0, 10**6, 0)
    for name in names[:-1]:
        more = large if name == names[-2] else None
        run.apply(Finished(name, Outcome((Message(name),), usage=small, aside=more), run.now()))
    assert run.state.usage["input_tokens"] == 10**6 + 10 * (len(names) - 1)
    assert run.state.status == ("running" if aside else "suspended_locked")


# What the functions of edges say of it.


class Judging(Simulator):
    """The functions on edges let a message pass if it is among `liked`."""

    liked: tuple[str, ...] = ()
    asked: tuple[tuple[int, str], ...] = ()

    def answer(self, command: Command) -> Fact:
        if not isinstance(command, EvaluateEdges):
            return super().answer(command)
        self.asked += tuple((edge, command.messages[number].text) for edge, number in command.pairs)
        edge_results = tuple(
            EdgeResult(edge, number, command.messages[number].text in self.liked)
            for edge, number in command.pairs
        )
        return EdgesEvaluated(command.address, edge_results, self.now())


def judged(*liked: str) -> Judging:
    """In is split into lines, Each says them, and a function says which of them get to Out."""
    split = {"type": "map", "split": {"type": "regex", "config": {"pattern": r"[^\n]+"}}}
    by_function = {"type": "function", "config": {"name": "like"}}
    edges = [
        {"from": "In", "to": "Each", "dynamic": split},
        {"from": "Each", "to": "Out", "condition": by_function},
    ]
    workflow = graph(passing("In"), passing("Each"), passing("Out"), edges=edges, end="Out")
    run = Judging(plan_of(workflow, {"like": lambda _message: True}), {})
    run.liked = liked
    return run.start("a\nb\nc").finish()


@pytest.mark.parametrize("liked", [("a",), ("b",), ("c",), ("a", "c"), ("b", "c"), ("a", "b", "c")])
def test_each_message_of_each_part_is_evaluated_separately(liked: tuple[str, ...]) -> None:
    run = judged(*liked)
    assert [text for _, text in run.asked] == ["a", "b", "c"]
    [out] = [seen for seen in run.executions if seen.node == "Out"]
    assert tuple(text for _, text in out.inputs) == liked


def test_target_is_skipped_when_no_edge_passes_a_message() -> None:
    run = judged()
    assert [seen.node for seen in run.executions] == ["In", "Each", "Each", "Each"]
    assert shown(run, "end_not_reached") == [{"edges": ["Each → Out"]}]


def test_edges_are_evaluated_per_message_of_a_result() -> None:
    by_function = {"type": "function", "config": {"name": "like"}}
    edges = [
        {"from": "A", "to": "B", "condition": by_function},
        {"from": "A", "to": "C", "condition": by_function},
    ]
    workflow = graph(agent(), passing("B"), passing("C"), edges=edges)
    run = Judging(plan_of(workflow, {"like": lambda _message: True}), {}).start("go")
    run.in_flight.clear()
    run.apply(Finished("A", Outcome((Message("one"), Message("two"))), run.now()))
    [evaluation] = run.in_flight
    assert isinstance(evaluation, EvaluateEdges)
    assert evaluation.pairs == ((0, 0), (1, 0), (0, 1), (1, 1))
    run.in_flight.clear()
    run.apply(
        EdgesEvaluated(
            "A", (EdgeResult(0, 0, False), EdgeResult(1, 0, True), EdgeResult(0, 1, True)), run.now()
        )
    )
    given = {
        command.address: [message.text for message in command.inputs]
        for command in run.in_flight
        if isinstance(command, Call)
    }
    assert given["B"] == ["two"]
    assert given["C"][0] == "one"


# What it keeps of its own output.


def test_context_window_keeps_own_output_with_the_assistant_role() -> None:
    workflow = graph(agent(context_window=-1), edges=[{"from": "A", "to": "A"}], limits={"rounds": 2})
    run = Simulator(plan_of(workflow), {}).start("go")
    run.in_flight.clear()
    reply_text = Message("first", "user", {"score": 1}, {"from": "model"})
    run.apply(Finished("A[1]/A", Outcome((reply_text,)), run.now()))
    [call] = run.in_flight
    assert isinstance(call, Call)
    kept = [message for message in call.inputs if message.role == "assistant"]
    assert msgspec.to_builtins(kept[0])["metadata"] == {"from": "model"}
    assert (kept[0].text, kept[0].data) == ("first", {"score": 1})
