"""The store as commands use it: where it is, how runs in it are named, how its errors are told."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import click

from roundel.cli import INVALID
from roundel.cli.next_step import about, suggest, suggest_for_run, suggest_plainly
from roundel.cli.output import tell
from roundel.cli.signals import interrupts
from roundel.journal.store import NoRun, Store, StoreError
from roundel.sessions.naming import Ambiguous, find
from roundel.sessions.place import store_at
from roundel.workflow.diagnostics import WorkflowError

Made = TypeVar("Made")

store_option = click.option(
    "--store",
    "place",
    type=click.Path(readable=False),  # the store says better what is wrong with it
    metavar="PATH|URL",
    help="Where runs are kept, instead of .roundel/runs.db.",
)


reason_option = click.option("--reason", default="", metavar="TEXT", help="Why; it is kept with the run.")


def most_option(default: int) -> Callable[[Any], Any]:
    """How many of them are listed."""
    kind = click.IntRange(min=1)
    return click.option(
        "--limit", type=kind, default=default, show_default=True, metavar="N", help="How many at most."
    )


class Unknown(click.ClickException):
    """Nothing goes by that name."""

    exit_code = INVALID


def store_of(place: str | None) -> Store:
    try:
        return store_at(place)
    except StoreError as error:
        raise click.UsageError(str(error)) from None


def is_there(store: Store) -> bool:
    """Whether there is a store yet."""
    return finished(store.exists)


def in_store(place: str | None, do: Callable[[Store], Awaitable[Made]], *, makes_it: bool = False) -> Made:
    """Does something with a store that is there already, unless this is what makes it."""
    store = store_of(place)
    if not (makes_it or is_there(store)):
        suggest_plainly("run", "--help")
        raise Unknown(f"there is no store at {store.location}, so there are no runs; --store names another")
    return finished(lambda: _with(store, do))


def steered(place: str | None, run: str, do: Callable[[Store, str], Awaitable[object]]) -> str:
    """The id of the run that was meant, once it has been done."""

    async def work(store: Store) -> str:
        run_id = await find_run(store, run)
        await do(store, run_id)
        return run_id

    return in_store(place, work)


async def find_run(store: Store, run: str) -> str:
    """The id of the run that is meant, which is the one that the command is about."""
    try:
        return about(await find(store, run))
    except (NoRun, Ambiguous):
        suggest("runs")
        raise


async def _with(store: Store, do: Callable[[Store], Awaitable[Made]]) -> Made:
    try:
        return await do(store)
    finally:
        await suggest_for_run(store)
        await store.close()


def finished(work: Callable[[], Awaitable[Made]]) -> Made:
    """Runs it to its end; what goes wrong with the store or a workflow ends the command with an error.
    KeyboardInterrupt if it was interrupted."""

    async def main() -> Made:
        task = asyncio.current_task()
        assert task is not None
        with interrupts.in_loop(task.cancel):
            return await work()

    try:
        return _run(main())
    except (NoRun, Ambiguous) as error:
        raise Unknown(str(error)) from None
    except StoreError as error:
        raise click.ClickException(str(error)) from None
    except WorkflowError as error:
        tell(error.diagnostics)
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
