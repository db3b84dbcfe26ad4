"""`roundel pause`: lets a run come to rest."""

from __future__ import annotations

import click

from roundel.cli.arguments import run_argument
from roundel.cli.next_step import suggest
from roundel.cli.output import say
from roundel.cli.stored import reason_option, steered, store_option
from roundel.sessions.control import pause


@click.command("pause")
@run_argument
@reason_option
@store_option
def command(run: str, reason: str, place: str | None) -> None:
    """Let a run come to rest: what is at work finishes and is kept, nothing new is begun.

    RUN is an id, the beginning of one, or `last`.
    """
    run_id = steered(place, run, lambda store, run_id: pause(store, run_id, reason))
    suggest("resume", run_id)
    say(f"run {run_id} pauses")
