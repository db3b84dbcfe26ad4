"""The option `--limit`: other limits than those of the workflow."""

from __future__ import annotations

from collections.abc import Iterable

import click

from roundel.cli.output import assignments
from roundel.workflow.limiting import LIMITS

limit_option = click.option(
    "--limit", "limits", multiple=True, metavar="NAME=N", help=f"Set a limit: {', '.join(LIMITS)}."
)


def limits_of(pairs: Iterable[str]) -> dict[str, float]:
    given = assignments(pairs, "--limit")
    unknown = set(given) - set(LIMITS)
    if unknown:
        raise click.UsageError(f"--limit knows {', '.join(LIMITS)}, not '{min(unknown)}'")
    if not all(value.isascii() and value.isdigit() and int(value) for value in given.values()):
        raise click.UsageError("--limit takes a whole number of at least 1")
    return {name: int(value) for name, value in given.items()}
