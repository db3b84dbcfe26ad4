"""`roundel store`: converts the file of a store that an older version of Roundel wrote."""

from __future__ import annotations

import click

from roundel.cli.next_step import suggest
from roundel.cli.output import echo
from roundel.cli.store_access import store_option, with_runs
from roundel.journal.store import Conversion, HasFormats
from roundel.runs.runs import Runs


@click.group("store")
def store_command() -> None:
    """Convert a store of an older version."""


@store_command.command("migrate")
@click.option("--check", is_flag=True, help="Only say what would be done, and whether it is possible.")
@store_option
def migrate(check: bool, place: str | None) -> None:
    """Convert a store to the format of this version, and keep a copy of it in the old one."""

    async def work(runs: Runs) -> tuple[str, Conversion]:
        store = runs.store
        if not isinstance(store, HasFormats):
            raise click.UsageError(f"{store.location} is no file, so it has no format to convert")
        return store.location, await store.migrate(check)

    location, made = with_runs(place, work)
    suggest("runs")
    if not made.steps:
        echo(f"{location} has the current format, {made.after}")
        return
    verb = "would be" if check else "was"
    for number, step in enumerate(made.steps, made.before):
        echo(f"format {number} to {number + 1}: {step}")
    echo(f"{location} {verb} converted; {made.copy} {'would be' if check else 'is'} a copy in the old format")
