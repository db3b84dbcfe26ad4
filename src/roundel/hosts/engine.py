"""The protocol of an engine, which executes runs for the service layer, and the data that passes between
them.

`Runs` (runs/runs.py) uses nothing of an engine but `Engine`. LocalEngine (local.py) executes runs in
this process; an engine on other machines would satisfy the same protocol. An Attachment contains what
exists only in the executing process, such as callbacks, and is never stored; everything else could be
sent.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from msgspec import Struct

from roundel.hosts.contexts import RunContexts
from roundel.hosts.control import AskHandler, RunRequest
from roundel.hosts.live_events import CommitCache, LiveEvents
from roundel.hosts.unstored_parts import NO_PARTS, UnstoredParts
from roundel.journal.store import Pinned, RunRow
from roundel.kernel.events import Event, RunStatus
from roundel.kernel.state import Run
from roundel.llm.script import Script, ScriptRecorder
from roundel.nodes.loading import Source
from roundel.nodes.middleware import Middleware
from roundel.plan.graph import Plan
from roundel.plan.overrides import LimitValue
from roundel.workflow.breakpoints import Breakpoint
from roundel.workflow.diagnostics import Diagnostic
from roundel.workflow.message import Message


class Result(Struct, frozen=True):
    """The result of a run that is idle: over, paused, locked, or waiting for a person."""

    run_id: str
    status: RunStatus
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
    """The same as in the event `run_finished`."""
    warnings: tuple[Diagnostic, ...] = ()
    """The warnings about the workflow and the script, if this process has loaded them, and those of the run
    itself, whose code is `run-warning`."""

    @property
    def completed(self) -> bool:
        return self.status == "completed"


def make_result(state: Run) -> Result:
    return result_from_summary(state.run_id, state.result_summary())


def result_from_summary(run_id: str, row_summary: dict[str, Any]) -> Result:
    """A result from the summary in the row of a stored run, without replaying the run."""
    summary = dict(row_summary)
    warnings = tuple(map(_run_warning, summary.pop("warnings", ())))
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
        warnings,
    )


def _run_warning(given: dict[str, str]) -> Diagnostic:
    message = f"{given['address']}: {given['message']}" if given["address"] else given["message"]
    return Diagnostic(code="run-warning", severity="warning", message=message)


class RunSpec(Struct, frozen=True):
    """A run to start. Created by `Runs.start`."""

    plan: Plan
    messages: tuple[Message, ...]
    script: Script | None = None
    limits: dict[str, LimitValue] = {}
    """The limits that were given for this run. The plan contains them already; they are stored apart, so
    that a fork with another workflow can apply them again."""
    stored: bool = True
    """Whether the run is written to the store, so that it survives the process."""
    run_id: str = ""
    """If it is empty, the engine chooses one."""
    breakpoints: tuple[Breakpoint, ...] = ()
    """Breakpoints of this run, besides those of the workflow."""
    paused: bool = False
    """Whether it pauses before its first node."""
    group: str | None = None
    """The group in its row; None for that of the workflow's memory."""
    started_by: str = ""
    """The id of the token that the run counts for."""
    by: str = ""
    """The name of the user or the token that starts it."""
    saved_as: str = ""
    """The name of the saved workflow; empty if the workflow is not saved."""
    workflow_version: str = ""


class Inspection(Struct, frozen=True):
    """The state of a run at one moment, with its plan."""

    plan: Plan
    state: Run
    script: Script | None = None
    pinned: Pinned | None = None
    row: RunRow | None = None
    """Like `pinned`, None for a run that is new or not stored."""


class Attachment(Struct, frozen=True):
    """What the executing process adds to a run. It is not stored, and may differ from resume to
    resume."""

    ask: AskHandler | None = None
    on_event: Callable[[Event], object] | None = None
    """Called with each event once it is committed, and with transient events immediately."""
    middleware: Sequence[Middleware] = ()
    recorder: ScriptRecorder | None = None
    preparing: AbstractContextManager[object] | None = None
    """Entered while the run is prepared, which may import large packages and so block the event loop."""
    by: str = ""
    """Who answers through `ask`: the name of a user, which is stored with the answers."""


