"""Names as labels: not any number of them."""

from __future__ import annotations

from roundel.kernel.events import Event
from roundel.telemetry.conventions import MAX_RUNS, LabelLimiter, RunRegistry
from tests.events import payload


def test_names_beyond_the_first_share_one_label() -> None:
    names = LabelLimiter(2)
    assert [names(name) for name in ("a", "b", "c", "a", "d")] == ["a", "b", "(other)", "a", "(other)"]


def test_registry_keeps_the_latest_runs() -> None:
    known = RunRegistry()
    for number in range(MAX_RUNS + 1):
        known.register(str(number), "polish")
    events = [
        Event(9, "end_not_reached", "", run_id, data=payload("end_not_reached")) for run_id in ("0", "1")
    ]
    assert [known.lookup(event) for event in events] == ["", "polish"]


def test_the_first_event_of_a_run_names_its_workflow() -> None:
    known = RunRegistry()
    started = Event(1, "run_started", "", "a", data=payload("run_started", workflow="polish"))
    assert known.lookup(started) == "polish"
    assert known.lookup(Event(2, "end_not_reached", "", "a")) == "polish"
