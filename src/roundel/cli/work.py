"""A run at work in this process: with a live view, or with its events as JSON."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from typing import IO, TYPE_CHECKING, NamedTuple

import click

from roundel.cli import EXIT
from roundel.cli.next_step import again, command_line, current
from roundel.cli.output import print_json, print_result, say, styled
from roundel.cli.signals import INTERRUPTED, discard, interrupts
from roundel.hosts.local import LocalHost
from roundel.hosts.result import Question, Result
from roundel.journal.store import Fenced, Gone, StoreError
from roundel.kernel.events import stamp
from roundel.kernel.state import Run
from roundel.nodes.middleware import Middleware
from roundel.plan.graph import Plan

if TYPE_CHECKING:
    from roundel.cli.live import LiveView


class Work(NamedTuple):
    plan: Plan
    host: Callable[..., Awaitable[LocalHost]]
    """Where it is done, given who answers (`asker`) and who looks on (`on_event`)."""
    go: Callable[[LocalHost], Awaitable[Result]]
    scripted: bool
    kept: bool
    goes_on: Run | None = None
    """A run that was begun before, as it stands."""


class Interruption:
    """Passes an interrupt on to the host of a run, which may not be there yet."""

    def __init__(self) -> None:
        self.requested = False
        self._host: LocalHost | None = None

    def request(self) -> None:
        self.requested = True
        if self._host is not None:
            self._host.interrupt()

    def attach(self, host: LocalHost) -> None:
        self._host = host
        if self.requested:
            host.interrupt()


async def carry_out(make: Callable[[], Awaitable[Work]], as_json: bool) -> int:
    """The exit code."""
    watchers = _watchers()
    interruption = Interruption()
    with interrupts.acting(interruption.request):
        work = await make()
        drive = _as_json if as_json else _live
        result = await drive(work, watchers, interruption)
    # Not if it had come to an end of its own before the interrupt took effect.
    interrupted = interruption.requested and result.status in ("paused", "waiting", "stopped")
    return INTERRUPTED if interrupted else EXIT[result.status]


def _watchers() -> list[Middleware]:
    """Whatever the environment asks for."""
    from roundel.telemetry import TelemetryError, from_environment

    try:
        telemetry = from_environment()
    except TelemetryError as error:
        raise click.ClickException(str(error)) from None
    return [] if telemetry is None else [telemetry]


async def _as_json(work: Work, watchers: list[Middleware], interruption: Interruption) -> Result:
    output = _Output(sys.stdout, interruption)
    host = await work.host(on_event=partial(output, print_json), middleware=watchers)
    _attach(host, work, interruption)
    result = await _result(work, host)
    if result.status not in ("completed", "failed", "stopped"):
        summary = {
            "event": "run_summary",
            "timestamp": stamp(host.now()),
            "run_id": host.run_id,
            "data": result.summary,
        }
        output(print_json, summary)
    return result


async def _live(work: Work, watchers: list[Middleware], interruption: Interruption) -> Result:
    from roundel.cli.live import LiveView
    from roundel.cli.output import console

    terminal = console()
    view = LiveView(work.plan, terminal, terminal.is_terminal, scripted=work.scripted, goes_on=work.goes_on)
    asker = _terminal_asker(view) if person_is_there() else None
    output = _Output(sys.stderr, interruption)
    host = await work.host(asker=asker, on_event=partial(output, view), middleware=watchers)
    _attach(host, work, interruption)
    view.run_id = host.run_id if work.kept else ""
    output(view.__enter__)
    try:
        result = await _result(work, host)
        view.settle(result.usage)
    finally:
        output(view.__exit__, None, None, None)
    _conclude(result, work.kept)
    return result


def _attach(host: LocalHost, work: Work, interruption: Interruption) -> None:
    interrupts.next_step = command_line("resume", host.run_id) if work.kept else again(current())
    interruption.attach(host)


class _Output:
    """Shows what happens until nobody reads it any more, which interrupts the run."""

    def __init__(self, stream: IO[str], interruption: Interruption) -> None:
        self._stream = stream
        self._interruption = interruption
        self._lost = False

    def __call__(self, show: Callable[..., object], *what: object) -> None:
        if self._lost:
            return
        try:
            show(*what)
        except OSError as error:  # a closed pipe, a terminal that is gone, a full disk
            self._lost = interrupts.received = True
            discard(self._stream.fileno())
            self._interruption.request()
            if not isinstance(error, BrokenPipeError):
                say(f"the output cannot be written: {error}")


async def _result(work: Work, host: LocalHost) -> Result:
    try:
        return await work.go(host)
    except asyncio.CancelledError:
        return host.result()
    except (Fenced, Gone):  # there is nothing of ours to resume
        raise
    except StoreError as error:
        told = f"{error}\nWhat was done before is kept. Go on with: roundel resume {host.run_id}"
        raise StoreError(told) from error


def person_is_there() -> bool:
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


def _terminal_asker(view: LiveView) -> Callable[[Question], Awaitable[str]]:
    from roundel.cli.prompt import ask_in_terminal

    return lambda question: ask_in_terminal(question, view)


def _conclude(result: Result, kept: bool) -> None:
    if result.output:
        print_result(result.output)
    if result.status == "failed":
        say(styled(f"failed: {result.error}", fg="red"))
    elif result.status == "waiting" and not kept:
        say("waiting for a person: run it in a terminal, or give the answer in a script")
    elif result.status == "stopped":
        say("stopped")
