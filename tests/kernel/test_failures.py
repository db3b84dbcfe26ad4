"""Error edges: where a failure goes, what it carries, and what happens to everything around it."""

from __future__ import annotations

from typing import Any

import pytest

from roundel.kernel.commands import Cancel, EvaluateEdges
from roundel.kernel.events import Event
from roundel.kernel.facts import (
    EdgeResult,
    EdgesEvaluated,
    Failed,
    Finished,
    Outcome,
    Paused,
    Resumed,
    decode_entry,
)
from roundel.kernel.payloads import NodeFailed
from roundel.kernel.step import replay
from roundel.plan.graph import Plan
from roundel.workflow.message import Message
from tests.events import node_status, readable
from tests.kernel.frozen import copied
from tests.kernel.simulator import Simulator, plan_of

Node = dict[str, Any]


def agent(name: str, **fields: Any) -> Node:
    return {"id": name, "type": "agent", "config": {"provider": "openai", "name": "m"}, **fields}


def passing(name: str) -> Node:
    return {"id": name, "type": "passthrough"}


def graph(nodes: list[Node], *edges: dict[str, Any], **settings: Any) -> dict[str, Any]:
    return {"nodes": nodes, "edges": list(edges), "start": nodes[0]["id"], **settings}


def edge(source: str, target: str, **fields: Any) -> dict[str, Any]:
    return {"from": source, "to": target, **fields}


def on_error(source: str, target: str, **fields: Any) -> dict[str, Any]:
    return edge(source, target, port="error", **fields)


