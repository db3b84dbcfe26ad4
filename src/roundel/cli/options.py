"""Arguments and options that several commands share, and how a shell completes them.

Also `load_or_exit`, which ends a command if its workflow cannot be used. Completion is imported inside
the methods: only a shell needs it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from roundel.cli import INVALID
from roundel.cli.next_step import suggest_without_store
from roundel.cli.output import parse_assignments, print_diagnostics
from roundel.workflow.diagnostics import WorkflowError
from roundel.workflow.graph import LIMIT_NAMES, RAISABLE_LIMITS
from roundel.workflow.limits import suggest_limit
from roundel.workflow.model_profile import MODEL_VARIABLE, ModelChoiceError, choose_model

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class WorkflowPath(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.5
    """The path of a workflow or a script; completed to files with a matching suffix, and to folders."""

    name = "file"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        from roundel.cli.completion import files

        return files(incomplete)


class RunName(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.5
    """The id of a run, its beginning, or `last`; completed to the ids of the newest runs."""

    name = "run"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        from roundel.cli.completion import runs

        # `--store` is known only if it precedes the argument on the line.
        return runs(incomplete, ctx.params.get("place"))


def _node_ids(ctx: click.Context) -> list[str]:
    """The ids of the nodes of the file or the run that the command names, as far as the line has it."""
    from roundel.cli.completion import file_nodes, parameters_before, run_nodes

    given = parameters_before(ctx)
    if given.get("file"):
        return file_nodes(given["file"])
    return run_nodes(given.get("run") or "", given.get("place"))


class BreakpointPlace(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.5
    """Where a run pauses; completed to the ids of nodes."""

    name = "place"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        from roundel.cli.completion import matching

        return matching(incomplete, _node_ids(ctx))


class LimitAssignment(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.5
    """The value of `--limit`; completed to the names of limits, and to the ids of loops and nodes."""

    name = "limit"

    def __init__(self, *, scoped: bool) -> None:
        self._scoped = scoped

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        from roundel.cli.completion import limits

        return limits(incomplete, _node_ids(ctx) if self._scoped else ())


class RunAddress(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.5
    """An address in the run that the command names; completed to those of the run, or of its open
    questions."""

    name = "address"

    def __init__(self, *, asked: bool = False) -> None:
        self._asked = asked

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        from roundel.cli.completion import addresses, parameters_before, questions

        find, given = questions if self._asked else addresses, parameters_before(ctx)
        return find(incomplete, given.get("run") or "", given.get("place"))


file_argument = click.argument("file", type=WorkflowPath())
run_argument = click.argument("run", type=RunName())


limit_option = click.option(
    "--limit",
    "limits",
    multiple=True,
    type=LimitAssignment(scoped=True),
    metavar="[X.]NAME=N",
    help=f"Override a limit, of the run or of the loop or node X: {', '.join(LIMIT_NAMES)}.",
)
raise_option = click.option(
    "--limit",
    "limits",
    multiple=True,
    type=LimitAssignment(scoped=False),
    metavar="NAME=N",
    help="Raise the limit that locked the run.",
)

variable_option = click.option(
    "--var", "pairs", multiple=True, metavar="NAME=VALUE", help="Set a variable of the workflow."
)


def _parse_model(_context: click.Context, _parameter: click.Parameter, text: str | None) -> str:
    """The model for agents that name none: the option, else the environment; empty if there is neither."""
    try:
        return choose_model(text, "--model")
    except ModelChoiceError as error:
        raise click.UsageError(str(error)) from None


model_option = click.option(
    "--model",
    metavar="PROVIDER:NAME",
    callback=_parse_model,
    help=f"The model of agents that name none, instead of ${MODEL_VARIABLE}.",
)


breakpoint_option = click.option(
    "--break",
    "places",
    multiple=True,
    type=BreakpointPlace(),
    metavar="PLACE",
    help="Pause before a node, a round ('Writer[3]'), an address, or where 'cel: CONDITION' holds.",
)


def parse_limits(pairs: Iterable[str]) -> dict[str, float | str]:
    """`--limit` options. Whether the loop or node X exists is checked with the workflow."""
    given: dict[str, float | str] = {}
    for pair in pairs:
        key, sign, value = pair.rpartition("=")  # the last one, since an id may contain the sign
        name = key.rpartition(".")[2]
        if not (sign and name):
            raise click.UsageError(f"--limit takes NAME=N or X.NAME=N, not '{pair}'")
        _check_limit_name(name, LIMIT_NAMES)
        given[key] = _switch(value) if name == "unpriced" else _number(name, value)
    return given


def parse_raised_limits(pairs: Iterable[str]) -> dict[str, float]:
    """`--limit` options of an unlock, which raise the limit that locked the run."""
    given = parse_assignments(pairs, "--limit")
    for name in given:
        _check_limit_name(name, RAISABLE_LIMITS)
    return {name: _number(name, value) for name, value in given.items()}


def _check_limit_name(name: str, known: Sequence[str]) -> None:
    if name not in known:
        raise click.UsageError(f"--limit has no '{name}'; {suggest_limit(name, known)}")


def _switch(value: str) -> str:
    if value not in ("lock", "allow"):
        raise click.UsageError("--limit unpriced takes lock or allow")
    return value


def _number(name: str, value: str) -> float:
    """The value of a limit. Dollars and seconds may have fractions.

    0 forbids something altogether, such as tool calls; a run with 0 rounds, steps, seconds or tokens per
    call could not start.
    """
    try:
        number = float(value) if name in ("cost_usd", "seconds") else int(value)
    except ValueError:
        number = -1
    above_zero = name in ("rounds", "steps", "seconds", "tokens_per_call")
    if not 0 <= number < 1e15 or (number == 0 and above_zero):
        kind = "a number" if name in ("cost_usd", "seconds") else "a whole number"
        raise click.UsageError(f"--limit {name} takes {kind} {'above 0' if above_zero else 'of 0 or more'}")
    return number


def data_option(help: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The option `--data` of a command that sends a message."""
    return click.option("--data", "data", metavar="JSON", callback=_parse_data, help=help)


