"""Goes on with a run of a store, in this process."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from roundel.hosts.local import LocalHost
from roundel.hosts.result import Asker, Result
from roundel.journal.run_journal import RunJournal
from roundel.journal.store import Store, StoreError
from roundel.kernel.events import Event
from roundel.kernel.facts import Answered, Fact, Resumed
from roundel.llm.recorder import Recorder
from roundel.llm.scripted import Script, script_from
from roundel.nodes.middleware import Middleware
from roundel.sessions.blocking import run_blocking
from roundel.sessions.naming import find
from roundel.sessions.opening import Opened, open_run
from roundel.sessions.pinning import plan_to_go_on
from roundel.sessions.place import StorePlace, opened
from roundel.sources import Source
from roundel.workflow.message import Message

SETTLED = ("completed", "failed", "stopped", "suspended_locked")
"""The statuses of runs that cannot go on as they are."""


class Answer(Struct, frozen=True):
    address: str
    message: Message


class TakenUp(Struct, frozen=True):
    """A run that this process has claimed, and can go on with."""

    run: Opened
    script: Script | None
    journal: RunJournal

    async def host(self, **options: Any) -> LocalHost:
        """Where it goes on; WorkflowError with everything that it lacks here."""
        run = self.run
        try:
            host = LocalHost(run.plan, script=self.script, run_id=run.row.id, **options)
        except BaseException:
            await self.journal.close()
            raise
        host.keep(self.journal)
        return host

    async def go_on(self, host: LocalHost, answer: Answer | None = None) -> Result:
        """To its end, or until it waits; a question may be answered at the same time."""
        state = self.run.state
        facts: list[Fact] = [Resumed(host.now())] if state.paused else []
        if answer is not None:
            facts.append(Answered(answer.address, answer.message, host.now()))
        return await host.resume(state, *facts)


async def take_up(store: Store, run_id: str, workflow: Source | None = None) -> TakenUp:
    """StoreError if the run cannot go on: Busy if another process is at work on it."""
    claim = await store.claim(run_id)
    journal = RunJournal(store, claim)
    try:
        pinned = await store.pinned(run_id)
        settled = (await store.row(run_id)).status in SETTLED
        # To say why it cannot go on takes neither its secrets nor its code.
        run = await open_run(store, run_id, None if settled else plan_to_go_on(pinned, workflow))
        if run.state.status in SETTLED:
            if run.row.status != run.state.status:  # its process died before it could say so
                await journal.commit(run.state)
            raise StoreError(_cannot(run))
        script = script_from(pinned.script) if pinned.script else None
    except BaseException:
        await journal.close()
        raise
    return TakenUp(run, script, journal)


def _cannot(run: Opened) -> str:
    state, run_id = run.state, run.row.id
    if state.over:
        return (
            f"run {run_id} is over: it is {state.status}; `roundel fork {run_id} --at ADDRESS` begins a new "
            "one from any point of it"
        )
    return f"run {run_id} is locked; `roundel unlock {run_id}` lets it go on"


async def go_on(
    store: Store,
    run_id: str,
    *,
    workflow: Source | None = None,
    answer: Answer | None = None,
    **host_options: Any,
) -> Result:
    taken = await take_up(store, run_id, workflow)
    return await taken.go_on(await taken.host(**host_options), answer)


async def resume_async(
    run_id: str,
    *,
    store: StorePlace = None,
    workflow: Source | None = None,
    ask: Asker | None = None,
    on_event: Callable[[Event], object] | None = None,
    record: str | os.PathLike[str] | None = None,
    middleware: Sequence[Middleware] = (),
) -> Result:
    """Goes on with a run that was paused, that waits, or whose process died, in the same round.

    The run goes on with the workflow that it was started with. If that one was built in Python with
    functions in it, `workflow` gives their code again, which is not stored."""
    recorder = None if record is None else Recorder(Path(record))
    if recorder is not None:
        recorder.check()
    async with opened(store) as there:
        run_id = await find(there, run_id)
        return await go_on(
            there,
            run_id,
            workflow=workflow,
            asker=ask,
            on_event=on_event,
            record=recorder,
            middleware=middleware,
        )


def resume(run_id: str, **options: Any) -> Result:
    """The same, for code that is not asynchronous; RuntimeError in a running event loop."""
    return run_blocking(lambda: resume_async(run_id, **options), "roundel.resume", "roundel.resume_async")
