"""The rounds of runs that somebody looks at, counted on from where the last request stopped.

A page asks for them again and again while a run goes on. Each answer needs all events of the run, and to read
10,000 of them takes a second; those that have come since take none. The figures themselves are computed and
encoded in a thread, once for all pages of an answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from roundel.runs.rounds import LoopRounds, RoundTally, count_events
from roundel.runs.runs import Runs

MAX_RUNS = 8
"""How many runs are kept: their tallies contain what their nodes returned."""
MAX_ROUNDS = 100_000
"""How many rounds they may have together; the run that was asked for last is kept in any case."""
Encode = Callable[[Sequence[LoopRounds]], bytes]


class RoundFigures:
    """The tallies of the runs that were asked for last."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._known: dict[str, _CountedRun] = {}

    async def read(self, run_id: str, loop: str, encode: Encode) -> bytes:
        """What `encode` makes, in a thread, of the loops of a run that is not pruned, or of the loop with
        this name."""
        known = self._known.pop(run_id, None) or _CountedRun(self._runs, run_id)
        self._known[run_id] = known
        encoded = await known.read(loop, encode)
        while len(self._known) > 1 and (
            len(self._known) > MAX_RUNS or sum(each.rounds for each in self._known.values()) > MAX_ROUNDS
        ):
            del self._known[next(iter(self._known))]
        return encoded

    def forget(self, run_id: str) -> None:
        self._known.pop(run_id, None)


class _CountedRun:
    """A run, and its tally up to an event."""

    def __init__(self, runs: Runs, run_id: str) -> None:
        self._runs, self._run_id = runs, run_id
        self._tally: RoundTally | None = None
        self._figures: dict[str, list[LoopRounds]] = {}
        """Those at the event `_seq`, by the name of the loop that was asked for."""
        self._seq = 0
        self._lock = asyncio.Lock()

    @property
    def rounds(self) -> int:
        return self._tally.rounds if self._tally is not None else 0

    async def read(self, loop: str, encode: Encode) -> bytes:
        # A request that comes meanwhile waits, and then counts only what has come since. The thread ends
        # before the lock is released: figures share texts with the tally.
        async with self._lock:
            if self._tally is None:
                plan = await self._runs.plan(self._run_id)
                self._tally = RoundTally(
                    {node.id for node in plan.sites if node.kind.speaks or node.kind.asks}
                )
            await count_events(self._runs.store, self._run_id, self._tally)
            return await asyncio.to_thread(self._encoded, self._tally, loop, encode)

    def _encoded(self, tally: RoundTally, loop: str, encode: Encode) -> bytes:
        if tally.seq != self._seq:
            self._figures, self._seq = {}, tally.seq
        figures = self._figures.get(loop)
        if figures is None:
            figures = tally.loops(loop)
            if figures:  # else a client could fill the memory with names of loops
                self._figures[loop] = figures
        return encode(figures)
