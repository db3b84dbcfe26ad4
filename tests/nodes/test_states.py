"""The state of a node is what the node gave: after a journal, in a snapshot, and in a command."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct

from roundel.kernel.commands import Call, Command, decode_command, encode_command
from roundel.kernel.facts import Fact, Finished, Outcome, Started, decode_fact, encode_fact
from roundel.kernel.snapshot import PlanIndex, decode, freeze, thaw
from roundel.kernel.state import Run
from roundel.kernel.step import step
from roundel.nodes import TYPES
from roundel.plan.graph import Plan, compile_workflow
from roundel.workflow.loader import from_mapping
from roundel.workflow.message import Message
from roundel.workflow.node_type import NodeType, NodeTypes
from tests.kernel.generated import values_of

STATEFUL = {kind.name: kind for kind in map(TYPES.__getitem__, list(TYPES)) if kind.state is not None}


class Noted(Struct, frozen=True):
    """The state of a node type of another package."""

    words: dict[str, int]
    best: Message | None = None


class Config(Struct, frozen=True):
    pass


def prepare(_node: Any, _services: Any) -> Any:
    raise AssertionError("the test tells what the node gave")


FOREIGN = NodeType("notes", Config, "Notes words.", prepare, state=Noted)


def test_stateful_node_types_are_the_loop_guards() -> None:
    """A new one is tested here without being named."""
    assert set(STATEFUL) == {"loop", "loop_counter", "loop_timer"}


def plan_with(kind: NodeType) -> Plan:
    """Agent A and the node N in a loop."""
    nodes = [
        {"id": "A", "type": "agent"},
        {"id": "N", "type": kind.name},
        {"id": "Out", "type": "passthrough"},
    ]
    ways = [("A", "N"), ("N", "A"), ("N", "Out")]
    edges: list[dict[str, Any]] = [{"from": one, "to": other} for one, other in ways]
    if "exit" in kind.ports(kind.config()):
        edges[1]["port"], edges[2]["port"] = "continue", "exit"
    types = NodeTypes([*map(TYPES.__getitem__, ("agent", "passthrough")), kind])
    return compile_workflow(from_mapping({"graph": {"nodes": nodes, "edges": edges, "start": "A"}}, types))


def step_through_codec(run: Run, fact: Fact) -> list[Command]:
    """As a journal gives it back."""
    return step(run, decode_fact(encode_fact(fact)))[0]


def called(run: Run, state: Any) -> Call:
    """Runs A and then N, which gives a state and goes on; the call of N in the second round."""
    ports = run.plan.sites[1].kind.ports(run.plan.sites[1].config)
    given = Outcome((Message("n"),), "continue" if ports else None, state, stay=True)
    commands = step_through_codec(run, Started("run", (Message("go"),), 1.0))
    for outcome in (Outcome((Message("a"),)), given, Outcome((Message("b"),))):
        (command,) = commands
        commands = step_through_codec(run, Finished(command.address, outcome, 2.0))
    (call,) = commands
    assert isinstance(call, Call)
    assert call.address == "A[2]/N"
    return call


@pytest.mark.parametrize("kind", [*STATEFUL.values(), FOREIGN], ids=lambda kind: kind.name)
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_a_state_survives_with_its_type(kind: NodeType, data: st.DataObject) -> None:
    state = data.draw(values_of(kind.state))
    plan = plan_with(kind)
    run = Run(plan)
    call = called(run, state)
    assert call.state == state
    assert call.state.__class__ is state.__class__

    frozen = freeze(run, PlanIndex(plan))
    body = frozen.encode([[number, 0] for number in range(len(frozen.texts))])
    other = PlanIndex(plan_with(kind))
    thawed = thaw(decode(body, other), frozen.texts, other)
    assert thawed.root is not None and run.root is not None
    assert thawed.root.memory == run.root.memory == {1: state}
    assert thawed.root.memory[1].__class__ is state.__class__
    (execution,) = thawed.calls.values()
    assert execution.command == call

    assert decode_command(encode_command(call), plan) == call


def test_a_long_text_in_a_state_is_stored_beside_the_snapshot() -> None:
    text = "word " * 200
    run = Run(plan_with(FOREIGN))
    called(run, Noted({"word": 200}, Message(text)))
    frozen = freeze(run, PlanIndex(run.plan))
    assert text in frozen.texts
    assert text not in str(frozen.table)


def test_a_state_that_does_not_fit_its_type_fails_the_node() -> None:
    run = Run(plan_with(FOREIGN))
    step_through_codec(run, Started("run", (Message("go"),), 1.0))
    step_through_codec(run, Finished("A[1]/A", Outcome((Message("a"),)), 2.0))
    step_through_codec(run, Finished("A[1]/N", Outcome((Message("n"),), state={"words": "many"}), 3.0))
    assert run.status == "failed"
    assert str(run.error).startswith("A[1]/N: the state does not fit its type: Expected `object`, got `str`")
