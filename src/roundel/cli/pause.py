"""`roundel pause`: lets a run come to rest."""

from __future__ import annotations

import click

from roundel.cli.output import say
from roundel.cli.stored import in_store, store_option
from roundel.journal.sqlite import SqliteStore
from roundel.sessions.control import pause
from roundel.sessions.naming import find


@click.command("pause")
@click.argument("run")
@store_option
def command(run: str, place: str | None) -> None:
    """Let a run come to rest: what is at work finishes and is kept, nothing new is begun.

    RUN is an id, the beginning of one, or `last`.
    """

    async def work(store: SqliteStore) -> str:
        run_id = await find(store, run)
        await pause(store, run_id)
        return run_id

    run_id = in_store(place, work)
    say(f"run {run_id} pauses; go on with: roundel resume {run_id}")
