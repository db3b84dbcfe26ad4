"""Runs begun and opened again: with just what they were started with."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator

from msgspec import Struct

from roundel.journal.chunks import pack
from roundel.journal.run_journal import RunJournal
from roundel.journal.store import Chunk, NewRun, Pinned, RunRow, Store, StoreError
from roundel.kernel.decisions import DecisionMismatch
from roundel.kernel.events import Event
from roundel.kernel.fact_masking import KEPT, secrets_of
from roundel.kernel.facts import Entry, Fact, Reviews, Started, encode_entry
from roundel.kernel.plan_index import PlanIndex
from roundel.kernel.snapshot import SnapshotError, thaw
from roundel.kernel.state import Run
from roundel.kernel.step import IllegalFact, step
from roundel.plan.graph import Plan
from roundel.sessions.pinning import plan_of
from roundel.workflow.message import Message

SHOWN_INPUT = 200


class Opened(Struct, frozen=True):
    """A run as it is now."""

    row: RunRow
    plan: Plan
    state: Run


async def begin(
    store: Store,
    run_id: str,
    plan: Plan,
    pinned: Pinned,
    messages: tuple[Message, ...],
    *,
    parent: str = "",
    forked_at: str = "",
    chunk: Chunk | None = None,
    reviews: Reviews | None = None,
    now: Callable[[], float] = time.time,
) -> RunJournal:
    """A new run in the store, claimed; what it begins with is there from the first moment on."""
    messages = secrets_of(plan).masked(messages, KEPT)
    text = messages[-1].text[:SHOWN_INPUT] if messages else ""
    new = NewRun(run_id, plan.workflow.name, text, pinned, now(), parent, forked_at)
    if chunk is not None:
        return RunJournal(store, await store.create(new, chunk))
    started = Started(run_id, messages, new.created, reviews or Reviews())
    # It is written before the run takes its first step, so the step is made here to know its decisions.
    first = Run(plan)
    step(first, started)
    entry = Entry(started, tuple(first.decisions.made))
    written = Chunk(1, pack([encode_entry(entry)]))
    return RunJournal(store, await store.create(new, written), entry)


def new_id() -> str:
    return os.urandom(6).hex()


async def open_run(store: Store, run_id: str, plan: Plan | None = None) -> Opened:
    """A run as its facts make it; `plan` is its own, if the caller has made it already."""
    row = await store.row(run_id)
    plan = plan or plan_of(await store.pinned(run_id))
    state, after = await _from_snapshot(store, run_id, plan)
    for _ in played(state, await store.entries(run_id, after), run_id, after):
        pass
    return Opened(row, plan, state)


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
    state: Run, entries: list[Entry], run_id: str, first: int = 0
) -> Iterator[tuple[Fact, list[Event]]]:
    """Tells a run what happened, fact by fact; StoreError where they do not fit it."""
    for number, (fact, decisions) in enumerate(entries, first):
        try:
            yield fact, step(state, fact, decisions)[1]
        except (DecisionMismatch, IllegalFact) as error:
            raise StoreError(f"run {run_id} does not fit its workflow at fact {number}: {error}") from error


async def events_of(store: Store, run_id: str) -> list[Event]:
    """Everything that was shown of a run, made again from its facts."""
    kept = await store.kept(run_id)
    if kept is not None:
        return kept
    plan = plan_of(await store.pinned(run_id))
    entries = await store.entries(run_id)
    return [event for _, events in played(Run(plan), entries, run_id) for event in events]
