"""Agents with tools in the kernel: against a plain reading, in any order, from any point of the journal."""

from __future__ import annotations

import random
from collections import Counter
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roundel.kernel.commands import Ask, Call, Cancel
from roundel.kernel.events import Event
from roundel.kernel.facts import (
    Answered,
    EdgesEvaluated,
    Fact,
    Failed,
    Finished,
    Outcome,
    Started,
    Stopped,
    Unlocked,
    Waited,
)
from roundel.kernel.payloads import NodeSkipped, ToolCallEnded
from roundel.kernel.snapshot import PlanIndex, freeze
from roundel.kernel.step import IllegalFact, step
from roundel.kernel.unlock import CHECKS
from roundel.workflow.message import Message
from tests.events import without_figures
from tests.kernel import loop_agents
from tests.kernel.frozen import copied
from tests.kernel.graphs import case_with_tools
from tests.kernel.reference import interpret
from tests.kernel.simulator import Simulator, plan_of
from tests.kernel.test_snapshot import frozen_at_every_step

seeds = st.integers(0, 2**40)


def chooser(seed: int) -> Any:
    return random.Random(seed).randrange


def simulated(seed: int, order: int) -> Simulator:
    workflow, text, script = case_with_tools(seed)
    return Simulator(plan_of(workflow), script, chooser(order)).start(text).finish()


def equivalent_status(one: str, other: str) -> bool:
    """Where one branch would fail and another meets a limit, whichever is first stops the run."""
    return one == other or {one, other} <= {"failed", "suspended_locked"}


@pytest.mark.parametrize("block", range(4))
def test_the_kernel_agrees_with_the_reference(block: int) -> None:
    ends: Counter[str] = Counter()
    tools = 0
    for seed in range(block * 500, (block + 1) * 500):
        workflow, text, script = case_with_tools(seed)
        expected = interpret(workflow, text, script)
        run = Simulator(plan_of(workflow), script, chooser(seed)).start(text).finish()
        assert equivalent_status(run.state.status, expected.status), seed
        ends[expected.status] += 1
        if expected.status == "completed":
            summary = run.state.summary()
            assert run.trace() == sorted(expected.executions, key=lambda execution: execution.address), seed
            assert summary["output"] == expected.output, seed
            assert summary["nodes"] == expected.runs, seed
            tools += sum("done at" in text for execution in run.executions for text in execution.outputs)
    assert ends["completed"] > 150, ends
    assert tools > 200, "they would show nothing without tools"


@pytest.mark.parametrize("block", range(4))
def test_kernel_agrees_with_the_reference_in_loop_agents(block: int) -> None:
    ends: Counter[str] = Counter()
    tools = 0
    for seed in range(block * 300, (block + 1) * 300):
        workflow, text, script, play = loop_agents.case(seed, tools=True)
        status, output, nodes, executions = loop_agents.played(play, text, script)
        plan = plan_of(workflow, loop_agents.FUNCTIONS)
        run = Simulator(plan, script, chooser(seed)).start(text).finish()
        summary = run.state.summary()
        assert equivalent_status(summary["status"], status), seed
        ends[status] += 1
        if status == "completed":
            assert run.trace() == sorted(executions, key=lambda execution: execution.address), seed
            assert (summary["output"], summary["nodes"]) == (output, nodes), seed
            tools += sum("done at" in text for execution in run.executions for text in execution.outputs)
    assert ends["completed"] > 150, ends
    assert tools > 100, "they would show nothing without tools"


@settings(max_examples=200, deadline=None)
@given(seeds, seeds, seeds, st.floats(0, 1))
def test_loop_agents_with_tools_resume_from_any_point_in_any_order(
    seed: int, one: int, other: int, where: float
) -> None:
    workflow, text, script, _ = loop_agents.case(seed, tools=True)
    plan = plan_of(workflow, loop_agents.FUNCTIONS)
    first = Simulator(plan, script, chooser(one)).start(text).finish()
    second = Simulator(plan, script, chooser(other)).start(text).finish()
    cut = max(1, int(where * len(first.journal)))
    resumed = Simulator(plan, script, chooser(other)).resume(first.journal[:cut]).finish()
    assert equivalent_status(first.state.status, second.state.status)
    assert equivalent_status(first.state.status, resumed.state.status)
    if first.state.status == "completed":
        assert first.trace() == second.trace()
        assert tool_events(first) == tool_events(second)
        assert first.state.summary() == second.state.summary() == resumed.state.summary()
        assert len(resumed.executions) == len(first.executions) - (cut - 1)


