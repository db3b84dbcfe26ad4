"""`roundel resume`, `pause`, `stop`, `answer`, `lock` and `unlock`: the commands that control a stored run.

`resume`, `answer` and `unlock` execute the run in this process, unless another process executes it
already; then that process applies the control request, and this command only reports it.

An answer and an unlock are passed to the engine together with the permission to execute the run
(`execute`), so that one claim of the lease covers both. With two steps, another process could take the
run in between.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from roundel.cli.execution import execute, is_interactive
from roundel.cli.next_step import suggest
from roundel.cli.options import RunAddress, data_option, parse_raised_limits, raise_option, run_argument
from roundel.cli.output import console, echo
from roundel.cli.store_access import find_run, reason_option, store_option, with_runs
from roundel.hosts.control import UnclearAnswer
from roundel.hosts.engine import Execute
from roundel.journal.store import RunRow, StoreError
from roundel.kernel.unlock import CHECKS, UnlockRefused
from roundel.runs.runs import Runs
from roundel.workflow.message import Message, data_text


@click.command("resume")
@run_argument
@click.option("--json", "as_json", is_flag=True, help="Print each event as a line of JSON.")
@store_option
def resume_command(run: str, as_json: bool, place: str | None) -> None:
    """Resume a run that was paused, that waits, or whose process died.

    RUN is an id, the beginning of one, or `last`. Finished steps are not repeated. Output and exit codes
    are those of `roundel run`.
    """

    async def work(runs: Runs) -> int:
        run_id = await find_run(runs, run)
        return await execute(runs, lambda attach: runs.resume_in_background(run_id, attach=attach), as_json)

    sys.exit(with_runs(place, work))


@click.command("pause")
@run_argument
@reason_option
@store_option
def pause_command(run: str, reason: str, place: str | None) -> None:
    """Pause a run: calls in flight finish and their results are stored, nothing new starts.

    RUN is an id, the beginning of one, or `last`.
    """

    async def work(runs: Runs) -> None:
        run_id = await find_run(runs, run)
        await runs.pause(run_id, reason, wait=False)
        suggest("resume", run_id)
        echo(f"run {run_id} pauses")

    with_runs(place, work)


@click.command("stop")
@run_argument
@reason_option
@store_option
def stop_command(run: str, reason: str, place: str | None) -> None:
    """Stop a run: calls in flight are cancelled. A stopped run cannot be resumed, but it can be forked.

    RUN is an id, the beginning of one, or `last`.
    """

    async def work(runs: Runs) -> None:
        run_id = await find_run(runs, run)
        await runs.stop(run_id, reason)
        echo(f"run {run_id} is stopped")

    with_runs(place, work)


@click.command("answer")
@run_argument
@click.argument("text", required=False, metavar="[TEXT|-]")
@data_option("Structured fields of the answer, as a JSON object.")
@click.option(
    "--at",
    "address",
    default="",
    type=RunAddress(asked=True),
    metavar="ADDRESS",
    help="The question to answer, if there are several.",
)
@click.option("--no-run", is_flag=True, help="Store the answer, and do not resume the run.")
@click.option("--json", "as_json", is_flag=True, help="Print each event as a line of JSON.")
@store_option
def answer_command(
    run: str,
    text: str | None,
    data: dict[str, Any] | None,
    address: str,
    no_run: bool,
    as_json: bool,
    place: str | None,
) -> None:
    """Answer a question of a run, and resume the run here, unless another process executes it.

    RUN is an id, the beginning of one, or `last`. TEXT is the answer, - reads it from standard input.
    Without it, and without --data, you are asked in a terminal; elsewhere the open questions are shown.
    Output and exit codes are those of `roundel run`.
    """
    if text == "-":
        text = sys.stdin.buffer.read().decode("utf-8", "replace").rstrip("\n")
    elif text is None and data is not None:
        text = data_text(data)

    async def work(runs: Runs) -> int:
        run_id = await find_run(runs, run)
        if text is not None:
            return await _answer(runs, run_id, Message(text, "user", data), address, no_run, as_json)
        if is_interactive() and not (address or no_run or as_json):
            row = await runs.row(run_id)
            # Once it is resumed here, the run asks in this terminal.
            if row.status == "waiting" and not row.owner:
                return await execute(
                    runs, lambda attach: runs.resume_in_background(run_id, attach=attach), as_json=False
                )
        await _show(runs, run_id)
        return 0

    sys.exit(with_runs(place, work))


async def _show(runs: Runs, run_id: str) -> None:
    from roundel.cli.prompt import question_panel

    questions = await runs.questions(run_id)
    if not questions:
        raise StoreError(
            f"run {run_id} has no open question; its status is {(await runs.row(run_id)).status}"
        )
    for question in questions:
        console(stderr=False).print(question_panel(question))
    at = ("--at", questions[0].address) if len(questions) > 1 else ()
    suggest("answer", run_id, "TEXT", *at)


async def _answer(
    runs: Runs, run_id: str, message: Message, address: str, no_run: bool, as_json: bool
) -> int:
    async def answer(attach: Execute = False) -> RunRow:
        try:
            return await runs.answer(run_id, message, at=address, exact=True, execute=attach)
        except UnclearAnswer as error:  # for a tool approval, a typing error must not count as a refusal
            raise click.UsageError(str(error)) from None

    row = await runs.row(run_id)
    # An answer ends neither a pause nor a lock; the run continues when it is resumed or unlocked.
    if not (no_run or row.owner or row.status in ("paused", "suspended_locked")):
        return await execute(runs, answer, as_json)
    await answer()
    if row.owner:
        echo(f"answered; run {run_id} continues in the process that executes it")
    else:
        echo("answered")
    return 0


@click.command("lock")
@run_argument
@click.option(
    "--reason", required=True, metavar="TEXT", help="Why the run must not continue; stored with it."
)
@click.option("--by", default="", metavar="NAME", help="Who locks it; by default, your user name.")
@store_option
def lock_command(run: str, reason: str, by: str, place: str | None) -> None:
    """Lock a run: calls in flight finish and their results are stored, nothing new starts until an unlock.

    RUN is an id, the beginning of one, or `last`. Unlike a pause, it takes a reason and three confirmations
    to let the run continue (roundel unlock).
    """
    if not reason.strip():
        raise click.UsageError("--reason requires a text that explains why you lock the run")

    async def work(runs: Runs) -> None:
        run_id = await find_run(runs, run)
        await runs.lock(run_id, reason, by=by)
        suggest("unlock", run_id)
        locked = (await runs.row(run_id)).status == "suspended_locked"
        echo(f"run {run_id} is locked" if locked else f"run {run_id} locks when its calls in flight are done")

    with_runs(place, work)


QUESTIONS = {
    "cause_understood": "Do you understand why it was locked?",
    "cost_accepted": "Do you accept the cost of continuing?",
    "workflow_reviewed": "Have you reviewed the workflow and its limits?",
}

OPTIONS = {
    "reason": "--reason TEXT",
    "checks": " ".join(f"--{name.replace('_', '-')}" for name in CHECKS),
    "limits": "--limit NAME=N",
    "message": "--message TEXT",
    "exit": "--exit NODE",
}
"""The options for the fields of an unlock, for error messages."""


@click.command("unlock")
@run_argument
@click.option("--reason", default="", metavar="TEXT", help="Why the run may continue; stored with it.")
@click.option("--cause-understood", is_flag=True, help="Confirm that you understand why it was locked.")
@click.option("--cost-accepted", is_flag=True, help="Confirm that you accept the cost of continuing.")
@click.option(
    "--workflow-reviewed", is_flag=True, help="Confirm that you have reviewed the workflow and its limits."
)
@raise_option
@click.option("--message", metavar="TEXT", help="Replace the last message.")
@click.option("--note", default="", metavar="TEXT", help="Add a note for the agent that runs next.")
@click.option(
    "--exit",
    "exit_node",
    default="",
    metavar="NODE",
    help="Leave the loop, and continue at this node outside it.",
)
@click.option("--by", default="", metavar="NAME", help="Who unlocks it; by default, your user name.")
@click.option("--no-run", is_flag=True, help="Unlock the run, and do not resume it.")
@click.option("--json", "as_json", is_flag=True, help="Print each event as a line of JSON.")
@store_option
def unlock_command(
    run: str,
    reason: str,
    cause_understood: bool,
    cost_accepted: bool,
    workflow_reviewed: bool,
    limits: tuple[str, ...],
    message: str | None,
    note: str,
    exit_node: str,
    by: str,
    no_run: bool,
    as_json: bool,
    place: str | None,
) -> None:
    """Unlock a run that reached a limit or repeated itself, and resume it here, in the same round.

    RUN is an id, the beginning of one, or `last`. You give a reason and three confirmations. Without
    them the evidence is shown, and in a terminal you are asked for them.
    """
    given = {
        "cause_understood": cause_understood,
        "cost_accepted": cost_accepted,
        "workflow_reviewed": workflow_reviewed,
    }
    raised = parse_raised_limits(limits)

    async def work(runs: Runs) -> int:
        run_id = await find_run(runs, run)
        why, checks = reason, [name for name in CHECKS if given[name]]
        # Asked before the run is claimed, so that a person who thinks for an hour blocks nobody.
        if _missing(why, checks):
            why, checks = await _ask_missing(runs, run_id, why, checks)

        async def unlock(attach: Execute = False) -> None:
            try:
                await runs.unlock(
                    run_id,
                    why,
                    checks=checks,
                    by=by,
                    limits=raised,
                    message=message,
                    note=note,
                    exit=exit_node,
                    execute=attach,
                )
            except StoreError as error:
                raise _with_options(error) from error

        if no_run:
            await unlock()
            echo("unlocked")
            return 0
        return await execute(runs, unlock, as_json)

    sys.exit(with_runs(place, work))


async def _ask_missing(runs: Runs, run_id: str, why: str, checks: list[str]) -> tuple[str, list[str]]:
    """Shows why the run is locked, and asks for what is missing; raises UsageError without a
    terminal."""
    from roundel.cli.prompt import evidence

    console().print(evidence(await runs.locked(run_id)))
    if is_interactive():
        from roundel.cli.prompt import ask, confirm

        why = why or ask("Why may it continue: ", required=True)
        checks = [name for name in CHECKS if name in checks or confirm(QUESTIONS[name])]
    _must_be_complete(run_id, _missing(why, checks))
    return why, checks


def _missing(reason: str, checks: Sequence[str]) -> list[str]:
    """The required options that were not given."""
    options = [] if reason.strip() else ["--reason"]
    return options + [_option(name) for name in CHECKS if name not in checks]


def _option(check: str) -> str:
    return f"--{check.replace('_', '-')}"


def _must_be_complete(run_id: str, missing: Sequence[str]) -> None:
    if not missing:
        return
    suggest("unlock", run_id, "--reason", "TEXT", *map(_option, CHECKS))
    named = ", ".join("--reason TEXT" if option == "--reason" else option for option in missing)
    raise click.UsageError(f"unlock requires a reason and three confirmations; missing: {named}")


def _with_options(error: StoreError) -> StoreError:
    """The error, with the options that correct it.

    The kernel names fields and knows no options, and its error is wrapped on the way here, so the chain
    of causes is searched.
    """
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, UnlockRefused):
        cause = cause.__cause__
    options = [OPTIONS[field] for field in cause.fields] if cause is not None else []
    return StoreError(f"{error} ({' or '.join(options)})") if options else error
