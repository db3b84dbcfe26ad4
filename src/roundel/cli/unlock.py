"""`roundel unlock`: lets a locked run go on, once somebody has looked into it."""

from __future__ import annotations

import getpass
import sys

import click
import msgspec

from roundel.cli.going_on import go_on
from roundel.cli.limits import limit_option, limits_of
from roundel.cli.output import say
from roundel.cli.stored import in_store, store_option
from roundel.journal.sqlite import SqliteStore
from roundel.kernel.unlock import CHECKS
from roundel.sessions.control import locked, unlock
from roundel.sessions.naming import find

QUESTIONS = {
    "cause_understood": "Do you understand why it was locked?",
    "cost_accepted": "Do you accept what it costs to go on?",
    "workflow_reviewed": "Have you looked at the workflow and its limits?",
}


@click.command("unlock")
@click.argument("run")
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

    RUN is an id, the beginning of one, or `last`. It takes a reason and three confirmations; in a terminal
    what is missing is asked for, with the evidence shown first.
    """
    given = {
        "cause_understood": cause_understood,
        "cost_accepted": cost_accepted,
        "workflow_reviewed": workflow_reviewed,
    }
    raised = limits_of(limits)

    async def work(store: SqliteStore) -> int:
        run_id = await find(store, run)
        lock = await locked(store, run_id)
        asks = sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()
        if asks and not (reason.strip() and all(given.values())):
            say(f"{run_id} is locked: {lock.what} at {lock.address}, limit {lock.limit:g}")
            for name, value in lock.evidence.items():
                say(f"  {name}: {_shown(value)}")
        why = reason or (click.prompt("Why may it go on", err=True) if asks else "")
        checks = tuple(name for name in CHECKS if given[name] or (asks and _confirmed(name)))
        await unlock(store, run_id, why, checks, _me(by), raised, message, note, way_out)
        if no_run:
            say(f"unlocked; go on with: roundel resume {run_id}")
            return 0
        return await go_on(store, run_id, as_json)

    sys.exit(in_store(place, work))


def _confirmed(name: str) -> bool:
    return click.confirm(QUESTIONS[name], err=True)


def _shown(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value, enc_hook=repr).decode()


def _me(by: str) -> str:
    try:
        return by or getpass.getuser()
    except (OSError, KeyError, ImportError):
        return "unknown"
