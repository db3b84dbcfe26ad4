"""`roundel check`: what is wrong with workflow files, and what their loops are."""

from __future__ import annotations

import sys
from typing import Any

import click

from roundel.cli import INVALID
from roundel.cli.output import print_json, say, tell, variables
from roundel.plan.graph import compile_workflow
from roundel.plan.loops import loops
from roundel.sources import check
from roundel.workflow.diagnostics import Diagnostic
from roundel.workflow.graph import Workflow


@click.command("check")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--strict", is_flag=True, help="Warnings count as errors.")
@click.option("--var", "pairs", multiple=True, metavar="NAME=VALUE", help="Set a variable of the workflow.")
def command(files: tuple[str, ...], as_json: bool, strict: bool, pairs: tuple[str, ...]) -> None:
    """Say what is wrong with workflow files, and show their loops."""
    values = variables(pairs)
    diagnostics: list[Diagnostic] = []
    rows: list[dict[str, Any]] = []
    for file in files:
        workflow, report = check(file, values)
        diagnostics += report.diagnostics
        found = _loops(workflow) if workflow is not None else []
        rows += found
        if not as_json:
            _tell_file(file, report.diagnostics, found)
    if as_json:
        print_json({"diagnostics": diagnostics, "loops": rows})
    counted = ("error", "warning") if strict else ("error",)
    sys.exit(INVALID if any(found.severity in counted for found in diagnostics) else 0)


def _loops(workflow: Workflow) -> list[dict[str, Any]]:
    plan = compile_workflow(workflow)
    graphs = [plan.graph, *(node.body for node in plan.sites if node.body is not None)]
    return [
        {"id": loop.id, "nodes": [node.id for node in loop.nodes], "cap": loop.scope.cap}
        for graph in graphs
        for loop in loops(graph)
    ]


def _tell_file(file: str, diagnostics: list[Diagnostic], rows: list[dict[str, Any]]) -> None:
    tell(diagnostics)
    errors = sum(found.severity == "error" for found in diagnostics)
    warnings = len(diagnostics) - errors
    if not errors:
        for row in rows:
            say(f"{file}: loop {row['id']}: {', '.join(row['nodes'])} (capped at {row['cap']} rounds)")
    verdict = "ok" if not errors else "not ok"
    say(f"{file}: {verdict}, {errors} errors, {warnings} warnings")
