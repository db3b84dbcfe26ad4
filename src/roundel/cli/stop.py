"""`roundel stop`: ends a run."""

from __future__ import annotations

import click

from roundel.cli.output import say
from roundel.cli.stored import in_store, store_option
from roundel.journal.sqlite import SqliteStore
from roundel.sessions.control import stop
from roundel.sessions.naming import find


@click.command("stop")
@click.argument("run")
@store_option
def command(run: str, place: str | None) -> None:
    """End a run: what is at work is called off. It cannot go on, but it can be forked.

    RUN is an id, the beginning of one, or `last`.
    """

    async def work(store: SqliteStore) -> str:
        run_id = await find(store, run)
        await stop(store, run_id)
        return run_id

    say(f"run {in_store(place, work)} is stopped")
