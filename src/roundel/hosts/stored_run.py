"""Runs in a store: what is stored when one starts, the plan that is made of it again, and reading its
events.

*Pinned.* A run stores the workflow as the loader made it, with variables resolved and subgraphs
included, and the version of the semantics. It does not store the texts of the files: each reader would
load them again, with the rules of its own version, the environment of its own machine and the user's
modules. Nor the compiled plan, which is larger, changes with every optimisation, and follows from the
workflow.

*Reading* a run needs what is stored and nothing else: no file, no environment, no code. So a server or a
second host can read runs that it did not start, and what happened does not depend on who looks.

*Resuming* a run also needs its secrets and the code of its functions. Secrets come from the environment,
from `.env` beside the workflow file, or from that file itself as long as it still defines the same
workflow. Functions are found by their names, or given again.

*Events* are not stored. They are made from the entries by replaying them from the nearest snapshot.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from roundel.hosts.engine import Inspection, RunSpec
from roundel.hosts.live_events import LiveEvents
from roundel.hosts.unstored_parts import NO_PARTS, UnstoredParts, given_secrets
from roundel.journal.run_journal import Replay, RunJournal, pack, rebuild, restore_state, row_progress
from roundel.journal.spending import RunsAtOnce
from roundel.journal.store import Chunk, NewRun, Pinned, RunRow, Store, StoreError
from roundel.kernel.events import Event, is_over
from roundel.kernel.facts import (
    UNMASKED_FIELDS,
    Entry,
    Fact,
    InterceptPoints,
    Revised,
    Started,
    decode_entry,
    encode_entry,
    mask_fact,
    secrets_of,
)
from roundel.kernel.state import Run
from roundel.kernel.step import step
from roundel.llm.script import ALL_RIGHTS, Script, script_from
from roundel.nodes import TYPES
from roundel.nodes.loading import Source, check, load_plan
from roundel.plan.graph import SEMANTICS, Plan, compile_workflow
from roundel.plan.model_choice import with_model
from roundel.plan.overrides import LimitValue, LimitValues, with_limits
from roundel.workflow.document import AllowPaths, FileAccess, resolve_folders
from roundel.workflow.encoding import EncodingError, decode_workflow, encode_workflow
from roundel.workflow.graph import Workflow, with_default_model, with_group
from roundel.workflow.message import Message
from roundel.workflow.secrets import SecretMasker
from roundel.workflow.variables import InheritedVariables, read_dotenv


def pin(plan: Plan, script: Script | None = None, limits: LimitValues | None = None) -> Pinned:
    """What is stored with a run, without secrets; StoreError if its workflow contains what cannot be
    stored."""
    # Cached with the plan: a process that starts many runs of one workflow encodes it once.
    plan._encoded = plan._encoded or _encoded(plan.workflow)
    replies = secrets_of(plan).mask(script.text) if script is not None else ""
    rights = script.rights if script is not None else None
    return Pinned(plan._encoded, plan.semantics, dict(limits or {}), replies, rights)


def _encoded(workflow: Workflow) -> str:
    if workflow.file:  # absolute: a process in another folder may resume it, and needs its functions
        workflow = replace(workflow, file=str(Path(workflow.file).resolve()))
    try:
        return encode_workflow(workflow)
    except EncodingError as error:
        raise StoreError(f"the run cannot be stored, since its workflow cannot: {error}") from error


def decode_pinned(pinned: Pinned, environment: Mapping[str, str] | None = None) -> Workflow:
    """The workflow of a run, with its secrets from the environment; StoreError if it cannot be read here."""
    if not 0 <= pinned.semantics <= SEMANTICS:
        raise StoreError(
            f"the run follows version {pinned.semantics} of the semantics, and this version of roundel knows "
            f"0 to {SEMANTICS}; read it with the version that wrote it"
        )
    try:
        return decode_workflow(pinned.workflow, TYPES, environment)
    except EncodingError as error:
        raise StoreError(
            f"another development version of roundel stored this run's workflow: {error}; read it with that "
            "version, or start the run again"
        ) from error


def pinned_plan(pinned: Pinned) -> Plan:
    """The plan of a run, to read it: without secrets, files and code."""
    return compile_workflow(decode_pinned(pinned), pinned.semantics)


def available_secrets(pinned: Pinned, parts: UnstoredParts = NO_PARTS) -> SecretMasker:
    """The secrets of a run, as far as the environment or this process has them, and those of the environment
    itself. For what is written to a run from outside of its host, such as a control request."""
    return secrets_of(compile_workflow(decode_pinned(pinned, parts.complete(os.environ))))


def plan_to_resume(pinned: Pinned, source: Source | None = None, parts: UnstoredParts = NO_PARTS) -> Plan:
    """The plan of a run, to resume it: with its secrets, and with the functions of `source`, which is the
    workflow that it was started with, or those that are remembered (`parts`). StoreError if a secret is
    missing that a model might need."""
    original = decode_pinned(pinned)
    reloaded = _reload_workflow(pinned, original, source)
    found = _unchanged_secrets(pinned, original, reloaded)
    dotenv_values = read_dotenv(Path(original.file).parent / ".env") if original.file else {}
    # The environment wins over `.env`, and both over the file: a rotated key is set there. Only what was
    # given for this run wins over the environment.
    environment = parts.complete({**found, **dotenv_values, **os.environ})
    environment |= {name: value for name, value in given_secrets(source).items() if name in found}
    missing = [name for name in original.secrets if name not in environment]
    if missing and not pinned.script:  # a scripted run calls no model, so it needs no key
        raise StoreError(
            "secrets are not stored with a run, and the environment lacks some of this one's: set "
            f"{', '.join(missing)}"
        )
    workflow = decode_pinned(pinned, environment)
    # Only the functions of the given workflow are used, and of these only the ones that the run knows.
    # All else is as it was stored, whatever the file says today.
    code = reloaded.functions if source is not None and reloaded is not None else {}
    functions = {name: code.get(name) or parts.functions.get(name) for name in workflow.functions}
    workflow = replace(workflow, functions=functions)
    return compile_workflow(workflow, pinned.semantics)


def _reload_workflow(pinned: Pinned, original: Workflow, source: Source | None) -> Workflow | None:
    """The workflow that the run was started with, loaded once more; None if its file is gone or has become
    unsound. WorkflowError if one was given and is not sound."""
    allowed, variables = original.access.allowed, InheritedVariables(original.variables)
    if source is None:
        if not original.secrets or not original.file:
            return None
        workflow, report = check(original.file, variables, allow_paths=allowed)
        if workflow is None or not report.ok:
            return None
    else:
        workflow = load_plan(source, variables, allow_paths=allowed).workflow
    limited = with_limits(workflow, _with_whole_numbers(pinned.limits), inherited=True)
    return with_default_model(with_group(limited, original.memory.group_id), original.default_model)


def _unchanged_secrets(pinned: Pinned, original: Workflow, reloaded: Workflow | None) -> dict[str, str]:
    """The secrets that a workflow file contains itself, if the file still defines the stored workflow.
    Values of variables that were given for the run are lost: they are neither stored nor in the file."""
    if reloaded is None:
        return {}
    if not is_same_definition(pinned, reloaded):
        return {}
    return {name: value for name, value in reloaded.secrets.items() if value != original.secrets.get(name)}


def is_same_definition(pinned: Pinned, workflow: Workflow) -> bool:
    """Whether a workflow does the same as the stored one, apart from the code of its functions. Neither
    locations in files nor the path of the file take part: the same file may have another path now."""
    # The stored workflow has references to secrets, so it is decoded with the secrets of the other one.
    stored = decode_pinned(pinned, workflow.secrets)
    return replace(stored, **_NO_DEFINITION) == replace(workflow, **_NO_DEFINITION)


_NO_DEFINITION: dict[str, Any] = {
    "functions": {},
    "file": "",
    "access": FileAccess(),
    "variables": {},
    "secrets": {},
}
"""The fields of a workflow that say where it comes from, not what it does."""


def changed_plan(
    pinned: Pinned,
    source: Source | None,
    limits: LimitValues | None = None,
    variables: Mapping[str, Any] | None = None,
    allow_paths: AllowPaths = (),
    parts: UnstoredParts = NO_PARTS,
) -> Plan:
    """The plan for a fork or a replay of a run with another workflow, other limits or other variables.
    WorkflowError if the workflow is invalid, or lacks one of the variables.

    It has the variables, the limits, the memory group and the chosen model of the run, except for those that
    are given, and may read what the run may read. Variables are replaced when a workflow is loaded, so other
    ones need its source: the file that the run was started from, if none is given."""
    original = decode_pinned(pinned, parts.complete(os.environ))
    if variables:
        source = _source_with_placeholders(original, source)
    if source is None:
        return compile_workflow(_with_own_limits(decode_pinned(pinned), pinned, limits), pinned.semantics)
    allowed = (*original.access.allowed, *resolve_folders(allow_paths))
    values = InheritedVariables(original.variables, variables or {})
    loaded = load_plan(source, values, allow_paths=allowed)
    limited = _with_own_limits(loaded.workflow, pinned, limits)
    plan = compile_workflow(with_group(limited, original.memory.group_id), pinned.semantics)
    plan.warnings = loaded.warnings
    return with_model(plan, original.default_model)


def _with_own_limits(workflow: Workflow, pinned: Pinned, limits: LimitValues | None) -> Workflow:
    """The workflow with the limits of the old run, as far as it has the loops and nodes that they are for,
    and then those that were given now."""
    inherited = with_limits(workflow, _with_whole_numbers(pinned.limits), inherited=True)
    return with_limits(inherited, _with_whole_numbers(limits or {}))


def _source_with_placeholders(original: Workflow, source: Source | None) -> Source:
    """What to load a run's workflow from with other variables."""
    if source is not None:
        return source
    if not original.file:
        raise StoreError(
            "the run was not started from a file, and its stored workflow has no variables, because they "
            "were replaced when it was loaded; pass the workflow again (in Python: workflow=)"
        )
    if not Path(original.file).is_file():
        raise StoreError(
            f"the run was started from {original.file}, which no longer exists, and its stored workflow has "
            "no variables, because they were replaced when it was loaded; pass the file (--workflow FILE)"
        )
    return original.file