def tool_events(run: Simulator) -> dict[str | None, list[Any]]:
    """What was told of each call of a tool, in order."""
    events_of_node: dict[str | None, list[Any]] = {}
    for event in run.events:
        if event.event in ("tool_call", "human_input_required", "human_input_received"):
            events_of_node.setdefault(event.address, []).append((event.event, without_figures(event.data)))
    return events_of_node


@settings(max_examples=300, deadline=None)
@given(seeds, seeds, seeds)
def test_trace_does_not_depend_on_completion_order(seed: int, one: int, other: int) -> None:
    first, second = simulated(seed, one), simulated(seed, other)
    assert equivalent_status(first.state.status, second.state.status)
    if first.state.status == "completed":
        assert first.trace() == second.trace()
        assert first.state.summary() == second.state.summary()
        assert tool_events(first) == tool_events(second)


@settings(max_examples=300, deadline=None)
@given(seeds, seeds, st.floats(0, 1))
def test_resuming_any_journal_prefix_gives_the_same_result(seed: int, order: int, where: float) -> None:
    whole = simulated(seed, order)
    cut = max(1, int(where * len(whole.journal)))
    resumed = Simulator(whole.plan, whole.script, chooser(order + 1)).resume(whole.journal[:cut]).finish()
    assert equivalent_status(resumed.state.status, whole.state.status)
    if whole.state.status == "completed":
        assert resumed.state.summary() == whole.state.summary()
        # What had finished before the cut, such as a paid call of a model, is not done again.
        assert len(resumed.executions) == len(whole.executions) - (cut - 1)


@settings(max_examples=200, deadline=None)
@given(seeds, seeds)
def test_call_addresses_are_unique_and_each_call_ends_once(seed: int, order: int) -> None:
    run = simulated(seed, order)
    assert [event.seq for event in run.events] == list(range(1, len(run.events) + 1))
    nodes = [event.address for event in run.events if _has_status(event, "node_state_change", "running")]
    calls = [event.address for event in run.events if _has_status(event, "tool_call", "running")]
    assert len({*nodes, *calls}) == len(nodes) + len(calls)
    for events_of_node in tool_events(run).values():
        ends = [data for _, data in events_of_node if isinstance(data, ToolCallEnded)]
        assert len(ends) == 1 or (not ends and run.state.status != "completed")


@pytest.mark.parametrize("tools", [case_with_tools, partial(loop_agents.case, tools=True)])
def test_a_tool_loop_may_be_snapshot_at_every_step(tools: Any) -> None:
    steps = 0
    for seed in range(100):
        workflow, text, script, *_ = tools(seed)
        make = partial(plan_of, workflow, loop_agents.FUNCTIONS)
        steps += frozen_at_every_step(make, script, text, seed)
    assert steps > 500


def _has_status(event: Event, name: str, status: str) -> bool:
    return event.event == name and event.fields()["status"] == status


def wrong_facts(run: Simulator, time: float) -> list[Fact]:
    """What cannot be true now, of each address that is at work, and of some that are not."""
    wrong: list[Fact] = [Started("other", (), time), Finished("nowhere", Outcome(), time)]
    wrong += [Failed("A[9]/look", "x", time)]
    for address, execution in run.state.calls.items():
        command = execution.command
        if isinstance(command, Call):
            wrong += [Answered(address, Message("yes"), time), EdgesEvaluated(address, (), time)]
        elif isinstance(command, Ask):
            wrong += [Finished(address, Outcome(), time)]
    if any(isinstance(execution.command, Call) for execution in run.state.calls.values()):
        wrong.append(Waited(time))
    return wrong


@settings(max_examples=60, deadline=None)
@given(seeds, seeds)
def test_an_illegal_fact_raises_and_changes_nothing(seed: int, order: int) -> None:
    workflow, text, script = case_with_tools(seed)
    run = Simulator(plan_of(workflow), script, chooser(order)).start(text)
    index = PlanIndex(run.plan)
    while run.in_flight and len(run.journal) < 40:
        before = freeze(run.state, index)
        for fact in wrong_facts(run, run.clock):
            with pytest.raises(IllegalFact):
                step(run.state, fact)
        assert freeze(run.state, index) == before
        command = run.in_flight.pop(run.choose(len(run.in_flight)))
        run.apply(run.answer(command))
    if run.state.over:
        with pytest.raises(IllegalFact):
            step(run.state, Stopped("", run.now()))


