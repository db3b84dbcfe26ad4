"""`roundel replay`: where a run would go another way."""

from __future__ import annotations

import sys

import click

from roundel.cli.arguments import WorkflowFile, run_argument
from roundel.cli.limits import limit_option, limits_of
from roundel.cli.output import ALLOWS_NOTHING, allow_option, say
from roundel.cli.stored import store_option, with_run
from roundel.runs.rerun import Difference
from roundel.runs.runs import Runs


@click.command("replay")
@run_argument
@click.option(
    "--workflow", metavar="FILE", type=WorkflowFile(), help="Another workflow than the run was started with."
)
@allow_option
@limit_option
@store_option
def replay_command(
    run: str, workflow: str | None, allowed: tuple[str, ...], limits: tuple[str, ...], place: str | None
) -> None:
    """Play a run again on another workflow or with other limits, and say where it first differs.

    RUN is an id, the beginning of one, or `last`. No model is called and nobody is asked: what they said is
    taken from the run. Exit codes: 0 it does not differ, 1 it does, 2 bad usage.
    """
    bounds = limits_of(limits)
    if allowed and workflow is None:
        raise click.UsageError(ALLOWS_NOTHING)

    async def work(runs: Runs, run_id: str) -> tuple[str, Difference | None]:
        return run_id, await runs.replay(run_id, workflow=workflow, limits=bounds, allow_paths=allowed)

    run_id, difference = with_run(place, run, work)
    say(str(difference) if difference is not None else f"run {run_id} would go the same way", err=False)
    sys.exit(0 if difference is None else 1)
