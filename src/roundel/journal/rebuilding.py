"""Rebuilds a run from its journal: from its last snapshot, and the entries that follow it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from roundel.journal.store import Store, StoreError
from roundel.kernel.decisions import DecisionMismatch
from roundel.kernel.events import Event
from roundel.kernel.facts import Entry, Fact
from roundel.kernel.plan_index import PlanIndex
from roundel.kernel.snapshot import SnapshotError, thaw
from roundel.kernel.state import Run
from roundel.kernel.step import IllegalFact, step
from roundel.plan.graph import Plan


async def rebuild(store: Store, run_id: str, plan: Plan, pending: Sequence[Entry] = ()) -> Run:
    """The run as its entries make it: those in the store, then those that are not written yet."""
    state, after = await _from_snapshot(store, run_id, plan)
    entries = await store.entries(run_id, after)
    for _ in played(state, (*entries, *pending), run_id, after):
        pass
    return state


async def _from_snapshot(store: Store, run_id: str, plan: Plan) -> tuple[Run, int]:
    found = await store.snapshot(run_id)
    if found is not None:
        facts, body = found
        try:
            return thaw(body, PlanIndex(plan)), facts
        except SnapshotError:
            pass  # of another version, say: the facts are all there
    return Run(plan), 0


def played(
    state: Run, entries: Iterable[Entry], run_id: str, first: int = 0
) -> Iterator[tuple[Fact, list[Event]]]:
    """Replays entries one by one; StoreError where they do not fit the run."""
    for number, (fact, decisions) in enumerate(entries, first):
        try:
            yield fact, step(state, fact, decisions)[1]
        except (DecisionMismatch, IllegalFact) as error:
            raise StoreError(f"run {run_id} does not fit its workflow at fact {number}: {error}") from error
