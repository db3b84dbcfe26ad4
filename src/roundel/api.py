"""Runs workflows from Python."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict, Unpack

from roundel.hosts.local import LocalHost
from roundel.hosts.result import Asker, Result
from roundel.kernel.events import Event
from roundel.llm.recorder import Recorder
from roundel.llm.scripted import Script, load_script, script_from
from roundel.nodes.middleware import Middleware
from roundel.plan.graph import Plan, compile_workflow
from roundel.sessions.blocking import run_blocking
from roundel.sessions.opening import begin
from roundel.sessions.pinning import pin
from roundel.sessions.place import StorePlace, opened
from roundel.sources import Source, load
from roundel.workflow.file_access import AllowPaths
from roundel.workflow.grouping import grouped
from roundel.workflow.limiting import limited
from roundel.workflow.message import Message

ScriptSource = Script | Mapping[str, Any] | str | os.PathLike[str] | None


class Options(TypedDict, total=False):
    """How a workflow is run."""

    script: ScriptSource
    """Replies for models and people, in place of them."""
    ask: Asker | None
    """Answers for people; without it the run waits where a person has to answer."""
    variables: Mapping[str, Any] | None
    """In place of those of the workflow."""
    record: str | os.PathLike[str] | None
    """The file that is to keep what models say, as a script; OSError before the run if it cannot."""
    store: StorePlace
    """Where the run is kept, so that it can go on after a crash: a path or a store; None: nowhere."""
    limits: Mapping[str, float] | None
    """In place of those of the workflow."""
    group: str | None
    """Whose memory the run has part in, in place of that of the workflow."""
    allow_paths: AllowPaths
    """Folders that the workflow may name files in, beside its own."""
    middleware: Sequence[Middleware]
    """Is asked about each node, and watches, after what the workflow names itself."""


async def run_async(
    workflow: Source | Plan,
    input: str | Message = "",
    *,
    on_event: Callable[[Event], object] | None = None,
    **options: Unpack[Options],
) -> Result:
    """Runs a workflow to its end, or until it waits for a person whom `ask` does not answer for."""
    host, messages = _host(workflow, on_event, options), _messages(input)
    place = options.get("store")
    if place is None:
        return await host.run(messages)
    async with opened(place) as store:
        pinned = pin(host.plan, host.script, options.get("limits"))
        host.keep(await begin(store, host.run_id, host.plan, pinned, messages, reviews=host.reviews))
        return await host.run(messages)


def run(
    workflow: Source | Plan,
    input: str | Message = "",
    *,
    on_event: Callable[[Event], object] | None = None,
    **options: Unpack[Options],
) -> Result:
    """The same, for code that is not asynchronous; RuntimeError in a running event loop."""
    return run_blocking(
        lambda: run_async(workflow, input, on_event=on_event, **options), "roundel.run", "roundel.run_async"
    )


async def stream(
    workflow: Source | Plan, input: str | Message = "", **options: Unpack[Options]
) -> AsyncGenerator[Event, None]:
    """The events of a run as they come; to leave the iteration is to stop the run."""
    events: asyncio.Queue[Event | None] = asyncio.Queue()
    task = asyncio.create_task(run_async(workflow, input, on_event=events.put_nowait, **options))
    task.add_done_callback(lambda _: events.put_nowait(None))
    try:
        while (event := await events.get()) is not None:
            yield event
        await task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _host(workflow: Source | Plan, on_event: Callable[[Event], object] | None, options: Options) -> LocalHost:
    unknown = options.keys() - Options.__annotations__.keys()
    if unknown:
        raise TypeError(
            f"there is no option '{min(unknown)}'; known are {', '.join(Options.__annotations__)}"
        )
    return LocalHost(
        _plan(workflow, options),
        script=_script(options.get("script")),
        asker=options.get("ask"),
        on_event=on_event,
        record=_recorder(options),
        middleware=options.get("middleware", ()),
    )


def _plan(workflow: Source | Plan, options: Options) -> Plan:
    limits, group = options.get("limits"), options.get("group")
    if isinstance(workflow, Plan):
        if options.get("allow_paths"):
            raise ValueError("allow_paths= is for what loads the workflow: give it to prepare()")
        if not limits and group is None:
            return workflow
        return compile_workflow(grouped(limited(workflow.workflow, limits or {}), group))
    loaded = load(workflow, options.get("variables"), allow_paths=options.get("allow_paths", ()))
    return compile_workflow(grouped(limited(loaded, limits or {}), group))


def _recorder(options: Options) -> Recorder | None:
    file = options.get("record")
    if file is None:
        return None
    if options.get("script") is not None:
        raise ValueError("record= keeps what models say, and with script= none is asked")
    recorder = Recorder(Path(file))
    recorder.check()
    return recorder


def _script(source: ScriptSource) -> Script | None:
    if source is None or isinstance(source, Script):
        return source
    if isinstance(source, Mapping):
        return script_from(source)
    return load_script(Path(source))[0]


def _messages(input: str | Message) -> tuple[Message, ...]:
    return (input if isinstance(input, Message) else Message(input),)
