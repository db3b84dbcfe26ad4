"""The views of runs that somebody looks at, continued from where the last request stopped.

A page asks for the rounds of a run again and again while it goes on. Each answer needs all events of the
run, and to read 10,000 of them takes a second; those that have come since take none. The answers are made and
encoded in a thread, and the figures of rounds once for all pages of an answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

from roundel.journal.store import RunRow
from roundel.runs.rounds import LoopRounds, RoundTally, count_events
from roundel.runs.runs import Runs
from roundel.runs.view import ViewSnapshot

T = TypeVar("T")
MAX_RUNS = 8
"""How many runs are kept: their views contain what their nodes returned."""
MAX_EXECUTIONS = 300_000
"""How many executions they may have together; the run that was asked for last is kept in any case."""


class ViewCache:
    """The views of the runs that were asked for last."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._known: dict[str, _ViewedRun] = {}

    async def rounds(self, row: RunRow, loop: str, encode: Callable[[Sequence[LoopRounds]], T]) -> T:
        """What `encode` makes, in a thread, of the loops of a run, or of the loop with this name."""
        return await self._read(row, lambda run, tally: encode(run.figures(tally, loop)))

    async def view(self, row: RunRow, encode: Callable[[ViewSnapshot], T]) -> T:
        """What `encode` makes, in a thread, of the view of a run."""
        return await self._read(row, lambda _, tally: encode(tally.fold.snapshot()))

    async def _read(self, row: RunRow, answer: Callable[[_ViewedRun, RoundTally], T]) -> T:
        known = self._known.pop(row.id, None)
        if known is None or known.pruned != row.pruned:  # pruning has removed events that it contains
            known = _ViewedRun(row.pruned)
        self._known[row.id] = known
        # A request that comes meanwhile waits, and then reads only what has come since. The thread ends
        # before the lock is released: answers share parts with the view.
        async with known.lock:
            if known.tally is None:
                known.tally = await self._runs.tally(row.id)
            await count_events(self._runs.store, row.id, known.tally)
            answered = await asyncio.to_thread(answer, known, known.tally)
        self._shrink()
        return answered

    def _shrink(self) -> None:
        while len(self._known) > 1 and (
            len(self._known) > MAX_RUNS or sum(each.size for each in self._known.values()) > MAX_EXECUTIONS
        ):
            del self._known[next(iter(self._known))]


class _ViewedRun:
    """A run, and its view up to an event."""

    def __init__(self, pruned: str) -> None:
        self.pruned = pruned
        self.tally: RoundTally | None = None
        self.lock = asyncio.Lock()
        self._figures: dict[str, list[LoopRounds]] = {}
        """Those at the event `_seq`, by the name of the loop that was asked for."""
        self._seq = 0

    @property
    def size(self) -> int:
        return self.tally.fold.size if self.tally is not None else 0

    def figures(self, tally: RoundTally, loop: str) -> list[LoopRounds]:
        if tally.seq != self._seq:
            self._figures, self._seq = {}, tally.seq
        figures = self._figures.get(loop)
        if figures is None:
            figures = tally.loops(loop)
            if figures:  # else a client could fill the memory with names of loops
                self._figures[loop] = figures
        return figures
