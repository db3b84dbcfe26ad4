"""Executes a run in this process for a command, with a live view or with its events as lines of JSON.

`run`, `resume`, `fork`, `answer` and `unlock` all end here. They differ only in how they begin the run,
so they pass that as a function; output, questions, interrupts, telemetry and exit codes are the same for
all of them.

A display attaches itself when the run is open and before anything of it is executed. The order matters:
secrets are known before the first line is printed, and the id of the run is known before an interrupt
has to suggest `roundel resume`.
"""

from __future__ import annotations

import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import IO, TYPE_CHECKING, Any

import click
import msgspec

from roundel.cli import EXIT
from roundel.cli.next_step import command_line, current_step, is_debugged, repeat_command, set_current_run
from roundel.cli.output import console, echo, one_line, print_json, print_result, secret_masking, styled
from roundel.cli.signals import INTERRUPTED, interrupts, redirect_to_null
from roundel.cli.standard_output import standard_output
from roundel.cli.store_access import user_name
from roundel.hosts.control import Question
from roundel.hosts.engine import Attach, Attachment, Inspection, Result
from roundel.journal.store import Fenced, Gone, StoreError
from roundel.kernel.events import Event, is_over, stamp
from roundel.kernel.facts import secrets_of
from roundel.kernel.payloads import NodeCompleted, RunProgress, with_report
from roundel.llm.script import ScriptRecorder
from roundel.nodes.middleware import Middleware
from roundel.runs.runs import Runs

if TYPE_CHECKING:
    from roundel.cli.live_view import LiveView

Begin = Callable[[Attach], Awaitable[object]]
"""Starts or resumes a run, and passes the `Attach` that it gets to the engine.

It does not call it if another process executes the run."""


async def execute(
    runs: Runs, begin: Begin, as_json: bool, *, stored: bool = True, recorder: ScriptRecorder | None = None
) -> int:
    """Executes a run until it is idle, and returns the exit code of the command.

    If another process turns out to execute the run, this one only reports that, and returns 0.
    """
    display = _JsonDisplay(runs, stored) if as_json else _LiveDisplay(runs, stored)
    display.middleware, display.recorder = telemetry_middleware(), recorder
    with interrupts.with_action(display.interrupt):
        try:
            await begin(display.attach)
            if not display.run_id:  # never attached: another process has the lease
                echo(f"run {current_step().run_id} continues in the process that executes it")
                return 0
            # A signal during `begin` found no run to interrupt, so it is repeated now.
            if display.interrupted:
                runs.interrupt(display.run_id)
            result = await _result(runs, display.run_id)
        finally:
            display.close()
        display.print_outcome(result)
        if result.status == "paused" and stored and not as_json:
            await _print_ready(runs, result)
    # A run that ended by itself before the interrupt took effect has its ordinary exit code.
    interrupted = display.interrupted and result.status in ("paused", "waiting", "stopped")
    return INTERRUPTED if interrupted else EXIT[result.status]


async def _print_ready(runs: Runs, result: Result) -> None:
    """Writes which nodes are ready in a run that a breakpoint or a step has paused, and which questions
    are open, one in a line."""
    if not is_debugged(result.summary):
        return
    seen = await runs.debug(result.run_id)
    for number, ready in enumerate(seen.ready):
        label = "      " if number else "ready:"
        mark = f" (breakpoint {', '.join(ready.breakpoints)})" if ready.breakpoints else ""
        echo(f"{label} {one_line(f'{ready.address}{mark}: {ready.why}')}")
    for question in seen.questions:
        echo(f"open question: {one_line(question.address)}")


def telemetry_middleware() -> list[Middleware]:
    """The telemetry that the environment configures, as middleware."""
    from roundel.telemetry import TelemetryError, from_environment

    try:
        telemetry = from_environment()
    except TelemetryError as error:
        raise click.ClickException(str(error)) from None
    return [] if telemetry is None else [telemetry]


async def _result(runs: Runs, run_id: str) -> Result:
    try:
        return await runs.wait(run_id)
    except (Fenced, Gone):  # another process owns the run, or it was deleted: no advice to resume
        raise
    except StoreError as error:
        text = f"{error}\nFinished steps are stored. Resume the run with: roundel resume {run_id}"
        raise StoreError(text) from error


