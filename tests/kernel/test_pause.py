"""Pausing, resuming and editing a call: no result is lost, and an illegal fact changes nothing."""

from __future__ import annotations

import random
from functools import partial
from typing import Any, Self

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roundel.kernel.commands import Call, Cancel
from roundel.kernel.events import Event
from roundel.kernel.facts import (
    Answered,
    Edited,
    Fact,
    Finished,
    Outcome,
    Paused,
    Resumed,
    Started,
    Stopped,
    Waited,
    decode_entry,
    decode_fact,
    encode_fact,
)
from roundel.kernel.payloads import MessageEdited
from roundel.kernel.snapshot import PlanIndex, freeze
from roundel.kernel.state import Run
from roundel.kernel.step import IllegalFact, replay, step
from roundel.plan.graph import Plan
from roundel.workflow.message import Message
from tests.events import readable, without_figures
from tests.kernel import graphs, loop_agents
from tests.kernel.frozen import copied
from tests.kernel.simulator import Script, Simulator, plan_of, timeless

seeds = st.integers(0, 2**40)


def by_place(events: list[Event]) -> dict[str | None, list[Any]]:
    places: dict[str | None, list[Any]] = {}
    for event in events:
        if event.event != "run_state_change":
            data = without_figures(timeless(event.data))
            places.setdefault(event.address, []).append((event.event, data))
    return places


class Pausing(Simulator):
    """Is paused before some of its answers, comes to rest, is frozen, and goes on."""

    def __init__(self, plan: Plan, script: Script, seed: int) -> None:
        chance = random.Random(seed)
        super().__init__(plan, script, chance.randrange)
        self.chance = chance
        self.pauses = 0

    def finish(self) -> Self:
        while self.in_flight or self.state.status == "paused":
            if self.state.status == "paused":
                self.go_on()
            elif self.state.status == "running" and not self.state.paused and not self.chance.randrange(3):
                self.apply(Paused("lunch", self.now()))
                self.pauses += 1
            else:
                before = len(self.state.calls)
                self.apply(self.answer(self.in_flight.pop(self.choose(len(self.in_flight)))))
                assert not self.state.paused or len(self.state.calls) < before  # nothing new has begun
        return self

    def go_on(self) -> None:
        self.state = copied(self.state, self.plan)
        self.apply(Resumed(self.now()))