def _with_whole_numbers(limits: LimitValues) -> dict[str, LimitValue]:
    """Limits with integers where possible: they are stored as floats, and a limit that counts rounds has
    to be an integer again."""
    return {
        name: int(limit) if isinstance(limit, (int, float)) and limit % 1 == 0 else limit
        for name, limit in limits.items()
    }


INPUT_PREVIEW_LENGTH = 200
"""Characters of the input that lists of runs show."""


class Origin(Struct, frozen=True):
    """Where a fork comes from, and the entries that it begins with. Created by runs/forking.py."""

    parent: str
    forked_at: str
    chunks: tuple[Chunk, ...]


def new_run_id() -> str:
    return os.urandom(6).hex()


def first_fact(
    new: RunSpec, run_id: str, messages: tuple[Message, ...], time: float, intercepts: InterceptPoints
) -> Started:
    """The fact with which a new run starts."""
    return Started(
        run_id,
        messages,
        time,
        intercepts,
        new.breakpoints,
        new.paused,
        new.plan.workflow.default_model,
        new.by,
        new.saved_as,
        new.workflow_version,
        limits=new.limits,
    )


async def create(
    store: Store,
    run_id: str,
    spec: RunSpec,
    pinned: Pinned,
    *,
    origin: Origin | None = None,
    intercepts: InterceptPoints | None = None,
    room: Sequence[RunsAtOnce] = (),
    now: Callable[[], float] = time.time,
) -> RunJournal:
    """Creates a run in the store and claims it. Its first entry is part of the same transaction: a crash
    leaves a run that can be resumed, or none. Its group is that of the workflow's memory, unless one is
    given."""
    plan = spec.plan
    messages = secrets_of(plan).mask_value(spec.messages, UNMASKED_FIELDS)
    text = messages[-1].text[:INPUT_PREVIEW_LENGTH] if messages else ""
    new = NewRun(
        run_id,
        plan.workflow.name,
        text,
        pinned,
        now(),
        group=plan.workflow.memory.group_id if spec.group is None else spec.group,
        started_by=spec.started_by,
        saved_as=spec.saved_as,
        workflow_version=spec.workflow_version,
    )
    if origin is not None:
        forked = replace(new, parent=origin.parent, forked_at=origin.forked_at)
        return RunJournal(store, await store.create(forked, *origin.chunks, room=room))
    begun = first_fact(spec, run_id, messages, new.created, intercepts or InterceptPoints())
    started = mask_fact(begun, secrets_of(plan))
    # The entry contains the decisions of its step, so the step is made here once, on a state of its own.
    # The host makes it again on its own state, with these decisions (LocalRun.run).
    first = Run(plan)
    step(first, started)
    entry = Entry(started, tuple(first.decisions.made))
    written = Chunk(1, pack([encode_entry(entry)]), first.seq)
    new = replace(new, progress=row_progress(first))
    return RunJournal(store, await store.create(new, written, room=room), entry)


