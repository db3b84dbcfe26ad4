"""A run at work in this process: with a live view, or with its events as JSON."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple

import click

from roundel.cli import EXIT
from roundel.cli.output import print_json, print_result, say, styled
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


async def carry_out(work: Work, as_json: bool) -> int:
    """The exit code."""
    watchers = _watchers()
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await (_as_json(work, watchers) if as_json else _live(work, watchers))


def _watchers() -> list[Middleware]:
    """Whatever the environment asks for."""
    from roundel.telemetry import TelemetryError, from_environment

    try:
        telemetry = from_environment()
    except TelemetryError as error:
        raise click.ClickException(str(error)) from None
    return [] if telemetry is None else [telemetry]


async def _as_json(work: Work, watchers: list[Middleware]) -> int:
    host = await work.host(on_event=print_json, middleware=watchers)
    result = await _result(work, host)
    if result.status not in ("completed", "failed", "stopped"):
        summary = {
            "event": "run_summary",
            "timestamp": stamp(host.now()),
            "run_id": host.run_id,
            "data": result.summary,
        }
        print_json(summary)
    return EXIT[result.status]


async def _live(work: Work, watchers: list[Middleware]) -> int:
    from roundel.cli.live import LiveView
    from roundel.cli.output import console

    terminal = console()
    view = LiveView(work.plan, terminal, terminal.is_terminal, scripted=work.scripted, goes_on=work.goes_on)
    asker = _terminal_asker(view) if person_is_there() else None
    host = await work.host(asker=asker, on_event=view, middleware=watchers)
    view.run_id = host.run_id if work.kept else ""
    with view:
        result = await _result(work, host)
        view.settle(result.usage)
    _conclude(result, work.kept)
    return EXIT[result.status]


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
