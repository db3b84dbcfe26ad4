"""Runs begun and opened again: with just what they were started with."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from msgspec import Struct

from roundel.journal.chunks import pack
from roundel.journal.rebuilding import played, rebuild
from roundel.journal.run_journal import RunJournal
from roundel.journal.snapshots import restore
from roundel.journal.store import Chunk, NewRun, Pinned, RunRow, Store
from roundel.kernel.events import Event
from roundel.kernel.fact_masking import KEPT, secrets_of
from roundel.kernel.facts import Entry, Reviews, Started, encode_entry
from roundel.kernel.state import Run
from roundel.kernel.step import step
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
    return Opened(row, plan, await rebuild(store, run_id, plan))


async def events_of(store: Store, run_id: str, *, after: int = 0) -> list[Event]:
    """The events of a run behind a number, rebuilt from its facts: those before the last snapshot at or
    before it are not replayed, so the end of a long run is read as quickly as that of a short one."""
    kept = await store.kept(run_id)
    if kept is not None:
        return [event for event in kept if event.seq > after]
    plan = plan_of(await store.pinned(run_id))
    state, known = await restore(store, run_id, plan, after)
    steps = played(state, await store.entries(run_id, known), run_id, known)
    return [event for _, events in steps for event in events if event.seq > after]
