"""What an engine remembers of the runs that it has executed, so that they continue without being given it
again.

A store contains a run, but neither the code of functions that were given in Python, nor secrets, nor what the
process attached: callbacks and middleware. An engine remembers these from the start of a run until the run is
completed or stopped. A failed run may be retried, so it is remembered, too.

An entry is small: it refers to functions that the program has anyway. The number of entries is bounded all
the same, because a run may also end in another process, of which this one learns nothing. If there are more
than MAX_REMEMBERED, the engine forgets the run that it has not executed for longest. To continue that run
takes what it takes in a new process.
"""

from __future__ import annotations

import msgspec

from roundel.hosts.engine import Attach, Attachment, RememberedRun
from roundel.hosts.unstored_parts import UnstoredParts
from roundel.kernel.events import OVER

MAX_REMEMBERED = 10_000
NEVER_CONTINUES = OVER - {"failed"}
"""Statuses of runs that need not be remembered. A failed run may be retried."""


class RememberedRuns:
    """The runs that an engine has executed and that may continue."""

    def __init__(self, limit: int = MAX_REMEMBERED) -> None:
        self._limit = limit
        self._runs: dict[str, RememberedRun] = {}
        """The one that was executed last at the end."""

    def __len__(self) -> int:
        return len(self._runs)

    def get(self, run_id: str) -> RememberedRun:
        """Empty for a run that is not remembered."""
        return self._runs.get(run_id, RememberedRun())

    def add(self, run_id: str, parts: UnstoredParts, attach: Attach) -> None:
        if isinstance(attach, Attachment) and attach.preparing is not None:
            attach = msgspec.structs.replace(attach, preparing=None)  # it can be entered once
        self.forget(run_id)
        self._runs[run_id] = RememberedRun(parts, attach)
        while len(self._runs) > self._limit:
            del self._runs[next(iter(self._runs))]

    def forget(self, run_id: str, status: str = "completed") -> None:
        """Forgets a run, unless it may continue from this status."""
        if status in NEVER_CONTINUES:
            self._runs.pop(run_id, None)

    def clear(self) -> None:
        self._runs.clear()
