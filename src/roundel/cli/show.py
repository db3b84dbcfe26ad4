"""`roundel show`: draws a workflow with its loops."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from roundel.cli import INVALID
from roundel.cli.arguments import file_argument
from roundel.cli.invalid import suggest_check, suggest_run
from roundel.cli.output import allow_option, concealment, console, print_json, printable, say, tell, variables
from roundel.kernel.fact_masking import secrets_of
from roundel.nodes.sources import draft_plan
from roundel.plan.graph import Plan
from roundel.workflow.diagnostics import Finding

if TYPE_CHECKING:
    from roundel.drawing.drawing import Drawing

FORMATS = ("tree", "mermaid", "svg", "json")


@click.command("show")
@file_argument
@click.option("--format", "form", type=click.Choice(FORMATS), default="tree", show_default=True)
@click.option("--compact", is_flag=True, help="Draw smaller nodes and shorter labels, with svg and json.")
@click.option("--var", "pairs", multiple=True, metavar="NAME=VALUE", help="Set a variable of the workflow.")
@allow_option
def show_command(
    file: str, form: str, compact: bool, pairs: tuple[str, ...], allowed: tuple[str, ...]
) -> None:
    """Draw a workflow with its loops."""
    if compact and form not in ("svg", "json"):
        raise click.UsageError("--compact goes with --format svg or --format json")
    plan, report = draft_plan(file, variables(pairs), allow_paths=allowed)
    if not report.ok:
        tell(report.errors)
        suggest_check(file)
    else:
        suggest_run(file)
    if plan is not None:
        secrets = secrets_of(plan)
        if not report.ok and report.secrets is not None:
            secrets = report.secrets.masker  # a faulty file may have a secret in a name
        concealment.know(secrets)
        try:
            _draw(plan, report.findings, form, compact)
        except RecursionError:
            raise click.ClickException(f"the loops of {file} are nested too deep to draw") from None
    if not report.ok:
        sys.exit(INVALID)


def _draw(plan: Plan, findings: Sequence[Finding], form: str, compact: bool) -> None:
    if form == "mermaid":
        from roundel.drawing.mermaid import mermaid

        say(mermaid(plan, findings, mask=printable), err=False)
    elif form == "tree":
        from roundel.drawing.tree import tree

        console(stderr=False).print(tree(plan, findings, mask=printable))
    else:
        drawing = _laid_out(plan, findings, compact)
        if form == "json":
            print_json(drawing)
        else:
            from roundel.drawing.svg import svg

            say(svg(drawing), err=False)


def _laid_out(plan: Plan, findings: Sequence[Finding], compact: bool) -> Drawing:
    from roundel.drawing.assembly import draw

    drawing = draw(plan, findings, mask=printable, density="compact" if compact else "normal")
    for problem in drawing.problems:
        if problem.code == "too-large-to-draw":
            raise click.ClickException(f"{problem.message}; use --format tree or --format mermaid")
    return drawing