class _Display(ABC):
    """Shows one run; `execute` creates it.

    A lost reader interrupts the run instead of failing it: with `| head` the run would otherwise be
    lost, and this way it stays resumable.
    """

    stream: IO[str]

    def __init__(self, runs: Runs, stored: bool) -> None:
        self._runs, self._stored = runs, stored
        self.middleware: list[Middleware] = []
        self.recorder: ScriptRecorder | None = None
        self.run_id = ""
        """Empty until the run is open here."""
        self.interrupted = False
        self._output_lost = False
        """A write failed; nothing more is written."""

    async def attach(self, run_id: str, inspection: Inspection) -> Attachment:
        """The engine calls this when the run is open, before it executes anything."""
        self.run_id = run_id
        # Before anything can be printed: the workflow of a stored run is only known now.
        secret_masking.set_secrets(secrets_of(inspection.plan))
        if self._stored:
            set_current_run(run_id)
        interrupts.next_step = (
            command_line("resume", run_id) if self._stored else repeat_command(current_step())
        )
        return Attachment(
            await self.open(inspection),
            self.on_event,
            self.middleware,
            self.recorder,
            # Nodes import their libraries then, which blocks the event loop.
            preparing=interrupts.blocking_section(),
            by=user_name(),
        )

    async def open(self, inspection: Inspection) -> Callable[[Question], Awaitable[str]] | None:
        """Gets ready to show a run. Returns what answers its questions; None leaves them open, so that the
        run becomes waiting."""
        return None

    @abstractmethod
    def on_event(self, event: Event) -> None: ...

    @abstractmethod
    def close(self) -> None:
        """Ends the display, after success and after an error."""

    @abstractmethod
    def print_outcome(self, result: Result) -> None:
        """Prints the result, after `close`."""

    def interrupt(self) -> None:
        """The action of the first signal while a run is executed; also called if the output is lost."""
        self.interrupted = True
        if self.run_id:
            self._runs.interrupt(self.run_id)

    def write(self, write: Callable[..., object], *what: object) -> None:
        """Calls `write`, and interrupts the run if the output cannot be written."""
        if self._output_lost:
            return
        try:
            write(*what)
        except OSError as error:  # a closed pipe, a terminal that is gone, a full disk
            # `received` makes `main` end as after a signal: without waiting for threads, whose results
            # have no reader.
            self._output_lost = interrupts.received = True
            # The buffer of the stream still has the text that failed; flushing it at the end would fail
            # again.
            redirect_to_null(self.stream.fileno())
            self.interrupt()
            if not isinstance(error, BrokenPipeError):
                echo(f"the output cannot be written: {error}")


class _JsonDisplay(_Display):
    """Events as JSON on standard output, for programs. It never asks a question, even in a terminal."""

    def __init__(self, runs: Runs, stored: bool) -> None:
        super().__init__(runs, stored)
        self.stream = standard_output()

    def on_event(self, event: Event) -> None:
        if isinstance(event.data, RunProgress):
            return  # it depends on the time when it is shown, and says nothing new to who reads all events
        line: Any = event
        if not event.seq or isinstance(event.data, NodeCompleted):
            line = msgspec.to_builtins(event, enc_hook=repr)
            line["data"] = with_report(event.data, line["data"])
        if not event.seq:  # a transient event has no number
            del line["seq"]
        self.write(print_json, line)

    def close(self) -> None:
        pass  # each line is complete

    def print_outcome(self, result: Result) -> None:
        # A run that has ended reports its figures with `run_finished`; one that is only idle has no such
        # event.
        if not is_over(result.status):
            summary = {
                "event": "run_summary",
                "timestamp": stamp(time.time()),
                "run_id": result.run_id,
                "data": result.summary,
            }
            self.write(print_json, summary)


class _LiveDisplay(_Display):
    """A view for people on standard error; the result alone goes to standard output."""

    def __init__(self, runs: Runs, stored: bool) -> None:
        super().__init__(runs, stored)
        self.stream = sys.stderr  # standard output is for the result
        self._view: LiveView | None = None
        self._is_visible = False

    async def open(self, inspection: Inspection) -> Callable[[Question], Awaitable[str]] | None:
        from roundel.cli.live_view import LiveView

        terminal = console()
        # Without a row the run is new.
        before = await self._runs.view(self.run_id) if inspection.row is not None else None
        self._view = view = LiveView(
            inspection.plan,
            terminal,
            terminal.is_terminal,
            scripted=inspection.script is not None,
            before=before,
            worked=inspection.state.worked if before is not None else 0.0,
        )
        view.run_id = self.run_id if self._stored else ""
        if not is_interactive():
            return None
        from roundel.cli.prompt import ask_in_terminal

        return lambda question: ask_in_terminal(question, self._visible_view())

    def _visible_view(self) -> LiveView:
        """Shows the view on first use, so that a run that cannot be started leaves only its error on the
        screen."""
        assert self._view is not None
        if not self._is_visible:
            self._is_visible = True
            self.write(self._view.__enter__)
        return self._view

    def on_event(self, event: Event) -> None:
        self.write(self._visible_view(), event)

    def close(self) -> None:
        if self._view is not None and self._is_visible:
            self.write(self._view.__exit__, None, None, None)

    def print_outcome(self, result: Result) -> None:
        if result.output:
            print_result(result.output)
        if result.status == "failed":
            echo(styled(f"failed: {result.error}", fg="red"))
        elif result.status == "waiting" and not self._stored:
            echo("waiting for a person: run it in a terminal, or give the answer in a script")
        elif result.status == "waiting" and "deadline" in result.summary:
            echo(f"answer before {result.summary['deadline']}")
        elif result.status == "stopped":
            echo("stopped")


def is_interactive() -> bool:
    """Whether a person can be asked: standard output may be a pipe, since questions go to standard
    error."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()
