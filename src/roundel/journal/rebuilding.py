"""Rebuilds a run from its journal: from its last snapshot, and the entries that follow it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from roundel.journal.snapshots import restore
from roundel.journal.store import Store, StoreError
from roundel.kernel.decisions import DecisionMismatch
from roundel.kernel.events import Event
from roundel.kernel.facts import Entry, Fact
from roundel.kernel.state import Run
from roundel.kernel.step import IllegalFact, step
from roundel.plan.graph import Plan


async def rebuild(store: Store, run_id: str, plan: Plan, pending: Sequence[Entry] = ()) -> Run:
    """The run as its entries make it: those in the store, then those that are not written yet."""
    state, after = await restore(store, run_id, plan)
    entries = await store.entries(run_id, after)
    for _ in played(state, (*entries, *pending), run_id, after):
        pass
    return state


def played(
    state: Run, entries: Iterable[Entry], run_id: str, first: int = 0
) -> Iterator[tuple[Fact, list[Event]]]:
    """Replays entries one by one; StoreError where they do not fit the run."""
    for number, (fact, decisions) in enumerate(entries, first):
        try:
            yield fact, step(state, fact, decisions)[1]
        except (DecisionMismatch, IllegalFact) as error:
            raise StoreError(f"run {run_id} does not fit its workflow at fact {number}: {error}") from error
