"""What commands share in speaking to people and to machines."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import click
import msgspec

from roundel.workflow.diagnostics import Diagnostic

if TYPE_CHECKING:
    from rich.console import Console

_COLOURS = {"error": "red", "warning": "yellow"}

ALLOWS_NOTHING = "--allow-path is about the files of --workflow; a run keeps those that it was started with"
allow_option = click.option(
    "--allow-path",
    "allowed",
    multiple=True,
    type=click.Path(exists=True, file_okay=False),
    metavar="DIR",
    help="Let the workflow name files in this folder, and not only in its own.",
)


def tell(diagnostics: Iterable[Diagnostic], err: bool = True) -> None:
    """Writes diagnostics, one a line with its code, and a hint below it."""
    for found in diagnostics:
        place = ":".join(str(part) for part in (found.file, found.line, found.column) if part)
        label = click.style(found.severity, fg=_COLOURS[found.severity], bold=True)
        code = click.style(f"[{found.code}]", dim=True)
        say(f"{place + ': ' if place else ''}{label}: {found.message} {code}", err)
        if found.hint:
            say(click.style(f"    {found.hint}", dim=True), err)


def say(text: str, err: bool = True) -> None:
    click.echo(text, err=err, color=None if "NO_COLOR" not in os.environ else False)


def counted(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def dollars(amount: float) -> str:
    """`$1.50`, `$0.12`, `$0.0042`: small sums are told as exactly as they need."""
    if 0 < amount < 0.0001:
        return "under $0.0001"
    return f"${amount:,.4f}" if 0 < amount < 0.01 else f"${amount:,.2f}"


def print_json(value: Any) -> None:
    """One line of JSON on standard output, at once."""
    out = sys.stdout.buffer
    out.write(msgspec.json.encode(value, enc_hook=repr) + b"\n")
    out.flush()


def console(stderr: bool = True) -> Console:
    from rich.console import Console

    return Console(stderr=stderr, highlight=False)


def assignments(pairs: Iterable[str], option: str) -> Mapping[str, str]:
    """`NAME=VALUE` options as a mapping."""
    values = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign or not name:
            raise click.UsageError(f"{option} takes NAME=VALUE, not '{pair}'")
        values[name] = value
    return values


def variables(pairs: Iterable[str]) -> dict[str, Any]:
    """`--var` options; a value is read as YAML, so that `3` is a number."""
    from roundel.workflow.diagnostics import Report
    from roundel.workflow.document import read_text

    read = {}
    for name, text in assignments(pairs, "--var").items():
        found = read_text(text, Report())
        scalar = found is not None and not isinstance(found.value, (dict, list))
        read[name] = found.value if found is not None and scalar else text
    return read
