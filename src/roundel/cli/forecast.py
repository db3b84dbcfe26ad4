"""`roundel forecast`: what a run may cost, before it starts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import click

from roundel.cli.arguments import file_argument
from roundel.cli.invalid import or_exit
from roundel.cli.output import allow_option, concealment, console, dollars, print_json, say, variables
from roundel.kernel.fact_masking import secrets_of
from roundel.nodes.sources import load_plan
from roundel.plan.forecast import Estimate, Forecast, NodeForecast, Pricing, forecast
from roundel.plan.proof import prove
from roundel.workflow.graph import Node
from roundel.workflow.profile import Price, Profile

MOST_NAMED = 5


@click.command("forecast")
@file_argument
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--var", "pairs", multiple=True, metavar="NAME=VALUE", help="Set a variable of the workflow.")
@allow_option
def forecast_command(file: str, as_json: bool, pairs: tuple[str, ...], allowed: tuple[str, ...]) -> None:
    """Say how many calls of models and tools a run takes, how many tokens, and what they cost."""
    plan = or_exit(lambda: load_plan(file, variables(pairs), allow_paths=allowed), file)
    concealment.know(secrets_of(plan))
    made, proofs = forecast(plan, _pricing(plan.workflow.models)), prove(plan)
    if as_json:
        print_json({"forecast": made, "loops": proofs})
        return
    for line in dict.fromkeys(map(str, proofs)):
        say(line, err=False)
    _tell(made)


def _pricing(profiles: Mapping[str, Profile]) -> Pricing:
    """By the price of a profile, else by the listed one; nothing is imported before an agent needs it."""

    def price(node: Node) -> Price | None:
        from roundel.llm.models import agent_profile
        from roundel.llm.prices import Prices, listed_price
        from roundel.nodes.agent_config import Config
        from roundel.nodes.services import NodeError
        from roundel.workflow.providers import ALIASES

        if not isinstance(node.config, Config):
            return None
        try:
            provider, name = agent_profile(node, profiles).named
        except NodeError:
            return None  # it names no model
        return Prices(profiles).profile_price(provider, name) or listed_price(
            ALIASES.get(provider, provider), name
        )

    return price


def _tell(made: Forecast) -> None:
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    from roundel.cli.output import one_line

    # Narrow enough for a terminal of 80 columns.
    table = Table(box=None, pad_edge=False, collapse_padding=bool(made.tool_calls.typical))
    table.add_column("\n\nnode", overflow="fold")
    table.add_column("\n\nin loop", overflow="fold")
    calls = ["model_calls", "tool_calls"] if made.tool_calls.typical else ["model_calls"]
    for heading in ("\nruns", *(name.replace("_", "\n") for name in calls)):
        table.add_column(f"{heading}\nworst", justify="right", no_wrap=True)
        table.add_column("\n\ntypical", justify="right", no_wrap=True)
    table.add_column("\ntokens\ntypical", justify="right", no_wrap=True)
    if made.cost_usd is not None:
        table.add_column("\ncost\ntypical", justify="right", no_wrap=True)
    for row in made.nodes:
        figures = _figures(row, calls, priced=made.cost_usd is not None)
        table.add_row(one_line(f"{row.path}{row.node}"), one_line(row.loop), *_cells(row.runs), *figures)
    table.add_section()
    table.add_row("in all", "", "", "", *_figures(made, calls, priced=made.cost_usd is not None))
    out = console(stderr=False)
    out.print(table)
    for line in (*_unpriced(made), *made.assumptions):
        out.print(Padding(Text(line, "dim"), (0, 0, 0, 2), expand=False))


def _figures(of: NodeForecast | Forecast, calls: Iterable[str], *, priced: bool) -> Iterator[str]:
    for name in calls:
        yield from _cells(getattr(of, name))
    yield f"{of.tokens.typical:,}"
    if priced:
        least = "≥ " if isinstance(of, Forecast) and of.unpriced else ""
        yield "?" if of.cost_usd is None else least + dollars(of.cost_usd)


def _cells(estimate: Estimate) -> tuple[str, str]:
    worst = "no bound" if estimate.worst is None else f"{estimate.worst:,}"
    return worst, f"{estimate.typical:,}"


def _unpriced(made: Forecast) -> Iterator[str]:
    """Whose cost is not in the sum."""
    if made.unpriced:
        named = ", ".join(made.unpriced[:MOST_NAMED])
        more = len(made.unpriced) - MOST_NAMED
        others = f" and {more} more" if more > 0 else ""
        yield f"cost: not known for {named}{others}; a model profile may give a price"
