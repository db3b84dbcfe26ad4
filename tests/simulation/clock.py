"""The clocks of a simulated world.

`install` replaces `time.time` and `time.monotonic` for the whole process, and has to be called before
anything of Roundel is imported: many signatures there have `time.time` as a default. Everything therefore
reads the clocks of the world, whichever way it asks for the time.
"""

from __future__ import annotations

import time

EPOCH = 1_780_000_000.0
"""The wall clock of a world at its beginning."""


class Clock:
    """The time of one world. Only its event loops advance it."""

    def __init__(self) -> None:
        self.monotonic = 0.0
        self.offset = EPOCH
        """The wall clock minus the monotonic one. A jump of the wall clock changes it."""

    @property
    def wall(self) -> float:
        return self.monotonic + self.offset


_current = [Clock()]


def install() -> None:
    """Makes the clocks of Python those of the current world."""
    time.time = lambda: _current[0].wall
    time.monotonic = lambda: _current[0].monotonic


def use(clock: Clock) -> None:
    """Makes a clock the current one."""
    _current[0] = clock
