"""The time of a run, which never goes back."""

from __future__ import annotations

from collections.abc import Callable


def steady(clock: Callable[[], float], last: float = 0.0) -> Callable[[], float]:
    """A clock that stands still where the given one goes back."""

    def now() -> float:
        nonlocal last
        last = max(last, clock())
        return last

    return now
