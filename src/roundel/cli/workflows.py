"""`roundel check`, `show`, `forecast` and `schema`: the commands about workflow files.

None of them runs a node or opens a store. `show` also draws files with errors, as far as they can be
read: a person who corrects a file needs the picture most (docs/decisions/0026-drawings-are-data.md).
Drawing formats, model prices and the schema are imported when they are needed, so that
`check` starts quickly.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from roundel.cli import INVALID
from roundel.cli.next_step import suggest_without_store
from roundel.cli.options import (
    WorkflowPath,
    file_argument,
    load_or_exit,
    model_option,
    suggest_check,
    suggest_run,
    variable_option,
)
from roundel.cli.output import (
    allow_option,
    console,
    dollars,
    echo,
    one_line,
    parse_variables,
    pluralize,
    print_diagnostics,
    print_json,
    printable,
    secret_masking,
)
from roundel.kernel.facts import secrets_of
from roundel.nodes import TYPES
from roundel.nodes.loading import check_models, check_plan, draft_plan, load_plan
from roundel.plan.forecast import Estimate, Forecast, NodeForecast, Pricing, forecast
from roundel.plan.graph import Plan
from roundel.plan.proof import Proof, prove
from roundel.workflow.diagnostics import Diagnostic, Finding, Report
from roundel.workflow.model_profile import Profile

if TYPE_CHECKING:
    from roundel.drawing.drawing import Drawing


@click.command("check")
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=WorkflowPath())
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--strict", is_flag=True, help="Treat warnings as errors.")
@variable_option
@model_option
@allow_option
def check_command(
    files: tuple[str, ...],
    as_json: bool,
    strict: bool,
    pairs: tuple[str, ...],
    model: str,
    allowed: tuple[str, ...],
) -> None:
    """Report the errors of workflow files, and the bounds of their loops."""
    from roundel.hosts.executor import check_runnable

    values = parse_variables(pairs)
    counting = ("error", "warning") if strict else ("error",)
    diagnostics: list[Diagnostic] = []
    wrong: list[str] = []
    proofs: list[Proof] = []
    for file in files:
        plan, report = check_plan(file, values, allow_paths=allowed, model=model)
        if plan is not None:
            check_models(plan, report)
            check_runnable(plan, report)
        diagnostics += report.diagnostics
        if any(found.severity in counting for found in report.diagnostics):
            wrong.append(file)
        # Each file has its own secrets; they must be known before its report is printed.
        if plan is not None:
            secret_masking.set_secrets(secrets_of(plan))
        found = prove(plan) if plan is not None else []
        proofs += found
        if not as_json:
            _print_report(file, report, found)
    if as_json:
        print_json({"diagnostics": diagnostics, "loops": proofs})
    if wrong:
        suggest_check(wrong[0])
        sys.exit(INVALID)
    suggest_run(files[0])


def _print_report(file: str, report: Report, proofs: list[Proof]) -> None:
    """Prints to standard output: the report is what `check` is called for."""
    print_diagnostics(report.diagnostics, err=False)
    errors, warnings = report.counts
    if not errors:
        # A loop with several entries has a proof for each of them, often with the same text.
        for line in dict.fromkeys(map(str, proofs)):
            echo(f"{file}: loop {line}", err=False)
    verdict = "ok" if not errors else "not ok"
    echo(f"{file}: {verdict}, {pluralize(errors, 'error')}, {pluralize(warnings, 'warning')}", err=False)


FORMATS = ("tree", "mermaid", "svg", "json")


@click.command("show")
@file_argument
@click.option("--format", "form", type=click.Choice(FORMATS), default="tree", show_default=True)
@click.option("--compact", is_flag=True, help="Draw smaller nodes and shorter labels; for svg and json.")
@variable_option
@allow_option
def show_command(
    file: str, form: str, compact: bool, pairs: tuple[str, ...], allowed: tuple[str, ...]
) -> None:
    """Draw a workflow with its loops."""
    if compact and form not in ("svg", "json"):
        raise click.UsageError("--compact needs --format svg or --format json")
    plan, report = draft_plan(file, parse_variables(pairs), allow_paths=allowed)
    if not report.ok:
        print_diagnostics(report.errors)
        suggest_check(file)
    else:
        suggest_run(file)
    if plan is not None:
        secrets = secrets_of(plan)
        if not report.ok and report.secrets is not None:
            secrets = report.secrets.masker  # in a file with errors, a name may contain a secret
        secret_masking.set_secrets(secrets)
        # The picture catches this itself (`too-large-to-draw`); the tree and Mermaid recurse as well.
        try:
            _draw(plan, report.findings, form, compact)
        except RecursionError:
            raise click.ClickException(f"the loops of {file} are nested too deep to draw") from None
    # After the drawing: a file with errors is drawn, but the exit code still says that it is invalid.
    if not report.ok:
        sys.exit(INVALID)


def _draw(plan: Plan, findings: Sequence[Finding], form: str, compact: bool) -> None:
    if form == "mermaid":
        from roundel.drawing.mermaid import mermaid

        echo(mermaid(plan, findings, mask=printable), err=False)
    elif form == "tree":
        from roundel.drawing.tree import tree

        console(stderr=False).print(tree(plan, findings, mask=printable))
    else:
        drawing = _lay_out(plan, findings, compact)
        if form == "json":
            print_json(drawing)
        else:
            from roundel.drawing.svg import svg

            echo(svg(drawing), err=False)


def _lay_out(plan: Plan, findings: Sequence[Finding], compact: bool) -> Drawing:
    from roundel.drawing.assembly import draw

    drawing = draw(plan, findings, mask=printable, density="compact" if compact else "normal")
    for problem in drawing.problems:
        if problem.code == "too-large-to-draw":
            raise click.ClickException(f"{problem.message}; use --format tree or --format mermaid")
    return drawing


MAX_NAMED = 5


@click.command("forecast")
@file_argument
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@variable_option
@model_option
@allow_option
def forecast_command(
    file: str, as_json: bool, pairs: tuple[str, ...], model: str, allowed: tuple[str, ...]
) -> None:
    """Estimate how many model calls, tool calls and tokens a run takes, and what they cost."""
    plan = load_or_exit(
        lambda: load_plan(file, parse_variables(pairs), allow_paths=allowed, model=model), file
    )
    secret_masking.set_secrets(secrets_of(plan))
    result, proofs = forecast(plan, _pricing(plan.workflow.models)), prove(plan)
    if as_json:
        print_json({"forecast": result, "loops": proofs})
        return
    for line in dict.fromkeys(map(str, proofs)):
        echo(line, err=False)
    _print_forecast(result)


def _pricing(profiles: Mapping[str, Profile]) -> Pricing:
    """Prices by model profile, then by the list of known models."""
    from roundel.nodes.agent_models import pricing

    return pricing(profiles)


def _print_forecast(result: Forecast) -> None:
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    # Headings of three lines, so that the table fits a terminal of 80 columns.
    table = Table(box=None, pad_edge=False, collapse_padding=bool(result.tool_calls.typical))
    table.add_column("\n\nnode", overflow="fold")
    table.add_column("\n\nin loop", overflow="fold")
    calls = ["model_calls", "tool_calls"] if result.tool_calls.typical else ["model_calls"]
    for heading in ("\nruns", *(name.replace("_", "\n") for name in calls)):
        table.add_column(f"{heading}\nworst", justify="right", no_wrap=True)
        table.add_column("\n\ntypical", justify="right", no_wrap=True)
    table.add_column("\ntokens\ntypical", justify="right", no_wrap=True)
    if result.cost_usd is not None:
        table.add_column("\ncost\ntypical", justify="right", no_wrap=True)
    for row in result.nodes:
        figures = _figures(row, calls, priced=result.cost_usd is not None)
        table.add_row(one_line(f"{row.path}{row.node}"), one_line(row.loop), *_cells(row.runs), *figures)
    table.add_section()
    table.add_row("in all", "", "", "", *_figures(result, calls, priced=result.cost_usd is not None))
    out = console(stderr=False)
    out.print(table)
    for line in (*_unpriced(result), *result.assumptions):
        out.print(Padding(Text(line, "dim"), (0, 0, 0, 2), expand=False))


def _figures(totals: NodeForecast | Forecast, calls: Iterable[str], *, priced: bool) -> Iterator[str]:
    for name in calls:
        yield from _cells(getattr(totals, name))
    yield f"{totals.tokens.typical:,}"
    if priced:
        least = "≥ " if isinstance(totals, Forecast) and totals.unpriced else ""
        yield "?" if totals.cost_usd is None else least + dollars(totals.cost_usd)


def _cells(estimate: Estimate) -> tuple[str, str]:
    worst = "no bound" if estimate.worst is None else f"{estimate.worst:,}"
    return worst, f"{estimate.typical:,}"


def _unpriced(result: Forecast) -> Iterator[str]:
    """Names the models whose cost is not in the sum."""
    if result.unpriced:
        provider_and_name = ", ".join(result.unpriced[:MAX_NAMED])
        more = len(result.unpriced) - MAX_NAMED
        others = f" and {more} more" if more > 0 else ""
        yield f"cost: not known for {provider_and_name}{others}; a model profile may give a price"


@click.command("schema")
@click.option(
    "--fields",
    is_flag=True,
    help="Print the title, text, widget and default of every field, for forms, instead of the schema.",
)
@click.option(
    "--lang",
    type=click.Choice(["en", "zh"]),
    help="With --fields: only the texts in this language.",
)
def schema_command(fields: bool, lang: str | None) -> None:
    """Print the JSON Schema of workflow files, for editors."""
    if lang and not fields:
        raise click.UsageError("--lang selects the language of --fields; give both, or omit --lang")
    suggest_without_store("check", "--help")
    echo(json.dumps(_fields(lang) if fields else _schema(), indent=2, ensure_ascii=False), err=False)


# Both include the node types of installed packages, which TYPES finds.


def _schema() -> object:
    from roundel.workflow.schema import workflow_schema

    return workflow_schema(TYPES)


def _fields(lang: str | None) -> object:
    from roundel.workflow.catalog import describe, localize

    described = describe(TYPES)
    return localize(described, "zh" if lang == "zh" else "en") if lang else described
