"""The kernel against a second reading of the rules, and against itself in another order."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roundel.kernel.facts import Answered, Failed, Finished, Outcome, Started, Stopped, Waited
from roundel.kernel.payloads import LoopLeft, LoopRound, RoundFinished
from roundel.kernel.state import Run
from roundel.kernel.step import IllegalFact, step
from roundel.workflow.message import Message
from tests.events import node_status
from tests.kernel.graphs import case, case_with_failures, scripts, texts, workflows
from tests.kernel.reference import FAILS, Execution, LoopEvent, interpret
from tests.kernel.simulator import Simulator, plan_of
from tests.kernel.spending import Spender

Case = tuple[dict[str, Any], str, dict[str, list[str]]]
seeds = st.integers(0, 2**40)


cases = st.builds(lambda make, seed: make(seed), st.sampled_from([case, case_with_failures]), seeds)


def chooser(seed: int) -> Any:
    return random.Random(seed).randrange


def assert_same_end(one: str, other: str) -> None:
    """Where one branch would fail and another meets a limit, whichever is first stops the run."""
    stopped = {"failed", "suspended_locked"}
    assert one == other or {one, other} <= stopped


def by_place(event: LoopEvent) -> tuple[str, str]:
    """Loops beside each other go on in any order."""
    return event.address, event.event


def loop_events(run: Simulator) -> list[LoopEvent]:
    """The events of its loops, as the reference has them."""
    found = []
    for event in run.events:
        data, address = event.data, event.address or ""
        if isinstance(data, LoopRound):
            triggers = tuple(sorted(data.triggered_by))
            found.append(LoopEvent("loop_round", address, data.loop, data.round, data.entry, triggers))
        elif isinstance(data, RoundFinished):
            assert (data.status, data.failures) == ("completed", 0)
            calls = data.usage.model_calls
            found.append(LoopEvent("round_finished", address, data.loop, data.round, model_calls=calls))
        elif isinstance(data, LoopLeft):
            assert data.rounds == data.round
            assert (data.reason == "no_trigger") == (data.by == "")
            entry, calls = data.entry, data.usage.model_calls
            left = LoopEvent("loop_exit", address, data.loop, data.round, entry, (), calls, data.by)
            found.append(left)
    return sorted(found, key=by_place)


def assert_agrees(workflow: dict[str, Any], text: str, script: dict[str, list[str]], order: int) -> None:
    expected = interpret(workflow, text, script)
    run = Spender(plan_of(workflow), script, choose=chooser(order)).start(text).finish()
    assert_same_end(run.state.status, expected.status)
    if expected.status == "completed":
        summary = run.state.summary()
        assert summary["usage"]["model_calls"] == expected.model_calls
        assert run.trace() == sorted(expected.executions, key=lambda execution: execution.address)
        assert summary["output"] == expected.output
        assert summary["nodes"] == expected.runs
        assert {name: loop["rounds"] for name, loop in summary["loops"].items()} == expected.loops
        assert loop_events(run) == sorted(expected.loop_events, key=by_place)


@settings(max_examples=200, deadline=None)
@given(st.data(), texts(), st.integers(0, 1000))
def test_the_kernel_agrees_with_the_reference(data: st.DataObject, text: str, order: int) -> None:
    workflow = data.draw(workflows())
    assert_agrees(workflow, text, data.draw(scripts(workflow)), order)


@pytest.mark.parametrize("block", range(8))
def test_the_kernel_agrees_with_the_reference_on_thousands_more(block: int) -> None:
    for seed in range(block * 700, (block + 1) * 700):
        assert_agrees(*case(seed), order=seed)


@pytest.mark.parametrize("tools", [False, True])
@pytest.mark.parametrize("block", range(4))
def test_the_kernel_agrees_with_the_reference_on_failures(block: int, tools: bool) -> None:
    handled = 0
    for seed in range(block * 400, (block + 1) * 400):
        workflow, text, script = case_with_failures(seed, tools)
        assert_agrees(workflow, text, script, order=seed)
        trace = interpret(workflow, text, script)
        failed = any("".join(run.outputs).startswith(FAILS) for run in trace.executions)
        handled += trace.status == "completed" and failed
    assert handled > 50


@settings(max_examples=500, deadline=None)
@given(cases, seeds, seeds)
def test_trace_does_not_depend_on_completion_order(made: Case, one: int, other: int) -> None:
    workflow, text, script = made
    plan = plan_of(workflow)
    first = Simulator(plan, script, chooser(one)).start(text).finish()
    second = Simulator(plan, script, chooser(other)).start(text).finish()
    assert_same_end(first.state.status, second.state.status)
    if first.state.status == "completed":
        assert first.trace() == second.trace()
        assert first.state.summary() == second.state.summary()


def _by_address(executions: list[Execution]) -> dict[str, list[Execution]]:
    found: dict[str, list[Execution]] = {}
    for execution in executions:
        found.setdefault(execution.address, []).append(execution)
    return found


@settings(max_examples=400, deadline=None)
@given(cases, seeds, st.floats(0, 1))
def test_resuming_any_journal_prefix_gives_the_same_result(made: Case, order: int, where: float) -> None:
    workflow, text, script = made
    plan = plan_of(workflow)
    whole = Simulator(plan, script, chooser(order)).start(text).finish()
    cut = max(1, int(where * len(whole.journal)))
    resumed = Simulator(plan, script, chooser(order + 1)).resume(whole.journal[:cut]).finish()
    assert_same_end(resumed.state.status, whole.state.status)
    if whole.state.status == "completed":
        assert resumed.state.summary() == whole.state.summary()
        # An agent may have been called twice at its address, and only the second call be missing.
        for address, later in _by_address(resumed.trace()).items():
            assert _by_address(whole.trace())[address][-len(later) :] == later
        # What had finished before the cut is not done again.
        assert len(resumed.executions) == len(whole.executions) - (cut - 1)


@settings(max_examples=300, deadline=None)
@given(cases, seeds)
def test_events_count_up_and_rounds_stay_under_the_cap(made: Case, order: int) -> None:
    workflow, text, script = made
    plan = plan_of(workflow)
    run = Simulator(plan, script, chooser(order)).start(text).finish()
    assert [event.seq for event in run.events] == list(range(1, len(run.events) + 1))
    assert all(
        event.timestamp <= later.timestamp for event, later in zip(run.events, run.events[1:], strict=False)
    )
    for event in run.events:
        if event.event == "loop_round":
            entry = plan.graph.index[event.fields()["loop"]]
            assert event.fields()["round"] <= plan.graph.cap(entry)
    running = [event.address for event in run.events if node_status(event) == "running"]
    assert len(running) == len(set(running)), "an address stands for one execution"
    last = run.events[-1]
    assert last.event == ("run_finished" if run.state.over else "run_state_change")


WORKFLOW = {
    "graph": {
        "nodes": [
            {"id": "A", "type": "agent", "config": {}},
            {"id": "Ask", "type": "human", "config": {}},
            {"id": "End", "type": "passthrough", "config": {}},
        ],
        "edges": [{"from": "A", "to": "End"}, {"from": "Ask", "to": "End"}],
        "start": ["A", "Ask"],
        "end": "End",
    }
}

ILLEGAL = [
    Started("other", (), 5.0),
    Finished("nowhere", Outcome(), 5.0),
    Finished("Ask", Outcome(), 5.0),
    Failed("nowhere", "broken", 5.0),
    Answered("A", Message("x"), 5.0),
    Waited(5.0),
]


@pytest.mark.parametrize(
    "fact", ILLEGAL, ids=lambda fact: f"{type(fact).__name__}-{getattr(fact, 'address', '')}"
)
def test_an_illegal_fact_raises_and_changes_nothing(fact: Any) -> None:
    run = Simulator(plan_of(WORKFLOW), {}).start("go")
    seq, calls = run.state.seq, dict(run.state.calls)
    with pytest.raises(IllegalFact):
        step(run.state, fact)
    assert (run.state.seq, run.state.calls, run.state.status) == (seq, calls, "running")
    assert run.finish().state.status == "completed"


def test_facts_before_the_start_or_after_the_end_are_illegal() -> None:
    state = Run(plan_of(WORKFLOW))
    with pytest.raises(IllegalFact):
        step(state, Stopped("", 1.0))
    ended = Simulator(plan_of(WORKFLOW), {}).start("go").finish().state
    with pytest.raises(IllegalFact):
        step(ended, Stopped("", 1.0))


def test_failure_finishes_calls_in_flight_and_cancels_questions() -> None:
    workflow = {
        "graph": {
            "nodes": [{"id": name, "type": "agent", "config": {}} for name in ("Bad", "Slow", "Next")]
            + [{"id": "Ask", "type": "human", "config": {}}],
            "edges": [{"from": "Slow", "to": "Next"}],
            "start": ["Bad", "Slow", "Ask"],
            "end": "Next",
        }
    }
    run = Simulator(plan_of(workflow), {}).start("go")
    run.apply(Failed("Bad", "no credit", run.now()))
    assert [command.address for command in run.in_flight if command.address != "Bad"] == ["Slow"]
    run.in_flight = [command for command in run.in_flight if command.address == "Slow"]
    run.finish()
    assert run.state.status == "failed"
    assert run.state.error == "Bad: no credit"
    assert run.state.summary()["nodes"] == {"Bad": 1, "Slow": 1, "Ask": 1}


def test_deeply_nested_loops_need_no_deep_stack() -> None:
    """Each node leads to the next and back to itself and the one before; all loops end at once."""
    count = 400
    names = [f"N{number}" for number in range(count)]
    nodes: list[Any] = [{"id": name, "type": "passthrough", "config": {}} for name in [*names, "Out"]]
    edges = [{"from": one, "to": other} for one, other in pairwise(names)]
    edges += [{"from": names[-1], "to": name} for name in names]
    edges.append({"from": names[-1], "to": "Out"})
    workflow = {"graph": {"nodes": nodes, "edges": edges, "start": names[0], "end": "Out"}}
    run = Simulator(plan_of(workflow), {}).start("go").finish()
    assert run.state.status == "completed"
    assert run.state.summary()["nodes"]["Out"] == 1
    deepest = max(run.executions, key=lambda execution: execution.address.count("["))
    assert deepest.address.count("[") == count
