"""Deadlines of questions: what counts before, what happens after, and that nothing else changes."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roundel.kernel.commands import Ask, Call, Cancel, Command
from roundel.kernel.events import Event, stamp
from roundel.kernel.facts import (
    Answered,
    Expired,
    Fact,
    Finished,
    Intercepted,
    InterceptPoints,
    Outcome,
    Paused,
    Reopened,
    Resumed,
    Started,
    Waited,
    decode_entry,
)
from roundel.kernel.snapshot import PlanIndex, freeze
from roundel.kernel.state import Run
from roundel.kernel.step import IllegalFact, replay, step
from roundel.plan.graph import Plan
from roundel.workflow.message import Message
from tests.kernel.frozen import copied
from tests.kernel.simulator import Simulator, plan_of

START = 1000.0
BY_PORT = {"from": "Boss", "to": "Nobody", "port": "timeout"}


def asking(*edges: dict[str, Any], **config: Any) -> Plan:
    """A person whose answer goes to `Next`."""
    return plan_of(
        {
            "graph": {
                "nodes": [
                    {"id": "Boss", "type": "human", "config": {"timeout": 60, **config}},
                    {"id": "Next", "type": "agent"},
                    {"id": "Nobody", "type": "agent"},
                ],
                "edges": [{"from": "Boss", "to": "Next"}, *edges],
                "start": "Boss",
                "end": ["Next", "Nobody", "Boss"],
            }
        }
    )


class Asked:
    """A run to which facts are given one by one."""

    def __init__(self, plan: Plan, **intercepts: tuple[str, ...]) -> None:
        self.run = Run(plan)
        self.events: list[Event] = []
        self.commands: list[Command] = []
        self.give(Started("run", (Message("go"),), START, InterceptPoints(**intercepts)))

    def give(self, *facts: Fact) -> list[Command]:
        for fact in facts:
            self.commands, events = step(self.run, fact)
            self.events += events
        return self.commands

    def named(self, event: str) -> list[dict[str, Any]]:
        return [found.fields() for found in self.events if found.event == event]

    def refuses(self, fact: Fact) -> str:
        """Why it is illegal; it has changed nothing."""
        before = freeze(self.run, PlanIndex(self.run.plan))
        with pytest.raises(IllegalFact) as error:
            step(self.run, fact)
        assert freeze(self.run, PlanIndex(self.run.plan)) == before
        return str(error.value)


def test_a_question_says_until_when_it_can_be_answered() -> None:
    asked = Asked(asking())
    (ask,) = asked.commands
    assert isinstance(ask, Ask) and (ask.deadline, ask.timeout) == (START + 60, 60)
    (shown,) = asked.named("human_input_required")
    assert (shown["deadline"], shown["timeout"]) == (stamp(START + 60), 60)


def test_a_question_without_a_timeout_has_no_deadline() -> None:
    asked = Asked(asking(timeout=None))
    (ask,) = asked.commands
    assert isinstance(ask, Ask) and ask.deadline is None
    assert "deadline" not in asked.named("human_input_required")[0]
    assert asked.refuses(Expired("Boss", START + 1e9)) == "the question at 'Boss' can still be answered"
    asked.give(Answered("Boss", Message("yes"), START + 1e9))
    assert asked.run.calls.keys() == {"Next"}


def test_the_default_is_the_answer_after_the_deadline() -> None:
    asked = Asked(asking(default="no"))
    commands = asked.give(Expired("Boss", START + 60))
    assert commands[0] == Cancel("Boss")
    assert isinstance(commands[1], Call) and commands[1].inputs[0].text == "no"
    assert asked.named("human_input_timeout") == [
        {"deadline": stamp(START + 60), "timeout": 60, "action": "default", "waited": 60}
    ]
    assert not asked.named("human_input_received")


def test_a_mapping_as_the_default_becomes_the_data_of_the_answer() -> None:
    asked = Asked(asking(default={"approved": False}))
    call = asked.give(Expired("Boss", START + 61))[1]
    assert isinstance(call, Call)
    assert (call.inputs[0].data, call.inputs[0].text) == ({"approved": False}, '{"approved": false}')


def test_without_a_default_the_port_timeout_is_taken() -> None:
    asked = Asked(asking(BY_PORT, timeout="2h"))
    call = asked.give(Expired("Boss", START + 7200))[1]
    assert isinstance(call, Call) and call.address == "Nobody"
    (message,) = call.inputs
    assert (message.text, message.role, message.is_notice) == ("no answer within 2h", "user", True)
    assert message.data == {"timeout": 7200, "node": "Boss", "address": "Boss", "type": "Timeout"}
    assert asked.named("human_input_timeout")[0]["action"] == "port"
    assert "Next" not in asked.run.calls


def test_an_answer_does_not_take_the_port_timeout() -> None:
    asked = Asked(asking(BY_PORT))
    asked.give(Answered("Boss", Message("yes"), START + 59))
    assert asked.run.calls.keys() == {"Next"}


@pytest.mark.parametrize("edges", [(), ({**BY_PORT, "trigger": False},)])
def test_without_either_the_node_fails(edges: tuple[dict[str, Any], ...]) -> None:
    asked = Asked(asking(*edges))
    asked.give(Expired("Boss", START + 60))
    assert (asked.run.status, asked.run.error) == ("failed", "Boss: nobody answered within 1m")
    assert asked.named("human_input_timeout")[0]["action"] == "failed"


def test_an_answer_counts_until_the_deadline_and_not_after() -> None:
    asked = Asked(asking(default="no"))
    assert asked.refuses(Expired("Boss", START + 59.999)) == "the question at 'Boss' can still be answered"
    late = asked.refuses(Answered("Boss", Message("yes"), START + 60))
    assert late == (
        f"the question at 'Boss' had to be answered before {stamp(START + 60)}; resume the run, and it "
        "continues without the answer"
    )
    asked.give(Answered("Boss", Message("yes"), START + 59.999))
    assert "no such call" in asked.refuses(Expired("Boss", START + 60))
    assert not asked.named("human_input_timeout")


def test_the_time_counts_from_the_fact_that_asks() -> None:
    """A pause that holds the question back, and middleware before it, do not shorten it."""
    plan = plan_of(
        {
            "graph": {
                "nodes": [
                    {"id": "A", "type": "agent"},
                    {"id": "Boss", "type": "human", "config": {"timeout": 9}},
                ],
                "edges": [{"from": "A", "to": "Boss"}],
                "start": "A",
                "end": "Boss",
            }
        }
    )
    asked = Asked(plan, before=("Boss",))
    asked.give(Paused("lunch", START + 1), Finished("A", Outcome((Message("x"),)), START + 2))
    asked.give(Resumed(START + 100))
    (ask,) = asked.give(Intercepted("Boss", START + 200))
    assert isinstance(ask, Ask) and ask.deadline == START + 209


def test_deadline_passes_while_the_run_is_paused_and_what_follows_is_held() -> None:
    asked = Asked(asking(default="no"))
    asked.give(Paused("lunch", START + 1))
    assert asked.run.status == "paused"
    assert asked.give(Expired("Boss", START + 60)) == [Cancel("Boss")]
    assert (asked.run.status, asked.run.calls) == ("paused", {})
    (call,) = asked.give(Resumed(START + 100))
    assert isinstance(call, Call) and call.address == "Next"


def test_the_wait_for_an_answer_that_never_came_is_no_work() -> None:
    asked = Asked(asking(default="no"))
    asked.give(Waited(START + 1), Expired("Boss", START + 60))
    assert (asked.run.status, asked.run.worked) == ("running", 1)
    changed = asked.named("run_state_change")[-1]
    assert (changed["status"], changed["reason"], changed["cause"]) == ("running", "timeout", "timeout")


def test_each_part_of_a_dynamic_edge_has_its_own_deadline() -> None:
    plan = plan_of(
        {
            "graph": {
                "nodes": [
                    {"id": "A", "type": "agent"},
                    {"id": "Boss", "type": "human", "config": {"timeout": 60, "default": "no"}},
                    {"id": "B", "type": "agent"},
                ],
                "edges": [
                    {
                        "from": "A",
                        "to": "Boss",
                        "dynamic": {"type": "map", "split": {"type": "regex", "config": {"pattern": r"\w"}}},
                    },
                    {"from": "Boss", "to": "B"},
                ],
                "start": "A",
                "end": "B",
            }
        }
    )
    asked = Asked(plan)
    one, other = asked.give(Finished("A", Outcome((Message("x y"),)), START + 1))
    asked.give(Answered(one.address, Message("yes"), START + 2))
    call = asked.give(Expired(other.address, START + 61))[-1]
    assert isinstance(call, Call) and [message.text for message in call.inputs] == ["yes", "no"]


TOOL = {
    "tools": {"pay": {"python": "tests.kernel.test_deadlines:pay"}},
    "graph": {
        "nodes": [
            {
                "id": "A",
                "type": "agent",
                "config": {"tools": ["pay"], "approval": "always", "approval_timeout": "30m"},
            }
        ],
        "start": "A",
        "end": "A",
    },
}


def pay() -> str:
    """Pays."""
    return "paid"


def test_tool_call_that_nobody_approves_in_time_is_rejected() -> None:
    asked = Asked(plan_of(TOOL, {}))
    reply = {"text": "", "tool_calls": [{"id": "1", "name": "pay"}]}
    (ask,) = asked.give(Finished("A", Outcome(state={"reply": reply}), START + 1))
    assert isinstance(ask, Ask) and ask.deadline == START + 1801
    assert asked.named("human_input_required")[0]["deadline"] == stamp(START + 1801)
    cancel, call = asked.give(Expired("A[1]/pay", START + 1801))
    assert cancel == Cancel("A[1]/pay")
    assert isinstance(call, Call)
    (result,) = call.state.exchanges[0].results
    assert (result.status, result.text) == ("rejected", "nobody allowed this call within 30m")
    assert asked.named("human_input_timeout")[0]["action"] == "rejected"
    assert [data["status"] for data in asked.named("tool_call")] == ["waiting", "rejected"]


# Random schedules: answers, expiries, pauses and restarts, by a clock of their own.

LOOP = {
    "graph": {
        "nodes": [
            {"id": "Writer", "type": "agent"},
            {"id": "Boss", "type": "human", "config": {"timeout": 60, "default": "go on"}},
            {"id": "Clerk", "type": "human", "config": {"timeout": 20}},
            {"id": "Guard", "type": "loop_counter", "config": {"max_iterations": 3}},
            {"id": "Away", "type": "agent"},
            {"id": "End", "type": "agent"},
        ],
        "edges": [
            {"from": "Writer", "to": "Boss"},
            {"from": "Writer", "to": "Clerk"},
            {"from": "Clerk", "to": "Away", "port": "timeout"},
            {"from": "Boss", "to": "Guard"},
            {"from": "Away", "to": "Writer", "trigger": False},
            {"from": "Guard", "to": "Writer"},
            {"from": "Boss", "to": "Writer"},
            {"from": "Guard", "to": "End"},
        ],
        "start": "Writer",
        "end": "End",
    }
}


class Scheduled(Simulator):
    """Each question is answered after some time that depends on its address alone, or not at all; the
    order of everything else, pauses and restarts depend on the chance."""

    def __init__(self, plan: Plan, replies: int, seed: int) -> None:
        chance = random.Random(seed)
        super().__init__(plan, {"Writer": ["draft 1", "draft 2", "draft 3"]}, chance.randrange)
        self.chance, self.replies = chance, replies

    def answered_after(self, ask: Ask) -> float:
        return random.Random(f"{self.replies} {ask.address}").choice([1, 19.999, 20, 59.5, 60, 1e6])

    def due(self, command: Command) -> float:
        """When something happens to it: answers and deadlines by the clock, everything else at once."""
        if not isinstance(command, Ask):
            return self.clock
        assert command.deadline is not None
        return min(command.deadline, command.deadline - command.timeout + self.answered_after(command))

    def finish(self) -> Scheduled:
        while self.in_flight or self.state.status == "paused":
            if not self.in_flight or not self.chance.randrange(6):
                self.disturb()
                continue
            first = min(self.due(command) for command in self.in_flight)
            ready = [command for command in self.in_flight if self.due(command) <= first]
            command = self.chance.choice(ready)
            self.clock = max(self.clock, first)
            self.in_flight.remove(command)
            self.apply(self.happens(command))
        return self

    def happens(self, command: Command) -> Fact:
        if not isinstance(command, Ask):
            return self.answer(command)
        assert command.deadline is not None
        answer = Answered(command.address, Message(f"answer to {command.address}"), self.clock)
        if self.answered_after(command) < command.timeout:
            with pytest.raises(IllegalFact):
                step(self.state, Expired(command.address, self.clock))
            return answer
        with pytest.raises(IllegalFact):
            step(self.state, answer)
        return Expired(command.address, self.clock)

    def disturb(self) -> None:
        if self.state.status == "paused":
            self.apply(Resumed(self.clock))
        elif self.state.paused or self.chance.randrange(2):
            self.state, self.in_flight = replay(self.plan, map(decode_entry, self.journal))
            self.apply(Reopened(self.clock))
        elif self.state.status == "running":
            self.apply(Paused("lunch", self.clock))
            self.state = copied(self.state, self.plan)

    def now(self) -> float:
        return self.clock


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**30), st.integers(0, 2**30))
def test_the_end_depends_on_when_people_answer_and_on_nothing_else(replies: int, seed: int) -> None:
    plan = plan_of(LOOP)
    quiet = Scheduled(plan, replies, 0)
    quiet.disturb = lambda: None  # type: ignore[method-assign]
    quiet.start("go").finish()
    disturbed = Scheduled(plan, replies, seed).start("go").finish()
    assert quiet.state.status == "completed"
    assert disturbed.state.summary() == quiet.state.summary()
    assert said(disturbed) == said(quiet)


def said(run: Simulator) -> dict[tuple[str | None, str], Any]:
    shown = ("human_input_received", "human_input_timeout", "node_state_change")
    return {
        (event.address, event.event): {**event.fields(), "deadline": ""}
        for event in run.events
        if event.event in shown
    }
