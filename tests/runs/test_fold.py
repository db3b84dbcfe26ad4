"""The fold from events to a view, over random runs and over events of its own."""

from __future__ import annotations

import os
from collections import Counter
from random import Random
from typing import Any

import msgspec
import pytest

from roundel.kernel.events import Event
from roundel.kernel.payloads import NO_USAGE, RoundFinished, RunFinished, RunStateChanged
from roundel.runs.fold import RunFold, SequenceGap
from roundel.runs.view import ViewedLoop, ViewedRound, ViewSnapshot
from tests.events import event_of
from tests.kernel.test_rounds import MAKERS, Rough

CASES = int(os.environ.get("ROUNDEL_FOLD_CASES", "40"))


def fold(events: list[Event]) -> RunFold:
    folded = RunFold()
    for event in events:
        folded.apply(event)
    return folded


def encoded(view: ViewSnapshot) -> bytes:
    return msgspec.json.encode(view, enc_hook=repr)


def rounds_of(view: ViewSnapshot) -> dict[str, ViewedRound]:
    return {one.address: one for loop in view.loops for one in loop.rounds}


def kernel_name(loop: ViewedLoop) -> str:
    """The name of a loop in `run_finished`. A node that repeats by itself, and at which a loop of edges is
    entered, is a second loop of that name."""
    is_second = loop.is_node and bool(loop.path) and loop.path[-1].loop == loop.loop
    return f"{loop.loop}.{loop.loop}" if is_second else loop.loop


def check_end(view: ViewSnapshot, data: RunFinished) -> None:
    """Compares the view with what the kernel says at the end of a run."""
    assert view.usage == data.usage
    for name, totals in data.loops.items():
        entered = [one for one in view.loops if kernel_name(one) == name]
        assert sum(len(one.rounds) for one in entered) == totals.rounds, name
        # One that was about to begin its first round has no event yet.
        assert len(entered) == totals.entries or (
            data.status != "completed" and len(entered) < totals.entries
        )
        ways = {(one.exit.reason, one.best) for one in entered if one.exit is not None}
        assert (totals.exit_reason, totals.best) in (ways or {("", None)}), name
    assert {kernel_name(one) for one in view.loops} <= set(data.loops)
    ran = Counter(one.node_id for one in view.executions.values() if one.starts)
    assert dict(ran) == data.nodes
    assert (view.status, view.output, view.error) == (data.status, data.output, data.error or "")
    assert not view.questions


def follow(events: list[Event], dice: Random) -> RunFold:
    """Folds events, and compares what rounds have used with what they say in the end."""
    folded = RunFold()
    for event in events:
        data = event.data
        if isinstance(data, RoundFinished):
            open_round = rounds_of(folded.snapshot())[event.address or ""]
            assert open_round.status == "running"
            assert open_round.usage == data.usage, event.address
        folded.apply(event)
        if dice.random() < 0.02:
            folded.snapshot()
        if isinstance(data, RunFinished):
            check_end(folded.snapshot(), data)
    return folded


@pytest.mark.parametrize("kind", list(MAKERS))
@pytest.mark.parametrize("is_rough", [False, True])
def test_a_view_says_what_the_kernel_says(kind: str, is_rough: bool) -> None:
    for seed in range(CASES):
        case, functions = MAKERS[kind](seed)
        run = Rough(case, seed, functions)
        if is_rough:
            run.go(case[1])
        else:
            run.start(case[1]).finish()
        try:
            whole = follow(run.events, Random(seed)).snapshot()
            assert whole == fold(run.events).snapshot()
            assert msgspec.json.decode(encoded(whole), type=ViewSnapshot) == whole
            if whole.status == "completed":
                assert not whole.active
                assert {one.status for one in rounds_of(whole).values()} <= {
                    "completed",
                    "failed",
                    "cancelled",
                }
        except AssertionError as error:
            raise AssertionError(f"{kind} {seed}: {error}") from error


@pytest.mark.parametrize("kind", list(MAKERS))
def test_a_restored_fold_continues(kind: str) -> None:
    for seed in range(CASES):
        case, functions = MAKERS[kind](seed)
        events = Rough(case, seed, functions).go(case[1]).events
        whole, at = fold(events).snapshot(), Random(seed).randrange(len(events))
        sent = msgspec.json.decode(encoded(fold(events[:at]).snapshot()), type=ViewSnapshot)
        later = RunFold.restore(sent)
        for event in events[at:]:
            later.apply(event)
        assert encoded(later.snapshot()) == encoded(whole), f"{kind} {seed} at {at}"


def test_parts_that_do_not_change_stay_the_same() -> None:
    case, functions = MAKERS["loop_agents"](3)
    events = Rough(case, 3, functions).go(case[1]).events
    folded, kept, before = RunFold(), 0, ViewSnapshot(0)
    for event in events:
        folded.apply(event)
        view = folded.snapshot()
        assert folded.snapshot() is view
        for address, one in view.executions.items():
            same = before.executions.get(address)
            assert (one is same) == (one == same), address
            kept += one is same
        known = rounds_of(before)
        for address, each in rounds_of(view).items():
            assert (each is known.get(address)) == (each == known.get(address)), address
        before = view
    assert kept > len(events)


