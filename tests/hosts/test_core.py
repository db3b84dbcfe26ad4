"""The decisions of a host, without one: random graphs, orders, control requests and kills."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from roundel.hosts.core import MAX_CALLS_BEFORE_YIELD, Action
from roundel.kernel.facts import Answered, Finished, Outcome, Paused, Resumed, Stopped
from roundel.plan.graph import Plan
from roundel.workflow.message import Message
from tests.hosts.core_host import CoreHost, disturb
from tests.kernel import graphs, loop_agents
from tests.kernel.simulator import Script, Simulator, plan_of

seeds = st.integers(0, 2**40)


def is_loop_agent(seed: int) -> bool:
    return seed % 3 == 2


def case_of(seed: int) -> tuple[Plan, str, Script]:
    """A free graph, one with tools, or one with loop agents."""
    if is_loop_agent(seed):
        flow, text, script, _ = loop_agents.case(seed, tools=bool(seed % 2))
        return plan_of(flow, loop_agents.FUNCTIONS), text, script
    flow, text, script = (graphs.case, graphs.case_with_tools)[seed % 3](seed)
    return plan_of(flow), text, script


def undisturbed(seed: int) -> Simulator:
    plan, text, script = case_of(seed)
    return Simulator(plan, script).start(text).finish()


def same(host: CoreHost, seed: int) -> None:
    """The run ended as it does when nothing disturbs it. A call that a kill cut off was made again, with the
    same result, as is one of an agent that gave no answer. A loop agent that breaks off cancels what is in
    flight, and a run that fails or is locked starts nothing new: there it depends on the order how far
    others come, and which of several failures is the first, but not what becomes of the run."""
    expected, state = undisturbed(seed), host.log.state
    assert (state.status, state.output) == (expected.state.status, expected.state.output)
    if state.status == "completed" and not is_loop_agent(seed):
        assert list(dict.fromkeys(host.trace())) == list(dict.fromkeys(expected.trace()))
        assert Counter(host.trace()) >= Counter(expected.trace())


@settings(max_examples=100, deadline=None)
@given(seeds, st.booleans())
def test_run_does_not_depend_on_the_order_of_results(seed: int, stored: bool) -> None:
    plan, text, script = case_of(seed)
    dice = random.Random(seed)
    host = CoreHost(plan, script, dice, stored=stored).begin(text)
    host.run(lambda host: host.finish_one() if dice.random() < 0.3 else None)
    same(host, seed)
    assert not host.core.in_flight
    assert [event.seq for event in host.shown if event.seq] == list(range(1, host.log.state.seq + 1))


@settings(max_examples=100, deadline=None)
@given(seeds)
def test_random_pauses_do_not_change_the_run(seed: int) -> None:
    plan, text, script = case_of(seed)
    host = CoreHost(plan, script, random.Random(seed)).begin(text)
    host.run(disturb)
    while host.log.state.status == "paused":
        host.core.request(Resumed(host.now()), object())
        host.run(disturb)
    same(host, seed)


@settings(max_examples=100, deadline=None)
@given(seeds)
@example(60783922)  # it is locked, the sooner the fewer calls were made
def test_a_killed_run_repeats_only_the_calls_that_were_in_flight(seed: int) -> None:
    plan, text, script = case_of(seed)
    dice = random.Random(seed)
    host = CoreHost(plan, script, dice).begin(text)
    host.commit()  # the first entry is written with the run
    kills = 0

    def harm(host: CoreHost) -> None:
        nonlocal kills
        disturb(host)
        if kills < 3 and dice.random() < 0.1:
            kills += 1
            host.kill()

    host.run(harm)
    while host.log.state.status == "paused":
        host.core.request(Resumed(host.now()), object())
        host.run(harm)
    same(host, seed)
    if host.log.state.status == "completed" and not is_loop_agent(seed):  # as in `same`
        quiet = CoreHost(plan, script, random.Random(0)).begin(text).run()
        assert (Counter(host.started) - Counter(quiet.started)).keys() <= host.cut_off, "made again"


@settings(max_examples=60, deadline=None)
@given(seeds)
def test_request_is_settled_only_after_its_commit(seed: int) -> None:
    plan, text, script = case_of(seed)
    dice = random.Random(seed)
    host = CoreHost(plan, script, dice).begin(text)
    tokens: list[object] = []

    def ask(host: CoreHost) -> None:
        assert host.store is not None
        if dice.random() < 0.3:
            tokens.append(token := object())
            host.core.request(Paused("lunch", host.now()), token)
        if host.log.state.paused and dice.random() < 0.5:
            tokens.append(token := object())
            host.core.request(Resumed(host.now()), token)
        applied = [token for token, outcome in host.settled.items() if not outcome]
        facts = [entry.fact for entry in host.store.entries]
        assert len(applied) <= sum(isinstance(fact, (Paused, Resumed)) for fact in facts)

    host.run(ask)
    host.core.refuse_requests("the run is over")
    host._collect()
    assert set(host.settled) == set(tokens)


LINE = {
    "graph": {
        "nodes": [{"id": "A", "type": "agent"}, {"id": "B", "type": "agent"}],
        "edges": [{"from": "A", "to": "B"}],
        "start": "A",
        "end": "B",
    }
}
FORKED = {
    "graph": {
        "nodes": [{"id": name, "type": "agent"} for name in "ABCD"],
        "edges": [{"from": one, "to": other} for one, other in ("AB", "AC", "BD", "CD")],
        "start": "A",
        "end": "D",
    }
}
ASKING = {
    "graph": {
        "nodes": [{"id": "H", "type": "human"}, {"id": "A", "type": "agent"}],
        "edges": [{"from": "H", "to": "A"}],
        "start": ["H", "A"],
        "end": "A",
    }
}


def host_of(flow: Any, **options: Any) -> CoreHost:
    return CoreHost(plan_of(flow), {}, random.Random(1), **options).begin("go")


def test_effect_waits_for_the_commit_of_its_cause() -> None:
    host = host_of(LINE)
    assert host.core.next() is Action.COMMIT
    host.commit()
    assert getattr(host.core.next(), "address", "") == "A"
    assert host.core.is_alone()
    assert host.core.next() is Action.WAIT


def test_without_a_journal_nothing_is_committed() -> None:
    host = host_of(LINE, stored=False)
    assert getattr(host.core.next(), "address", "") == "A"


def test_control_request_is_applied_before_an_earlier_result() -> None:
    host = host_of(LINE, stored=False)
    host.core.next()
    host.finish_one()
    host.core.request(Paused("lunch", host.now()), "token")
    assert host.core.next() is Action.IDLE
    assert (host.log.state.status, host.started) == ("paused", [])
    assert [(settled.token, settled.outcome) for settled in host.core.settled] == [("token", "")]


def test_an_illegal_request_is_refused_with_the_reason() -> None:
    host = host_of(LINE, stored=False)
    host.core.request(Resumed(host.now()), "token")
    host.core.next()
    assert host.core.settled == [("token", "the run is not paused; it is running")]


def test_is_alone_is_false_for_concurrent_calls() -> None:
    host = host_of(FORKED, stored=False)
    host.core.next()
    assert host.core.is_alone()
    host.finish_one()
    assert [getattr(host.core.next(), "address", ""), host.core.is_alone()] == ["B", False]
    assert [getattr(host.core.next(), "address", ""), host.core.is_alone()] == ["C", False]


def test_a_result_that_follows_a_lone_call_starts_the_next_one() -> None:
    host = host_of(LINE, stored=False)
    call = host.core.next()
    assert host.core.follow_up(host.answer(call), "A") == host.core.in_flight["B"]  # type: ignore[arg-type]


@pytest.mark.parametrize("stored", [True, False])
def test_follow_up_path_matches_the_queued_path(stored: bool) -> None:
    for seed in range(60):
        plan, text, script = case_of(seed)
        host = CoreHost(plan, script, random.Random(seed), stored=stored).begin(text)
        action = host.core.next()
        while action is not Action.IDLE:
            if (
                not isinstance(action, Action)
                and host.core.is_alone()
                and action.address in host.core.in_flight
            ):
                following = host.core.follow_up(host.answer(action), action.address)
                if following is not None and host.log.has_uncommitted:
                    host.commit()
                action = following if following is not None else host.core.next()
                continue
            host.perform(action)
            action = host.core.next()
        same(host, seed)


def test_run_waits_when_only_human_input_is_pending() -> None:
    host = host_of(ASKING, person=True).run()
    assert (host.log.state.status, host.core.questions) == ("waiting", {"H"})
    assert not host.log.has_uncommitted
    host.core.request(Answered("H", Message("yes"), host.now()), "token")
    host.run()
    assert (host.log.state.status, host.settled["token"]) == ("completed", "")


def test_a_result_of_a_cancelled_effect_is_dropped() -> None:
    host = host_of(FORKED, stored=False)
    host.core.next()
    host.finish_one()
    host.core.next(), host.core.next()
    host.core.on_result(Finished("B", Outcome(), host.now()), "B")
    assert host.core.drop_effect("B") is False, "it has finished: there is nothing to cancel"
    assert host.core.drop_effect("C") is True
    assert host.core.next() is Action.IDLE


def test_long_chains_of_pure_nodes_yield_to_the_event_loop() -> None:
    nodes = [{"id": f"P{number}", "type": "passthrough"} for number in range(2 * MAX_CALLS_BEFORE_YIELD)]
    ids = [node["id"] for node in nodes]
    edges = [{"from": one, "to": other} for one, other in pairwise(ids)]
    host = host_of({"graph": {"nodes": nodes, "edges": edges, "start": ids[0], "end": ids[-1]}}, stored=False)
    assert host.core.next() is Action.YIELD


def test_interrupted_run_keeps_finished_results() -> None:
    host = host_of(FORKED)
    host.commit()
    host.core.next()
    host.finish_one()
    host.core.next()
    host.commit()
    host.core.next(), host.core.next()
    host.core.on_result(host.answer(host.core.in_flight["B"]), "B")
    host.core.leave_resumable("interrupted")
    host.commit()
    assert host.log.state.status == "paused"
    assert host.log.state.calls.keys() == {"C"}


def test_a_run_that_is_stopped_is_over() -> None:
    host = host_of(FORKED)
    host.commit()
    host.core.next()
    host.core.stop("enough")
    host.commit()
    assert (host.log.state.status, host.log.state.error) == ("stopped", "enough")
    assert host.store is not None
    assert isinstance(host.store.entries[-1].fact, Stopped)
