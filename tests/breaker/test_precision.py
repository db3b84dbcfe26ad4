"""How reliably the breaker separates dead from live loops; `python -m bench breaker` prints the
figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from tests.breaker.dead import EXACT, REORDERED, VARIED, Kind, dead
from tests.breaker.lively import made_up
from tests.breaker.moving import moving
from tests.breaker.repetition import repetitions
from tests.breaker.revisions import revisions
from tests.breaker.series import Series, first_trip
from tests.breaker.unseen import unseen

Source = Callable[[], Iterator[Series]]
CAPPED_SINCE = 13
"""The first round in which a live loop that only its cap bounds may be locked."""


def locked(series: list[Series], *, proved: bool) -> list[tuple[str, str]]:
    return [(one.kind, one.name) for one in series if first_trip(one, proved=proved) is not None]


def test_revisions_of_real_files_do_not_trip_the_breaker() -> None:
    series = list(revisions())
    assert len(series) >= 1000
    assert locked(series, proved=False) == []
    assert min(Counter(one.kind for one in series).values()) >= 50


def test_generated_progress_does_not_trip_the_breaker() -> None:
    series = list(made_up())
    assert len(series) >= 500
    assert locked(series, proved=False) == []


@pytest.mark.parametrize("source", [moving, unseen], ids=["moving", "unseen"])
def test_live_loops_with_a_proved_bound_are_never_locked(source: Source) -> None:
    series = list(source())
    long = [one for one in series if 15 <= len(one.rounds) <= 25]
    assert len(series) >= 800 and len(long) >= len(series) / 3
    assert locked(series, proved=True) == []


@pytest.mark.parametrize("source", [moving, unseen], ids=["moving", "unseen"])
def test_other_live_loops_are_not_locked_soon(source: Source) -> None:
    trips = [first_trip(one) for one in source()]
    assert [trip for trip in trips if trip is not None and trip < CAPPED_SINCE] == []
    assert sum(trip is not None for trip in trips) / len(trips) < 0.07


def test_exact_repetitions_are_locked_at_once() -> None:
    """By the second round that repeats anything, or with the third message that does."""
    late = []
    for one in [*repetitions(), *dead(EXACT, (1, 2, 3))]:
        speakers = len({speaker for messages in one.rounds for speaker, _ in messages})
        if first_trip(one, proved=True) != one.first + (2 if speakers == 1 else 1):
            late.append(one[:2])
    assert late == []


def test_other_orders_are_locked_later() -> None:
    trips = [(first_trip(one, proved=True) or 99) - one.first for one in dead(REORDERED, (1, 2, 3))]
    assert min(trips) == 5
    assert sum(trip <= 8 for trip in trips) / len(trips) >= 0.9


def test_variations_are_locked_much_later_and_only_without_a_bound() -> None:
    series = list(dead(VARIED, (1, 2, 3)))
    trips = [(first_trip(one) or 99) - one.first for one in series]
    assert sum(trip <= 13 for trip in trips) / len(trips) >= 0.7


@pytest.mark.parametrize("kind", [*EXACT, *REORDERED, *VARIED], ids=lambda kind: kind.__name__)
def test_breaker_does_not_trip_before_a_repetition(kind: Kind) -> None:
    for one in dead((kind,), (1, 2)):
        assert (first_trip(one) or 99) > one.first
