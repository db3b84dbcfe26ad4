"""`roundel forecast`: what a run may cost, before it starts."""

from __future__ import annotations

import click

from roundel.cli.invalid import or_exit
from roundel.cli.output import console, print_json, variables
from roundel.plan.forecast import Estimate, Forecast, forecast
from roundel.plan.graph import compile_workflow
from roundel.plan.proof import prove
from roundel.sources import load


@click.command("forecast")
@click.argument("file")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--var", "pairs", multiple=True, metavar="NAME=VALUE", help="Set a variable of the workflow.")
def command(file: str, as_json: bool, pairs: tuple[str, ...]) -> None:
    """Say how many model calls a run takes, at worst and as a rule of thumb, and how many tokens."""
    plan = compile_workflow(or_exit(lambda: load(file, variables(pairs))))
    made, proofs = forecast(plan), prove(plan)
    if as_json:
        print_json({"forecast": made, "loops": proofs})
        return
    for proof in proofs:
        click.echo(str(proof))
    _tell(made)


def _tell(made: Forecast) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column("node")
    table.add_column("in loop")
    for heading in ("runs", "model calls"):
        table.add_column(f"{heading}\nat worst", justify="right")
        table.add_column("\ntypical", justify="right")
    table.add_column("tokens\ntypical", justify="right")
    for row in made.nodes:
        cells = (*_cells(row.runs), *_cells(row.model_calls), f"{row.tokens.typical:,}")
        table.add_row(f"{row.path}{row.node}", row.loop, *cells)
    table.add_section()
    table.add_row("in all", "", "", "", *_cells(made.model_calls), f"{made.tokens.typical:,}")
    out = console(stderr=False)
    out.print(table)
    for assumption in made.assumptions:
        out.print(f"  {assumption}", style="dim", markup=False)


def _cells(estimate: Estimate) -> tuple[str, str]:
    worst = "no bound" if estimate.worst is None else f"{estimate.worst:,}"
    return worst, f"{estimate.typical:,}"
