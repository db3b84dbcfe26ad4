"""The clock of a run: steady while a process executes the run, and near the wall clock.

A run needs two things of a clock. Limits in seconds count working time, which a wall clock cannot measure: it
jumps when it is set, when a laptop wakes up, and when a virtual machine is resumed. Deadlines of people and
the times of events are times of the wall. A run has one time, in its facts, so `SteadyClock` brings the two
together:

    now()       the time of the next fact. It follows the monotonic clock, so that the difference between two
                readings is time that this machine has spent.
    lag()       by how many seconds it is behind the wall clock. Deadlines of people are judged by the sum.
    is_behind   whether the lag exceeds TOLERANCE, as `now()` has last seen: it looks at the wall clock only
                now and then, since a step of a run takes microseconds.
    catch_up()  moves `now()` to the wall clock, and returns by how much. The core does so when the clock is
                behind, and records it as the fact `ClockMoved`: the kernel does not count these seconds as
                working time (docs/decisions/0052).

If the wall clock is set back, or is behind the last fact, the time of the run goes on from where it was: a
deadline must not wait until the wall clock is there again, and the times of events never go back.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

TOLERANCE = 1.0
"""The lag in seconds that a run ignores, so that small corrections of the wall clock leave no facts."""
LOOK_EVERY = 0.01
"""Seconds between two looks at the wall clock."""


class RunClock(Protocol):
    is_behind: bool

    def now(self) -> float: ...

    def lag(self) -> float: ...

    def catch_up(self) -> float: ...


class SteadyClock:
    """The clock of a run, made of the two clocks of a machine. `last` is the time of the run's last fact,
    perhaps of another machine. The clock begins at the time of the wall, or at `last` if `begins_at_last`:
    what has passed since is then a lag, so that it does not count as working time."""

    __slots__ = ("_ahead", "_elapsed", "_look_at", "_wall", "is_behind")

    def __init__(
        self,
        last: float = 0.0,
        wall: Callable[[], float] = time.time,
        elapsed: Callable[[], float] = time.monotonic,
        *,
        begins_at_last: bool = False,
    ) -> None:
        self._wall, self._elapsed = wall, elapsed
        self._ahead = (last if begins_at_last else max(wall(), last)) - elapsed()
        """What the time of the run is ahead of the monotonic clock."""
        self._look_at = 0.0
        self.is_behind = False

    def now(self) -> float:
        elapsed = self._elapsed()
        if elapsed >= self._look_at:
            self.is_behind = self._wall() - elapsed - self._ahead > TOLERANCE
            self._look_at = elapsed + LOOK_EVERY
        return elapsed + self._ahead

    def lag(self) -> float:
        lag = self._wall() - self._elapsed() - self._ahead
        return lag if lag > 0 else 0.0

    def catch_up(self) -> float:
        lag = self.lag()
        self._ahead += lag
        self.is_behind = False
        return lag


class GivenClock:
    """A clock that the caller of a run has given: what it says is working time. It never goes back, since the
    order of events and limits in seconds depend on that."""

    __slots__ = ("_given", "_last", "is_behind")

    def __init__(self, given: Callable[[], float], last: float = 0.0) -> None:
        self._given, self._last, self.is_behind = given, last, False

    def now(self) -> float:
        read = self._given()
        if read > self._last:  # noqa: PLR1730 (called with each fact, and `max` takes longer)
            self._last = read
        return self._last

    def lag(self) -> float:
        return 0.0

    def catch_up(self) -> float:
        return 0.0