async def open_run(store: Store, run_id: str, plan_of: Callable[[Pinned], Plan] = pinned_plan) -> Inspection:
    """Rebuilds the state of a run from its entries. `plan_of` makes the plan of a run from what is
    stored: to read it, or with everything that executing it needs."""
    row, pinned = await store.row(run_id), await store.pinned(run_id)
    replay = await rebuild(
        store, run_id, plan_of(pinned), plan_of=lambda revised: plan_of(apply_revision(pinned, revised))
    )
    if replay.revised is not None:
        pinned = apply_revision(pinned, replay.revised)
    return Inspection(replay.state.plan, replay.state, pinned=pinned, row=row)


def apply_revision(pinned: Pinned, revised: Revised) -> Pinned:
    """What a run is executed with after it was retried with changes."""
    return replace(
        pinned,
        workflow=revised.workflow,
        limits=revised.limits,
        script=revised.script,
        script_rights=revised.script_rights,
    )


def pinned_script(pinned: Pinned, row: RunRow) -> Script | None:
    """The script of a stored run. One that a caller of a server gave before scripts had rights has none: the
    role of the caller was not stored."""
    if not pinned.script:
        return None
    before = () if row.started_by else ALL_RIGHTS
    rights = before if pinned.script_rights is None else pinned.script_rights
    return script_from(pinned.script).with_rights(rights)


