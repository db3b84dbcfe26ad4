"""Runs in a store: creating one, opening one again, reading its events.

Everything here works with what is stored with the run and nothing else: no file, no environment, no code.
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Callable

from msgspec import Struct

from roundel.hosts.engine import Inspection
from roundel.hosts.pinning import plan_of
from roundel.journal.chunks import pack
from roundel.journal.rebuilding import played, rebuild
from roundel.journal.run_journal import RunJournal
from roundel.journal.snapshots import restore
from roundel.journal.store import Chunk, NewRun, Pinned, Store
from roundel.kernel.events import Event
from roundel.kernel.fact_masking import KEPT, secrets_of
from roundel.kernel.facts import Entry, Reviews, Started, encode_entry
from roundel.kernel.state import Run
from roundel.kernel.step import step
from roundel.plan.graph import Plan
from roundel.workflow.message import Message

SHOWN_INPUT = 200
"""Characters of the input that lists of runs show."""


class Origin(Struct, frozen=True):
    """Where a fork comes from, and the entries that it begins with."""

    parent: str
    forked_at: str
    chunk: Chunk


def new_id() -> str:
    return os.urandom(6).hex()


async def create(
    store: Store,
    run_id: str,
    plan: Plan,
    pinned: Pinned,
    messages: tuple[Message, ...],
    *,
    origin: Origin | None = None,
    reviews: Reviews | None = None,
    now: Callable[[], float] = time.time,
) -> RunJournal:
    """A new run in the store, claimed. Its first entry is written together with it."""
    messages = secrets_of(plan).masked(messages, KEPT)
    text = messages[-1].text[:SHOWN_INPUT] if messages else ""
    if origin is not None:
        new = NewRun(run_id, plan.workflow.name, text, pinned, now(), origin.parent, origin.forked_at)
        return RunJournal(store, await store.create(new, origin.chunk))
    new = NewRun(run_id, plan.workflow.name, text, pinned, now())
    started = Started(run_id, messages, new.created, reviews or Reviews())
    # The entry holds the decisions of its step, so the step is taken here once, on a state of its own.
    first = Run(plan)
    step(first, started)
    entry = Entry(started, tuple(first.decisions.made))
    written = Chunk(1, pack([encode_entry(entry)]))
    return RunJournal(store, await store.create(new, written), entry)


async def open_run(store: Store, run_id: str, plan: Plan | None = None) -> Inspection:
    """A run as its entries make it; `plan` is its own, if the caller has made it already."""
    row, pinned = await store.row(run_id), await store.pinned(run_id)
    plan = plan or plan_of(pinned)
    return Inspection(plan, await rebuild(store, run_id, plan), pinned=pinned, row=row)


async def events_of(store: Store, run_id: str, *, after: int = 0) -> list[Event]:
    """The events of a run with a larger number than `after`, so far."""
    return [event async for event in follow(store, run_id, after=after, live=False)]


async def follow(store: Store, run_id: str, *, after: int = 0, live: bool = True) -> AsyncIterator[Event]:
    """The events of a run with a larger number than `after`: those that are stored, and then, if `live`, more
    as any process appends them, until the run is over. A pruned run has only those that were kept.

    Events are made from the entries by replaying them, from the last snapshot before `after` on: reading the
    end of a long run takes no longer than that of a short one."""
    kept = await store.kept(run_id)
    if kept is not None:
        for event in kept:
            if event.seq > after:
                yield event
        return
    plan = plan_of(await store.pinned(run_id))
    state, known = await restore(store, run_id, plan, after)
    position = 0
    while True:
        entries = await store.entries(run_id, known)
        for _, events in played(state, entries, run_id, known):
            for event in events:
                if event.seq > after:
                    yield event
        known += len(entries)
        if not live or state.over:
            return
        # The position is read after the entries the first time round, so this returns at once and the
        # entries are read again: an append in between is not missed.
        position = await store.wait_for_append(position)
