"""Loop agents in the kernel: against a plain reading, in any order, from any point of the journal."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roundel.kernel.facts import Paused, Resumed
from tests.events import node_status
from tests.kernel.loop_agents import FUNCTIONS, case, played
from tests.kernel.simulator import Simulator, plan_of

seeds = st.integers(0, 2**40)


def chooser(seed: int) -> Any:
    return random.Random(seed).randrange


def equivalent_status(one: str, other: str) -> bool:
    """Where one branch would fail and another meets a limit, whichever is first stops the run."""
    return one == other or {one, other} <= {"failed", "suspended_locked"}


def summary_without_exit_reasons(run: Simulator) -> dict[str, Any]:
    """The summary, without the reasons: of a loop that runs several times at once, the last one counts."""
    summary = run.state.summary()
    loops = {name: {**loop, "exit_reason": ""} for name, loop in summary["loops"].items()}
    return {**summary, "loops": loops}


@pytest.mark.parametrize("block", range(4))
def test_kernel_agrees_with_the_reference_loop(block: int) -> None:
    ends = []
    for seed in range(block * 500, (block + 1) * 500):
        workflow, text, script, play = case(seed)
        status, output, nodes, executions = played(play, text, script)
        run = Simulator(plan_of(workflow, FUNCTIONS), script, chooser(seed)).start(text).finish()
        summary = run.state.summary()
        assert equivalent_status(summary["status"], status), seed
        if status == "completed":
            assert run.trace() == sorted(executions, key=lambda execution: execution.address), seed
            assert (summary["output"], summary["nodes"]) == (output, nodes), seed
        ends.append(status)
    assert ends.count("completed") > 250


@pytest.mark.parametrize("block", range(4))
def test_kernel_agrees_with_the_reference_on_failures_inside_nodes(block: int) -> None:
    ends, handled = [], 0
    for seed in range(block * 500, (block + 1) * 500):
        workflow, text, script, play = case(seed, handled=True)
        status, output, nodes, executions = played(play, text, script)
        run = Simulator(plan_of(workflow, FUNCTIONS), script, chooser(seed)).start(text).finish()
        summary = run.state.summary()
        assert equivalent_status(summary["status"], status), seed
        if status == "completed":
            assert run.trace() == sorted(executions, key=lambda execution: execution.address), seed
            assert (summary["output"], summary["nodes"]) == (output, nodes), seed
            handled += any(event.fields().get("handled") for event in run.events)
        ends.append(status)
    assert ends.count("completed") > 200
    assert handled > 50


@settings(max_examples=300, deadline=None)
@given(seeds, seeds, seeds, st.booleans())
def test_trace_does_not_depend_on_completion_order(seed: int, one: int, other: int, handled: bool) -> None:
    workflow, text, script, _ = case(seed, handled=handled)
    plan = plan_of(workflow, FUNCTIONS)
    first = Simulator(plan, script, chooser(one)).start(text).finish()
    second = Simulator(plan, script, chooser(other)).start(text).finish()
    assert equivalent_status(first.state.status, second.state.status)
    if first.state.status == "completed":
        assert first.trace() == second.trace()
        assert summary_without_exit_reasons(first) == summary_without_exit_reasons(second)


@settings(max_examples=300, deadline=None)
@given(seeds, seeds, st.floats(0, 1), st.booleans())
def test_resuming_any_journal_prefix_gives_the_same_result(
    seed: int, order: int, where: float, handled: bool
) -> None:
    workflow, text, script, _ = case(seed, handled=handled)
    plan = plan_of(workflow, FUNCTIONS)
    whole = Simulator(plan, script, chooser(order)).start(text).finish()
    cut = max(1, int(where * len(whole.journal)))
    resumed = Simulator(plan, script, chooser(order + 1)).resume(whole.journal[:cut]).finish()
    assert equivalent_status(resumed.state.status, whole.state.status)
    if whole.state.status == "completed":
        assert summary_without_exit_reasons(resumed) == summary_without_exit_reasons(whole)
        # What had finished before the cut is not done again.
        assert len(resumed.executions) == len(whole.executions) - (cut - 1)


@settings(max_examples=200, deadline=None)
@given(seeds, seeds, st.booleans())
def test_event_numbers_increase_and_addresses_are_unique(seed: int, order: int, handled: bool) -> None:
    workflow, text, script, _ = case(seed, handled=handled)
    run = Simulator(plan_of(workflow, FUNCTIONS), script, chooser(order)).start(text).finish()
    assert [event.seq for event in run.events] == list(range(1, len(run.events) + 1))
    running = [event.address for event in run.events if node_status(event) == "running"]
    assert len(running) == len(set(running))
    rounds = [event.address for event in run.events if event.event == "loop_round"]
    assert len(rounds) == len(set(rounds))


def run_with_break(order: int, width: int) -> Simulator:
    """An array of eight elements; the fifth says `break`, in a chain of two nodes."""
    go_on, stop = ({"type": "keyword", "config": {key: ["stop"]}} for key in ("none", "any"))
    body = {
        "nodes": [
            {"id": "A", "type": "agent", "config": {}},
            {"id": "B", "type": "agent", "config": {}},
            {"id": "Out", "type": "break"},
        ],
        "edges": [
            {"from": "A", "to": "B", "condition": go_on},
            {"from": "A", "to": "Out", "condition": stop},
        ],
        "start": "A",
        "end": "B",
    }
    config = {"strategy": {"mode": "array", "max_parallel": width, "on_error": "null"}, "body": body}
    graph = {
        "nodes": [{"id": "Each", "type": "loop_agent", "config": config}],
        "start": "Each",
        "end": "Each",
    }
    script = {"A": ["a1", "!a2", "a3", "a4", "stop", "stop later", "!a7", "a8"]}
    text = "[1, 2, 3, 4, 5, 6, 7, 8]"
    return Simulator(plan_of({"graph": graph}), script, chooser(order)).start(text).finish()


@pytest.mark.parametrize("width", [2, 3, 8])
def test_break_in_parallel_rounds_gives_the_sequential_result(width: int) -> None:
    alone = run_with_break(0, 1).state.summary()
    assert alone["data"]["results"] == ["a1", None, "a3", "a4", "stop"]
    assert alone["data"]["errors"] == [{"round": 2, "error": "a2"}]
    for order in range(200):
        run = run_with_break(order, width)
        summary = run.state.summary()
        assert (summary["status"], summary["data"]) == ("completed", alone["data"])
        assert not run.state.calls
        assert not run.in_flight


# A break in one of several rounds that run at the same time.


def stopping() -> Simulator:
    """Four elements, three at a time; the round of the second says `break`."""
    body = {
        "id": "body",
        "nodes": [{"id": "W", "type": "agent"}, {"id": "Stop", "type": "break"}],
        "edges": [{"from": "W", "to": "Stop", "condition": {"cel": "text == 'stop'"}}],
        "start": "W",
        "end": ["Stop", "W"],
    }
    config = {"body": body, "strategy": {"mode": "array", "max_parallel": 3}}
    graph = {"nodes": [{"id": "Each", "type": "loop_agent", "config": config}], "start": "Each"}
    script = {"W": ["one", "stop", "three", "four"]}
    return Simulator(plan_of({"graph": graph}), script).start('["a", "b", "c", "d"]')


def finish(run: Simulator, address: str) -> None:
    [command] = [other for other in run.in_flight if other.address == address]
    run.in_flight.remove(command)
    run.apply(run.answer(command))


def in_flight(run: Simulator) -> list[str]:
    return [command.address for command in run.in_flight]


def test_break_cancels_later_rounds_and_finishes_earlier_ones() -> None:
    run = stopping()
    assert in_flight(run) == ["Each[1]/W", "Each[2]/W", "Each[3]/W"]
    finish(run, "Each[2]/W")
    finish(run, "Each[2]/Stop")
    assert in_flight(run) == ["Each[1]/W"]
    called_off = [event for event in run.events if node_status(event) == "skipped"]
    assert [(event.address, event.fields()["reason"]) for event in called_off] == [
        ("Each[3]/W", "the round was ended")
    ]
    finish(run, "Each[1]/W")
    assert (run.state.status, run.state.summary()["output"]) == ("completed", '["one", "stop"]')
    assert run.state.summary()["nodes"] == {"Each": 1, "W": 3, "Stop": 1}
    assert run.state.loops["Each"].exit_reason == "break"


def test_break_discards_results_of_later_rounds() -> None:
    run = stopping()
    finish(run, "Each[3]/W")
    finish(run, "Each[1]/W")
    assert in_flight(run) == ["Each[2]/W", "Each[4]/W"]
    finish(run, "Each[2]/W")
    finish(run, "Each[2]/Stop")
    assert (run.state.status, run.state.summary()["output"]) == ("completed", '["one", "stop"]')
    assert not run.in_flight


def test_pause_prevents_the_next_round_of_a_loop_agent() -> None:
    config = {"body": {"id": "W", "type": "agent"}, "strategy": {"mode": "count", "max": 2}}
    graph = {"nodes": [{"id": "Twice", "type": "loop_agent", "config": config}], "start": "Twice"}
    run = Simulator(plan_of({"graph": graph}), {"W": ["one", "two"]}).start("go")
    run.apply(Paused("lunch", run.now()))
    finish(run, "Twice[1]/W")
    assert (run.state.status, in_flight(run)) == ("paused", [])
    run.apply(Resumed(run.now()))
    assert in_flight(run) == ["Twice[2]/W"]
    finish(run, "Twice[2]/W")
    assert (run.state.status, run.state.summary()["output"]) == ("completed", "two")
    assert run.state.loops["Twice"].rounds == 2


def test_a_predicate_that_fails_fails_the_loop_agent_and_the_run() -> None:
    def broken(_text: str) -> bool:
        raise ValueError("no more")

    strategy = {"mode": "condition", "until": {"function": "broken"}}
    config = {"body": {"id": "W", "type": "agent"}, "strategy": strategy}
    graph = {"nodes": [{"id": "Loop", "type": "loop_agent", "config": config}], "start": "Loop"}
    run = Simulator(plan_of({"graph": graph}, {"broken": broken}), {}).start("go").finish()
    assert run.state.status == "failed"
    assert "no more" in str(run.state.error)
    assert [event.node_id for event in run.events if node_status(event) == "failed"] == ["Loop"]
