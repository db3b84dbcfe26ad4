"""The store as commands use it: where it is, how its runs are named, and how errors end a command.

Every command that needs an event loop goes through `run_to_end`, and every command about a stored run
through `with_runs` or `with_run`. They open and close the store, turn errors into exit codes, and
suggest the next step, while the store is still open.
"""

from __future__ import annotations

import asyncio
import getpass
import sys
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import click

from roundel.cli import INVALID
from roundel.cli.next_step import set_current_run, suggest, suggest_for_run, suggest_without_store
from roundel.cli.output import print_diagnostics, print_warnings
from roundel.cli.signals import interrupts
from roundel.hosts.contexts import CONTEXT_BYTES
from roundel.journal.registry import scheme_of, store_url
from roundel.journal.store import NoRun, StoreError
from roundel.llm.resource_pool import close_pool
from roundel.plan.overrides import LimitError
from roundel.runs.lookup import AmbiguousRun
from roundel.runs.runs import Runs
from roundel.workflow.diagnostics import WorkflowError

T = TypeVar("T")

store_option = click.option(
    "--store",
    "place",
    type=click.Path(readable=False),  # the store itself has the better error texts
    metavar="PATH|URL",
    help="Where runs are stored, instead of .roundel/runs.db.",
)


context_option = click.option(
    "--context-bytes",
    type=click.IntRange(min=0),
    default=CONTEXT_BYTES,
    show_default=True,
    metavar="N",
    help="How much of what its models get a run keeps; 0: nothing.",
)
reason_option = click.option("--reason", default="", metavar="TEXT", help="Why; stored with the run.")


def count_option(default: int) -> Callable[[Any], Any]:
    """The option `--limit` of a command that prints a list."""
    kind = click.IntRange(min=1)
    return click.option(
        "--limit", type=kind, default=default, show_default=True, metavar="N", help="Show at most N."
    )


class NotFound(click.ClickException):
    """An unknown run, loop or store: a mistake in the arguments, so the exit code is 2 and not 1."""

    exit_code = INVALID


def open_runs(place: str | None, context_bytes: int = CONTEXT_BYTES) -> Runs:
    """Opens the runs of a store, which need not exist yet; raises UsageError for a wrong location."""
    if scheme_of(store_url(place)) == "memory":
        raise click.UsageError(
            "a store in memory ends with the command; name a file, or use `roundel run --no-store`"
        )
    runs = Runs(place, on_warnings=print_warnings, by=user_name(), context_bytes=context_bytes)
    try:
        runs.store  # noqa: B018 (opened here, so that a wrong location is a usage error)
    except StoreError as error:
        raise click.UsageError(str(error)) from None
    return runs


def user_name() -> str:
    """Who uses this command line: what a command does is stored with this name."""
    try:
        return getpass.getuser()
    # In a container, the user id may have no name.
    except (OSError, KeyError, ImportError):
        return "unknown"


def store_exists(runs: Runs) -> bool:
    """Whether the store exists; a command that only reads must not create one."""
    return run_to_end(runs.store.exists)


def with_runs(place: str | None, action: Callable[[Runs], Awaitable[T]], *, creates: bool = False) -> T:
    """Calls `action` with the runs of a store, and returns its result.

    The store has to exist unless the action `creates` it: with a mistyped path, `roundel resume` must
    not leave an empty file behind.
    """
    runs = open_runs(place)
    if not (creates or store_exists(runs)):
        suggest_without_store("run", "--help")
        raise NotFound(
            f"there is no store at {runs.store.location}, so there are no runs; name another with --store"
        )
    return run_to_end(lambda: _with_open_runs(runs, action))


def with_run(place: str | None, name: str, action: Callable[[Runs, str], Awaitable[T]]) -> T:
    """Calls `action` with a store and the id of the run that `name` stands for."""

    async def work(runs: Runs) -> T:
        return await action(runs, await find_run(runs, name))

    return with_runs(place, work)


async def find_run(runs: Runs, name: str) -> str:
    """The id of the run that `name` stands for; it becomes the run that the command is about."""
    try:
        return set_current_run(await runs.find(name))
    except (NoRun, AmbiguousRun):
        suggest("runs")
        raise


async def _with_open_runs(runs: Runs, action: Callable[[Runs], Awaitable[T]]) -> T:
    async with runs:
        try:
            return await action(runs)
        finally:
            # After errors too, and before the store is closed: the suggestion reads the status of the
            # run.
            await suggest_for_run(runs)


def run_to_end(work: Callable[[], Awaitable[T]]) -> T:
    """Runs a coroutine in a new event loop, and returns its result.

    Errors of the store or a workflow end the command with a message. Raises KeyboardInterrupt if a
    signal cancelled it.
    """

    async def main() -> T:
        task = asyncio.current_task()
        assert task is not None
        with interrupts.in_event_loop(task.cancel):
            try:
                return await work()
            finally:
                # Clients and MCP sessions belong to this event loop and have to be closed in it.
                await close_pool()

    try:
        return _run(main())
    except (NoRun, AmbiguousRun) as error:
        raise NotFound(str(error)) from None
    except StoreError as error:
        raise click.ClickException(str(error)) from None
    except LimitError as error:
        raise click.UsageError(str(error)) from None
    except WorkflowError as error:
        print_diagnostics(error.diagnostics)
        sys.exit(INVALID)
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


def _run(main: Coroutine[Any, Any, T]) -> T:
    runner = asyncio.Runner()
    try:
        return runner.run(main)
    finally:
        # `close` waits for the threads of the default executor. After an interrupt a Python function may
        # still run there, and nothing can cancel it.
        if not interrupts.received:
            runner.close()
