"""How a command ends when its workflow cannot be used."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click

from roundel.cli import INVALID
from roundel.cli.next_step import suggest_plainly
from roundel.cli.output import tell
from roundel.workflow.diagnostics import WorkflowError

Made = TypeVar("Made")


def or_exit(make: Callable[[], Made], file: str) -> Made:
    """What is made of a workflow file. If that is not sound, it is said why, and the command ends."""
    try:
        made = make()
    except WorkflowError as error:
        tell(error.diagnostics)
        suggest_check(file)
        sys.exit(INVALID)
    suggest_run(file)
    return made


def suggest_run(file: str) -> None:
    suggest_plainly("run", file, *_options())


def suggest_check(file: str) -> None:
    """For a file that is not sound; one that is not there is named wrongly, or not written yet."""
    if Path(file).exists():
        suggest_plainly("check", file, *_options())
    else:
        suggest_plainly("new", "--help")


def _options() -> list[str]:
    """Those of this command that the next one needs, too, to read the file in the same way."""
    given = click.get_current_context().params
    names = (("--var", "pairs"), ("--allow-path", "allowed"))
    return [word for option, name in names for value in given.get(name) or () for word in (option, value)]
