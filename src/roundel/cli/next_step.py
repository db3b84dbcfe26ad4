"""The last line of every command on standard error: what to do next, as a command for the shell.

Commands name the run that they are about (`about`), and may suggest a command (`suggest`). What is suggested
is printed once, after everything else, by the group of all commands (`Commands.main`).
"""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from roundel.journal.store import RunRow
    from roundel.runs.runs import Runs

PROGRAM = "roundel"


class NextStep:
    """What a command suggests; click hands it to all contexts of one call as `obj`."""

    def __init__(self, arguments: list[str]) -> None:
        self.arguments = arguments
        """Those of this call."""
        self.command = ""
        """For the shell; empty if nothing is suggested."""
        self.run_id = ""
        """The run that the command is about."""


def current_step() -> NextStep:
    """That of this call; a command that is called on its own, without the group, starts one."""
    context = click.get_current_context()
    if context.obj is None:
        context.obj = NextStep([])
    step: NextStep = context.obj
    return step


def suggest(*words: str) -> None:
    """The latest suggestion counts. The store is added if it is not the default one."""
    current_step().command = command_line(*words)


def suggest_without_store(*words: str) -> None:
    """For a command that has nothing to do with a store."""
    current_step().command = shlex.join([*program(), *words])


def command_line(*words: str) -> str:
    """A command about a run, as this shell would have to call it."""
    return shlex.join([*program(), *words, *_store_option()])


def repeat_command(step: NextStep) -> str:
    """The same command once more, as for one that was interrupted before it did anything."""
    return shlex.join([*program(), *step.arguments])


def set_current_run(run_id: str) -> str:
    current_step().run_id = run_id
    return run_id


async def suggest_for_run(runs: Runs) -> None:
    """What helps with the run that the command is about, unless the command knows better."""
    from roundel.journal.store import NoRun, StoreError

    step = current_step()
    if not step.run_id or step.command:
        return
    try:
        row = await runs.store.row(step.run_id)
    except NoRun:
        return
    except StoreError:  # it is reported where it occurred first; the run can be resumed once it is fixed
        suggest("resume", step.run_id)
        return
    suggest(*suggestion_for(row, str(click.get_current_context().command.name)))


def suggestion_for(row: RunRow, command: str = "") -> list[str]:
    """What helps with a run in this state, after this command."""
    if row.status == "running":
        return ["log", row.id, "--follow"] if row.owner else ["resume", row.id]
    if row.status in _COMMAND_BY_STATUS:
        return [_COMMAND_BY_STATUS[row.status], row.id]
    if command != "log":
        return ["log", row.id]
    looped = row.summary is not None and row.summary.get("loops")
    return ["plot", row.id] if looped else ["runs"]


_COMMAND_BY_STATUS = {
    "waiting": "answer",
    "paused": "resume",
    "suspended_locked": "unlock",
    "stopped": "fork",
}


def program() -> list[str]:
    """How this program is called in the shell that it was called from."""
    called = Path(sys.argv[0])
    if called.name == "__main__.py" and called.parent.name == PROGRAM:
        return [_shorten_path(sys.executable), "-m", PROGRAM]
    if called.name != PROGRAM:  # called from Python
        return [PROGRAM]
    return [PROGRAM] if _is_on_path(called) else [_shorten_path(sys.argv[0])]


def _is_on_path(called: Path) -> bool:
    import shutil

    found = shutil.which(PROGRAM)
    try:
        return found is not None and Path(found).samefile(called)
    except OSError:
        return False


def _shorten_path(path: str) -> str:
    """A path below the working folder is easier to read without it."""
    try:
        inside = str(Path(path).absolute().relative_to(Path.cwd()))
    except (OSError, ValueError):
        return str(Path(path))
    return inside if os.sep in inside else os.path.join(".", inside)  # noqa: PTH118


def _store_option() -> list[str]:
    from roundel.journal.registry import DEFAULT_STORE, STORE_VARIABLE

    # A variable may have been set for this one call alone, so that the shell does not have it.
    place = click.get_current_context().params.get("place") or os.environ.get(STORE_VARIABLE)
    return ["--store", place] if place and Path(place) != DEFAULT_STORE else []
