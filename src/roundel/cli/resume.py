"""`roundel resume`: goes on with a run, in this process."""

from __future__ import annotations

import sys

import click

from roundel.cli.arguments import run_argument
from roundel.cli.going_on import go_on
from roundel.cli.stored import find_run, in_store, store_option
from roundel.journal.store import Store


@click.command("resume")
@run_argument
@click.option("--json", "as_json", is_flag=True, help="Print each event as a line of JSON.")
@store_option
def command(run: str, as_json: bool, place: str | None) -> None:
    """Go on with a run that was paused, that waits, or whose process died.

    RUN is an id, the beginning of one, or `last`. What was done is not done again. Output and exit codes are
    those of `roundel run`.
    """

    async def work(store: Store) -> int:
        return await go_on(store, await find_run(store, run), as_json)

    sys.exit(in_store(place, work))
