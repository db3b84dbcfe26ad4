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
