"""The store as commands use it: where it is, how its runs are named, how errors end a command."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import click

from roundel.cli import INVALID
from roundel.cli.next_step import set_current_run, suggest, suggest_for_run, suggest_without_store
from roundel.cli.output import print_diagnostics
from roundel.cli.signals import interrupts
from roundel.journal.registry import scheme_of, store_url
from roundel.journal.store import NoRun, StoreError
from roundel.llm.resource_pool import close_pool
from roundel.runs.lookup import AmbiguousRun
from roundel.runs.runs import Runs
from roundel.workflow.diagnostics import WorkflowError

Made = TypeVar("Made")

store_option = click.option(
    "--store",
    "place",
    type=click.Path(readable=False),  # the store says better what is wrong with it
    metavar="PATH|URL",
    help="Where runs are stored, instead of .roundel/runs.db.",
)


reason_option = click.option("--reason", default="", metavar="TEXT", help="Why; it is stored with the run.")


def count_option(default: int) -> Callable[[Any], Any]:
    """How many of them are listed."""
    kind = click.IntRange(min=1)
    return click.option(
        "--limit", type=kind, default=default, show_default=True, metavar="N", help="How many at most."
    )


class NotFound(click.ClickException):
    """Nothing has that name."""

    exit_code = INVALID


def open_runs(place: str | None) -> Runs:
    """The runs of a store, which need not exist yet."""
    if scheme_of(store_url(place)) == "memory":
        raise click.UsageError(
            "a store in memory ends with the command; name a file, or use `roundel run --no-store`"
        )
    runs = Runs(place)
    try:
        runs.store  # noqa: B018 (a wrong place is an error now)
    except StoreError as error:
        raise click.UsageError(str(error)) from None
    return runs


def store_exists(runs: Runs) -> bool:
    """Whether the store exists."""
    return run_to_end(runs.store.exists)


def with_runs(place: str | None, action: Callable[[Runs], Awaitable[Made]], *, creates: bool = False) -> Made:
    """Does something with the runs of a store, which has to exist unless this creates it."""
    runs = open_runs(place)
    if not (creates or store_exists(runs)):
        suggest_without_store("run", "--help")
        raise NotFound(
            f"there is no store at {runs.store.location}, so there are no runs; --store names another"
        )
    return run_to_end(lambda: _with_open_runs(runs, action))


def with_run(place: str | None, name: str, action: Callable[[Runs, str], Awaitable[Made]]) -> Made:
    """The same with the run that a command is about."""

    async def work(runs: Runs) -> Made:
        return await action(runs, await find_run(runs, name))

    return with_runs(place, work)


async def find_run(runs: Runs, name: str) -> str:
    """The id of the run that the command is about."""
    try:
        return set_current_run(await runs.find(name))
    except (NoRun, AmbiguousRun):
        suggest("runs")
        raise


async def _with_open_runs(runs: Runs, action: Callable[[Runs], Awaitable[Made]]) -> Made:
    async with runs:
        try:
            return await action(runs)
        finally:
            await suggest_for_run(runs)


def run_to_end(work: Callable[[], Awaitable[Made]]) -> Made:
    """Runs it to its end; what goes wrong with the store or a workflow ends the command with an error.
    KeyboardInterrupt if it was interrupted."""

    async def main() -> Made:
        task = asyncio.current_task()
        assert task is not None
        with interrupts.in_event_loop(task.cancel):
            try:
                return await work()
            finally:
                await close_pool()

    try:
        return _run(main())
    except (NoRun, AmbiguousRun) as error:
        raise NotFound(str(error)) from None
    except StoreError as error:
        raise click.ClickException(str(error)) from None
    except WorkflowError as error:
        print_diagnostics(error.diagnostics)
        sys.exit(INVALID)
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


def _run(main: Coroutine[Any, Any, Made]) -> Made:
    runner = asyncio.Runner()
    try:
        return runner.run(main)
    finally:
        # To close it is to wait for the threads of functions, which nobody can cancel.
        if not interrupts.received:
            runner.close()
