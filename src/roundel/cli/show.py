"""`roundel show`: draws a workflow with its loops."""

from __future__ import annotations

import click

from roundel.cli.arguments import file_argument
from roundel.cli.invalid import or_exit
from roundel.cli.output import allow_option, concealment, console, say, variables
from roundel.kernel.fact_masking import secrets_of
from roundel.plan.graph import Plan
from roundel.sources import load_plan


@click.command("show")
@file_argument
@click.option(
    "--format", "form", type=click.Choice(["tree", "mermaid", "svg"]), default="tree", show_default=True
)
@click.option("--var", "pairs", multiple=True, metavar="NAME=VALUE", help="Set a variable of the workflow.")
@allow_option
def command(file: str, form: str, pairs: tuple[str, ...], allowed: tuple[str, ...]) -> None:
    """Draw a workflow with its loops."""
    plan = or_exit(lambda: load_plan(file, variables(pairs), allow_paths=allowed), file)
    concealment.know(secrets_of(plan))
    try:
        _draw(plan, form)
    except RecursionError:
        raise click.ClickException(f"the loops of {file} are nested too deep to draw") from None


def _draw(plan: Plan, form: str) -> None:
    if form == "mermaid":
        from roundel.drawing.mermaid import mermaid

        say(mermaid(plan), err=False)
    elif form == "svg":
        from roundel.drawing.layout import TooLarge
        from roundel.drawing.svg import svg

        try:
            say(svg(plan), err=False)
        except TooLarge as error:
            raise click.ClickException(f"{error}; use --format tree or --format mermaid") from None
    else:
        from roundel.drawing.tree import tree

        console(stderr=False).print(tree(plan))
