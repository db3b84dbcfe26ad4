"""`roundel unlock`: lets a locked run go on, once somebody has looked into it."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Sequence

import click

from roundel.cli.arguments import run_argument
from roundel.cli.going_on import go_on
from roundel.cli.limits import limit_option, limits_of
from roundel.cli.next_step import suggest
from roundel.cli.output import console, say
from roundel.cli.stored import find_run, in_store, store_option
from roundel.cli.work import person_is_there
from roundel.journal.store import Store, StoreError
from roundel.kernel.unlock import CHECKS, Refused
from roundel.sessions.control import locked, unlock

QUESTIONS = {
    "cause_understood": "Do you understand why it was locked?",
    "cost_accepted": "Do you accept what it costs to go on?",
    "workflow_reviewed": "Have you looked at the workflow and its limits?",
}

OPTIONS = {
    "reason": "--reason TEXT",
    "checks": " ".join(f"--{name.replace('_', '-')}" for name in CHECKS),
    "limits": "--limit NAME=N",
    "message": "--message TEXT",
    "exit": "--exit NODE",
}
"""What the fields of an unlock are called here."""


@click.command("unlock")
@run_argument
@click.option("--reason", default="", metavar="TEXT", help="Why it may go on; kept with the run.")
@click.option("--cause-understood", is_flag=True, help="Confirm: why it was locked is understood.")
@click.option("--cost-accepted", is_flag=True, help="Confirm: what it costs to go on is accepted.")
@click.option(
    "--workflow-reviewed", is_flag=True, help="Confirm: the workflow and its limits were looked at."
)
@limit_option
@click.option("--message", metavar="TEXT", help="What the last message is to be instead.")
@click.option("--note", default="", metavar="TEXT", help="A word to the agent that runs next.")
@click.option("--exit", "way_out", default="", metavar="NODE", help="Leave the loop, for this node outside.")
@click.option("--by", default="", metavar="NAME", help="Who unlocks it; you, if it is not said.")
@click.option("--no-run", is_flag=True, help="Unlock it, and do not go on with the run.")
@click.option("--json", "as_json", is_flag=True, help="Print each event as a line of JSON.")
@store_option
def command(
    run: str,
    reason: str,
    cause_understood: bool,
    cost_accepted: bool,
    workflow_reviewed: bool,
    limits: tuple[str, ...],
    message: str | None,
    note: str,
    way_out: str,
    by: str,
    no_run: bool,
    as_json: bool,
    place: str | None,
) -> None:
    """Unlock a run that met a limit or went in circles, and go on with it here, in the same round.

    RUN is an id, the beginning of one, or `last`. It takes a reason and three confirmations; without
    them the evidence is shown, and in a terminal they are asked for.
    """
    given = {
        "cause_understood": cause_understood,
        "cost_accepted": cost_accepted,
        "workflow_reviewed": workflow_reviewed,
    }
    raised = limits_of(limits)

    async def work(store: Store) -> int:
        run_id = await find_run(store, run)
        lock = await locked(store, run_id)
        why, checks = reason, [name for name in CHECKS if given[name]]
        if _missing(why, checks):
            from roundel.cli.evidence import evidence

            console().print(evidence(lock))
            if person_is_there():
                from roundel.cli.prompt import ask, confirm

                why = why or ask("Why may it go on: ", required=True)
                checks = [name for name in CHECKS if given[name] or confirm(QUESTIONS[name])]
            _must_be_complete(run_id, _missing(why, checks))
        try:
            await unlock(store, run_id, why, checks, _me(by), raised, message, note, way_out)
        except StoreError as error:
            raise _with_options(error) from error
        if no_run:
            say("unlocked")
            return 0
        return await go_on(store, run_id, as_json)

    sys.exit(in_store(place, work))


def _missing(reason: str, checks: Sequence[str]) -> list[str]:
    """The options that it takes and that were not given."""
    options = [] if reason.strip() else ["--reason"]
    return options + [_option(name) for name in CHECKS if name not in checks]


def _option(check: str) -> str:
    return f"--{check.replace('_', '-')}"


def _must_be_complete(run_id: str, missing: Sequence[str]) -> None:
    if not missing:
        return
    suggest("unlock", run_id, "--reason", "TEXT", *map(_option, CHECKS))
    named = ", ".join("--reason TEXT" if option == "--reason" else option for option in missing)
    raise click.UsageError(f"to unlock a run takes a reason and three self-checks; missing: {named}")


def _with_options(error: StoreError) -> StoreError:
    """The error, with the options that it is about."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, Refused):
        cause = cause.__cause__
    options = [OPTIONS[field] for field in cause.fields] if cause is not None else []
    return StoreError(f"{error} ({' or '.join(options)})") if options else error


def _me(by: str) -> str:
    try:
        return by or getpass.getuser()
    except (OSError, KeyError, ImportError):
        return "unknown"
