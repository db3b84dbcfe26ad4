"""`roundel resume`: resumes a run, in this process."""

from __future__ import annotations

import sys

import click

from roundel.cli.arguments import run_argument
from roundel.cli.execution import execute
from roundel.cli.stored import find_run, store_option, with_runs
from roundel.runs.runs import Runs


@click.command("resume")
@run_argument
@click.option("--json", "as_json", is_flag=True, help="Print each event as a line of JSON.")
@store_option
def resume_command(run: str, as_json: bool, place: str | None) -> None:
    """Resume a run that was paused, that waits, or whose process died.

    RUN is an id, the beginning of one, or `last`. What was done is not done again. Output and exit codes are
    those of `roundel run`.
    """

    async def work(runs: Runs) -> int:
        run_id = await find_run(runs, run)
        return await execute(runs, lambda attach: runs.resume_in_background(run_id, attach=attach), as_json)

    sys.exit(with_runs(place, work))
