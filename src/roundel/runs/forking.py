"""A new run from any point of an old one, with other limits, another message or another workflow."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from roundel.hosts.pinning import pin, plan_of, plan_of_another, secrets_at_hand
from roundel.hosts.stored_run import Origin, create, new_id
from roundel.journal.chunks import pack
from roundel.journal.store import Chunk, Pinned, Store, StoreError
from roundel.kernel.events import Event
from roundel.kernel.fact_masking import secrets_of
from roundel.kernel.facts import Edited, Entry, Started, Stopped, encode_entry
from roundel.kernel.state import Run
from roundel.kernel.step import IllegalFact, step
from roundel.llm.scripted import Script
from roundel.nodes.sources import Source
from roundel.plan.graph import Plan
from roundel.runs.rerun import Difference, Rerun
from roundel.workflow.file_access import AllowPaths
from roundel.workflow.message import Message


async def fork(
    store: Store,
    run_id: str,
    at: str = "",
    *,
    workflow: Source | None = None,
    limits: Mapping[str, float] | None = None,
    message: str | None = None,
    script: Script | None = None,
    allow_paths: AllowPaths = (),
) -> str:
    """The id of the new run, which nobody is at work on yet.

    `at` is an address: the new run begins where the old one came to it, before it ran. Without it, it begins
    where the old one is now."""
    pinned = await store.pinned(run_id)
    entries = _without_end(await store.entries(run_id))
    before = plan_of(pinned)
    changed = workflow is not None or bool(limits)
    plan = plan_of_another(pinned, workflow, limits, allow_paths) if changed else before
    made = new_id()
    state, new_entries = _played(before, entries, plan, made, at, changed)
    if message is not None:
        said = Message(secrets_of(plan).mask(secrets_at_hand(pinned).mask(message)))
        edited = Edited(_call_at(state, at), said, max(time.time(), new_entries[-1].fact.time))
        try:
            step(state, edited)
        except IllegalFact:
            raise StoreError(
                f"'{edited.address}' has done its work, and no message of it can be changed; "
                "say where the new run is to begin (--at ADDRESS)"
            ) from None
        new_entries.append(Entry(edited, tuple(state.decisions.made)))
    if state.over:
        raise StoreError(f"run {run_id} is over; say where the new one is to begin (--at ADDRESS)")
    lines = [encode_entry(entry) for entry in new_entries]
    new_pinned = _pinned(pinned, plan if changed else None, limits, script)
    origin = Origin(run_id, at, Chunk(len(lines), pack(lines)))
    journal = await create(store, made, plan, new_pinned, state.input, origin=origin)
    try:
        await journal.commit(state)
    finally:
        await journal.close()
    return made


async def replay(
    store: Store,
    run_id: str,
    workflow: Source | None = None,
    limits: Mapping[str, float] | None = None,
    allow_paths: AllowPaths = (),
) -> Difference | None:
    """Where the run would first have gone another way; None if it would not."""
    pinned = await store.pinned(run_id)
    now = plan_of_another(pinned, workflow, limits, allow_paths)
    rerun = Rerun(plan_of(pinned), await store.entries(run_id), now)
    rerun.play()
    return rerun.difference


def _without_end(entries: list[Entry]) -> list[Entry]:
    """A stopped run goes on, in its fork, from before it was stopped."""
    return [entry for entry in entries if not isinstance(entry.fact, Stopped)]


def _played(
    before: Plan, entries: list[Entry], plan: Plan, run_id: str, at: str, changed: bool
) -> tuple[Run, list[Entry]]:
    comes_up = _comes_up(at) if at else (lambda _events: False)
    if changed:
        rerun = Rerun(before, entries, plan, run_id)
        found, state, new_entries = rerun.play(comes_up), rerun.state, rerun.entries
    else:
        found, state, new_entries = False, Run(plan), []
        for fact, decisions in entries:
            own = msgspec.structs.replace(fact, run_id=run_id) if isinstance(fact, Started) else fact
            events = step(state, own, decisions)[1]
            new_entries.append(Entry(own, tuple(state.decisions.made)))
            if comes_up(events):
                found = True
                break
    if at and not found:
        raise StoreError(f"the run never came to '{at}'; `roundel log RUN` shows its addresses")
    return state, new_entries


def _comes_up(at: str) -> Callable[[list[Event]], bool]:
    def holds(events: list[Event]) -> bool:
        return any(
            event.address == at
            and (event.event in ("loop_round", "tool_call") or event.data.get("status") == "running")
            for event in events
        )

    return holds


def _call_at(state: Run, at: str) -> str:
    """The call that a changed message is for."""
    there = [address for address in state.calls if not at or address == at or address.startswith(f"{at}/")]
    if len(there) == 1:
        return there[0]
    if not there:
        raise StoreError(f"nothing is asked at '{at}' whose message could be changed")
    raise StoreError(f"the message could be for {', '.join(sorted(there))}; say which (--at ADDRESS)")


def _pinned(
    pinned: Pinned, changed: Plan | None, limits: Mapping[str, float] | None, script: Script | None
) -> Pinned:
    changes: dict[str, Any] = {"limits": {**pinned.limits, **(limits or {})}}
    if script is not None:
        changes["script"] = script.text
    if changed is not None:
        changes["workflow"] = pin(changed).workflow
    return msgspec.structs.replace(pinned, **changes)
