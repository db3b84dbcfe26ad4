"""Runs begun and opened again: with just what they were started with."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct

from roundel.journal.chunks import pack
from roundel.journal.rebuilding import played, rebuild
from roundel.journal.run_journal import RunJournal
from roundel.journal.store import Chunk, NewRun, Pinned, RunRow, Store, StoreError
from roundel.kernel.events import Event
from roundel.kernel.facts import Entry, Reviews, Started, encode_entry
from roundel.kernel.state import Run
from roundel.kernel.step import step
from roundel.llm.scripted import Script, script_from
from roundel.plan.graph import Plan, compile_workflow
from roundel.sessions.secrecy import keys_of, restored, without
from roundel.sources import Source, load
from roundel.workflow.diagnostics import WorkflowError
from roundel.workflow.file_access import AllowPaths, allowed_folders
from roundel.workflow.graph import PYTHON, Workflow
from roundel.workflow.grouping import grouped
from roundel.workflow.limiting import limited
from roundel.workflow.message import Message

SHOWN_INPUT = 200


class Opened(Struct, frozen=True):
    """A run as it is now."""

    row: RunRow
    pinned: Pinned
    plan: Plan
    script: Script | None
    state: Run


def pin(
    workflow: Workflow, script: Script | None = None, limits: Mapping[str, float] | None = None
) -> Pinned:
    """What has to be kept so that the run can go on in another process; no keys."""
    keys = keys_of(workflow)
    # Without its own text, those of the files that it uses would be taken for it.
    texts = workflow.texts if workflow.file or PYTHON in workflow.texts else {}
    files = {path: without(keys, text) for path, text in texts.items()}
    return Pinned(
        files,
        bool(workflow.functions) or not files,
        {name: without(keys, value) for name, value in workflow.variables.items()},
        dict(limits or {}),
        script.text if script is not None else "",
        workflow.memory.group_id,
        tuple(map(str, workflow.access.allowed)),
    )


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


def plan_of(
    pinned: Pinned,
    workflow: Source | None = None,
    limits: Mapping[str, float] | None = None,
    allow_paths: AllowPaths = (),
) -> Plan:
    """The plan that a run was started with, or that of another workflow; WorkflowError, StoreError.

    What the run was allowed to read it still is, and the other workflow too."""
    texts = None
    if workflow is None:
        if pinned.code:
            raise StoreError(
                "the run's workflow holds Python code; give the same workflow once more (workflow=)"
            )
        texts = {path: restored(text) for path, text in pinned.files.items()}
        path = next(iter(texts))
        workflow = json.loads(texts.pop(PYTHON)) if path == PYTHON else path
    variables = {name: restored(value) for name, value in pinned.variables.items()}
    allowed = (*map(Path, pinned.allow_paths), *allowed_folders(allow_paths))
    loaded = load(workflow, variables, texts, allow_paths=allowed)
    bounded = limited(loaded, _numbers({**pinned.limits, **(limits or {})}))
    return compile_workflow(grouped(bounded, pinned.group))


def _numbers(limits: Mapping[str, float]) -> dict[str, float]:
    """JSON may have made 2.0 of 2, which counts nothing."""
    return {name: int(limit) if limit == int(limit) else limit for name, limit in limits.items()}


async def open_run(store: Store, run_id: str, workflow: Source | None = None) -> Opened:
    """A run as its facts make it."""
    row, pinned = await store.row(run_id), await store.pinned(run_id)
    try:
        plan = plan_of(pinned, workflow)
    except WorkflowError as error:
        raise StoreError(f"run {run_id} cannot be opened: {error}") from error
    state = await rebuild(store, run_id, plan)
    script = script_from(pinned.script) if pinned.script else None
    return Opened(row, pinned, plan, script, state)


async def events_of(store: Store, run_id: str, workflow: Source | None = None) -> list[Event]:
    """Everything that was shown of a run, made again from its facts."""
    kept = await store.kept(run_id)
    if kept is not None:
        return kept
    plan = plan_of(await store.pinned(run_id), workflow)
    entries = await store.entries(run_id)
    return [event for _, events in played(Run(plan), entries, run_id) for event in events]
