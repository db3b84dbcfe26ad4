"""`roundel stop`: ends a run."""

from __future__ import annotations

import click

from roundel.cli.arguments import run_argument
from roundel.cli.output import say
from roundel.cli.stored import find_run, reason_option, store_option, with_runs
from roundel.runs.runs import Runs


@click.command("stop")
@run_argument
@reason_option
@store_option
def stop_command(run: str, reason: str, place: str | None) -> None:
    """End a run: calls in flight are cancelled. It cannot be resumed, but it can be forked.

    RUN is an id, the beginning of one, or `last`.
    """

    async def work(runs: Runs) -> None:
        run_id = await find_run(runs, run)
        await runs.stop(run_id, reason)
        say(f"run {run_id} is stopped")

    with_runs(place, work)