# A few runs by hand.


def agents(*names: str, **config: Any) -> dict[str, Any]:
    nodes = [{"id": name, "type": "agent", "config": {"tools": ["look", "ask"], **config}} for name in names]
    tools = {name: {"python": "statistics:mean"} for name in ("look", "ask")}
    return {"tools": tools, "graph": {"nodes": nodes, "start": list(names), "end": list(names)}}


def do(run: Simulator, address: str) -> None:
    (command,) = [command for command in run.in_flight if command.address == address]
    run.in_flight.remove(command)
    run.apply(run.answer(command))


def in_flight(run: Simulator) -> list[str]:
    return [command.address for command in run.in_flight]


def test_unlogged_output_is_not_in_tool_events() -> None:
    workflow = agents("A", approval=["ask"])
    workflow["graph"]["nodes"][0]["log_output"] = False
    run = Simulator(plan_of(workflow), {"A": ["?look ask", "secret"], "A/ask": ["yes"]}).start("go")
    run.finish()
    events_of_node = [event for event in run.events if event.node_id == "A"]
    assert not any(event.fields().get("output") for event in events_of_node)
    calls = [event.fields() for event in events_of_node if event.event == "tool_call"]
    assert all(not data["arguments"] and not data.get("result") for data in calls)
    assert [event.event for event in events_of_node if "tool" in event.fields()] == ["human_input_required"]


def test_locked_run_finishes_calls_in_flight_and_starts_no_new_ones() -> None:
    workflow = agents("A", "B", max_tool_calls=1, on_limit="suspend")
    run = Simulator(plan_of(workflow), {"A": ["?look"], "B": ["?look look"]}).start("go")
    do(run, "A")
    do(run, "B")
    do(run, "A[1]/look")
    do(run, "A")
    assert in_flight(run) == ["B[1]/look", "B[1]/look#2"]
    assert (run.state.status, len(run.state.calls)) == ("running", 2), "two calls are still out"
    run.finish()
    assert run.state.status == "suspended_locked"
    assert [event.fields()["address"] for event in run.events if event.event == "limit_reached"] == ["A"]
    # A would carry out what it asked for, and B would ask its model.
    assert len(run.state.held) == 2
    assert len(run.executions) == 6


def unlocked(run: Simulator, **change: Any) -> Unlocked:
    return Unlocked("it may go on", "tests", CHECKS, run.now(), **change)


def locked_beyond(limit: int = 2) -> Simulator:
    """An agent that has used its rounds up and asks for two tools more."""
    workflow = agents("A", max_tool_calls=limit, on_limit="suspend")
    script = {"A": [*["?look"] * limit, "?look ask", "?look", "?look", "done"]}
    run = Simulator(plan_of(workflow), script).start("go").finish()
    assert run.state.status == "suspended_locked"
    return run


def model_calls(run: Simulator) -> int:
    return sum(1 for execution in run.executions if execution.address == "A")


@pytest.mark.parametrize("frozen", [False, True])
def test_unlocked_agent_executes_the_request_that_reached_the_limit(frozen: bool) -> None:
    run = locked_beyond()
    assert model_calls(run) == 3
    assert [execution.address for execution in run.executions if "/" in execution.address] == [
        "A[1]/look",
        "A[2]/look",
    ]
    assert not [event for event in run.events if event.event == "tool_call" and event.fields()["round"] == 3]
    if frozen:
        run.state = copied(run.state, run.plan)
    run.apply(unlocked(run, limits={"rounds": 3}))
    assert sorted(in_flight(run)) == ["A[3]/ask", "A[3]/look"]
    assert model_calls(run) == 3, "the model is not asked for what it has asked for"
    run.finish()
    assert (run.state.status, run.state.lock.limit) == ("suspended_locked", 3)  # type: ignore[union-attr]
    run.apply(unlocked(run, limits={"rounds": 9}))
    run.finish()
    assert (run.state.status, run.state.output.text) == ("completed", "done")  # type: ignore[union-attr]
    assert model_calls(run) == 6


def test_answers_received_while_locked_are_used_once() -> None:
    workflow = agents("A", "B", max_tool_calls=1, approval=["ask"], on_limit="suspend")
    script = {"A": ["?look"], "B": ["?ask ask", "done"], "B/ask": ["yes"]}
    run = Simulator(plan_of(workflow), script).start("go")
    for address in ("A", "B", "A[1]/look", "A"):
        do(run, address)
    assert in_flight(run) == ["B[1]/ask", "B[1]/ask#2"]
    do(run, "B[1]/ask")
    do(run, "B[1]/ask#2")
    assert (run.state.status, in_flight(run)) == ("suspended_locked", [])
    run.apply(unlocked(run))
    assert sorted(in_flight(run)) == ["A[2]/look", "B[1]/ask", "B[1]/ask#2"]