Attach = Attachment | Callable[[str, Inspection], Attachment | Awaitable[Attachment]]
"""An attachment, or a function that creates one for a run as soon as the run is open: a live view has to
know the plan, and what the run has done so far, before the first event."""


class RememberedRun(Struct, frozen=True):
    """What an engine remembers of a run that it has executed: what the run needs, and the store does not
    contain."""

    parts: UnstoredParts = NO_PARTS
    attach: Attach = Attachment()


Execute = Attach | bool
"""Whether this process executes a run that no other does, and what it adds then. True: what it added when it
last executed the run, which is nothing if it has not."""


async def resolve_attachment(attach: Attach, run_id: str, inspection: Inspection) -> Attachment:
    """The attachment for a run that is about to be executed."""
    made = attach if isinstance(attach, Attachment) else attach(run_id, inspection)
    return made if isinstance(made, Attachment) else await made


class Engine(Protocol):
    """Executes runs for the service layer. Each method works for runs of all processes, unless it says
    otherwise: an engine finds out which process executes a run."""

    async def start(self, run: RunSpec, attach: Attach = ...) -> str:
        """Starts a run and returns its id; the run exists, and is stored, when this returns.

        WorkflowError if something is missing that the run needs, StoreError if it cannot be stored."""

    async def control(
        self,
        run_id: str,
        request: RunRequest,
        *,
        execute: Execute = False,
        workflow: Source | None = None,
    ) -> bool:
        """Applies a control request, which is durable when this returns. Returns whether a process
        executes the run then.

        If none does, this engine executes it from now on, unless `execute` is False; `workflow` provides
        the code of functions again, for a workflow that was built in Python, if this engine has not
        executed the run before. Without `execute`, `Resume` only takes back a pause that has not taken
        effect. StoreError if the run does not allow the request; Busy if another process executes a run
        that was to be resumed.

        If the caller of an answer or an unlock is cancelled, the request is applied or not, and a run that
        has begun to continue does so."""

    async def inspect(self, run_id: str) -> Inspection:
        """The state of a run."""

    async def result(self, run_id: str) -> Result:
        """Waits until a run is idle, whichever process executes it."""

    async def wait(self, run_id: str) -> Result:
        """Like `result`, for a run that was just started or resumed here: a caller that is cancelled
        stops the run. For programs that start a run and wait for it, where nobody else would stop it."""

    async def wait_until_idle(self, run_id: str) -> None:
        """Waits until no process executes a run. Unlike `result`, it leaves the result of a run that is not
        stored for those who ask for it."""

    def subscribe(self, run_id: str) -> AbstractContextManager[LiveEvents]:
        """The transient events of a run, and those that are committed, while this engine executes it."""

    def commits(self) -> AbstractContextManager[CommitCache]:
        """What this engine commits, of all runs, while the context lasts."""

    def contexts(self, run_id: str) -> RunContexts | None:
        """What model calls get of a run that is executed here; None of any other."""

    def recall(self, run_id: str) -> RememberedRun:
        """What this engine remembers of a run; empty if it has not executed it."""

    def interrupt(self, run_id: str, reason: str) -> None:
        """Cancels the calls in flight of a run that is executed here, and leaves it so that it can be
        resumed; a run that is not stored is stopped. Without effect on any other run."""

    def knows(self, run_id: str) -> bool:
        """Whether this engine executes the run, or has the result of one that is not stored."""

    async def release(self, seconds: float) -> None:
        """Hands the runs that are executed here back, so that other processes can resume them: calls in
        flight may finish for some seconds, and no status changes."""

    async def close(self) -> None:
        """Stops the runs that are still executed here, and waits until they have ended. Those that an answer
        or an unlock has continued are handed back instead, as by `release`: who answers a question does not
        expect to stop the run."""