def _parse_data(_context: click.Context, _parameter: click.Parameter, text: str | None) -> Any:
    if text is None:
        return None
    try:
        data = json.loads(text)
    except ValueError as error:
        raise click.UsageError(f"--data takes a JSON object, and this is not JSON: {error}") from None
    if not isinstance(data, dict):
        raise click.UsageError("""--data takes a JSON object, for example '{"approved": true}'""")
    return data


T = TypeVar("T")


def load_or_exit(load: Callable[[], T], file: str) -> T:
    """Loads a workflow file; if it is invalid, prints its diagnostics and ends the command."""
    try:
        loaded = load()
    except WorkflowError as error:
        print_diagnostics(error.diagnostics)
        suggest_check(file)
        sys.exit(INVALID)
    suggest_run(file)
    return loaded


def suggest_run(file: str) -> None:
    suggest_without_store("run", file, *_options())


def suggest_check(file: str) -> None:
    """Suggests `check` for an invalid file, and `new` for a file that does not exist."""
    if Path(file).exists():
        suggest_without_store("check", file, *_options())
    else:
        suggest_without_store("new", "--help")


def _options() -> list[str]:
    """The options of this command that the next one needs to read the file in the same way."""
    context = click.get_current_context()
    given = context.params
    names = (("--var", "pairs"), ("--allow-path", "allowed"))
    words = [word for option, name in names for value in given.get(name) or () for word in (option, value)]
    # The value of the parameter may also come from the environment, which the next command reads as well.
    if context.get_parameter_source("model") is ParameterSource.COMMANDLINE:
        words += ["--model", given["model"]]
    return words
