"""Retries: a failed run that is retried ends like one that never failed, and repeats nothing."""

from __future__ import annotations

import random
import zlib
from typing import Any, Self

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roundel.kernel.commands import Ask, Call, Command
from roundel.kernel.facts import (
    Fact,
    Failed,
    Finished,
    Intercepted,
    InterceptPoints,
    Outcome,
    Paused,
    Retried,
    Started,
    Stopped,
    decode_entry,
)
from roundel.kernel.state import CompositeRun, Execution, Run, ToolLoop
from roundel.kernel.step import IllegalFact, replay, step
from roundel.nodes.agent_conversation import ModelCall
from roundel.nodes.loop_controllers import LoopController
from roundel.plan.graph import Plan
from roundel.workflow.message import Message
from tests.kernel import graphs, loop_agents
from tests.kernel.frozen import copied
from tests.kernel.simulator import Script, Simulator, plan_of

seeds = st.integers(0, 2**40)
BROKEN = "the network is down"


class ByAddress(Simulator):
    """Replies by where a call is made and not by how many came before: a call that is repeated after a
    failure gets the reply that it would have got."""

    place = ""

    def answer(self, command: Command) -> Fact:
        state = getattr(command, "state", None)
        self.place = f"{command.address} {state.call if isinstance(state, ModelCall) else 0}"
        return super().answer(command)

    def reply_text(self, name: str, ordinal: int, inputs: tuple[Message, ...]) -> str:
        replies = self.script.get(name)
        if not replies:
            return inputs[-1].text if inputs else ""
        return replies[zlib.crc32(f"{name} {self.place}".encode()) % len(replies)]


class Failing(ByAddress):
    """Some of its calls fail; once the run has failed it is frozen or replayed, and retried."""

    def __init__(self, plan: Plan, script: Script, seed: int) -> None:
        chance = random.Random(seed)
        super().__init__(plan, script, chance.randrange)
        self.chance = chance
        self.retries = 0
        self.failed_calls = 0

    def finish(self) -> Self:
        while self.in_flight or self.failed_by_chance:
            if self.failed_by_chance:
                self.retry()
                continue
            command = self.in_flight.pop(self.choose(len(self.in_flight)))
            if self.retries < 8 and not self.chance.randrange(4) and self.fails_the_run(command):
                assert not isinstance(command, Ask)
                speaks = self.state.calls[command.address].node.kind.speaks
                self.failed_calls += isinstance(command, Call) and speaks
                self.apply(Failed(command.address, BROKEN, self.now(), error_type="OSError"))
            else:
                self.apply(self.answer(command))
        return self

    @property
    def failed_by_chance(self) -> bool:
        errors = {failure.error for failure in self.state.unfinished if failure.error}
        return self.state.status == "failed" and errors == {BROKEN} and BROKEN in str(self.state.error)

    def fails_the_run(self, command: Command) -> bool:
        """Whether nothing handles a failure of this call: then the run fails."""
        execution: Execution | None = self.state.calls[command.address]
        owner = execution.owner if execution is not None else None
        if isinstance(command, Ask) or (
            isinstance(owner, ToolLoop) and execution and execution.loop_call.label
        ):
            return False
        if isinstance(owner, CompositeRun):
            answered = type(owner.controller).on_answer_failed
            if answered is not LoopController.on_answer_failed:
                return False
        while execution is not None:
            instance = execution.activation.instance
            composite, iteration = instance.composite_run, instance.iteration
            if (
                composite is not None
                and iteration is not None
                and composite.controller.catches_failure(iteration)
            ):
                return False
            execution = instance.caller
        return True

    def retry(self) -> None:
        self.retries += 1
        if self.chance.randrange(2):
            self.state = copied(self.state, self.plan)
        else:
            self.state, in_flight = replay(self.plan, map(decode_entry, self.journal))
            assert in_flight == []
        self.apply(Retried(self.now()))


def check_retries(plan: Plan, script: Script, text: str, seed: int) -> int:
    plain = ByAddress(plan, script, random.Random(seed).randrange).start(text).finish()
    failing = Failing(plan, script, seed).start(text).finish()
    assert [event.seq for event in failing.events] == list(range(1, len(failing.events) + 1))
    if plain.state.status != "completed":  # which failure or lock is first depends on the order
        assert failing.state.status in ("failed", "suspended_locked")
        return failing.retries
    expected, summary = plain.state.summary(), failing.state.summary()
    # A failed call of a model was made, and counts.
    expected["usage"]["model_calls"] += failing.failed_calls
    assert summary == expected
    assert failing.trace() == plain.trace()  # each call succeeded exactly once
    return failing.retries


@given(seeds, seeds)
@settings(max_examples=80, deadline=None)
def test_a_retried_run_ends_like_one_that_never_failed(seed: int, order: int) -> None:
    workflow, text, script = graphs.case(seed)
    check_retries(plan_of({**workflow, "limits": {"rounds": 4}}), script, text, order)


def test_retries_in_loop_agents_and_tool_loops() -> None:
    retries = 0
    for seed in range(160):
        workflow, text, script, _ = loop_agents.case(seed, tools=bool(seed % 2))
        retries += check_retries(plan_of(workflow, loop_agents.FUNCTIONS), script, text, seed)
    assert retries > 100


# Single cases.


def agents(*names: str) -> list[dict[str, Any]]:
    return [{"id": name, "type": "agent", "config": {"provider": "openai", "name": "m"}} for name in names]


