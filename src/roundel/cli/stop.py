"""`roundel stop`: ends a run."""

from __future__ import annotations

import click

from roundel.cli.arguments import run_argument
from roundel.cli.output import say
from roundel.cli.stored import reason_option, steered, store_option
from roundel.sessions.control import stop


@click.command("stop")
@run_argument
@reason_option
@store_option
def command(run: str, reason: str, place: str | None) -> None:
    """End a run: what is at work is called off. It cannot go on, but it can be forked.

    RUN is an id, the beginning of one, or `last`.
    """
    say(f"run {steered(place, run, lambda store, run_id: stop(store, run_id, reason))} is stopped")
