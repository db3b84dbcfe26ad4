"""Known defects, each of which the simulation has to find when it is put back: `--defect NAME`.

Each function undoes the repair of one defect. A simulation that does not notice has become too kind to be of
use.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from roundel.hosts import local
from roundel.hosts.clock import SteadyClock
from roundel.hosts.control import Resume
from roundel.hosts.core import HostCore
from roundel.hosts.local import LocalEngine
from roundel.kernel import step
from roundel.kernel.facts import Paused
from roundel.kernel.state import Run
from roundel.server import supervisor
from roundel.server.supervisor import Supervisor
from roundel.server.worker_pool import WorkerPool


def poison() -> None:
    """A run that kills its process is resumed for ever."""
    local.MAX_CRASHES = sys.maxsize


def stranded() -> None:
    """A run that could not be resumed, since the disk was full, is not tried again."""
    supervisor.SHORTEST_WAIT = supervisor.LONGEST_WAIT = supervisor.FORGOTTEN_AFTER = float("inf")
    tried = Supervisor._note_attempt

    def note(self: Supervisor, row: Any, error: Exception | None = None) -> None:
        if error is not None:
            tried(self, row, error)

    Supervisor._note_attempt = note  # type: ignore[method-assign]


def jumping_clock() -> None:
    """The wall clock measures working time."""

    def now(self: SteadyClock) -> float:
        self._ahead = max(self._ahead, self._wall() - self._elapsed())
        return self._elapsed() + self._ahead

    SteadyClock.now = now  # type: ignore[method-assign]


def idle_time() -> None:
    """The time before a pause of a run that waits for people is working time."""
    paused = step._paused

    def pause(run: Run, fact: Any) -> None:
        since, started, deadline = run.since, run.started_at, run.deadline
        paused(run, fact)
        if run.since != since:
            run.started_at, run.deadline = started, deadline

    step._HANDLERS[Paused] = pause


def lost_pause() -> None:
    """A pause is lost if it comes while the run is taken over, or together with an answer."""
    HostCore._has_begun_nothing = lambda self: False  # type: ignore[method-assign]
    supervisor.Resume = lambda if_interrupted: Resume()  # type: ignore[misc, assignment, attr-defined]

    async def is_pausing(self: LocalEngine, claim: Any) -> bool:
        return False

    LocalEngine._is_pausing = is_pausing  # type: ignore[method-assign]


def dead_workers() -> None:
    """A worker process that has died keeps its place in the pool."""
    WorkerPool._replace = lambda self, one: None  # type: ignore[method-assign]


DEFECTS: dict[str, Callable[[], None]] = {
    made.__name__: made for made in (poison, stranded, jumping_clock, idle_time, lost_pause, dead_workers)
}