async def current_history(store: Store, run_id: str) -> tuple[Pinned, list[Entry]]:
    """What a run is executed with, and the entries that count: since the last retry with changes, which
    contains those before it."""
    pinned, entries = await store.pinned(run_id), await store.entries(run_id)
    return await asyncio.to_thread(_since_revision, pinned, entries)


def _since_revision(pinned: Pinned, entries: list[Entry]) -> tuple[Pinned, list[Entry]]:
    for number, entry in reversed(list(enumerate(entries))):
        if isinstance(entry.fact, Revised):
            kept = [decode_entry(line.encode()) for line in entry.fact.entries]
            return apply_revision(pinned, entry.fact), [*kept, *entries[number + 1 :]]
    return pinned, entries


PAGE = 32
"""Entries that a reader of a run reads at once."""


class StoredReplay:
    """The replay of a stored run, from the last snapshot at or before an event on. Created by
    `start_replay`."""

    def __init__(self, store: Store, run_id: str, replay: Replay, known: int) -> None:
        self._store, self._run_id, self._replay = store, run_id, replay
        self.known = known
        """How many facts were applied."""

    @property
    def state(self) -> Run:
        return self._replay.state

    async def stored(self) -> AsyncGenerator[tuple[Fact, list[Event]]]:
        """The facts that are there now, each with the events that it caused.

        They may be many, and many may read them at the same time, some of whom stop in the middle for as long
        as they like (a client that does not read). They are read in pages, so that none of them has the rest
        of the run in memory, and other tasks run between two pages."""
        there = (await self._store.row(self._run_id)).facts
        while self.known < there:
            page = range(self.known, min(self.known + PAGE, there))
            found = await self._store.entries_at(self._run_id, page)
            for pair in self._replay.apply((found[number] for number in page), self.known):
                yield pair
            self.known = page.stop
            # A store in memory answers at once, and would not let others run.
            await asyncio.sleep(0)

    async def new(self) -> AsyncGenerator[tuple[Fact, list[Event]]]:
        """The facts that have come since, in one piece: they are few."""
        entries = await self._store.entries(self._run_id, self.known)
        for pair in self._replay.apply(entries, self.known):
            yield pair
        self.known += len(entries)


async def start_replay(store: Store, run_id: str, after: int = 0) -> StoredReplay:
    """A replay whose state is that of the last snapshot at or before an event."""
    pinned = await store.pinned(run_id)
    state, known = await restore_state(store, run_id, pinned_plan(pinned), after)
    replay = Replay(state, run_id, lambda fact: pinned_plan(apply_revision(pinned, fact)))
    return StoredReplay(store, run_id, replay, known)


async def read_events(store: Store, run_id: str, *, after: int = 0) -> list[Event]:
    """The events of a run with a larger number than `after`, so far."""
    return [event async for event in follow(store, run_id, after=after, live=False)]


async def follow(
    store: Store, run_id: str, *, after: int = 0, live: bool = True, own: LiveEvents | None = None
) -> AsyncGenerator[Event]:
    """The events of a run with a larger number than `after`: those that are stored, and then, if `live`,
    more as any process appends them, until the run is over. A pruned run has only those that the pruning
    left. `own` is what an engine of this process hands over: transient events come between the stored
    ones, where they belong.

    Events are made from the entries by replaying them from the last snapshot before `after` on, so
    reading the end of a long run takes no longer than that of a short one: the last 10 of 100,005 events
    take 3 ms. What an engine of this process has committed meanwhile is not made again."""
    kept = await store.kept(run_id)
    if kept is not None:
        for event in kept:
            if event.seq > after:
                yield event
        return
    reader = _Follower(store, run_id, after, own if own is not None else LiveEvents())
    async with aclosing(reader.follow() if live else reader.read()) as events:
        async for event in events:
            yield event