def check_pauses(plan: Plan, script: Script, text: str, seed: int, how: type[Pausing] | None = None) -> int:
    plain = Simulator(plan, script, random.Random(seed).randrange).start(text).finish()
    paused = (how or Pausing)(plan, script, seed)
    paused.start(text).finish()
    assert [event.seq for event in paused.events] == list(range(1, len(paused.events) + 1))
    if plain.state.status != "completed":  # which of several failures is first depends on the order
        assert plain.state.status in (paused.state.status, "failed")
        return paused.pauses
    assert paused.state.summary() == plain.state.summary()
    assert paused.trace() == plain.trace()
    assert by_place(paused.events) == by_place(plain.events)
    states = [event.fields()["status"] for event in paused.events if event.event == "run_state_change"]
    assert states == ["paused", "running"] * (len(states) // 2)
    return paused.pauses


@given(seeds, seeds)
@settings(max_examples=60, deadline=None)
def test_a_paused_run_resumes_to_the_same_end(seed: int, order: int) -> None:
    workflow, text, script = graphs.case(seed)
    check_pauses(plan_of(workflow), script, text, order)


def test_pauses_in_loop_agents_and_tool_loops() -> None:
    pauses = 0
    for seed in range(120):
        workflow, text, script, _ = loop_agents.case(seed, tools=bool(seed % 2))
        pauses += check_pauses(plan_of(workflow, loop_agents.FUNCTIONS), script, text, seed)
    assert pauses > 200


# Interrupts: the calls in flight are cancelled, and made again when the run is resumed.


class Interrupting(Pausing):
    """Is interrupted after some of its facts, kept as a journal or as a snapshot, and resumed."""

    def finish(self) -> Self:
        while self.in_flight:
            if self.state.status == "running" and not self.chance.randrange(3):
                self.interrupt()
            else:
                self.apply(self.answer(self.in_flight.pop(self.choose(len(self.in_flight)))))
        return self

    def interrupt(self) -> None:
        if not self.chance.randrange(4) and not self.state.paused:
            self.apply(Paused("lunch", self.now()))
            if self.state.status == "paused":  # only people are asked
                return self.go_on()
        in_flight = sorted(command.address for command in self.in_flight)
        self.apply(Paused("interrupted", self.now(), interrupt=True))
        assert (self.state.status, self.events[-1].fields()["reason"]) == ("paused", "interrupted")
        self.pauses += 1
        self.in_flight = []
        if self.chance.randrange(2):
            self.state, _ = replay(self.plan, map(decode_entry, self.journal))
        self.go_on()
        again = [call.command for call in self.state.calls.values() if call.command is not None]
        assert set(in_flight) <= {command.address for command in again}
        self.in_flight = again
        return None


def check_interrupts(plan: Plan, script: Script, text: str, seed: int) -> int:
    return check_pauses(plan, script, text, seed, Interrupting)


@given(seeds, seeds)
@settings(max_examples=60, deadline=None)
def test_an_interrupted_run_is_resumed_to_the_same_end(seed: int, order: int) -> None:
    workflow, text, script = graphs.case(seed)
    check_interrupts(plan_of(workflow), script, text, order)


def test_interrupts_in_loop_agents_and_tool_rounds() -> None:
    interrupts = 0
    for seed in range(120):
        workflow, text, script, _ = loop_agents.case(seed, tools=bool(seed % 2))
        interrupts += check_interrupts(plan_of(workflow, loop_agents.FUNCTIONS), script, text, seed)
    assert interrupts > 200


def test_interrupt_pauses_immediately_and_the_call_is_repeated() -> None:
    run = started("agent", "agent")
    commands, events = step(run, Paused("interrupted", 2.0, interrupt=True))
    assert not commands
    assert [readable(event) for event in events] == [{"status": "paused", "reason": "interrupted"}]
    assert list(run.calls) == ["N0"]
    commands, events = step(run, Resumed(3.0))
    assert not commands, "the call is still wanted, and the host makes it again"
    assert [event.fields()["status"] for event in events] == ["running"]
    step(run, finished_fact("N0", "a", 4.0))
    step(run, finished_fact("N1", "b", 5.0))
    assert (run.status, run.summary()["output"]) == ("completed", "b")


def test_paused_time_does_not_count_as_working_time() -> None:
    workflow = {
        "nodes": [{"id": "A", "type": "agent", "config": {}}, {"id": "H", "type": "human", "config": {}}],
        "start": ["A", "H"],
        "edges": [],
    }
    run = Simulator(plan_of({"graph": workflow}), {}).start("go")
    run.apply(Paused("interrupted", run.now(), interrupt=True))
    worked = run.state.worked
    run.apply(Answered("H", Message("yes"), run.clock + 86400))
    assert run.state.worked == worked
    run.apply(Resumed(run.clock + 2 * 86400))
    assert run.state.worked == worked


@pytest.mark.parametrize("end", ["failed", "suspended_locked"])
def test_failure_or_lock_before_an_interrupt_takes_effect_after_resume(end: str) -> None:
    """Another call had failed, or met a limit: when the cancelled one has been made, that takes effect."""
    nodes = [{"id": name, "type": "agent", "config": {}} for name in "ABC"]
    limits = {"limits": {"steps": 2}} if end == "suspended_locked" else {}
    graph = {"nodes": nodes, "start": ["A", "B"], "edges": [{"from": "A", "to": "C"}], **limits}
    first = ["!no"] if end == "failed" else ["a"]
    run = Simulator(plan_of({"graph": graph}), {"A": first}).start("go")
    run.apply(run.answer(run.in_flight.pop(0)))
    run.apply(Paused("interrupted", run.now(), interrupt=True))
    assert (run.state.status, run.state.paused) == ("paused", "interrupted")
    run.apply(Resumed(run.now()))
    assert (run.state.status, run.state.paused) == ("running", "")
    run.finish()
    assert run.state.status == end


def test_pause_fact_without_interrupt_flag_round_trips() -> None:
    line = b'{"type":"paused","reason":"lunch","time":2.0}'
    assert decode_fact(line) == Paused("lunch", 2.0)
    assert encode_fact(Paused("lunch", 2.0)) == line


# One chain, looked at closely.


def chain(*kinds: str) -> Plan:
    nodes = [{"id": f"N{number}", "type": kind, "config": {}} for number, kind in enumerate(kinds)]
    edges = [{"from": f"N{number}", "to": f"N{number + 1}"} for number in range(len(kinds) - 1)]
    return plan_of({"graph": {"nodes": nodes, "edges": edges, "start": "N0", "end": f"N{len(kinds) - 1}"}})


def finished_fact(address: str, text: str, time: float = 3.0) -> Finished:
    return Finished(address, Outcome((Message(text, "assistant"),)), time)


def started(*kinds: str) -> Run:
    run = Run(chain(*kinds))
    step(run, Started("run", (Message("go"),), 1.0))
    return run


def test_paused_run_finishes_calls_in_flight_and_starts_no_new_ones() -> None:
    run = started("agent", "agent")
    assert step(run, Paused("lunch", 2.0)) == ([], [])
    assert run.status == "running"
    commands, events = step(run, finished_fact("N0", "a"))
    assert not commands
    assert [(event.event, event.fields().get("status")) for event in events] == [
        ("model_call", "completed"),
        ("node_state_change", "completed"),
        ("run_state_change", "paused"),
    ]
    assert events[-1].fields()["reason"] == "lunch"
    commands, events = step(run, Resumed(4.0))
    assert [command.address for command in commands] == ["N1"]
    assert readable(events[0]) == {"status": "running", "reason": "resumed"}
    step(run, finished_fact("N1", "b", 5.0))
    assert (run.status, run.summary()["output"]) == ("completed", "b")


def test_pause_resumed_before_taking_effect_emits_no_event() -> None:
    run = started("agent", "agent")
    step(run, Paused("", 2.0))
    step(run, Resumed(2.5))
    commands, events = step(run, finished_fact("N0", "a"))
    assert [command.address for command in commands] == ["N1"]
    assert all(event.event != "run_state_change" for event in events)


def test_question_can_be_answered_while_the_run_is_paused() -> None:
    run = started("human", "agent")
    step(run, Waited(2.0))
    _, events = step(run, Paused("lunch", 3.0))
    assert (run.status, [event.fields()["status"] for event in events]) == ("paused", ["paused"])
    commands, _ = step(run, Answered("N0", Message("yes"), 4.0))
    assert (commands, run.status) == ([], "paused")
    commands, _ = step(run, Resumed(5.0))
    assert [command.address for command in commands] == ["N1"]


def test_a_failure_ends_a_run_that_is_paused() -> None:
    workflow = {"nodes": [{"id": name, "type": "agent", "config": {}} for name in "AB"], "start": ["A", "B"]}
    run = Simulator(plan_of({"graph": {**workflow, "edges": []}}), {"A": ["!no"]}).start("go")
    run.apply(Paused("lunch", 2.0))
    run.finish()
    assert run.state.status == "failed"


def test_a_paused_run_can_be_stopped() -> None:
    run = started("agent", "agent")
    step(run, Paused("", 2.0))
    step(run, finished_fact("N0", "a"))
    step(run, Stopped("enough", 4.0))
    assert run.status == "stopped"


def test_an_input_can_be_edited_while_the_call_is_in_flight() -> None:
    run = started("agent", "agent")
    step(run, finished_fact("N0", "a"))
    commands, events = step(run, Edited("N1", Message("better"), 4.0))
    cancel, call = commands
    assert cancel == Cancel("N1")
    assert isinstance(call, Call)
    assert [message.text for message in call.inputs] == ["better"]
    assert (events[0].address, events[0].data) == (
        "N1",
        MessageEdited("better", before="a", cause="fork"),
    )
    assert run.calls["N1"].command == call


PAUSED = Paused("", 9.0)
INTERRUPTED = Paused("", 9.0, interrupt=True)
ILLEGAL: dict[str, tuple[list[Fact], Fact]] = {
    "paused before it began": ([], PAUSED),
    "paused twice": ([PAUSED], PAUSED),
    "interrupted twice": ([INTERRUPTED], INTERRUPTED),
    "interrupted when at rest": ([PAUSED, finished_fact("N0", "a")], INTERRUPTED),
    "interrupted when over": ([Stopped("", 2.0)], INTERRUPTED),
    "paused when interrupted": ([INTERRUPTED], PAUSED),
    "paused when at rest": ([PAUSED, finished_fact("N0", "a")], PAUSED),
    "paused when over": ([Stopped("", 2.0)], PAUSED),
    "resumed without a pause": ([], Resumed(9.0)),
    "resumed twice": ([PAUSED, Resumed(9.0)], Resumed(9.0)),
    "resumed when over": ([PAUSED, Stopped("", 2.0)], Resumed(9.0)),
    "edited where nothing is": ([], Edited("N7", Message("x"), 9.0)),
    "edited when it is done": ([finished_fact("N0", "a")], Edited("N0", Message("x"), 9.0)),
    "finished what a pause holds back": ([PAUSED, finished_fact("N0", "a")], finished_fact("N1", "b")),
}


@pytest.mark.parametrize("name", ILLEGAL)
def test_illegal_fact_changes_nothing(name: str) -> None:
    facts, illegal = ILLEGAL[name]
    run = Run(plan := chain("agent", "agent"))
    if name != "paused before it began":
        step(run, Started("run", (Message("go"),), 1.0))
    for fact in facts:
        step(run, fact)
    before = freeze(run, PlanIndex(plan))
    with pytest.raises(IllegalFact):
        step(run, illegal)
    assert freeze(run, PlanIndex(plan)) == before


def test_edge_evaluation_cannot_be_edited() -> None:
    plan = plan_of(
        {
            "graph": {
                "nodes": [{"id": name, "type": "agent", "config": {}} for name in "AB"],
                "edges": [
                    {"from": "A", "to": "B", "condition": {"type": "function", "config": {"name": "f"}}}
                ],
                "start": "A",
            }
        },
        {"f": lambda _message: True},
    )
    run = Run(plan)
    step(run, Started("run", (Message("go"),), 1.0))
    step(run, finished_fact("A", "a"))
    before = freeze(run, PlanIndex(plan))
    with pytest.raises(IllegalFact):
        step(run, Edited("A", Message("x"), 4.0))
    assert freeze(run, PlanIndex(plan)) == before


def test_a_tool_loop_is_snapshot_at_every_call() -> None:
    """A tool is at work, another is done, a person is asked: the rest of the talk needs nothing else."""
    config = {"tools": ["look", "ask"], "approval": ["ask"], "max_tool_calls": 2}
    workflow = {
        "tools": {name: {"python": "statistics:mean"} for name in ("look", "ask")},
        "graph": {"nodes": [{"id": "A", "type": "agent", "config": config}], "start": "A", "end": "A"},
    }
    script = {"A": ["?look ask look", "?ask", "done"], "A/ask": ["yes"]}
    make = partial(plan_of, workflow)
    plain = Simulator(make(), script).start("go").finish()
    other = Simulator(make(), script).start("go")
    steps = 0
    while other.in_flight:
        body, plan = freeze(other.state, PlanIndex(other.state.plan)), make()
        other.state = copied(other.state, plan)
        assert freeze(other.state, PlanIndex(plan)) == body
        calls = other.state.calls
        other.in_flight = [c for asked in other.in_flight if (c := calls[asked.address].command) is not None]
        other.apply(other.answer(other.in_flight.pop(0)))
        steps += 1
    assert steps >= 8
    assert other.events == plain.events
