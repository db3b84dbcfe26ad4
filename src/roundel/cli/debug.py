"""`roundel debug`: a debugger for a workflow or a stored run, in one screen of the terminal.

The command decides what is debugged and how it is shown: on a screen (debug_screen.py), line by line
(debug_plain.py), or once as JSON. Both ways show the same session (debug_session.py), through the same
panes (debug_panes.py). `roundel step`, `break` and `edit` (debugging.py) do one thing at a time, for scripts.

A run that is started here pauses before its first node. It is stored, so the debugger can be left at any
time: the run stays paused, and `roundel debug RUN` continues where it was.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from roundel.cli import EXIT
from roundel.cli.next_step import current_step, suggest
from roundel.cli.options import RunName, breakpoint_option, limit_option, model_option, variable_option
from roundel.cli.output import echo, print_json
from roundel.cli.run import input_data_option, input_option, load_for_start, read_input, script_option
from roundel.cli.signals import INTERRUPTED
from roundel.cli.standard_output import standard_output
from roundel.cli.store_access import find_run, store_option, with_runs
from roundel.runs.runs import Runs
from roundel.workflow.breakpoints import BreakpointError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from roundel.cli.debug_session import DebugSession

SUFFIXES = (".yaml", ".yml", ".json")


class WorkflowOrRun(RunName):
    """The path of a workflow, or the name of a run; completed to both."""

    name = "file|run"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        from roundel.cli.completion import files

        return [*files(incomplete), *super().shell_complete(ctx, param, incomplete)]


@click.command("debug")
@click.argument("target", type=WorkflowOrRun(), metavar="FILE|RUN")
@input_option
@input_data_option
@script_option
@variable_option
@model_option
@limit_option
@breakpoint_option
@click.option("--plain", is_flag=True, help="Read commands from standard input, and use no screen.")
@click.option("--json", "as_json", is_flag=True, help="Print the state of the run as JSON, and end.")
@store_option
def debug_command(
    target: str,
    text: str | None,
    data: dict[str, Any] | None,
    script_file: str | None,
    pairs: tuple[str, ...],
    model: str,
    limits: tuple[str, ...],
    places: tuple[str, ...],
    plain: bool,
    as_json: bool,
    place: str | None,
) -> None:
    """Debug a workflow or a stored run: see which nodes are ready and why, step, set breakpoints, edit
    waiting messages.

    FILE starts a run, which pauses before its first node. RUN is an id, the beginning of one, or `last`.
    Without a terminal, or with --plain, commands are read from standard input; `help` lists them. You can
    quit at any time: the run stays as it is. The exit code is that of the status of the run, as with
    `roundel run`: 4 while it is paused.
    """
    is_file = Path(target).is_file() or target.endswith(SUFFIXES)
    if not is_file:
        given = (("--input", text), ("--data", data), ("--script", script_file), ("--var", pairs))
        chosen = click.get_current_context().get_parameter_source("model") is ParameterSource.COMMANDLINE
        for option, value in (*given, ("--limit", limits), ("--model", chosen)):
            if value:
                raise click.UsageError(
                    f"{option} is for a run that is started here, and '{target}' is not a workflow file"
                )
        sys.exit(with_runs(place, lambda runs: _debug_run(runs, target, places, plain, as_json)))
    loaded = load_for_start(target, script_file, limits, pairs, places, model)
    message = read_input(text, loaded.plan.workflow, data)

    async def work(runs: Runs) -> int:
        run_id = await runs.start(
            loaded.plan,
            message,
            script=loaded.script,
            limits=loaded.limits,
            breakpoints=loaded.breakpoints,
            paused=True,
        )
        await runs.result(run_id)
        return await _debug(runs, run_id, plain, as_json)

    sys.exit(with_runs(place, work, creates=True))


async def _debug_run(runs: Runs, name: str, places: tuple[str, ...], plain: bool, as_json: bool) -> int:
    run_id = await find_run(runs, name)
    if places:
        try:
            await runs.set_breakpoints(run_id, *places)
        except BreakpointError as error:
            raise click.UsageError(str(error)) from None
    return await _debug(runs, run_id, plain, as_json)


async def _debug(runs: Runs, run_id: str, plain: bool, as_json: bool) -> int:
    from roundel.cli.debug_session import DebugSession
    from roundel.cli.execution import telemetry_middleware

    session = DebugSession(runs, run_id, telemetry_middleware())
    await session.open()
    if as_json:
        print_json(session.picture.seen)
        return _exit_code(session)
    # Now, since it also holds if a signal or an error ends the session.
    suggest("debug", run_id)
    interrupted = await _show(session, plain or not _has_terminal())
    await session.refresh()
    status = session.picture.seen.status
    if session.picture.is_over or status == "suspended_locked":
        current_step().command = ""  # the status decides
    echo(f"run {run_id} is {status}")
    return INTERRUPTED if interrupted else _exit_code(session)


async def _show(session: DebugSession, plain: bool) -> bool:
    """Shows the session until it is left, and returns whether an interrupt ended it."""
    if plain:
        from roundel.cli.debug_plain import PlainDebugger

        await PlainDebugger(session).run()
        return session.was_interrupted
    from roundel.cli.debug_screen import DebugScreen

    screen = DebugScreen(session)
    await screen.run()
    return screen.was_interrupted


def _exit_code(session: DebugSession) -> int:
    return EXIT.get(session.picture.seen.status, 0)


def _has_terminal() -> bool:
    has_both = sys.stdin is not None and sys.stdin.isatty() and standard_output().isatty()
    return has_both and os.environ.get("TERM") not in ("dumb", "unknown")
