"""Runs workflows from Python (`run`, `run_async`, `stream`, `resume`, `resume_async`), checks and draws them.

These functions are for one run at a time: each opens a store, executes one run until it is idle, and
closes the store. A program with many runs uses `Runs`, which they are built on.

`run` and `resume` create an event loop of their own. Inside a running loop they raise an error that
names the asynchronous function: to nest loops, or to run in another thread, would hide from a program
that it blocks.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack

from roundel.hosts.control import AskHandler
from roundel.hosts.engine import Attachment, Result
from roundel.hosts.executor import check_runnable
from roundel.kernel.events import Event
from roundel.llm.resource_pool import close_pool
from roundel.nodes.loading import Source, check_models, check_plan, draft_plan
from roundel.nodes.middleware import Middleware
from roundel.plan.overrides import LimitValues
from roundel.runs.lookup import StoreLocation
from roundel.runs.runs import Runs, ScriptSource, open_recorder
from roundel.workflow.allow_list import TRUSTED, Policy
from roundel.workflow.breakpoints import BreakpointSource
from roundel.workflow.diagnostics import Report, WorkflowError
from roundel.workflow.document import AllowPaths
from roundel.workflow.graph import Workflow
from roundel.workflow.message import Message
from roundel.workflow.model_profile import choose_model
from roundel.workflow.python_warnings import keep_caller

if TYPE_CHECKING:
    from roundel.drawing.drawing import Density, Drawing

T = TypeVar("T")


class Options(TypedDict, total=False):
    """The options of `run`, `run_async` and `stream`."""

    script: ScriptSource
    """Replies that replace models and people."""
    ask: AskHandler | None
    """Answers questions to people; without it the run ends as waiting when a person has to answer."""
    variables: Mapping[str, Any] | None
    """Override variables of the workflow."""
    record: str | os.PathLike[str] | None
    """Writes the model replies to this file as a script; OSError before the run if it cannot be
    written."""
    store: StoreLocation
    """Where the run is stored, so that it survives a crash: a path, a URL or a store; None: not
    stored."""
    limits: LimitValues | None
    """Override limits of the workflow: `NAME`, or `X.NAME` for one loop or node."""
    group: str | None
    """The group whose memory the run uses, instead of that of the workflow."""
    allow_paths: AllowPaths
    """Folders in which the workflow may name files, in addition to its own."""
    middleware: Sequence[Middleware]
    """Intercepts nodes and observes events, after the middleware that the workflow names itself."""
    breakpoints: Sequence[BreakpointSource]
    """Where the run pauses, besides the breakpoints of the workflow; it has to be stored."""
    model: str | None
    """The model of agents that name none, as `provider:name`; None: that of `$ROUNDEL_MODEL`."""


async def run_async(
    workflow: Source,
    input: str | Message = "",
    *,
    on_event: Callable[[Event], object] | None = None,
    **options: Unpack[Options],
) -> Result:
    """Runs a workflow until it ends, or until it waits for a person and `ask` does not answer.

    If the caller is cancelled, the run is stopped: nothing says that the program will return to it.
    """
    unknown = options.keys() - Options.__annotations__.keys()
    if unknown:
        raise TypeError(
            f"there is no option '{min(unknown)}'; known are {', '.join(Options.__annotations__)}"
        )
    record, script = options.get("record"), options.get("script")
    if record is not None and script is not None:
        raise ValueError(
            "record= writes the replies of models, but with script= no model is called; give one"
        )
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
            breakpoints=options.get("breakpoints", ()),
            model=options.get("model"),
            attach=attachment,
        )
        return await runs.wait(run_id)


def run(
    workflow: Source,
    input: str | Message = "",
    *,
    on_event: Callable[[Event], object] | None = None,
    **options: Unpack[Options],
) -> Result:
    """`run_async` for synchronous code; raises RuntimeError in a running event loop."""
    return _run_blocking(
        lambda: run_async(workflow, input, on_event=on_event, **options), "roundel.run", "roundel.run_async"
    )


async def stream(
    workflow: Source, input: str | Message = "", **options: Unpack[Options]
) -> AsyncGenerator[Event, None]:
    """The events of a run as they happen. Leaving the iteration early stops the run."""
    # Unbounded: a slow consumer must not block the run, which commits events in the meantime.
    events: asyncio.Queue[Event | None] = asyncio.Queue()
    work = run_async(workflow, input, on_event=events.put_nowait, **options)
    task = asyncio.create_task(work, context=keep_caller())
    task.add_done_callback(lambda _: events.put_nowait(None))
    try:
        while (event := await events.get()) is not None:
            yield event
        await task  # raises the error of the run, if there was one
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
    """Resumes a run that was paused, that waits, or whose process died, in the same round.

    The run uses the workflow that it was started with. If that was built in Python with functions,
    `workflow` provides their code again, since code is not stored.
    """
    async with Runs(store) as runs:
        return await runs.resume(
            run_id, workflow=workflow, record=record, ask=ask, on_event=on_event, middleware=middleware
        )


def resume(run_id: str, **options: Any) -> Result:
    """`resume_async` for synchronous code; raises RuntimeError in a running event loop."""
    return _run_blocking(lambda: resume_async(run_id, **options), "roundel.resume", "roundel.resume_async")


def _run_blocking(start: Callable[[], Coroutine[Any, Any, T]], name: str, asynchronous: str) -> T:
    """Runs a coroutine in a new event loop; raises RuntimeError inside a running one.

    The coroutine is created after the check: one that is never awaited would add a warning to the error.
    """
    if _loop_is_running():
        raise RuntimeError(
            f"{name} cannot be called from a running event loop, which it would block "
            f"(a coroutine, or a notebook); write `await {asynchronous}(...)` instead"
        )

    async def main() -> T:
        try:
            return await start()
        finally:
            # Pooled clients and MCP sessions belong to this loop, and would be unusable in the next one.
            await close_pool()

    return asyncio.run(main())


def _loop_is_running() -> bool:
    # A function of its own: inside an `except` block, this error would be the context of every error of
    # the run.
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def check(
    source: Source,
    variables: Mapping[str, Any] | None = None,
    *,
    allow_paths: AllowPaths = (),
    policy: Policy = TRUSTED,
    model: str | None = None,
) -> tuple[Workflow | None, Report]:
    """Checks a workflow without raising: returns it, None if it cannot be read at all, and the report, which
    also has what a run would refuse. `model` is that of agents that name none, as in `run`.

    Under a policy nothing is imported, so functions and tools are checked by their names alone."""
    plan, report = check_plan(
        source, variables, allow_paths=allow_paths, policy=policy, model=choose_model(model)
    )
    if plan is None:
        return None, report
    check_models(plan, report)
    if policy.trusted:
        check_runnable(plan, report)
    return plan.workflow, report


def draw(
    file: str | os.PathLike[str],
    variables: Mapping[str, Any] | None = None,
    *,
    density: Density = "normal",
    allow_paths: AllowPaths = (),
) -> Drawing:
    """The layout of a workflow file as data, with each error at its node or edge.

    Raises WorkflowError if the file has no graph. `to_svg` makes a picture of the result.
    """
    from roundel.drawing.assembly import draw as lay_out

    plan, report = draft_plan(file, variables, allow_paths=allow_paths)
    if plan is None:
        raise WorkflowError(report.errors)
    masker = report.secrets.masker if report.secrets is not None else None
    return lay_out(plan, report.findings, mask=masker.mask if masker is not None else str, density=density)


def to_svg(drawing: Drawing) -> str:
    """The drawing as an SVG file that needs nothing else."""
    from roundel.drawing.svg import svg

    return svg(drawing)
