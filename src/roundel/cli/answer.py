"""`roundel answer`: answers what a run asks, and resumes it."""

from __future__ import annotations

import sys

import click

from roundel.cli.arguments import run_argument
from roundel.cli.execution import execute, person_is_there
from roundel.cli.next_step import suggest
from roundel.cli.output import say
from roundel.cli.stored import find_run, store_option, with_runs
from roundel.hosts.engine import Attach
from roundel.hosts.requests import UnclearAnswer
from roundel.journal.store import RunRow, StoreError
from roundel.runs.runs import Runs


@click.command("answer")
@run_argument
@click.argument("text", required=False, metavar="[TEXT|-]")
@click.option("--at", "address", default="", metavar="ADDRESS", help="Which question, if there are several.")
@click.option("--no-run", is_flag=True, help="Record the answer, and do not resume the run.")
@click.option("--json", "as_json", is_flag=True, help="Print each event as a line of JSON.")
@store_option
def answer_command(
    run: str, text: str | None, address: str, no_run: bool, as_json: bool, place: str | None
) -> None:
    """Answer what a run asks, and resume it here, unless another process executes it.

    RUN is an id, the beginning of one, or `last`. TEXT is the answer, - reads it from standard input. Without
    it you are asked in a terminal; elsewhere the open questions are shown. Output and
    exit codes are those of `roundel run`.
    """
    if text == "-":
        text = sys.stdin.buffer.read().decode("utf-8", "replace").rstrip("\n")

    async def work(runs: Runs) -> int:
        run_id = await find_run(runs, run)
        if text is not None:
            return await _answer(runs, run_id, text, address, no_run, as_json)
        if person_is_there() and not (address or no_run or as_json):
            row = await runs.row(run_id)
            if row.status == "waiting" and not row.owner:  # the run itself asks, once it is resumed
                return await execute(
                    runs, lambda attach: runs.resume_in_background(run_id, attach=attach), as_json=False
                )
        await _show(runs, run_id)
        return 0

    sys.exit(with_runs(place, work))


async def _show(runs: Runs, run_id: str) -> None:
    from roundel.cli.output import console
    from roundel.cli.prompt import shown

    questions = await runs.questions(run_id)
    if not questions:
        raise StoreError(f"run {run_id} asks nobody; it is {(await runs.row(run_id)).status}")
    for question in questions:
        console(stderr=False).print(shown(question))
    at = ("--at", questions[0].address) if len(questions) > 1 else ()
    suggest("answer", run_id, "TEXT", *at)


async def _answer(runs: Runs, run_id: str, text: str, address: str, no_run: bool, as_json: bool) -> int:
    async def answer(attach: Attach | None = None) -> RunRow:
        try:
            return await runs.answer(run_id, text, at=address, exact=True, execute=attach)
        except UnclearAnswer as error:
            raise click.UsageError(str(error)) from None

    row = await runs.row(run_id)
    if not (no_run or row.owner or row.status == "paused"):
        return await execute(runs, answer, as_json)
    await answer()
    if row.owner:
        say(f"answered; run {run_id} continues in the process that executes it")
    else:
        say("answered")
    return 0