class Host(Simulator):
    """Answers by hand. Each fact is applied to a copy of the run from a snapshot, so that every state on
    the way can be stored."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan, {})
        self.start("hi")

    def say(self, address: str, text: str, **fields: Any) -> None:
        self.take(address)
        self.state = copied(self.state, self.plan)
        self.apply(Finished(address, Outcome((Message(text, "assistant"),), **fields), self.now()))

    def fail(self, address: str, error: str = "boom", kind: str = "OSError", attempts: int = 1) -> None:
        self.take(address)
        self.state = copied(self.state, self.plan)
        self.apply(Failed(address, error, self.now(), error_type=kind, attempts=attempts))

    def take(self, address: str) -> Any:
        (command,) = [command for command in self.in_flight if command.address == address]
        self.in_flight.remove(command)
        return command

    @property
    def waiting(self) -> list[str]:
        return sorted(command.address for command in self.in_flight)

    def input_of(self, address: str) -> Message:
        (command,) = [command for command in self.in_flight if command.address == address]
        message: Message = command.inputs[-1]  # type: ignore[union-attr]
        return message

    def states(self, address: str) -> list[dict[str, Any]]:
        return [
            readable(event)
            for event in self.events
            if event.event == "node_state_change" and event.address == address
        ]

    def seen(self, name: str) -> list[Event]:
        return [event for event in self.events if event.event == name]


def small(*edges: dict[str, Any], **settings: Any) -> Plan:
    nodes = [agent("Risky"), agent("Fallback"), agent("Next")]
    return plan_of({"graph": graph(nodes, edge("Risky", "Next"), *edges, **settings)})


def test_a_failure_becomes_a_message_on_the_error_edge() -> None:
    host = Host(small(on_error("Risky", "Fallback")))
    host.fail("Risky", "too many requests", "RateLimited", attempts=3)
    assert host.waiting == ["Fallback"]
    message = host.input_of("Fallback")
    data = {
        "error": "too many requests",
        "type": "RateLimited",
        "node": "Risky",
        "address": "Risky",
        "attempts": 3,
    }
    assert (message.text, message.data, message.role, message.source) == (
        "too many requests",
        data,
        "user",
        "Risky",
    )
    failed = next(event.data for event in host.events if node_status(event) == "failed")
    assert failed == NodeFailed(
        "too many requests", "RateLimited", handled=True, node="Risky", origin="Risky", attempts=3
    )
    assert (host.state.status, host.state.error) == ("running", None)
    host.say("Fallback", "plan B")
    assert host.state.status == "completed"
    assert host.state.summary()["nodes"] == {"Risky": 1, "Fallback": 1}


def test_without_a_failure_the_error_edge_does_not_fire() -> None:
    host = Host(small(on_error("Risky", "Fallback")))
    host.say("Risky", "fine")
    assert host.waiting == ["Next"]


def test_an_error_edge_that_does_not_fire_leaves_the_failure_to_the_run() -> None:
    condition = {"cel": "data.type == 'Timeout'"}
    host = Host(small(on_error("Risky", "Fallback", condition=condition)))
    host.fail("Risky", "boom", "OSError")
    assert host.state.status == "failed"
    assert host.states("Risky")[-1] == {"status": "failed", "error": "boom", "type": "OSError"}
    other = Host(small(on_error("Risky", "Fallback", condition=condition)))
    other.fail("Risky", "late", "Timeout")
    assert other.waiting == ["Fallback"]


def test_a_data_edge_alone_does_not_handle_a_failure() -> None:
    host = Host(small(on_error("Risky", "Fallback", trigger=False), edge("Next", "Fallback")))
    host.fail("Risky")
    assert host.state.status == "failed"
    assert host.state.root is not None
    assert not any(host.state.root.queues)  # a retry must not find the message there


def test_all_error_edges_that_fire_carry_the_failure() -> None:
    edges = (
        on_error("Risky", "Fallback"),
        on_error("Risky", "Next", process={"type": "regex_extract", "config": {"pattern": "b(o+)m"}}),
    )
    host = Host(small(*edges))
    host.fail("Risky")
    assert host.waiting == ["Fallback", "Next"]
    assert host.input_of("Fallback").text == "boom"


def test_a_condition_that_fails_on_an_error_edge_fails_the_run() -> None:
    host = Host(small(on_error("Risky", "Fallback", condition={"cel": "data.code > 3"})))
    host.fail("Risky")
    assert host.state.status == "failed"
    assert "the condition on Risky → Fallback (error) failed" in str(host.state.error)
    assert "while it handled: boom" in str(host.state.error)


def test_a_condition_that_fails_on_another_edge_is_no_failure_of_the_node() -> None:
    host = Host(
        small(on_error("Risky", "Fallback"), edge("Risky", "Fallback", condition={"cel": "data.x > 3"}))
    )
    host.say("Risky", "no x")
    assert host.state.status == "failed"


@pytest.mark.parametrize("fires", [True, False])
def test_functions_decide_about_error_edges(fires: bool) -> None:
    nodes = [agent("Risky"), agent("Fallback")]
    function = {"type": "function", "config": {"name": "check"}}
    workflow = {"graph": graph(nodes, on_error("Risky", "Fallback", condition=function))}
    host = Host(plan_of(workflow, {"check": lambda _message: True}))
    host.fail("Risky")
    (command,) = host.in_flight
    assert isinstance(command, EvaluateEdges)
    assert host.states("Risky") == [{"status": "running"}]  # nobody knows yet whether it is handled
    host.take("Risky")
    host.state = copied(host.state, host.plan)
    host.apply(EdgesEvaluated("Risky", (EdgeResult(0, 0, fires, command.messages[0]),), host.now()))
    assert host.state.status == ("running" if fires else "failed")
    assert host.waiting == (["Fallback"] if fires else [])


def test_a_function_on_an_error_edge_that_fails_fails_the_run() -> None:
    nodes = [agent("Risky"), agent("Fallback")]
    function = {"type": "function", "config": {"name": "check"}}
    workflow = {"graph": graph(nodes, on_error("Risky", "Fallback", condition=function))}
    host = Host(plan_of(workflow, {"check": lambda _message: True}))
    host.fail("Risky")
    host.fail("Risky", "the function is broken")
    assert host.state.error == "Risky: the function is broken, while it handled: boom"


# Failures inside of other graphs.


def subgraph(*edges: dict[str, Any]) -> Plan:
    inner = graph([agent("In"), agent("Left"), agent("Right")], edge("In", "Left"), edge("In", "Right"))
    nodes = [
        {"id": "Sub", "type": "subgraph", "config": {"type": "config", "config": inner}},
        agent("Fallback"),
    ]
    return plan_of({"graph": graph(nodes, *edges)})


def test_a_subgraph_fails_with_the_innermost_failure_and_is_cancelled() -> None:
    host = Host(subgraph(on_error("Sub", "Fallback")))
    host.say("Sub/In", "go")
    assert host.waiting == ["Sub/Left", "Sub/Right"]
    host.fail("Sub/Left", "lost")
    assert host.waiting == ["Fallback"]
    assert host.input_of("Fallback").data == {
        "error": "lost",
        "type": "OSError",
        "node": "Left",
        "address": "Sub/Left",
        "attempts": 1,
    }
    failed = {"status": "failed", "error": "lost", "type": "OSError"}
    assert host.states("Sub/Left") == [{"status": "running"}, failed]
    assert host.states("Sub")[-1]["handled"] is True
    assert host.states("Sub/Right")[-1] == {"status": "skipped", "reason": "the round was ended"}
    host.say("Fallback", "saved")
    assert host.state.status == "completed"


def test_the_nodes_between_a_failure_and_its_handler_have_failed() -> None:
    inner = graph([agent("In")])
    middle = graph([{"id": "Middle", "type": "subgraph", "config": {"type": "config", "config": inner}}])
    nodes = [
        {"id": "Outer", "type": "subgraph", "config": {"type": "config", "config": middle}},
        agent("Fallback"),
    ]
    host = Host(plan_of({"graph": graph(nodes, on_error("Outer", "Fallback"))}))
    host.fail("Outer/Middle/In")
    failed = {"status": "failed", "error": "boom", "type": "OSError"}
    assert host.states("Outer/Middle")[-1] == failed
    at = {event.address: event.data for event in host.events if node_status(event) == "failed"}
    assert {address: (data.origin, data.inside) for address, data in at.items()} == {  # type: ignore[union-attr]
        "Outer/Middle/In": ("Outer/Middle/In", False),
        "Outer/Middle": ("Outer/Middle/In", True),
        "Outer": ("Outer/Middle/In", True),
    }
    assert host.states("Outer")[-1]["handled"] is True


def test_without_an_error_edge_the_failure_in_a_subgraph_fails_the_run() -> None:
    host = Host(subgraph(edge("Sub", "Fallback")))
    host.say("Sub/In", "go")
    host.fail("Sub/Left", "lost")
    host.say("Sub/Right", "done")
    assert host.state.error == "Sub/Left: lost"


def loop_agent(body: dict[str, Any], *edges: dict[str, Any], **strategy: Any) -> Plan:
    config = {"strategy": {"mode": "array", **strategy}, "body": body}
    nodes = [{"id": "Each", "type": "loop_agent", "config": config}, agent("Fallback")]
    return plan_of({"graph": graph(nodes, *edges)})


def start_elements(plan: Plan) -> Host:
    host = Host.__new__(Host)
    Simulator.__init__(host, plan, {})
    host.start("[1, 2, 3]")
    return host


BODY = graph([agent("Work")])


def test_an_error_edge_inside_a_body_comes_before_on_error() -> None:
    body = graph([agent("Work"), passing("Default")], on_error("Work", "Default"))
    host = start_elements(loop_agent(body, on_error="drop"))
    host.fail("Each[1]/Work", "first")
    assert host.waiting == ["Each[1]/Default"]
    host.finish()
    assert host.state.output is not None
    assert host.state.output.data is not None
    assert len(host.state.output.data["results"]) == 3


def test_on_error_comes_before_the_error_edge_of_the_loop_agent() -> None:
    host = start_elements(loop_agent(BODY, on_error("Each", "Fallback"), on_error="drop"))
    host.fail("Each[1]/Work")
    assert host.waiting == ["Each[2]/Work"]


def test_with_stop_the_loop_agent_fails_and_its_error_edge_takes_it() -> None:
    host = start_elements(loop_agent(BODY, on_error("Each", "Fallback"), max_parallel=2))
    assert host.waiting == ["Each[1]/Work", "Each[2]/Work"]
    host.fail("Each[2]/Work", "second")
    assert host.waiting == ["Fallback"]
    data = host.input_of("Fallback").data or {}
    assert data["address"] == "Each[2]/Work"
    (left,) = host.seen("loop_exit")
    assert left.fields()["reason"] == "failed"
    host.say("Fallback", "saved")
    assert host.state.status == "completed"
    assert host.state.summary()["loops"]["Each"]["exit_reason"] == "failed"


def test_two_failures_in_one_body_are_handled_once() -> None:
    host = start_elements(loop_agent(BODY, on_error("Each", "Fallback"), max_parallel=3))
    host.fail("Each[3]/Work", "third")
    assert host.waiting == ["Fallback"]
    assert [
        event.fields() for event in host.seen("node_state_change") if event.fields().get("handled")
    ].__len__() == 1


# Dynamic edges.


def fan_out(kind: str, **config: Any) -> Plan:
    nodes = [passing("Split"), agent("Part"), agent("Join"), agent("Failed")]
    dynamic = {"type": kind, "split": {"type": "regex", "config": {"pattern": r"\w+"}}, "config": config}
    edges = [
        edge("Split", "Part", dynamic=dynamic),
        edge("Part", "Join"),
        on_error("Part", "Failed"),
    ]
    return plan_of({"graph": graph(nodes, *edges)})


def start_parts(plan: Plan) -> Host:
    host = Host.__new__(Host)
    Simulator.__init__(host, plan, {})
    host.start("one two three")
    host.apply(host.answer(host.take("Split")))
    return host


def test_a_part_that_fails_takes_the_error_edge_and_the_others_go_on() -> None:
    host = start_parts(fan_out("map", max_parallel=3))
    host.fail("Part#2", "second part")
    host.say("Part#1", "1")
    host.say("Part#3", "3")
    assert host.waiting == ["Failed", "Join"]
    (join,) = [command for command in host.in_flight if command.address == "Join"]
    assert [message.text for message in join.inputs] == ["1", "3"]  # type: ignore[union-attr]
    assert host.input_of("Failed").text == "second part"


def test_a_group_of_a_tree_that_fails_leaves_only_the_failure() -> None:
    host = start_parts(fan_out("tree", group_size=2, max_parallel=2))
    host.say("Part#1.1", "1 and 2")
    host.fail("Part#1.2", "no third")
    assert host.waiting == ["Failed"]


# Loops.


def test_an_error_edge_out_of_a_loop_is_an_exit() -> None:
    nodes = [agent("Write"), agent("Review"), agent("After")]
    edges = (edge("Write", "Review"), edge("Review", "Write"), on_error("Review", "After"))
    host = Host(plan_of({"graph": graph(nodes, *edges)}))
    host.say("Write[1]/Write", "draft")
    host.fail("Write[1]/Review")
    assert host.waiting == ["After"]
    (left,) = host.seen("loop_exit")
    assert (left.fields()["reason"], left.fields()["by"]) == ("error", "Review")


def test_failures_are_no_messages_of_a_speaker() -> None:
    """A loop that fails again and again is bounded by its cap, and not taken for a dead one."""
    nodes = [agent("Try"), agent("After")]
    edges = (on_error("Try", "Try"), edge("Try", "After"))
    workflow = {"graph": graph(nodes, *edges, limits={"rounds": 6}), "breaker": True}
    host = Host(plan_of(workflow))
    for round_ in range(1, 7):
        host.fail(f"Try[{round_}]/Try", "down")
    assert host.state.lock is not None
    assert host.state.lock.what == "rounds"


def test_a_failure_is_delivered_while_the_run_pauses() -> None:
    host = Host(small(on_error("Risky", "Fallback")))
    host.apply(Paused("lunch", host.now()))
    host.fail("Risky")
    assert host.state.status == "paused"
    host.apply(Resumed(host.now()))
    assert host.waiting == ["Fallback"]


def test_the_journal_gives_the_same_run() -> None:
    host = Host(subgraph(on_error("Sub", "Fallback", condition={"cel": "data.node == 'Left'"})))
    host.say("Sub/In", "go")
    host.fail("Sub/Left", "lost")
    state, commands = replay(host.plan, map(decode_entry, host.journal))
    assert [command.address for command in commands] == ["Fallback"]
    assert state.summary() == host.state.summary()
    assert not any(isinstance(command, Cancel) for command in commands)


@pytest.mark.parametrize("limits", [{}, {"limits": {"model_calls": 9}}])
def test_a_failed_model_call_counts_in_the_usage_of_the_run(limits: dict[str, Any]) -> None:
    """With and without a budget, and from its facts as well."""
    nodes = [agent("Risky"), passing("Fallback")]
    source = {"graph": graph(nodes, on_error("Risky", "Fallback")), **limits}
    run = Simulator(plan_of(source), {"Risky": ["!no luck"]}).start("go").finish()
    assert run.state.status == "completed"
    assert run.state.summary()["usage"]["model_calls"] == 1
    again = Simulator(plan_of(source), {}).resume(run.journal)
    assert again.state.summary() == run.state.summary()


def test_a_failed_node_without_a_model_is_no_call() -> None:
    nodes = [passing("Risky"), passing("Fallback")]
    run = Simulator(plan_of({"graph": graph(nodes, on_error("Risky", "Fallback"))}), {"Risky": ["!no luck"]})
    assert run.start("go").finish().state.status == "completed"
    assert run.state.summary()["usage"]["model_calls"] == 0
