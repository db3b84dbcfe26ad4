"""`roundel pause`: pauses a run."""

from __future__ import annotations

import click

from roundel.cli.arguments import run_argument
from roundel.cli.next_step import suggest
from roundel.cli.output import say
from roundel.cli.stored import find_run, reason_option, store_option, with_runs
from roundel.runs.runs import Runs


@click.command("pause")
@run_argument
@reason_option
@store_option
def pause_command(run: str, reason: str, place: str | None) -> None:
    """Pause a run: calls in flight finish and are kept, nothing new starts.

    RUN is an id, the beginning of one, or `last`.
    """

    async def work(runs: Runs) -> None:
        run_id = await find_run(runs, run)
        await runs.pause(run_id, reason)
        suggest("resume", run_id)
        say(f"run {run_id} pauses")

    with_runs(place, work)