def test_unlock_without_a_limit_grants_the_same_number_of_rounds() -> None:
    run = locked_beyond(1)
    run.apply(unlocked(run))
    run.finish()
    assert [event.fields()["limit"] for event in run.events if event.event == "limit_reached"] == [1, 2]
    assert model_calls(run) == 3


def test_raised_limit_must_exceed_the_current_one() -> None:
    run = locked_beyond(2)
    run.apply(unlocked(run, limits={"rounds": 3}))
    run.finish()
    with pytest.raises(IllegalFact, match="'rounds' is 3 already"):
        step(run.state, unlocked(run, limits={"rounds": 3}))


@pytest.mark.parametrize("on_limit", ["answer", "error", "suspend"])
@pytest.mark.parametrize("limit", [1, 3])
def test_a_model_that_answers_in_time_never_fails(on_limit: str, limit: int) -> None:
    workflow = agents("A", max_tool_calls=limit, on_limit=on_limit)
    run = Simulator(plan_of(workflow), {"A": [*["?look"] * limit, "done"]}).start("go").finish()
    assert (run.state.status, run.state.output.text) == ("completed", "done")  # type: ignore[union-attr]
    assert model_calls(run) == limit + 1
    met = [event.event for event in run.events if event.event == "limit_reached"]
    assert met == (["limit_reached"] if on_limit == "answer" else [])


def test_failure_elsewhere_finishes_tools_and_cancels_questions() -> None:
    run = Simulator(plan_of(agents("A", "B", approval=["ask"])), {"A": ["?look ask"], "B": ["!no"]}).start(
        "go"
    )
    do(run, "A")
    assert in_flight(run) == ["B", "A[1]/look", "A[1]/ask"]
    do(run, "B")
    assert in_flight(run) == ["A[1]/look"]
    run.finish()
    assert (run.state.status, run.state.error) == ("failed", "B: no")
    assert len(run.executions) == 3, "the model of A is not asked again"


def test_stopping_a_run_cancels_its_calls() -> None:
    run = Simulator(plan_of(agents("A", approval=["ask"])), {"A": ["?look ask look"]}).start("go")
    do(run, "A")
    commands, events = step(run.state, Stopped("enough", run.now()))
    assert [command.address for command in commands if isinstance(command, Cancel)] == in_flight(run)
    skipped = [event for event in events if event.event == "node_state_change"]
    assert [(event.address, event.data) for event in skipped] == [
        ("A", NodeSkipped("enough", "stopped", ran=True))
    ]
    ended = [event.fields()["status"] for event in events if event.event == "tool_call"]
    assert ended == ["cancelled"] * 3, "also the one about which a person is asked"


def test_ending_a_round_cancels_its_tool_calls() -> None:
    """Two elements at the same time; the first says `break` while the second has tools at work."""
    agent = {"id": "A", "type": "agent", "config": {"tools": ["look"]}}
    stop = {"type": "keyword", "config": {"any": ["stop"]}}
    body = {
        "nodes": [agent, {"id": "Out", "type": "break"}],
        "edges": [{"from": "A", "to": "Out", "condition": stop}],
        "start": "A",
        "end": "A",
    }
    strategy = {"mode": "array", "max_parallel": 2}
    each = {"id": "Each", "type": "loop_agent", "config": {"strategy": strategy, "body": body}}
    workflow = {
        "tools": {"look": {"python": "statistics:mean"}},
        "graph": {"nodes": [each], "start": "Each", "end": "Each"},
    }
    run = Simulator(plan_of(workflow), {"A": ["stop", "?look look"]}).start('["n", "s"]')
    do(run, "Each[2]/A")
    assert in_flight(run) == ["Each[1]/A", "Each[2].A[1]/look", "Each[2].A[1]/look#2"]
    do(run, "Each[1]/A")
    do(run, "Each[1]/Out")
    assert not run.in_flight
    summary = run.state.summary()
    assert (summary["status"], summary["data"]["results"]) == ("completed", ["stop"])
    skipped = [event.address for event in run.events if event.fields().get("reason") == "the round was ended"]
    assert skipped == ["Each[2]/A"]
