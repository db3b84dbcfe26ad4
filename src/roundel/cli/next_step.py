"""The last line of every command on standard error: the next step, as a command for the shell.

A command sets the run that it is about (`set_current_run`) and may suggest a command (`suggest`).
`Commands.main` prints the suggestion once, after everything else, also after an error. If a command
suggests nothing, the status of the run decides (`suggestion_for`). The line must work when it is pasted:
it is quoted for the shell, and names the program and the store as this shell has to name them.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from roundel.journal.store import RunRow
    from roundel.runs.runs import Runs

PROGRAM = "roundel"


class NextStep:
    """The suggestion of one call; `Commands.main` creates it, and click passes it to all contexts as
    `obj`."""

    def __init__(self, arguments: list[str]) -> None:
        self.arguments = arguments
        """The arguments of this call."""
        self.command = ""
        """The suggested command for the shell; empty for none."""
        self.advice = ""
        """What has to change before the suggested command; empty for nothing."""
        self.run_id = ""
        """The run that the command is about."""


def current_step() -> NextStep:
    """The `NextStep` of this call; a command that is called without the group gets a new one."""
    context = click.get_current_context()
    if context.obj is None:
        context.obj = NextStep([])
    step: NextStep = context.obj
    return step


def suggest(*words: str) -> None:
    """Suggests a command about a run; the latest suggestion wins. The store is added unless it is the
    default."""
    current_step().command = command_line(*words)


def suggest_without_store(*words: str) -> None:
    """Suggests a command that uses no store."""
    current_step().command = shlex.join([*program(), *words])


def command_line(*words: str) -> str:
    """A command about a run, quoted for this shell."""
    return shlex.join([*program(), *words, *_store_option()])


def repeat_command(step: NextStep) -> str:
    """The same command again, for one that was interrupted before it changed anything."""
    return shlex.join([*program(), *step.arguments])


def set_current_run(run_id: str) -> str:
    current_step().run_id = run_id
    return run_id


async def suggest_for_run(runs: Runs) -> None:
    """Suggests a step for the run that the command is about, unless the command has suggested one."""
    from roundel.journal.store import NoRun, StoreError

    step = current_step()
    if not step.run_id or step.command:
        return
    try:
        row = await runs.store.row(step.run_id)
    except NoRun:
        return
    except StoreError:  # reported where it occurred; once it is fixed, the run can be resumed
        suggest("resume", step.run_id)
        return
    if row.status == "paused" and is_debugged(row.summary):
        # After a step to a question nothing is ready until somebody answers it.
        seen = await runs.debug(row.id)
        suggest("step" if seen.ready or not seen.questions else "answer", row.id)
        return
    suggest(*suggestion_for(row, str(click.get_current_context().command.name)))
    reason = permanent_reason(row)
    if reason:
        step.advice = _CHANGES.get(reason, reason)
        file = (await runs.inspect(row.id)).plan.workflow.file
        if file:
            suggest("retry", row.id, "--workflow", _relative_path(file))


def permanent_reason(row: RunRow) -> str:
    """Why a failed run would fail again if nothing changes; empty if a retry may succeed."""
    return str((row.summary or {}).get("reason", "")) if row.status == "failed" else ""


_CHANGES = {
    "authentication": "give the model a key that its provider accepts",
    "bad_request": "correct what the provider refuses: the parameters, the model or the input",
    "content_filter": "change what the provider's filter holds back, or choose another model",
    "context_overflow": "shorten what the agent gets, with `context: {max_tokens: …}`",
    "not_found": "correct `model` or `base_url`, which the provider does not know",
}
"""What to change before a retry, by the reason of a permanent failure (docs/failures.md)."""


def is_debugged(summary: Mapping[str, Any] | None) -> bool:
    """Whether the summary of a paused run says that somebody steps through it: a breakpoint or a step
    paused it, or it was started paused."""
    pause = (summary or {}).get("pause") or {}
    return "address" in pause or pause.get("reason") in ("breakpoint", "step")


def suggestion_for(row: RunRow, command: str = "") -> list[str]:
    """The next command for a run with this status, after `command`."""
    if row.status == "running":
        # Without an owner, the process of the run has died.
        return ["log", row.id, "--follow"] if row.owner else ["resume", row.id]
    if row.status == "failed" and command != "retry" and not permanent_reason(row):
        return ["retry", row.id]
    if row.status == "paused" and is_debugged(row.summary):
        return ["step", row.id]
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
    """How to call this program from the current shell: by name, by path, or with `python -m`."""
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
    """A path relative to the working folder, if it is below it; always with a slash, so that a shell
    finds it."""
    try:
        inside = str(Path(path).absolute().relative_to(Path.cwd()))
    except (OSError, ValueError):
        return str(Path(path))
    return inside if os.sep in inside else os.path.join(".", inside)  # noqa: PTH118


def _relative_path(path: str) -> str:
    """A path as it is written in the working folder, if it is below it."""
    try:
        return str(Path(path).relative_to(Path.cwd()))
    except ValueError:
        return path


def _store_option() -> list[str]:
    from roundel.journal.registry import DEFAULT_STORE, STORE_VARIABLE

    # A store from the variable is spelled out: it may have been set for this one call only.
    place = click.get_current_context().params.get("place") or os.environ.get(STORE_VARIABLE)
    return ["--store", place] if place and Path(place) != DEFAULT_STORE else []
