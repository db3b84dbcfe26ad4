"""What executes runs, as the service layer sees it, and the data that passes between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from msgspec import Struct

from roundel.hosts.control import AskHandler, Request
from roundel.journal.store import Pinned, RunRow
from roundel.kernel.events import Event
from roundel.kernel.state import Run
from roundel.llm.script import Script, ScriptRecorder
from roundel.nodes.loading import Source
from roundel.nodes.middleware import Middleware
from roundel.plan.graph import Plan
from roundel.workflow.message import Message


class Result(Struct, frozen=True):
    """A run that is idle: over, or waiting for somebody."""

    run_id: str
    status: str
    """completed, failed, suspended_locked, waiting, paused or stopped."""
    output: str
    data: dict[str, Any] | None
    nodes: dict[str, int]
    """How often each node ran."""
    loops: dict[str, dict[str, Any]]
    """For each loop its `rounds`, `exit_reason` and `entries`."""
    usage: dict[str, Any]
    error: str | None
    summary: dict[str, Any]
    """All of this as the event `run_finished` has it."""

    @property
    def completed(self) -> bool:
        return self.status == "completed"


def make_result(state: Run) -> Result:
    return result_from_summary(state.run_id, state.summary())


def result_from_summary(run_id: str, summary: dict[str, Any]) -> Result:
    """From the summary that a store keeps."""
    return Result(
        run_id,
        summary["status"],
        summary["output"],
        summary.get("data"),
        summary["nodes"],
        summary["loops"],
        summary["usage"],
        summary.get("error"),
        summary,
    )


class RunSpec(Struct, frozen=True):
    """A run to start."""

    plan: Plan
    messages: tuple[Message, ...]
    script: Script | None = None
    limits: dict[str, float] = {}
    """Those that were given for this run; the plan has them already."""
    stored: bool = True
    """Whether the run is written to the store, so that it survives the process."""
    run_id: str = ""
    """Chosen by the engine if it is empty."""


class Inspection(Struct, frozen=True):
    """A run as it is now."""

    plan: Plan
    state: Run
    script: Script | None = None
    pinned: Pinned | None = None
    row: RunRow | None = None
    """None for a run that is new or not stored, as `pinned`."""


class Attachment(Struct, frozen=True):
    """What the executing process adds to a run. It is not stored, and differs from resume to resume."""

    ask: AskHandler | None = None
    on_event: Callable[[Event], object] | None = None
    """Sees each event once it is committed, and transient events as they come."""
    middleware: Sequence[Middleware] = ()
    recorder: ScriptRecorder | None = None
    preparing: AbstractContextManager[object] | None = None
    """Entered while the run is made ready. That may import large packages, which holds up the event loop."""


Attach = Attachment | Callable[[str, Inspection], Attachment]
"""An attachment, or a function that makes one for a run as soon as the run is open: a live view has to know
the plan before the first event."""


def resolve_attachment(attach: Attach, run_id: str, inspection: Inspection) -> Attachment:
    return attach if isinstance(attach, Attachment) else attach(run_id, inspection)


class Engine(Protocol):
    """Executes runs for the service layer, which uses nothing else of it. The local engine (local.py) does so
    in this process, on asyncio."""

    async def start(self, run: RunSpec, attach: Attach = ...) -> str:
        """Starts a run and returns its id; the run exists, and is stored, when this returns.

        WorkflowError if something is missing that the run needs, StoreError if it cannot be stored."""

    async def control(
        self,
        run_id: str,
        request: Request,
        *,
        execute: Attach | None = None,
        workflow: Source | None = None,
    ) -> bool:
        """Applies a control request; it is durable when this returns. Whether a process executes the run
        then.

        If none does, and `execute` is given, this engine executes it from now on; `workflow` gives the code
        of functions again, for a workflow that was built in Python. Without `execute`, `Resume` only takes
        back a pause that has not taken effect. StoreError if the run does not allow the request; Busy if a
        run was to be resumed that another process executes."""

    async def inspect(self, run_id: str) -> Inspection:
        """The state of a run."""

    async def result(self, run_id: str) -> Result:
        """Waits until a run is idle, whichever process executes it."""

    async def wait(self, run_id: str) -> Result:
        """The same for a run that was just started or resumed here: a caller that is cancelled stops it."""

    def interrupt(self, run_id: str, reason: str) -> None:
        """Cancels the calls in flight of a run that is executed here, and leaves it so that it can be
        resumed; a run that is not stored is stopped. Without effect on any other run."""

    def knows(self, run_id: str) -> bool:
        """Whether this engine executes the run, or has the result of one that is not stored."""

    async def close(self) -> None:
        """Stops the runs that are still executed here, and waits until they have ended."""
