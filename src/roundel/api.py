"""Runs workflows from Python: `run`, `run_async`, `stream`, `resume`, `resume_async`; and draws them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack

from roundel.hosts.control import AskHandler
from roundel.hosts.engine import Attachment, Result
from roundel.kernel.events import Event
from roundel.llm.resource_pool import close_pool
from roundel.nodes.loading import Source, draft_plan
from roundel.nodes.middleware import Middleware
from roundel.plan.graph import Plan
from roundel.runs.lookup import StoreLocation
from roundel.runs.runs import Runs, ScriptSource, open_recorder
from roundel.workflow.diagnostics import WorkflowError
from roundel.workflow.document import AllowPaths
from roundel.workflow.message import Message

if TYPE_CHECKING:
    from roundel.drawing.drawing import Density, Drawing

Made = TypeVar("Made")


class Options(TypedDict, total=False):
    """How a workflow is run."""

    script: ScriptSource
    """Replies for models and people, in place of them."""
    ask: AskHandler | None
    """Answers for people; without it the run waits where a person has to answer."""
    variables: Mapping[str, Any] | None
    """In place of those of the workflow."""
    record: str | os.PathLike[str] | None
    """The file that records what models say, as a script; OSError before the run if it cannot be written."""
    store: StoreLocation
    """Where the run is stored, so that it survives a crash: a path, a URL or a store; None: nowhere."""
    limits: Mapping[str, float] | None
    """In place of those of the workflow."""
    group: str | None
    """The group whose memory the run uses, in place of that of the workflow."""
    allow_paths: AllowPaths
    """Folders that the workflow may name files in, beside its own."""
    middleware: Sequence[Middleware]
    """Intercepts nodes and observes events, after the middleware that the workflow names itself."""


async def run_async(
    workflow: Source | Plan,
    input: str | Message = "",
    *,
    on_event: Callable[[Event], object] | None = None,
    **options: Unpack[Options],
) -> Result:
    """Runs a workflow until it is over, or until it waits for a person whom `ask` does not answer for.

    A run whose caller is cancelled is stopped."""
    unknown = options.keys() - Options.__annotations__.keys()
    if unknown:
        raise TypeError(
            f"there is no option '{min(unknown)}'; known are {', '.join(Options.__annotations__)}"
        )
    record, script = options.get("record"), options.get("script")
    if record is not None and script is not None:
        raise ValueError("record= records what models say, and with script= none is called")
    store = options.get("store")
    attachment = Attachment(
        options.get("ask"), on_event, options.get("middleware", ()), open_recorder(record)
    )
    async with Runs(store) as runs:
        run_id = await runs.start(
            workflow,
            input,
            script=script,
            variables=options.get("variables"),
            limits=options.get("limits"),
            group=options.get("group"),
            allow_paths=options.get("allow_paths", ()),
            stored=store is not None,
            attach=attachment,
        )
        return await runs.wait(run_id)


def run(
    workflow: Source | Plan,
    input: str | Message = "",
    *,
    on_event: Callable[[Event], object] | None = None,
    **options: Unpack[Options],
) -> Result:
    """The same for code that is not asynchronous; RuntimeError in a running event loop."""
    return _run_blocking(
        lambda: run_async(workflow, input, on_event=on_event, **options), "roundel.run", "roundel.run_async"
    )


async def stream(
    workflow: Source | Plan, input: str | Message = "", **options: Unpack[Options]
) -> AsyncGenerator[Event, None]:
    """The events of a run as they come; leaving the iteration stops the run."""
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


async def resume_async(
    run_id: str,
    *,
    store: StoreLocation = None,
    workflow: Source | None = None,
    ask: AskHandler | None = None,
    on_event: Callable[[Event], object] | None = None,
    record: str | os.PathLike[str] | None = None,
    middleware: Sequence[Middleware] = (),
) -> Result:
    """Resumes a run that was paused, waits, or whose process died, in the same round.

    The run has the workflow that it was started with. If that one was built in Python with functions in it,
    `workflow` gives their code again, which is not stored."""
    async with Runs(store) as runs:
        return await runs.resume(
            run_id, workflow=workflow, record=record, ask=ask, on_event=on_event, middleware=middleware
        )


def resume(run_id: str, **options: Any) -> Result:
    """The same for code that is not asynchronous; RuntimeError in a running event loop."""
    return _run_blocking(lambda: resume_async(run_id, **options), "roundel.resume", "roundel.resume_async")


def _run_blocking(start: Callable[[], Coroutine[Any, Any, Made]], name: str, asynchronous: str) -> Made:
    """What the coroutine returns; RuntimeError inside a running event loop.

    The coroutine is created only after the check: one that is never awaited would cause a second warning."""
    if _loop_is_running():
        raise RuntimeError(
            f"{name} cannot be called from a running event loop, which it would block "
            f"(a coroutine, or a notebook); write `await {asynchronous}(...)` instead"
        )

    async def main() -> Made:
        try:
            return await start()
        finally:
            await close_pool()

    return asyncio.run(main())


def _loop_is_running() -> bool:
    # On its own, so that this exception is not the context of those that the run raises.
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def draw(
    file: str | os.PathLike[str],
    variables: Mapping[str, Any] | None = None,
    *,
    density: Density = "normal",
    allow_paths: AllowPaths = (),
) -> Drawing:
    """The layout of a workflow file as data, with its errors where they belong; WorkflowError if the file has
    no graph. `to_svg` makes a picture of it."""
    from roundel.drawing.assembly import draw as lay_out

    plan, report = draft_plan(file, variables, allow_paths=allow_paths)
    if plan is None:
        raise WorkflowError(report.errors)
    masker = report.secrets.masker if report.secrets is not None else None
    return lay_out(plan, report.findings, mask=masker.mask if masker is not None else str, density=density)


def to_svg(drawing: Drawing) -> str:
    """A picture of a drawing."""
    from roundel.drawing.svg import svg

    return svg(drawing)
