"""Goes on with a run of a store, in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from roundel.hosts.local import LocalHost
from roundel.hosts.result import Asker, Result
from roundel.journal.run_journal import RunJournal
from roundel.journal.store import Store, StoreError
from roundel.kernel.events import Event
from roundel.kernel.facts import Fact, Resumed
from roundel.llm.recorder import Recorder
from roundel.sessions.opening import open_run
from roundel.sessions.place import StorePlace, opened
from roundel.sources import Source


async def go_on(
    store: Store,
    run_id: str,
    *,
    workflow: Source | None = None,
    **host_options: Any,
) -> Result:
    claim = await store.claim(run_id)
    journal = RunJournal(store, claim)
    try:
        was = await open_run(store, run_id, workflow)
    except BaseException:
        await store.release(claim, (await store.row(run_id)).status, None)
        raise
    state = was.state
    if state.over or state.status == "suspended_locked":
        await journal.close(state)
        what = "is over" if state.over else "is locked"
        raise StoreError(f"run {run_id} {what}: it is {state.status}")
    host = LocalHost(was.plan, script=was.script, run_id=run_id, **host_options)
    host.keep(journal)
    facts: list[Fact] = [Resumed(host.now())] if state.paused else []
    return await host.resume(state, *facts)


async def resume_async(
    run_id: str,
    *,
    store: StorePlace = None,
    workflow: Source | None = None,
    ask: Asker | None = None,
    on_event: Callable[[Event], object] | None = None,
    record: Recorder | None = None,
) -> Result:
    """Goes on with a run that was paused, that waits, or whose process died, in the same round.

    A workflow that was built in Python with functions in it has to be given once more."""
    async with opened(store) as there:
        return await go_on(there, run_id, workflow=workflow, asker=ask, on_event=on_event, record=record)


def resume(run_id: str, **options: Any) -> Result:
    """The same, for code that is not asynchronous."""
    return asyncio.run(resume_async(run_id, **options))
