"""Locks by a person and by time: what is in flight finishes, and nothing is lost."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from roundel.kernel.commands import Ask, Call
from roundel.kernel.facts import (
    Answered,
    CallRefused,
    Fact,
    Finished,
    Locked,
    Outcome,
    Paused,
    Resumed,
    Stopped,
    TimeUp,
    Unlocked,
    Waited,
    decode_entry,
)
from roundel.kernel.step import replay
from roundel.kernel.unlock import CHECKS
from roundel.nodes import TYPES
from roundel.plan.graph import Plan, compile_workflow
from roundel.workflow.loader import from_mapping
from roundel.workflow.message import Message
from tests.kernel.frozen import copied
from tests.kernel.simulator import Simulator
from tests.kernel.test_deadlines import START, Asked


def plan(*edges: tuple[str, str], start: Any = "A", **breaker: Any) -> Plan:
    nodes = [{"id": name, "type": "agent"} for name in "AB"] + [{"id": "Boss", "type": "human"}]
    graph = {
        "nodes": nodes,
        "edges": [{"from": one, "to": other} for one, other in edges],
        "start": start,
        "end": ["B", "A", "Boss"],
    }
    return compile_workflow(from_mapping({"breaker": breaker or True, "graph": graph}, TYPES))


def done(address: str, after: float) -> Finished:
    return Finished(address, Outcome((Message(f"by {address}"),)), START + after)


def locked(after: float, **fields: Any) -> Locked:
    return Locked("it looks wrong", "ann", START + after, **fields)


def unlocked(after: float) -> Unlocked:
    return Unlocked("it is right", "bo", CHECKS, START + after)


def test_a_person_locks_a_run_whose_calls_finish() -> None:
    run = Asked(plan(("A", "B")))
    run.give(locked(1))
    assert (run.run.status, run.named("breaker_tripped")) == (
        "running",
        [{"trigger": "manual", "state": "SUSPENDED_LOCKED", "reason": "it looks wrong", "by": "ann"}],
    )
    assert run.give(done("A", 2)) == []
    assert run.run.status == "suspended_locked"
    assert run.named("run_state_change")[-1]["reason"] == "a person locked it: it looks wrong"
    (call,) = run.give(unlocked(100))
    assert isinstance(call, Call) and call.address == "B"
    run.give(done("B", 101))
    assert (run.run.status, run.run.worked) == ("completed", 3)


def test_a_lock_during_the_last_call_holds_the_end_of_the_run() -> None:
    run = Asked(plan())
    run.give(locked(1), done("A", 2))
    assert run.run.status == "suspended_locked"
    run.run = copied(run.run, run.run.plan)
    run.give(unlocked(3))
    assert (run.run.status, run.run.summary()["output"]) == ("completed", "by A")


def test_questions_do_not_delay_a_lock_and_their_answers_are_kept() -> None:
    run = Asked(plan(("Boss", "B"), start="Boss"))
    run.give(Waited(START + 1), locked(2))
    assert run.run.status == "suspended_locked"
    assert run.give(Answered("Boss", Message("yes"), START + 50)) == []
    assert run.run.status == "suspended_locked"
    (call,) = run.give(unlocked(100))
    assert isinstance(call, Call) and call.inputs[0].text == "yes"
    assert run.run.worked == 1


def test_a_question_stays_open_after_the_unlock() -> None:
    run = Asked(plan(("Boss", "B"), start="Boss"))
    run.give(locked(2), unlocked(3))
    assert run.run.status == "running"
    assert isinstance(run.run.calls["Boss"].command, Ask)
    run.give(Answered("Boss", Message("yes"), START + 4))
    assert run.run.calls.keys() == {"B"}


@pytest.mark.parametrize("interrupt", [False, True])
def test_a_paused_run_can_be_locked_and_is_paused_after_the_unlock(interrupt: bool) -> None:
    run = Asked(plan(("A", "B")))
    run.give(Paused("lunch", START + 1, interrupt=interrupt))
    if not interrupt:
        run.give(done("A", 2))
    assert (run.run.status, run.run.lock) == ("paused", None)
    run.give(locked(3, abandoned=True))
    assert (run.run.status, run.run.paused) == ("suspended_locked", "lunch")
    assert run.give(unlocked(4)) == []
    assert (run.run.status, run.run.lock) == ("paused", None)
    run.give(Resumed(START + 5))
    assert (run.run.status, set(run.run.calls)) == ("running", {"A"} if interrupt else {"B"})


def test_a_run_that_no_host_executes_is_locked_at_once() -> None:
    run = Asked(plan(("A", "B")))
    run.give(locked(3600, abandoned=True))
    assert (run.run.status, run.run.worked, set(run.run.calls)) == ("suspended_locked", 0, {"A"})
    run.give(unlocked(7200))
    run.give(done("A", 7201), done("B", 7202))
    assert (run.run.status, run.run.worked) == ("completed", 2)


def test_a_person_may_lock_a_run_again_and_again() -> None:
    run = Asked(plan(("A", "B")))
    run.give(locked(1, abandoned=True), unlocked(2), locked(3, abandoned=True), unlocked(4))
    run.give(done("A", 5), done("B", 6))
    assert run.run.status == "completed"


REFUSED: list[tuple[list[Fact], Locked, str]] = [
    ([], Locked(" ", "ann", START + 1), "a reason is needed"),
    ([locked(1)], locked(2), "the run is locked already"),
    ([Stopped("enough", START + 1)], locked(2), "the run is not active"),
]


@pytest.mark.parametrize(("before", "fact", "reason"), REFUSED)
def test_locks_that_are_refused_change_nothing(before: list[Fact], fact: Locked, reason: str) -> None:
    run = Asked(plan())
    run.give(*before)
    assert run.refuses(fact) == reason


def test_time_is_up_while_a_call_is_in_flight() -> None:
    run = Asked(plan(("A", "B"), seconds=10))
    assert run.refuses(TimeUp(START + 9.9)) == "the working time is not used up"
    run.give(TimeUp(START + 10))
    assert run.named("breaker_tripped") == [
        {"trigger": "timeout", "state": "SUSPENDED_LOCKED", "address": "A", "seconds": 10.0, "limit": 10.0}
    ]
    assert "not used up" in run.refuses(TimeUp(START + 11))
    run.give(done("A", 100))
    assert run.run.status == "suspended_locked"
    run.give(unlocked(200))
    assert run.run.deadline == START + 200 + 10, "as much time again"


def test_time_is_not_up_while_only_people_are_asked() -> None:
    run = Asked(plan(("Boss", "B"), start="Boss", seconds=10))
    assert "not used up" in run.refuses(TimeUp(START + 1000))
    run.give(Answered("Boss", Message("yes"), START + 1000))
    assert "not used up" in run.refuses(TimeUp(START + 1009))
    run.give(TimeUp(START + 1010))
    assert run.run.lock is not None


def test_the_result_of_the_last_call_is_kept_when_time_is_up() -> None:
    run = Asked(plan(seconds=10))
    run.give(TimeUp(START + 10), done("A", 20))
    assert (run.run.status, run.run.output) == ("suspended_locked", None)
    run.give(unlocked(30))
    assert (run.run.status, run.run.summary()["output"]) == ("completed", "by A")


def test_a_locked_run_is_rebuilt_from_its_journal() -> None:
    simulated = Simulator(plan(("A", "B"), start=["A", "Boss"], seconds=10), {})
    simulated.start("go")
    simulated.apply(TimeUp(simulated.clock + 10))
    simulated.apply(Finished("A", Outcome((Message("x"),)), simulated.clock + 11))
    state, commands = replay(simulated.plan, map(decode_entry, simulated.journal))
    assert (state.status, [command.address for command in commands]) == ("suspended_locked", ["Boss"])


SHORTAGE = {
    "limit": 3,
    "what": "model_calls",
    "per": "per day",
    "scope": "group ada",
    "spent": 3,
    "reserved": 0,
    "wanted": 1,
}


def refused(address: str, after: float) -> CallRefused:
    return CallRefused(address, SHORTAGE, START + after)


def test_a_call_that_a_shared_limit_refuses_is_made_after_the_unlock() -> None:
    run = Asked(plan(("A", "B")))
    (before,) = run.commands
    assert run.give(refused("A", 1)) == []
    assert (run.run.status, str(run.run.lock)) == (
        "suspended_locked",
        "the limit of 3 model calls per day of group ada is reached",
    )
    assert run.named("breaker_tripped") == [
        {"trigger": "group_limit", "state": "SUSPENDED_LOCKED", "address": "A", **SHORTAGE}
    ]
    for again in range(2):  # the next day may be used up as well: no change is needed
        run.run = copied(run.run, run.run.plan)
        (call,) = run.give(unlocked(100 + again))
        assert isinstance(call, Call)
        assert msgspec.structs.replace(call, number=1) == before, "the same, with the same ordinal"
        assert call.number == again + 2, "it is another call of the model, for those who look"
        if not again:
            run.give(refused("A", 100))
    run.give(done("A", 102), done("B", 103))
    assert (run.run.status, run.run.worked) == ("completed", 3)


def test_calls_in_flight_finish_beside_one_that_is_refused() -> None:
    run = Asked(plan(start=["A", "B"]))
    run.give(refused("A", 1))
    assert (run.run.status, list(run.run.calls)) == ("running", ["B"]), "B may still finish"
    run.give(done("B", 2))
    assert (run.run.status, list(run.run.calls)) == ("suspended_locked", [])
    (call,) = run.give(unlocked(3))
    assert call.address == "A"
    run.give(done("A", 4))
    assert run.run.status == "completed"


def test_two_calls_that_are_refused_are_one_lock() -> None:
    run = Asked(plan(start=["A", "B"]))
    run.give(refused("A", 1), refused("B", 1))
    assert (run.run.status, len(run.named("breaker_tripped"))) == ("suspended_locked", 1)
    assert {call.address for call in run.give(unlocked(2))} == {"A", "B"}
    assert "no such call" in run.refuses(refused("Boss", 3))


def test_a_run_whose_call_was_refused_can_be_stopped() -> None:
    run = Asked(plan(("A", "B")))
    run.give(refused("A", 1), Stopped("enough", START + 2))
    assert run.run.status == "stopped"


def test_crashes_lock_a_run_at_the_calls_that_were_in_flight() -> None:
    run = Asked(plan(("A", "B"), ("Boss", "B"), start=["A", "Boss"]))
    crashed = Locked("crashes", "", START + 1, abandoned=True, crashes=3)
    run.give(crashed)
    assert (run.run.status, sorted(run.run.calls)) == ("suspended_locked", ["A", "Boss"])
    assert run.named("breaker_tripped") == [
        {
            "trigger": "crashes",
            "state": "SUSPENDED_LOCKED",
            "address": "A",
            "crashes": 3,
            "in_flight": ["A"],
        }
    ]
    # The cause may be repaired outside of the run, so a second unlock needs no change of the run.
    run.give(unlocked(2))
    run.give(msgspec.structs.replace(crashed, time=START + 3), unlocked(4))
    assert (run.run.status, sorted(run.run.calls)) == ("running", ["A", "Boss"])
    run.give(done("A", 5), Answered("Boss", Message("yes"), START + 6), done("B", 7))
    assert run.run.status == "completed"


def test_the_time_before_a_pause_of_a_run_that_waits_is_no_working_time() -> None:
    run = Asked(plan(("A", "Boss"), ("Boss", "B")))
    run.give(done("A", 2), Waited(START + 2))
    assert run.run.status == "waiting"
    run.give(Paused("", START + 1000, interrupt=True), Resumed(START + 2000))
    run.give(Answered("Boss", Message("yes"), START + 3000), done("B", 3001))
    assert (run.run.status, run.run.worked) == ("completed", 3)
