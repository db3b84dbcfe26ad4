"""Runs workflows from Python."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Mapping
from pathlib import Path
from typing import Any

from roundel.hosts.local import LocalHost
from roundel.hosts.result import Asker, Result
from roundel.kernel.events import Event
from roundel.llm.scripted import Script, load_script, script_from
from roundel.plan.graph import Plan
from roundel.sources import Source, prepare
from roundel.workflow.message import Message

ScriptSource = Script | Mapping[str, Any] | str | os.PathLike[str] | None


async def run_async(
    workflow: Source | Plan,
    input: str | Message = "",
    *,
    script: ScriptSource = None,
    ask: Asker | None = None,
    on_event: Callable[[Event], object] | None = None,
    variables: Mapping[str, Any] | None = None,
) -> Result:
    """Runs a workflow to its end, or until it waits for a person whom `ask` does not answer for."""
    return await _host(workflow, script, ask, on_event, variables).run(_messages(input))


def run(
    workflow: Source | Plan,
    input: str | Message = "",
    *,
    script: ScriptSource = None,
    ask: Asker | None = None,
    on_event: Callable[[Event], object] | None = None,
    variables: Mapping[str, Any] | None = None,
) -> Result:
    """The same, for code that is not asynchronous."""
    work = run_async(workflow, input, script=script, ask=ask, on_event=on_event, variables=variables)
    return asyncio.run(work)


async def stream(
    workflow: Source | Plan,
    input: str | Message = "",
    *,
    script: ScriptSource = None,
    ask: Asker | None = None,
    variables: Mapping[str, Any] | None = None,
) -> AsyncGenerator[Event, None]:
    """The events of a run as they come; to leave the iteration is to stop the run."""
    events: asyncio.Queue[Event | None] = asyncio.Queue()
    host = _host(workflow, script, ask, events.put_nowait, variables)
    task = asyncio.create_task(host.run(_messages(input)))
    task.add_done_callback(lambda _: events.put_nowait(None))
    try:
        while (event := await events.get()) is not None:
            yield event
        await task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _host(
    workflow: Source | Plan,
    script: ScriptSource,
    ask: Asker | None,
    on_event: Callable[[Event], object] | None,
    variables: Mapping[str, Any] | None,
) -> LocalHost:
    compiled = workflow if isinstance(workflow, Plan) else prepare(workflow, variables)
    return LocalHost(compiled, script=_script(script), asker=ask, on_event=on_event)


def _script(source: ScriptSource) -> Script | None:
    if source is None or isinstance(source, Script):
        return source
    if isinstance(source, Mapping):
        return script_from(source)
    return load_script(Path(source))[0]


def _messages(input: str | Message) -> tuple[Message, ...]:
    return (input if isinstance(input, Message) else Message(input),)