def parallel(**settings: Any) -> Plan:
    """A starts B, C and a person; all lead to End."""
    nodes = [*agents("A", "B", "C"), {"id": "Ask", "type": "human"}, {"id": "End", "type": "passthrough"}]
    middle = ("B", "C", "Ask")
    edges = [
        *({"from": "A", "to": name} for name in middle),
        *({"from": name, "to": "End"} for name in middle),
    ]
    return plan_of({"graph": {"nodes": nodes, "edges": edges, "start": "A", "end": "End", **settings}})


class Host:
    """Applies facts by hand."""

    def __init__(self, plan: Plan) -> None:
        self.run = Run(plan)
        self.time = 0.0
        self.commands: list[Command] = []
        self.apply(Started("run", (Message("hi"),), 0.0))

    def apply(self, fact: Any) -> list[tuple[str, str | None, dict[str, Any]]]:
        self.commands, events = step(self.run, fact)
        return [(event.event, event.address, event.fields()) for event in events]

    def say(self, address: str, text: str) -> None:
        self.time += 1
        self.apply(Finished(address, Outcome((Message(text, "assistant"),)), self.time))

    def fail(self, address: str, error: str = "boom") -> None:
        self.time += 1
        self.apply(Failed(address, error, self.time, error_type="OSError", attempts=2))

    def retry(self) -> list[str]:
        """The addresses of the calls that start."""
        self.time += 1
        self.apply(Retried(self.time))
        return [command.address for command in self.commands]


def test_calls_in_flight_finish_and_only_the_failed_one_runs_again() -> None:
    host = Host(parallel())
    host.say("A", "go")
    host.fail("B")
    # C is in flight; the question was cancelled.
    assert (host.run.status, sorted(host.run.calls)) == ("running", ["C"])
    host.say("C", "done")
    assert (host.run.status, host.run.error) == ("failed", "B: boom")
    assert host.retry() == ["B", "Ask"]
    assert (host.run.status, host.run.error) == ("running", None)
    assert "error" not in host.run.summary()
    assert host.run.summary()["nodes"] == {"A": 1, "B": 1, "C": 1, "Ask": 1}


def test_on_failure_cancel_cancels_calls_in_flight() -> None:
    host = Host(parallel(on_failure="cancel"))
    host.say("A", "go")
    host.fail("B")
    assert host.run.status == "failed"
    assert {type(command).__name__ for command in host.commands} == {"Cancel"}
    assert sorted(host.retry()) == ["Ask", "B", "C"]
    host.fail("C")
    assert sorted(host.retry()) == ["Ask", "B", "C"]


def test_a_second_failure_before_the_end_is_retried_as_well() -> None:
    host = Host(parallel())
    host.say("A", "go")
    host.fail("B")
    host.fail("C", "bang")
    assert host.run.error == "B: boom"
    assert host.retry() == ["B", "Ask", "C"]


def test_a_retried_call_gets_the_next_reply_of_a_script() -> None:
    host = Host(parallel())
    host.say("A", "go")
    before = host.run.calls["B"].command
    host.fail("B")
    host.say("C", "done")
    host.retry()
    after = host.run.calls["B"].command
    assert isinstance(before, Call)
    assert isinstance(after, Call)
    assert (before.ordinal, after.ordinal) == (0, 1)


def test_an_edge_that_failed_continues_with_that_edge() -> None:
    """What had been delivered before is not delivered again, and the node does not run again."""
    nodes = [*agents("A", "B", "C"), {"id": "End", "type": "passthrough"}]
    edges = [
        {"from": "A", "to": "B"},
        {"from": "A", "to": "C", "condition": {"cel": "data.score > 3"}},
        {"from": "B", "to": "End"},
        {"from": "C", "to": "End"},
    ]
    host = Host(plan_of({"graph": {"nodes": nodes, "edges": edges, "start": "A", "end": "End"}}))
    host.say("A", "no score")
    assert host.run.status == "failed"
    assert "the condition on A → C failed" in (host.run.error or "")
    assert host.run.root is not None
    assert [len(queue) for queue in host.run.root.queues] == [0, 1, 0, 0]
    host.retry()
    assert host.run.status == "failed"  # the same message, and the same condition
    assert [len(queue) for queue in host.run.root.queues] == [0, 1, 0, 0]


@pytest.mark.parametrize("status", ["running", "paused", "completed", "stopped"])
def test_only_a_failed_run_can_be_retried(status: str) -> None:
    plan = plan_of({"graph": {"nodes": agents("A"), "edges": [], "start": "A"}})
    host = Host(plan)
    if status == "paused":
        host.apply(Paused("x", 1.0, interrupt=True))
    elif status == "completed":
        host.say("A", "done")
    elif status == "stopped":
        host.apply(Stopped("x", 1.0))
    assert host.run.status == status
    with pytest.raises(IllegalFact, match="only a failed run can be retried"):
        host.retry()
    assert host.run.status == status


def test_middleware_is_asked_again_where_the_failure_came_first() -> None:
    host = Host.__new__(Host)
    host.run, host.time, host.commands = Run(parallel()), 0.0, []
    host.apply(Started("run", (Message("hi"),), 0.0, InterceptPoints(before=("C",))))
    host.say("A", "go")
    host.fail("B")
    host.apply(Intercepted("C", 5.0))
    assert host.run.status == "failed"
    assert host.retry() == ["B", "Ask", "C"]
    assert type(host.run.calls["C"].command).__name__ == "Intercept"
