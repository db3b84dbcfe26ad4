"""Arguments that several commands take, and how a shell completes them.

The option `--limit`: other limits than those of the workflow.

How a command ends when its workflow cannot be used.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from roundel.cli import INVALID
from roundel.cli.next_step import suggest_without_store
from roundel.cli.output import parse_assignments, print_diagnostics
from roundel.workflow.diagnostics import WorkflowError
from roundel.workflow.graph import LIMIT_NAMES

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class WorkflowFile(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.5
    """The path of a workflow or a script; completed to files that may be one, and to folders on the way."""

    name = "file"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        from roundel.cli.completion import files

        return files(incomplete)


class RunName(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.5
    """The name of a run; completed to the ids of the newest runs of the store."""

    name = "run"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        from roundel.cli.completion import runs

        return runs(incomplete, ctx.params.get("place"))


file_argument = click.argument("file", type=WorkflowFile())
run_argument = click.argument("run", type=RunName())


limit_option = click.option(
    "--limit", "limits", multiple=True, metavar="NAME=N", help=f"Set a limit: {', '.join(LIMIT_NAMES)}."
)


def parse_limits(pairs: Iterable[str]) -> dict[str, float]:
    given = parse_assignments(pairs, "--limit")
    unknown = set(given) - set(LIMIT_NAMES)
    if unknown:
        raise click.UsageError(f"--limit knows {', '.join(LIMIT_NAMES)}, not '{min(unknown)}'")
    return {name: _number(name, value) for name, value in given.items()}


def _number(name: str, value: str) -> float:
    """Dollars and seconds have fractions; nothing may be spent at all of what is limited to 0."""
    try:
        number = float(value) if name in ("cost_usd", "seconds") else int(value)
    except ValueError:
        number = -1
    if not 0 <= number < 1e15 or (number == 0 and name in ("rounds", "steps", "seconds")):
        kind = "a number" if name in ("cost_usd", "seconds") else "a whole number"
        raise click.UsageError(f"--limit {name} takes {kind} above 0")
    return number


Made = TypeVar("Made")


def load_or_exit(load: Callable[[], Made], file: str) -> Made:
    """What is made of a workflow file. If that is not sound, it is said why, and the command ends."""
    try:
        made = load()
    except WorkflowError as error:
        print_diagnostics(error.diagnostics)
        suggest_check(file)
        sys.exit(INVALID)
    suggest_run(file)
    return made


def suggest_run(file: str) -> None:
    suggest_without_store("run", file, *_options())


def suggest_check(file: str) -> None:
    """For a file that is not sound; one that is not there is named wrongly, or not written yet."""
    if Path(file).exists():
        suggest_without_store("check", file, *_options())
    else:
        suggest_without_store("new", "--help")


def _options() -> list[str]:
    """Those of this command that the next one needs, too, to read the file in the same way."""
    given = click.get_current_context().params
    names = (("--var", "pairs"), ("--allow-path", "allowed"))
    return [word for option, name in names for value in given.get(name) or () for word in (option, value)]
