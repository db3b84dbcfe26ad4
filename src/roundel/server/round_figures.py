"""The rounds of runs that somebody looks at, counted on from where the last request stopped.

A page asks for them again and again while a run goes on. Each answer needs all events of the run, and to read
10,000 of them takes a second in which nobody else is served; those that have come since take none.
"""

from __future__ import annotations

import asyncio

from roundel.runs.rounds import LoopRounds, RoundTally, count_events
from roundel.runs.runs import Runs

MAX_RUNS = 8
"""How many runs are kept: their tallies contain what their nodes returned."""


class RoundFigures:
    """The tallies of the runs that were asked for last."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._known: dict[str, _CountedRun] = {}

    async def loops(self, run_id: str, loop: str = "") -> list[LoopRounds]:
        """The loops of a run that is not pruned, with their rounds; or only the loop with this name."""
        known = self._known.pop(run_id, None) or _CountedRun(self._runs, run_id)
        self._known[run_id] = known
        if len(self._known) > MAX_RUNS:
            del self._known[next(iter(self._known))]
        return await known.loops(loop)

    def forget(self, run_id: str) -> None:
        self._known.pop(run_id, None)


class _CountedRun:
    """A run, and its tally up to an event."""

    def __init__(self, runs: Runs, run_id: str) -> None:
        self._runs, self._run_id = runs, run_id
        self._tally: RoundTally | None = None
        self._lock = asyncio.Lock()

    async def loops(self, loop: str) -> list[LoopRounds]:
        # A request that comes meanwhile waits, and then counts only what has come since.
        async with self._lock:
            if self._tally is None:
                plan = await self._runs.plan(self._run_id)
                self._tally = RoundTally(
                    {node.id for node in plan.sites if node.kind.speaks or node.kind.asks}
                )
            await count_events(self._runs.store, self._run_id, self._tally)
            return await asyncio.to_thread(self._tally.loops, loop)