def test_a_snapshot_never_changes() -> None:
    case, functions = MAKERS["failures"](5)
    events = Rough(case, 5, functions).go(case[1]).events
    folded, seen = RunFold(), []
    for event in events:
        folded.apply(event)
        seen.append((folded.snapshot(), encoded(folded.snapshot())))
    assert all(encoded(view) == text for view, text in seen)


def test_a_gap_is_an_error() -> None:
    folded = fold([event_of("run_started", 1, workflow="tea")])
    with pytest.raises(SequenceGap, match="event 3 came where 2 was expected"):
        folded.apply(event_of("warning", 3, message="late"))
    assert folded.seq == 1
    pruned = RunFold(is_pruned=True)
    pruned.apply(event_of("warning", 7, message="what is left"))
    assert pruned.snapshot().seq == 7 and pruned.snapshot().warnings[0].text == "what is left"


def in_round(number: int, kind: str, **data: Any) -> Event:
    return event_of(kind, number, "Writer", "W[1]/Writer", **data)


OPEN = [
    event_of("run_started", 1),
    event_of("loop_round", 2, "W", "W[1]", loop="W", round=1),
    in_round(3, "node_state_change", status="running"),
]


def status_after(*events: Event) -> tuple[str, bool]:
    one = rounds_of(fold([*OPEN, *events]).snapshot())["W[1]"]
    return one.status, one.cut_off


def test_the_end_of_a_run_ends_its_rounds() -> None:
    stopped = event_of("run_finished", 4, status="stopped")
    assert status_after(stopped) == ("stopped", True)
    failure = in_round(4, "node_state_change", status="failed", error="no", type="error")
    failed = event_of("run_finished", 5, status="failed")
    assert status_after(failure, failed) == ("failed", True)
    retried = event_of("run_state_change", 6, status="running", cause="retry")
    assert status_after(failure, failed, retried) == ("running", False)
    again = in_round(7, "node_state_change", status="running", retried=True)
    end = event_of("run_finished", 8, status="stopped")
    assert status_after(failure, failed, retried, again, end) == ("stopped", True)


def test_rounds_of_earlier_versions_have_no_end() -> None:
    usage = {"status": "completed", "call": 0, "input_tokens": 3, "output_tokens": 4}
    said = in_round(5, "node_state_change", status="completed", output="tea")
    view = fold(
        [*OPEN, in_round(4, "model_call", **usage), said, event_of("run_finished", 6, status="completed")]
    ).snapshot()
    one = rounds_of(view)["W[1]"]
    assert (one.status, one.usage.output_tokens, one.executions) == ("completed", 4, ("W[1]/Writer",))
    (call,) = view.executions["W[1]/Writer"].calls
    assert (call.status, call.started, call.input_tokens) == ("completed", "", 3)


def test_a_retried_answer_replaces_its_text() -> None:
    folded = fold(OPEN)
    for attempt, offset, text in [(1, 0, "one "), (1, 4, "two"), (2, 0, "ONE"), (1, 7, " three")]:
        folded.apply(in_round(0, "token_stream", text=text, attempt=attempt, offset=offset))
    assert folded.snapshot().executions["W[1]/Writer"].streamed == "ONE"
    folded.apply(in_round(4, "node_state_change", status="completed", output="whole"))
    assert folded.snapshot().executions["W[1]/Writer"].streamed == ""


def test_a_call_in_flight_shows_what_it_waits_for() -> None:
    folded = fold([*OPEN, in_round(4, "model_call", status="running", call=1, purpose="answer", ordinal=0)])
    folded.apply(in_round(0, "call_sent", call=1, attempt=1, of=5, model="openai:o"))
    wait = {"cause": "retry", "seconds": 20.0, "until": "later", "attempt": 1, "of": 5, "error": "429"}
    folded.apply(in_round(0, "call_waiting", call=1, **wait))
    (call,) = folded.snapshot().executions["W[1]/Writer"].calls
    assert (call.model, call.of) == ("openai:o", 5) and call.waits is not None and call.waits.seconds == 20
    folded.apply(in_round(0, "call_sent", call=1, attempt=2, of=5, model="openai:o"))
    (call,) = folded.snapshot().executions["W[1]/Writer"].calls
    assert (call.attempt, call.waits) == (2, None)
    folded.apply(in_round(5, "model_call", status="failed", call=1, purpose="answer", error="429"))
    (call,) = folded.snapshot().executions["W[1]/Writer"].calls
    assert (call.status, call.error, call.attempt) == ("failed", "429", 0)


def test_the_nearest_limits_are_those_that_the_run_tells() -> None:
    folded = fold(OPEN)
    told = event_of("run_progress", 0, active=["Writer"])
    folded.apply(told)
    view = folded.snapshot()
    assert view.progress is told.data and view.seq == 3
    assert msgspec.json.decode(encoded(view), type=ViewSnapshot) == view


def test_an_unused_round_costs_nothing() -> None:
    assert rounds_of(fold(OPEN).snapshot())["W[1]"].usage is NO_USAGE
    assert isinstance(event_of("run_state_change", status="running").data, RunStateChanged)
