"""Breakpoints, steps and edits: a debugged run does the same as any other, with pauses in between."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Self

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roundel.kernel.commands import Ask
from roundel.kernel.debugging import find_waiting, message_version, ready_stops, waiting_queues
from roundel.kernel.events import Event
from roundel.kernel.facts import (
    BreakpointsChanged,
    Paused,
    Resumed,
    Retried,
    Started,
    Stepped,
    Unlocked,
    WaitingEdited,
    decode_entry,
)
from roundel.kernel.payloads import MessageEdited
from roundel.kernel.state import Run
from roundel.kernel.step import IllegalFact, replay
from roundel.kernel.unlock import CHECKS
from roundel.plan.graph import Plan
from roundel.workflow.breakpoints import Breakpoint, parse_breakpoint
from roundel.workflow.message import Message
from tests.events import node_status, readable
from tests.kernel import graphs, loop_agents
from tests.kernel.frozen import copied
from tests.kernel.simulator import Script, Simulator, plan_of
from tests.kernel.test_pause import by_place

seeds = st.integers(0, 2**40)
CONDITIONS = (
    "round == 2",
    "node.startsWith('A')",
    "text.contains('e') && round > 1",
    "size(address) > 12",
    "data.score > 3",  # fails where there is no score
    "run.input == text",
    "true",
)


def breakpoints_of(plan: Plan, chance: random.Random) -> tuple[Breakpoint, ...]:
    """Some breakpoints of all kinds; some of them are never reached."""
    nodes = [node.label for node in plan.sites]
    made = []
    for _ in range(chance.randrange(4)):
        name, number = chance.choice(nodes), chance.randrange(1, 4)
        texts = (name, f"{name}[{number}]", f"{name}[{number}]/{chance.choice(nodes)}")
        kind = chance.randrange(4)
        made.append(Breakpoint(texts[kind]) if kind < 3 else Breakpoint(cel=chance.choice(CONDITIONS)))
    return tuple(made)


class Debugged(Simulator):
    """A run that a restless person debugs: who sets breakpoints at any time, and at each pause takes a step,
    steps to the next round, resumes, edits nothing, or gives the run to another process."""

    def __init__(self, plan: Plan, script: Script, seed: int) -> None:
        chance = random.Random(seed)
        super().__init__(plan, script, chance.randrange)
        self.chance = chance
        self.pauses = self.edits = self.steps = 0

    def begin(self, text: str) -> Self:
        given, paused = breakpoints_of(self.plan, self.chance), not self.chance.randrange(3)
        started = Started("run", (Message(text),), self.now(), breakpoints=given, paused=paused)
        self.apply(started)
        return self

    def finish(self) -> Self:
        while self.in_flight or self.state.status == "paused":
            if not self.chance.randrange(8):
                self._set_breakpoints()
            if self.state.status == "paused":
                self._act()
            else:
                self._answer_one()
        return self

    def _answer_one(self) -> None:
        self.apply(self.answer(self.in_flight.pop(self.choose(len(self.in_flight)))))

    def _set_breakpoints(self) -> None:
        debug = self.state.debug
        known = tuple(debug.breakpoints) if debug is not None else ()
        remove = tuple(one for one in known if self.chance.randrange(2))
        self.apply(BreakpointsChanged(self.now(), breakpoints_of(self.plan, self.chance), remove))

    def _act(self) -> None:
        self.pauses += 1
        if not self.chance.randrange(3):
            self._hand_over()
        self._edit_nothing()
        stops = [stop.address for stop in ready_stops(self.state)]
        action = self.chance.randrange(4)
        if action == 3 and self.in_flight:  # a person answers while the run is paused
            self._answer_one()
            return
        if action < 2 and (self.state.held or self._calls_in_flight()):
            before = len(self.events)
            self.apply(Stepped(self.now(), round=action == 1))
            self.steps += 1
            if action == 0 and stops:
                self._check_step(stops[0], self.events[before:])
            return
        self.apply(Resumed(self.now()))

    def _calls_in_flight(self) -> bool:
        return any(not isinstance(call.command, Ask) for call in self.state.calls.values())

    def _check_step(self, first: str, events: list[Event]) -> None:
        """The step starts the first place that was ready, and no other node of the same scope."""
        started = [event.address for event in events if node_status(event) == "running" and event.address]
        assert started[:1] in ([first], []), (first, started)

    def _hand_over(self) -> None:
        if self.chance.randrange(2):
            self.state = copied(self.state, self.plan)
        else:
            asked = [command.address for command in self.in_flight]
            self.state, commands = replay(self.plan, map(decode_entry, self.journal))
            assert sorted(command.address for command in commands) == sorted(asked)

    def _edit_nothing(self) -> None:
        queues = [queue for queue in waiting_queues(self.state) if queue.messages]
        if not queues:
            return
        queue = self.chance.choice(queues)
        position = self.chance.randrange(len(queue.messages))
        message = queue.messages[position]
        version = message_version(message) if self.chance.randrange(2) else ""
        before = len(self.events)
        self.apply(WaitingEdited(queue.address, position, message.text, self.now(), version=version))
        assert len(self.events) == before
        self.edits += 1


def check_debugged(plan: Plan, script: Script, text: str, seed: int) -> Debugged:
    plain = Simulator(plan, script, random.Random(seed).randrange).start(text).finish()
    debugged = Debugged(plan, script, seed).begin(text).finish()
    assert [event.seq for event in debugged.events] == list(range(1, len(debugged.events) + 1))
    if plain.state.status != "completed":  # which of several failures is first depends on the order
        assert plain.state.status in (debugged.state.status, "failed")
        return debugged
    assert debugged.state.summary() == plain.state.summary()
    assert debugged.trace() == plain.trace()
    assert places(debugged) == places(plain)
    return debugged


def places(run: Simulator) -> dict[str | None, list[Any]]:
    """What happened at each address, without the warnings about conditions of breakpoints."""
    return by_place(
        [
            event
            for event in run.events
            if not (event.event == "warning" and "breakpoint" in str(event.fields().get("message")))
        ]
    )


@given(seeds, seeds)
@settings(max_examples=80, deadline=None)
def test_a_debugged_run_does_the_same_as_an_uninterrupted_one(seed: int, order: int) -> None:
    workflow, text, script = graphs.case(seed)
    check_debugged(plan_of(workflow), script, text, order)


@given(seeds, seeds)
@settings(max_examples=40, deadline=None)
def test_a_debugged_run_with_tools_does_the_same(seed: int, order: int) -> None:
    workflow, text, script = graphs.case_with_tools(seed)
    check_debugged(plan_of(workflow), script, text, order)


def test_steps_in_loop_agents_subgraphs_and_tool_rounds() -> None:
    pauses = edits = steps = 0
    for seed in range(150):
        workflow, text, script, _ = loop_agents.case(seed, tools=bool(seed % 2), handled=seed % 3 == 0)
        run = check_debugged(plan_of(workflow, loop_agents.FUNCTIONS), script, text, seed)
        pauses, edits, steps = pauses + run.pauses, edits + run.edits, steps + run.steps
    assert min(pauses, steps, edits) > 150


def test_the_first_node_in_the_file_names_the_exit_of_several_loops() -> None:
    workflow, text, script = graphs.case(445436983)
    check_debugged(plan_of(workflow), script, text, 1)


# One review loop, looked at closely.

REVIEW = {
    "graph": {
        "id": "review",
        "start": "Writer",
        "end": "Final",
        "nodes": [
            {"id": "Writer", "type": "agent", "config": {"name": "m"}},
            {"id": "Reviewer", "type": "agent", "config": {"name": "m"}},
            {"id": "Guard", "type": "loop_counter", "config": {"max_iterations": 3}},
            {"id": "Final", "type": "passthrough"},
        ],
        "edges": [
            {"from": "Writer", "to": "Reviewer"},
            {"from": "Reviewer", "to": "Writer"},
            {"from": "Reviewer", "to": "Guard"},
            {"from": "Guard", "to": "Writer"},
            {"from": "Guard", "to": "Final"},
        ],
    }
}
SCRIPT = {"Writer": ["draft 1", "draft 2", "draft 3"], "Reviewer": ["shorter", "longer", "fine"]}


def begun(*places: str, paused: bool = False, workflow: dict[str, Any] | None = None) -> Simulator:
    run = Simulator(plan_of(workflow or REVIEW), SCRIPT)
    given = tuple(map(parse_breakpoint, places))
    run.apply(Started("run", (Message("go"),), run.now(), breakpoints=given, paused=paused))
    return run.finish()


def resumed(run: Simulator) -> Simulator:
    run.apply(Resumed(run.now()))
    return run.finish()


def stepped(run: Simulator, *, round: bool = False) -> Simulator:
    run.apply(Stepped(run.now(), round))
    return run.finish()


def place(run: Simulator) -> dict[str, Any]:
    """Where the run is paused."""
    assert run.state.status == "paused"
    assert run.events[-1].event == "run_state_change"
    return {name: value for name, value in readable(run.events[-1]).items() if name != "status"}


def test_a_breakpoint_on_a_node_pauses_before_it_in_every_round() -> None:
    run = begun("Reviewer")
    assert place(run) == {
        "reason": "breakpoint",
        "address": "Writer[1]/Reviewer",
        "breakpoint": "Reviewer",
    }
    assert place(resumed(run))["address"] == "Writer[2]/Reviewer"
    assert place(resumed(run))["address"] == "Writer[3]/Reviewer"
    assert run.state.debug is not None and run.state.debug.hits == {"Reviewer": 3}
    assert resumed(run).state.status == "completed"


def test_a_breakpoint_on_a_round_pauses_once_in_it() -> None:
    run = begun("Writer[2]")
    assert place(run)["address"] == "Writer[2]/Writer"
    assert place(run)["breakpoint"] == "Writer[2]"
    assert resumed(run).state.status == "completed"


def test_a_breakpoint_on_an_address_pauses_before_that_execution() -> None:
    run = begun("Writer[3]/Guard")
    assert place(run)["address"] == "Writer[3]/Guard"
    assert resumed(run).state.status == "completed"


@pytest.mark.parametrize(
    ("condition", "address"),
    [
        ("round == 2 && node == 'Guard'", "Writer[2]/Guard"),
        ("text == 'longer'", "Writer[2]/Guard"),
        ("address.endsWith('3]/Writer')", "Writer[3]/Writer"),
        ("run.input == 'go' && text == 'draft 2'", "Writer[2]/Reviewer"),
    ],
)
def test_a_breakpoint_on_a_condition(condition: str, address: str) -> None:
    assert place(begun(f"cel: {condition}"))["address"] == address


def test_a_condition_that_fails_counts_as_false_and_is_reported_once() -> None:
    run = begun("cel: data.score > 3")
    assert run.state.status == "completed"
    warnings = [event for event in run.events if event.event == "warning"]
    assert len(warnings) == 1 and "'score', which is missing" in warnings[0].fields()["message"]


def test_a_step_runs_the_first_ready_node_and_holds_the_others() -> None:
    run = begun(paused=True)
    assert place(run) == {"reason": "paused", "address": "Writer[1]/Writer"}
    ran = []
    while run.state.status == "paused":
        before = len(run.executions)
        stepped(run)
        ran.append([execution.address for execution in run.executions[before:]])
    rounds = [[f"Writer[{n}]/{name}"] for n in (1, 2, 3) for name in ("Writer", "Reviewer", "Guard")]
    assert ran == [*rounds, ["Final"]]
    assert run.state.status == "completed"


def test_steps_take_parallel_nodes_by_layer_then_by_file() -> None:
    nodes = [{"id": name, "type": "agent", "config": {"name": "m"}} for name in "DCBA"]
    edges = [{"from": "D", "to": "C"}, {"from": "B", "to": "C"}]
    workflow = {"graph": {"nodes": nodes, "edges": edges, "start": ["A", "B", "D"], "end": "C"}}
    run = begun(paused=True, workflow=workflow)
    while run.state.status == "paused":
        stepped(run)
    assert [execution.address for execution in run.executions] == ["D", "B", "A", "C"]


def test_a_step_that_reaches_a_breakpoint_says_so() -> None:
    run = begun("Reviewer", paused=True)
    assert place(stepped(run)) == {
        "reason": "breakpoint",
        "address": "Writer[1]/Reviewer",
        "breakpoint": "Reviewer",
    }


def test_a_step_to_the_next_round_stops_at_its_first_node() -> None:
    run = begun("Reviewer")
    run.apply(BreakpointsChanged(run.now(), remove=(Breakpoint("Reviewer"),)))
    assert place(stepped(run, round=True)) == {"reason": "step", "address": "Writer[2]/Writer"}
    assert place(stepped(run, round=True))["address"] == "Writer[3]/Writer"
    # The loop ends in this round, so the run stops behind it.
    assert place(stepped(run, round=True))["address"] == "Final"
    assert stepped(run, round=True).state.status == "completed"


def test_a_step_to_the_next_round_stops_at_a_breakpoint_on_the_way() -> None:
    run = begun("Reviewer", "Guard")
    assert place(stepped(run, round=True)) == {
        "reason": "breakpoint",
        "address": "Writer[1]/Guard",
        "breakpoint": "Guard",
    }


def test_a_breakpoint_does_not_stop_a_node_that_is_ready_already() -> None:
    run = begun(paused=True)
    run.apply(BreakpointsChanged(run.now(), (Breakpoint("Writer"),)))
    assert place(resumed(run))["address"] == "Writer[2]/Writer"


def test_without_breakpoints_and_steps_the_run_returns_to_the_fast_path() -> None:
    run = begun("Reviewer")
    assert state_of(run.state)[-1] == "paused"
    run.apply(BreakpointsChanged(run.now(), remove=(Breakpoint("Reviewer"),)))
    run.apply(Resumed(run.now()))
    assert (run.state.debug, run.state.fast_path) == (None, True)
    assert Simulator(plan_of(REVIEW), SCRIPT).start("go").state.debug is None


def test_an_interrupted_step_makes_its_call_again_and_nothing_else() -> None:
    run = begun(paused=True)
    run.apply(Stepped(run.now()))
    assert [command.address for command in run.in_flight] == ["Writer[1]/Writer"]
    run.apply(Paused("interrupted", run.now(), interrupt=True))
    run.apply(Stepped(run.now()))
    assert list(run.state.calls) == ["Writer[1]/Writer"]
    assert place(run.finish())["address"] == "Writer[1]/Reviewer"


def test_an_edited_message_is_what_the_node_gets() -> None:
    run = begun("Reviewer")
    queue, message = find_waiting(run.state, "Writer[1]/Reviewer", 0)
    assert (queue.node.id, message.text) == ("Reviewer", "draft 1")
    edit = WaitingEdited(queue.address, 0, "better", run.now(), {"score": 7}, message_version(message))
    run.apply(edit)
    assert run.events[-1].event == "message_edited"
    assert run.events[-1].data == MessageEdited("better", 0, {"score": 7}, before="draft 1", cause="edit")
    with pytest.raises(IllegalFact, match="was changed meanwhile; it is now: better"):
        run.apply(edit)
    resumed(run)
    seen = next(each for each in run.executions if each.address == "Writer[1]/Reviewer")
    assert seen.inputs == (("user", "go"), ("user", "better"))  # behind its task


@pytest.mark.parametrize(
    ("address", "position", "problem"),
    [
        ("Writer[9]/Reviewer", 0, "messages wait at Writer\\[1\\]/Reviewer"),
        ("Writer[1]/Reviewer", 1, "have the numbers 0 to 0, not 1"),
        ("Writer[1]/Reviewer", -1, "not -1"),
        ("Final", 0, "no message waits at 'Final'"),
    ],
)
def test_edits_that_are_refused_change_nothing(address: str, position: int, problem: str) -> None:
    run = begun("Reviewer")
    journal = list(run.journal)
    with pytest.raises(IllegalFact, match=problem):
        run.apply(WaitingEdited(address, position, "x", run.now()))
    assert run.journal == journal
    assert resumed(run).state.status == "paused"


def finished_run() -> Simulator:
    return Simulator(plan_of(REVIEW), SCRIPT).start("go").finish()


def running_run() -> Simulator:
    return Simulator(plan_of(REVIEW), SCRIPT).start("go")


@pytest.mark.parametrize("make", [finished_run, running_run])
def test_only_a_paused_run_takes_steps_and_edits(make: Callable[[], Simulator]) -> None:
    run = make()
    with pytest.raises(IllegalFact, match="only a paused run"):
        run.apply(Stepped(run.now()))
    with pytest.raises(IllegalFact, match="while a run is paused or locked"):
        run.apply(WaitingEdited("Writer[1]/Writer", 0, "x", run.now()))


def test_a_run_that_only_waits_for_people_cannot_take_a_step() -> None:
    nodes = [{"id": "H", "type": "human", "config": {}}, {"id": "A", "type": "agent", "config": {}}]
    workflow = {"graph": {"nodes": nodes, "edges": [{"from": "H", "to": "A"}], "start": "H"}}
    run = Simulator(plan_of(workflow), {"H": ["yes"]})
    run.apply(Started("run", (Message("go"),), run.now(), paused=True))
    run.apply(Stepped(run.now()))
    assert run.state.status == "paused" and [command.address for command in run.in_flight] == ["H"]
    with pytest.raises(IllegalFact, match="waits for an answer"):
        run.apply(Stepped(run.now()))
    run.finish()
    assert [stop.address for stop in ready_stops(run.state)] == ["A"]


def test_a_node_that_was_locked_by_a_budget_does_not_stop_twice() -> None:
    limited = {"graph": {**REVIEW["graph"], "limits": {"steps": 1}}}
    run = resumed(begun("Reviewer", workflow=limited))
    assert run.state.status == "suspended_locked"
    run.apply(Unlocked("more", "me", CHECKS, run.now(), limits={"steps": 99}))
    assert place(run.finish())["address"] == "Writer[2]/Reviewer"


def test_a_failed_step_can_be_retried_and_stepped_on() -> None:
    run = Simulator(plan_of(REVIEW), {**SCRIPT, "Reviewer": ["!broken", "fine"]})
    run.apply(Started("run", (Message("go"),), run.now(), breakpoints=(Breakpoint("Guard"),), paused=True))
    stepped(run)
    stepped(run)
    assert run.state.status == "failed"
    run.apply(Retried(run.now()))
    assert place(run.finish())["address"] == "Writer[1]/Guard"


def test_breakpoints_of_a_file_and_of_a_loop_node() -> None:
    nodes = [
        {"id": "Writer", "type": "agent", "config": {"name": "m"}},
        {"id": "Judge", "type": "loop", "config": {"max_rounds": 2, "debug": True}},
        {"id": "Final", "type": "passthrough"},
    ]
    edges = [
        {"from": "Writer", "to": "Judge"},
        {"from": "Judge", "to": "Writer", "port": "continue"},
        {"from": "Judge", "to": "Final", "port": "exit"},
    ]
    graph = {"nodes": nodes, "edges": edges, "start": "Writer", "debug": {"break_at": "Final"}}
    workflow = {"graph": graph, "debug": {"break_at": ["Writer[2]", {"cel": "node == 'Final'"}]}}
    run = Simulator(plan_of(workflow), SCRIPT).start("go").finish()
    seen = []
    while run.state.status == "paused":
        seen.append(place(run)["address"])
        resumed(run)
    assert seen == ["Writer[1]/Judge", "Writer[2]/Writer", "Writer[2]/Judge", "Final"]


def state_of(run: Run) -> tuple[Any, ...]:
    debug = run.debug
    assert debug is not None
    return debug.hits, debug.reached, debug.rounds_hit, debug.stopped_at, run.paused, run.status


def test_breakpoints_survive_snapshots_and_replays() -> None:
    run = begun("Reviewer", "Writer[2]", "cel: round == 2")
    resumed(run)
    replayed, _ = replay(run.plan, map(decode_entry, run.journal))
    assert state_of(replayed) == state_of(run.state) == state_of(copied(run.state, run.plan))
