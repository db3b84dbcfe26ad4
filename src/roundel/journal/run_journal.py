"""The journal of one run while it is at work: gathers facts, commits them together, takes snapshots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from roundel.journal.chunks import pack
from roundel.journal.rebuilding import rebuild
from roundel.journal.snapshots import Snapshots
from roundel.journal.store import Chunk, Claim, Store
from roundel.kernel.fact_masking import KEPT
from roundel.kernel.facts import Entry, Fact, decode_entry, decode_fact, encode_fact, with_decisions
from roundel.kernel.state import Run
from roundel.plan.graph import Plan
from roundel.workflow.secrets import Secrets

MOST_PENDING = 500
"""Pure nodes alone ask for no commit; this many facts do."""


class RunJournal:
    def __init__(self, store: Store, claim: Claim, started: Entry | None = None) -> None:
        self.store = store
        self.claim = claim
        self.started = started
        """What the run begins with; it is written already."""
        self._first = claim.facts
        self._lines: list[bytes] = []
        self._status = ""
        self._snapshots = Snapshots(store, claim)

    def add(self, fact: Fact, secrets: Secrets | None = None) -> Fact:
        """The fact as it will be read again, which is what the run has to get: then a run that is resumed
        after a crash knows just what it would have known without it. ValueError if it cannot be written.

        The fact is written without these secrets."""
        try:
            line = encode_fact(fact)
            if secrets is not None and secrets.found_in(line):
                line = encode_fact(secrets.masked(fact, KEPT))
            read = decode_fact(line)
        except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
            raise ValueError(f"it cannot be written as JSON: {error}") from error
        self._lines.append(line)
        return read

    def add_decisions(self, decisions: Sequence[Any]) -> None:
        """What the step decided that the last fact caused."""
        if decisions:
            self._lines[-1] = with_decisions(self._lines[-1], decisions)

    def take_back(self) -> None:
        """The last fact was not true."""
        self._lines.pop()

    async def rebuild(self, plan: Plan) -> Run:
        """The run as its facts make it, those included that are not written yet."""
        return await rebuild(
            self.store, self.claim.run_id, plan, [decode_entry(line) for line in self._lines]
        )

    @property
    def full(self) -> bool:
        return len(self._lines) >= MOST_PENDING

    async def commit(self, run: Run, quiet: bool = False) -> None:
        """Everything so far is safe when this returns. `quiet`: the run has nothing at work."""
        if not self._lines and run.status == self._status:
            return
        lines, self._lines = self._lines, []
        chunk = Chunk(len(lines), pack(lines))
        summary = None if run.status == "running" else run.summary()
        # Counted before it is written: the caller may be cancelled while it waits, and then adds that the run
        # was stopped. If the chunk cannot be written, the store accepts nothing that follows it either.
        first, status = self._first, run.status
        self._first += chunk.count
        await self.store.append(self.claim, first, chunk, status, summary, quiet)
        self._status = status
        self._snapshots.count(chunk)
        # The state must not be ahead of the facts that were written.
        if self._snapshots.due and not self._lines:
            await self._snapshots.take(run, self._first)

    async def close(self) -> None:
        """Others may go on with the run."""
        await self.store.release(self.claim)