async def replay_steps(
    store: Store, run_id: str, *, after: int = 0
) -> AsyncGenerator[tuple[float | None, list[Event]]]:
    """The stored events with a larger number than `after`, those of each step together, with the seconds that
    the run had worked by then (`Run.worked`); None for a pruned run, of which that is not known."""
    kept = await store.kept(run_id)
    if kept is not None:
        yield None, [event for event in kept if event.seq > after]
        return
    replay = await start_replay(store, run_id, after)
    async with aclosing(replay.stored()) as stored:
        async for _, events in stored:
            yield replay.state.worked, [event for event in events if event.seq > after]


class _Follower:
    """One reader of one run that is not pruned."""

    def __init__(self, store: Store, run_id: str, after: int, own: LiveEvents) -> None:
        self._store, self._run_id, self._after, self._own = store, run_id, after, own
        self._reached = after
        """The number of the last event that it has seen."""
        self._position = 0
        """Every append to the run up to this position has been seen."""
        self._replay: StoredReplay | None = None
        """The state at `_reached`; None until something has to be read from the store."""
        self._is_over = self._has_gap = False
        self._waiting: asyncio.Future[int | None] | None = None
        """The wait for the next append, which continues while commits of this process are taken."""

    async def read(self) -> AsyncGenerator[Event]:
        """What is in the store and was not seen yet."""
        self._has_gap = False
        if self._replay is None:
            self._replay = await start_replay(self._store, self._run_id, self._reached)
            found = self._replay.stored()
        else:
            found = self._replay.new()
        async with aclosing(found) as steps:
            async for _, events in steps:
                for event in self._shown(events):
                    yield event
        self._reached, self._is_over = self._replay.state.seq, self._replay.state.over

    def _shown(self, events: list[Event]) -> Iterator[Event]:
        """Those of them that were not seen yet, with the transient events before them."""
        for event in events:
            if event.seq > self._reached:
                self._reached = event.seq
                if event.seq > self._after:
                    yield from self._own.take(event.seq)
                    yield event

    async def follow(self) -> AsyncGenerator[Event]:
        # Read before the rest: an append that comes in between ends the first wait.
        self._position = await self._store.wait_for_append(-1, self._run_id)
        must_read = await self._has_unseen()
        try:
            while True:
                if must_read:
                    async with aclosing(self.read()) as events:
                        async for event in events:
                            yield event
                if self._is_over:
                    return
                told = self._waiting = self._waiting or asyncio.ensure_future(self._next_append())
                while not (told.done() or self._own.has_commits):
                    for event in self._own.take(max(self._after, self._reached) + 1):
                        yield event
                    await self._own.wait(told)
                if told.done():
                    self._waiting = None
                    await self._own.settled()
                for event in self._take_commits():
                    yield event
                must_read = self._has_gap or (told.done() and self._is_unknown(told.result()))
        finally:  # the reader may leave at each `yield`
            if self._waiting is not None:
                self._waiting.cancel()
                await asyncio.gather(self._waiting, return_exceptions=True)

    async def _has_unseen(self) -> bool:
        """Whether the store has events behind those that were seen, as far as that is known without a
        replay."""
        row = await self._store.row(self._run_id)
        newest = await self._store.last_event(self._run_id)
        if newest is None or newest > self._after or (row.status == "running" and not row.owner):
            return True
        self._reached, self._is_over = newest, is_over(row.status)
        return False

    async def _next_append(self) -> int | None:
        """The position of an append after those that were seen; None if the run has no facts any more."""
        after = self._position
        found = await self._store.wait_for_append(after, self._run_id)
        return found if found > after else None

    def _take_commits(self) -> Iterator[Event]:
        """What was committed here, as far as it continues what was seen."""
        for committed in self._own.take_commits():
            events = committed.events
            if events and events[0].seq > self._reached + 1:
                self._has_gap = True
                continue
            self._position = max(self._position, committed.position)
            if events and events[-1].seq > self._reached:
                self._replay = None  # its state is older now
                self._is_over = committed.is_over
                yield from self._shown(events)

    def _is_unknown(self, position: int | None) -> bool:
        """Whether an append did not come from here; if there is no further one, reading says why."""
        if position is not None and position <= self._position:
            return False
        self._position = position or self._position
        return True
