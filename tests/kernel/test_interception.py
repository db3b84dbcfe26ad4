"""Middleware intercepts a node before and after it runs; its decisions apply, and nothing else
changes."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import pytest

from roundel.kernel.commands import Call, Command, Intercept
from roundel.kernel.events import Event
from roundel.kernel.facts import (
    Edited,
    Failed,
    Intercepted,
    InterceptPoints,
    Reopened,
    Unlocked,
    decode_entry,
)
from roundel.kernel.step import IllegalFact
from roundel.kernel.unlock import CHECKS
from roundel.plan.graph import Plan
from roundel.workflow.message import Message
from tests.events import without_figures
from tests.kernel import graphs, loop_agents
from tests.kernel.simulator import Script, Simulator, plan_of, timeless
from tests.kernel.test_snapshot import frozen_at_every_step


def everywhere(plan: Plan) -> InterceptPoints:
    ids = tuple(dict.fromkeys(node.id for node in plan.sites))
    return InterceptPoints(ids, ids)


def shown(events: list[Event]) -> list[str]:
    """What they say, whatever was said first."""
    return sorted(
        repr((event.event, event.address, without_figures(timeless(event.data)))) for event in events
    )


def pair(**limits: Any) -> Plan:
    """Two agents at the same time."""
    nodes = [{"id": name, "type": "agent", "config": {"params": {"max_tokens": 60}}} for name in ("A", "B")]
    return plan_of({"limits": limits, "graph": {"nodes": nodes, "start": ["A", "B"], "end": ["A"]}})


def only(run: Simulator) -> Command:
    (command,) = run.in_flight
    run.in_flight = []
    return command


def one(kind: str = "agent", **config: Any) -> Plan:
    return plan_of({"graph": {"nodes": [{"id": "A", "type": kind, "config": config}], "start": "A"}})


# A middleware that lets everything be changes nothing, in whatever order things happen.


@pytest.mark.parametrize("block", range(3))
def test_random_graphs_run_the_same_with_interception(block: int) -> None:
    for seed in range(block * 100, block * 100 + 100):
        workflow, text, script = graphs.case(seed)
        _compared(plan_of(workflow), script, text, seed)


def test_random_loop_agents_run_the_same_with_interception() -> None:
    for seed in range(150):
        workflow, text, script, _ = loop_agents.case(seed)
        _compared(plan_of(workflow, loop_agents.FUNCTIONS), script, text, seed)


def _compared(plan: Plan, script: Script, text: str, seed: int) -> None:
    choose = random.Random(seed).randrange
    plain = Simulator(plan, script).start(text).finish()
    other = Simulator(plan, script, choose).start(text, everywhere(plan)).finish()
    assert other.state.status == plain.state.status
    if plain.state.status == "completed":  # of a run that fails, more may have begun
        assert other.trace() == plain.trace()
        assert shown(other.events) == shown(plain.events)


def test_resuming_any_journal_prefix_gives_the_same_result() -> None:
    for seed in range(120):
        workflow, text, script = graphs.case(seed)
        plan = plan_of(workflow)
        whole = Simulator(plan, script).start(text, everywhere(plan)).finish()
        cut = random.Random(seed).randint(1, len(whole.journal))
        rest = Simulator(plan, script).resume(whole.journal[:cut]).finish()
        assert rest.state.summary() == whole.state.summary()


def test_a_run_that_is_snapshot_during_an_intercept_resumes() -> None:
    for seed in range(40):
        workflow, text, script = graphs.case(seed)
        make = partial(plan_of, workflow)
        frozen_at_every_step(make, script, text, seed, everywhere(make()))


# What it says counts.


def test_an_output_has_no_effect_before_middleware_has_seen_it() -> None:
    plan = plan_of(
        {
            "graph": {
                "nodes": [{"id": "A", "type": "agent"}, {"id": "B", "type": "agent"}],
                "edges": [{"from": "A", "to": "B"}],
                "start": "A",
            }
        }
    )
    run = Simulator(plan, {"A": ["raw"]}).start("go", InterceptPoints(after=("A",)))
    run.apply(run.answer(only(run)))
    intercept = only(run)
    assert isinstance(intercept, Intercept)
    assert [message.text for message in intercept.messages or ()] == ["raw"]
    assert [message.text for message in intercept.inputs] == ["go"]
    events_of_node = (("warning", {"message": "raw"}),)
    run.apply(Intercepted("A", run.now(), (Message("done", "assistant"),), events_of_node))
    call = only(run)
    assert isinstance(call, Call)
    assert call.address == "B"
    assert call.inputs[0].text == "done"
    assert [(event.event, event.address) for event in run.events[-4:-2]] == [
        ("custom", "A"),
        ("node_state_change", "A"),
    ]


@pytest.mark.parametrize("kind", ["agent", "human", "passthrough"])
def test_a_veto_before_a_node_fails_it_without_running_it(kind: str) -> None:
    run = Simulator(one(kind), {}).start("go", InterceptPoints(before=("A",)))
    intercept = only(run)
    assert isinstance(intercept, Intercept)
    assert intercept.messages is None
    run.apply(Failed("A", "vetoed", run.now()))
    assert run.state.status == "failed"
    assert run.state.error == "A: vetoed"
    assert not run.executions


def test_veto_after_a_node_fails_it_and_counts_its_usage() -> None:
    run = Simulator(one(), {"A": ["raw"]}).start("go", InterceptPoints(after=("A",)))
    run.apply(run.answer(only(run)))
    run.apply(Failed("A", "vetoed", run.now()))
    assert run.state.status == "failed"
    assert run.state.summary()["output"] == ""


def test_node_waiting_for_middleware_holds_its_reservation() -> None:
    run = Simulator(pair(tokens=100), {}).start("go", InterceptPoints(before=("A", "B")))
    assert [command.address for command in run.in_flight] == ["A"]  # 60 and 60 are more than 100
    run.apply(run.answer(only(run)))
    assert isinstance(run.in_flight[0], Call)
    run.finish()
    assert run.state.status == "suspended_locked"


def test_veto_releases_the_reservation_and_counts_no_call() -> None:
    run = Simulator(pair(tokens=200, model_calls=5), {}).start("go", InterceptPoints(before=("A", "B")))
    run.apply(Failed("A", "vetoed", run.now()))
    assert run.state.root is not None
    (budget,) = {id(each): each for each in run.state.root.budgets.values()}.values()
    figures = budget[0] if isinstance(budget, tuple) else budget
    assert figures.reserved["tokens"] == 60
    assert figures.spent_amounts(0)["model_calls"] == 0


def test_nodes_waiting_for_middleware_are_skipped_when_the_run_fails() -> None:
    run = Simulator(pair(), {}).start("go", InterceptPoints(before=("A", "B")))
    run.apply(Failed("A", "vetoed", run.now()))
    run.apply(Intercepted("B", run.now()))
    assert run.state.status == "failed"
    assert {"status": "skipped", "reason": "the run has failed", "cause": "run_failed", "ran": True} in [
        event.fields() for event in run.events
    ]


# When it changes.


def test_a_run_resumed_without_middleware_intercepts_nothing() -> None:
    run = Simulator(one(), {"A": ["raw"]}).start("go", InterceptPoints(("A",), ("A",)))
    run.apply(Reopened(run.now(), InterceptPoints()))
    run.finish()
    assert run.state.summary()["output"] == "raw"
    assert len([line for line in run.journal if isinstance(decode_entry(line).fact, Intercepted)]) == 1


@pytest.mark.parametrize("kind", ["agent", "human"])
def test_a_run_resumed_with_middleware_intercepts_calls_in_flight(kind: str) -> None:
    run = Simulator(one(kind), {"A": ["raw"]}).start("go")
    run.apply(Reopened(run.now(), InterceptPoints(after=("A",))))
    run.apply(run.answer(only(run)))
    intercept = only(run)
    assert isinstance(intercept, Intercept)
    assert intercept.inputs[0].text == "go"


# Facts that cannot be.


def test_message_can_be_edited_only_before_the_node_starts() -> None:
    run = Simulator(one(), {}).start("go", InterceptPoints(("A",), ("A",)))
    run.apply(Edited("A", Message("stay"), run.now()))
    run.apply(run.answer(only(run)))
    run.apply(run.answer(only(run)))
    intercept = only(run)
    assert isinstance(intercept, Intercept)
    assert [message.text for message in intercept.messages or ()] == ["stay"]
    assert [message.text for message in intercept.inputs] == ["stay"]
    with pytest.raises(IllegalFact):
        run.apply(Edited("A", Message("go"), run.now()))


def test_intercept_of_an_agent_with_tools_sees_the_edited_message() -> None:
    plan = plan_of(
        {
            "tools": {"look": {"python": "statistics:mean"}},
            "graph": {"nodes": [{"id": "A", "type": "agent", "config": {"tools": ["look"]}}], "start": "A"},
        }
    )
    run = Simulator(plan, {"A": ["done"]}).start("go", InterceptPoints(("A",), ("A",)))
    run.apply(run.answer(only(run)))
    assert isinstance(only(run), Call)
    run.apply(Edited("A", Message("stay"), run.now()))
    run.apply(run.answer(only(run)))
    intercept = only(run)
    assert isinstance(intercept, Intercept)
    assert [message.text for message in intercept.inputs] == ["stay"]


def test_intercept_sees_the_message_edited_at_unlock() -> None:
    node = {"id": "A", "type": "agent", "config": {"tools": ["look"]}}
    plan = plan_of(
        {
            "tools": {"look": {"python": "statistics:mean"}},
            "limits": {"model_calls": 0},
            "graph": {"nodes": [node], "start": "A"},
        }
    )
    run = Simulator(plan, {"A": ["done"]}).start("go", InterceptPoints(("A",), ("A",)))
    run.apply(run.answer(only(run)))
    assert run.state.status == "suspended_locked"
    run.apply(Unlocked("fine", "me", CHECKS, run.now(), {"model_calls": 5}, "stay"))
    run.apply(run.answer(only(run)))
    intercept = only(run)
    assert isinstance(intercept, Intercept)
    assert [message.text for message in intercept.inputs] == ["stay"]


def test_editing_a_loop_predicate_input_does_not_change_the_loop_inputs() -> None:
    body = {"nodes": [{"id": "Worker", "type": "agent"}], "start": "Worker"}
    strategy = {"mode": "condition", "until": {"function": "enough"}, "max": 3}
    plan = plan_of(
        {
            "graph": {
                "nodes": [{"id": "A", "type": "loop_agent", "config": {"strategy": strategy, "body": body}}],
                "start": "A",
            }
        },
        loop_agents.FUNCTIONS,
    )
    run = Simulator(plan, {"Worker": ["stop here"]}).start("go", InterceptPoints(after=("A",)))
    run.apply(run.answer(only(run)))
    run.apply(run.answer(only(run)))
    assert only(run).address == "A"
    run.apply(Edited("A", Message("stop now"), run.now()))
    run.apply(run.answer(only(run)))
    intercept = only(run)
    assert isinstance(intercept, Intercept)
    assert [message.text for message in intercept.inputs] == ["go"]


def test_an_intercept_that_was_not_requested_is_illegal() -> None:
    run = Simulator(one(), {}).start("go")
    with pytest.raises(IllegalFact):
        run.apply(Intercepted("A", run.now()))
