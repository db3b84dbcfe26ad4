"""Executes a run in this process for a command: with a live view, or with its events as lines of JSON."""

from __future__ import annotations

import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import IO, TYPE_CHECKING

import click

from roundel.cli import EXIT
from roundel.cli.next_step import about, again, command_line, current
from roundel.cli.output import concealment, console, print_json, print_result, say, styled
from roundel.cli.signals import INTERRUPTED, discard, interrupts
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
    display = _Json(runs, stored) if as_json else _Live(runs, stored)
    display.middleware, display.recorder = _telemetry(), recorder
    with interrupts.acting(display.interrupt):
        try:
            await begin(display.attach)
            if not display.run_id:
                say(f"run {current().run_id} continues in the process that executes it")
                return 0
            if display.interrupted:
                runs.interrupt(display.run_id)
            result = await _result(runs, display.run_id)
            display.settle(result)
        finally:
            display.close()
        display.conclude(result)
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
        self._lost = False
        """Nobody reads the output."""

    def attach(self, run_id: str, inspection: Inspection) -> Attachment:
        """Called when the run is open, before anything of it is executed."""
        self.run_id = run_id
        concealment.know(secrets_of(inspection.plan))
        if self._stored:
            about(run_id)
        interrupts.next_step = command_line("resume", run_id) if self._stored else again(current())
        return Attachment(
            self.asker(inspection),
            self.on_event,
            self.middleware,
            self.recorder,
            preparing=interrupts.synchronously(),
        )

    def asker(self, inspection: Inspection) -> Callable[[Question], Awaitable[str]] | None:
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
    def conclude(self, result: Result) -> None:
        """What is left to say."""

    def interrupt(self) -> None:
        self.interrupted = True
        if self.run_id:
            self._runs.interrupt(self.run_id)

    def write(self, write: Callable[..., object], *what: object) -> None:
        if self._lost:
            return
        try:
            write(*what)
        except OSError as error:  # a closed pipe, a terminal that is gone, a full disk
            self._lost = interrupts.received = True
            discard(self.stream.fileno())
            self.interrupt()
            if not isinstance(error, BrokenPipeError):
                say(f"the output cannot be written: {error}")


class _Json(_Display):
    def __init__(self, runs: Runs, stored: bool) -> None:
        super().__init__(runs, stored)
        self.stream = sys.stdout

    def on_event(self, event: Event) -> None:
        self.write(print_json, event)

    def settle(self, result: Result) -> None:
        pass  # the events say it

    def close(self) -> None:
        pass  # each line is complete

    def conclude(self, result: Result) -> None:
        if result.status not in ("completed", "failed", "stopped"):
            summary = {
                "event": "run_summary",
                "timestamp": stamp(time.time()),
                "run_id": result.run_id,
                "data": result.summary,
            }
            self.write(print_json, summary)


class _Live(_Display):
    def __init__(self, runs: Runs, stored: bool) -> None:
        super().__init__(runs, stored)
        self.stream = sys.stderr
        self._view: LiveView | None = None
        self._appeared = False

    def asker(self, inspection: Inspection) -> Callable[[Question], Awaitable[str]] | None:
        from roundel.cli.live_view import LiveView

        terminal = console()
        self._view = view = LiveView(
            inspection.plan,
            terminal,
            terminal.is_terminal,
            scripted=inspection.script is not None,
            goes_on=inspection.state if inspection.row is not None else None,
        )
        view.run_id = self.run_id if self._stored else ""
        if not person_is_there():
            return None
        from roundel.cli.prompt import ask_in_terminal

        return lambda question: ask_in_terminal(question, self._shown())

    def _shown(self) -> LiveView:
        """The view, which appears when there is something to show: not for a run that cannot be started."""
        assert self._view is not None
        if not self._appeared:
            self._appeared = True
            self.write(self._view.__enter__)
        return self._view

    def on_event(self, event: Event) -> None:
        self.write(self._shown(), event)

    def settle(self, result: Result) -> None:
        self._shown().settle(result.usage)

    def close(self) -> None:
        if self._view is not None and self._appeared:
            self.write(self._view.__exit__, None, None, None)

    def conclude(self, result: Result) -> None:
        if result.output:
            print_result(result.output)
        if result.status == "failed":
            say(styled(f"failed: {result.error}", fg="red"))
        elif result.status == "waiting" and not self._stored:
            say("waiting for a person: run it in a terminal, or give the answer in a script")
        elif result.status == "stopped":
            say("stopped")


def person_is_there() -> bool:
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()
