"""`roundel fork`: a new run from a point of an old one."""

from __future__ import annotations

import sys

import click

from roundel.cli.arguments import WorkflowFile, run_argument
from roundel.cli.execution import execute
from roundel.cli.limits import limit_option, limits_of
from roundel.cli.next_step import about
from roundel.cli.output import ALLOWS_NOTHING, allow_option, say
from roundel.cli.stored import find_run, store_option, with_runs
from roundel.runs.runs import Runs


@click.command("fork")
@run_argument
@click.option(
    "--at", default="", metavar="ADDRESS", help="Where it begins; without this, where the run is now."
)
@click.option("--message", metavar="TEXT", help="What is asked there, in place of the last message.")
@click.option(
    "--workflow", metavar="FILE", type=WorkflowFile(), help="Another workflow than the run was started with."
)
@allow_option
@limit_option
@click.option(
    "--script",
    "script_file",
    metavar="FILE",
    type=WorkflowFile(),
    help="Other replies for models and people.",
)
@click.option("--no-run", is_flag=True, help="Do not execute it; print its id.")
@click.option("--json", "as_json", is_flag=True, help="Print each event as a line of JSON.")
@store_option
def fork_command(
    run: str,
    at: str,
    message: str | None,
    workflow: str | None,
    allowed: tuple[str, ...],
    limits: tuple[str, ...],
    script_file: str | None,
    no_run: bool,
    as_json: bool,
    place: str | None,
) -> None:
    """Start a new run from a point of an old one.

    RUN is an id, the beginning of one, or `last`. The old run stays as it is, and nothing that it did before
    that point is done again. Output and exit codes are those of `roundel run`.
    """
    bounds = limits_of(limits)
    if allowed and workflow is None:
        raise click.UsageError(ALLOWS_NOTHING)

    async def work(runs: Runs) -> int:
        run_id = await find_run(runs, run)
        made = await runs.fork(
            run_id,
            at,
            workflow=workflow,
            limits=bounds,
            message=message,
            script=script_file,
            allow_paths=allowed,
        )
        about(made)
        if no_run:
            say(made, err=False)
            return 0
        if not as_json:
            say(f"forked {run_id}{f' at {at}' if at else ''} as {made}")
        return await execute(runs, lambda attach: runs.resume_in_background(made, attach=attach), as_json)

    sys.exit(with_runs(place, work))
