"""Executes a run in this process for a command: with a live view, or with its events as lines of JSON."""

from __future__ import annotations

import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import IO, TYPE_CHECKING

import click

from roundel.cli import EXIT
from roundel.cli.next_step import command_line, current_step, repeat_command, set_current_run
from roundel.cli.output import console, echo, print_json, print_result, secret_masking, styled
from roundel.cli.signals import INTERRUPTED, interrupts, redirect_to_null
from roundel.hosts.control import Question
from roundel.hosts.engine import Attach, Attachment, Inspection, Result
from roundel.journal.store import Fenced, Gone, StoreError
from roundel.kernel.events import Event, stamp
from roundel.kernel.facts import secrets_of
from roundel.llm.script import ScriptRecorder
from roundel.nodes.middleware import Middleware
from roundel.runs.runs import Runs

if TYPE_CHECKING:
    from roundel.cli.live_view import LiveView

Begin = Callable[[Attach], Awaitable[object]]
"""Starts or resumes a run; it must attach what it is given."""


async def execute(
    runs: Runs, begin: Begin, as_json: bool, *, stored: bool = True, recorder: ScriptRecorder | None = None
) -> int:
    """Executes a run until it is idle; the exit code. If another process turns out to execute the run, it
    continues there."""
    display = _JsonDisplay(runs, stored) if as_json else _LiveDisplay(runs, stored)
    display.middleware, display.recorder = _telemetry(), recorder
    with interrupts.with_action(display.interrupt):
        try:
            await begin(display.attach)
            if not display.run_id:
                echo(f"run {current_step().run_id} continues in the process that executes it")
                return 0
            if display.interrupted:
                runs.interrupt(display.run_id)
            result = await _result(runs, display.run_id)
            display.settle(result)
        finally:
            display.close()
        display.print_outcome(result)
    # Not if the run had come to an end of its own before the interrupt took effect.
    interrupted = display.interrupted and result.status in ("paused", "waiting", "stopped")
    return INTERRUPTED if interrupted else EXIT[result.status]


def _telemetry() -> list[Middleware]:
    """What the environment asks for."""
    from roundel.telemetry import TelemetryError, from_environment

    try:
        telemetry = from_environment()
    except TelemetryError as error:
        raise click.ClickException(str(error)) from None
    return [] if telemetry is None else [telemetry]


async def _result(runs: Runs, run_id: str) -> Result:
    try:
        return await runs.wait(run_id)
    except (Fenced, Gone):  # there is nothing of ours to resume
        raise
    except StoreError as error:
        text = f"{error}\nWhat was done before is stored. Resume it with: roundel resume {run_id}"
        raise StoreError(text) from error


class _Display(ABC):
    """Shows one run. If nobody reads the output any more, the run is interrupted."""

    stream: IO[str]

    def __init__(self, runs: Runs, stored: bool) -> None:
        self._runs, self._stored = runs, stored
        self.middleware: list[Middleware] = []
        self.recorder: ScriptRecorder | None = None
        self.run_id = ""
        """Empty until the run is open here."""
        self.interrupted = False
        self._output_lost = False
        """Nobody reads the output."""

    def attach(self, run_id: str, inspection: Inspection) -> Attachment:
        """Called when the run is open, before anything of it is executed."""
        self.run_id = run_id
        secret_masking.set_secrets(secrets_of(inspection.plan))
        if self._stored:
            set_current_run(run_id)
        interrupts.next_step = (
            command_line("resume", run_id) if self._stored else repeat_command(current_step())
        )
        return Attachment(
            self.ask_handler(inspection),
            self.on_event,
            self.middleware,
            self.recorder,
            preparing=interrupts.blocking_section(),
        )

    def ask_handler(self, inspection: Inspection) -> Callable[[Question], Awaitable[str]] | None:
        return None

    @abstractmethod
    def on_event(self, event: Event) -> None: ...

    @abstractmethod
    def settle(self, result: Result) -> None:
        """The run is idle."""

    @abstractmethod
    def close(self) -> None:
        """Nothing more will happen, whatever became of the run."""

    @abstractmethod
    def print_outcome(self, result: Result) -> None:
        """What is left to say."""

    def interrupt(self) -> None:
        self.interrupted = True
        if self.run_id:
            self._runs.interrupt(self.run_id)

    def write(self, write: Callable[..., object], *what: object) -> None:
        if self._output_lost:
            return
        try:
            write(*what)
        except OSError as error:  # a closed pipe, a terminal that is gone, a full disk
            self._output_lost = interrupts.received = True
            redirect_to_null(self.stream.fileno())
            self.interrupt()
            if not isinstance(error, BrokenPipeError):
                echo(f"the output cannot be written: {error}")


class _JsonDisplay(_Display):
    def __init__(self, runs: Runs, stored: bool) -> None:
        super().__init__(runs, stored)
        self.stream = sys.stdout

    def on_event(self, event: Event) -> None:
        self.write(print_json, event)

    def settle(self, result: Result) -> None:
        pass  # the events say it

    def close(self) -> None:
        pass  # each line is complete

    def print_outcome(self, result: Result) -> None:
        if result.status not in ("completed", "failed", "stopped"):
            summary = {
                "event": "run_summary",
                "timestamp": stamp(time.time()),
                "run_id": result.run_id,
                "data": result.summary,
            }
            self.write(print_json, summary)


class _LiveDisplay(_Display):
    def __init__(self, runs: Runs, stored: bool) -> None:
        super().__init__(runs, stored)
        self.stream = sys.stderr
        self._view: LiveView | None = None
        self._is_visible = False

    def ask_handler(self, inspection: Inspection) -> Callable[[Question], Awaitable[str]] | None:
        from roundel.cli.live_view import LiveView

        terminal = console()
        self._view = view = LiveView(
            inspection.plan,
            terminal,
            terminal.is_terminal,
            scripted=inspection.script is not None,
            resumed_state=inspection.state if inspection.row is not None else None,
        )
        view.run_id = self.run_id if self._stored else ""
        if not is_interactive():
            return None
        from roundel.cli.prompt import ask_in_terminal

        return lambda question: ask_in_terminal(question, self._visible_view())

    def _visible_view(self) -> LiveView:
        """The view, which appears when there is something to show: not for a run that cannot be started."""
        assert self._view is not None
        if not self._is_visible:
            self._is_visible = True
            self.write(self._view.__enter__)
        return self._view

    def on_event(self, event: Event) -> None:
        self.write(self._visible_view(), event)

    def settle(self, result: Result) -> None:
        self._visible_view().settle(result.usage)

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
        elif result.status == "stopped":
            echo("stopped")


def is_interactive() -> bool:
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()
