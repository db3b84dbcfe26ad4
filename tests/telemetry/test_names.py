"""Names as labels: not any number of them."""

from __future__ import annotations

from roundel.telemetry.names import MOST_RUNS, Names, Workflows


def test_the_first_names_stay_and_all_further_ones_are_the_same() -> None:
    names = Names(2)
    assert [names(name) for name in ("a", "b", "c", "a", "d")] == ["a", "b", "(other)", "a", "(other)"]


def test_of_many_runs_the_latest_are_known() -> None:
    workflows = Workflows()
    for number in range(MOST_RUNS + 1):
        workflows.note(str(number), "polish")
    assert (workflows.of("0"), workflows.of("1")) == ("", "polish")
