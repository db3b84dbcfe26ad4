"""How reliably the breaker separates dead from live loops; `python -m bench breaker` prints the
figures."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.breaker.dead import REPEATS, VARIATIONS, Kind, dead
from tests.breaker.lively import made_up
from tests.breaker.revisions import revisions
from tests.breaker.series import Series, first_trip


def test_revisions_of_real_files_do_not_trip_the_breaker() -> None:
    series = list(revisions())
    assert len(series) >= 1000
    assert [one[:2] for one in series if first_trip(one) is not None] == []
    assert min(Counter(one.kind for one in series).values()) >= 50


def test_generated_progress_does_not_trip_the_breaker() -> None:
    series = list(made_up())
    assert len(series) >= 500
    assert [one[:2] for one in series if first_trip(one) is not None] == []


def caught(series: list[Series], rounds: int) -> float:
    """The share that trips at most so many rounds after the first one that repeats anything."""
    return sum((first_trip(one) or 99) <= one.first + rounds for one in series) / len(series)


@pytest.mark.parametrize("speakers", [(1,), (2, 3)])
def test_plain_repetitions_are_detected_by_the_second_round(speakers: tuple[int, ...]) -> None:
    series = list(dead(REPEATS, speakers))
    assert [one[:2] for one in series if (first_trip(one) or 99) > one.first + 2] == []


@pytest.mark.parametrize(
    ("speakers", "second", "fourth"), [((1,), 0.9, 0.98), ((2, 3), 0.95, 0.98)], ids=["one", "several"]
)
def test_varied_repetitions_are_detected(speakers: tuple[int, ...], second: float, fourth: float) -> None:
    series = list(dead(VARIATIONS, speakers))
    assert caught(series, 2) >= second
    assert caught(series, 4) >= fourth


@pytest.mark.parametrize("kind", [*REPEATS, *VARIATIONS], ids=lambda kind: kind.__name__)
def test_breaker_does_not_trip_before_a_repetition(kind: Kind) -> None:
    for one in dead((kind,), (1, 2)):
        assert (first_trip(one) or 99) > one.first
