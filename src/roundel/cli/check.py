"""`roundel check`: what is wrong with workflow files, and what bounds their loops."""

from __future__ import annotations

import sys

import click

from roundel.cli import INVALID
from roundel.cli.arguments import WorkflowFile
from roundel.cli.invalid import suggest_check, suggest_run
from roundel.cli.output import allow_option, concealment, counted, print_json, say, tell, variables
from roundel.kernel.fact_masking import secrets_of
from roundel.nodes.sources import check_plan
from roundel.plan.proof import Proof, prove
from roundel.workflow.diagnostics import Diagnostic


@click.command("check")
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=WorkflowFile())
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--strict", is_flag=True, help="Warnings count as errors.")
@click.option("--var", "pairs", multiple=True, metavar="NAME=VALUE", help="Set a variable of the workflow.")
@allow_option
def check_command(
    files: tuple[str, ...], as_json: bool, strict: bool, pairs: tuple[str, ...], allowed: tuple[str, ...]
) -> None:
    """Say what is wrong with workflow files, and what bounds their loops."""
    values = variables(pairs)
    counting = ("error", "warning") if strict else ("error",)
    diagnostics: list[Diagnostic] = []
    wrong: list[str] = []
    proofs: list[Proof] = []
    for file in files:
        plan, report = check_plan(file, values, allow_paths=allowed)
        diagnostics += report.diagnostics
        if any(found.severity in counting for found in report.diagnostics):
            wrong.append(file)
        if plan is not None:
            concealment.know(secrets_of(plan))
        found = prove(plan) if plan is not None else []
        proofs += found
        if not as_json:
            _tell_file(file, report.diagnostics, found)
    if as_json:
        print_json({"diagnostics": diagnostics, "loops": proofs})
    if wrong:
        suggest_check(wrong[0])
        sys.exit(INVALID)
    suggest_run(files[0])


def _tell_file(file: str, diagnostics: list[Diagnostic], proofs: list[Proof]) -> None:
    tell(diagnostics, err=False)
    errors = sum(found.severity == "error" for found in diagnostics)
    warnings = len(diagnostics) - errors
    if not errors:
        for line in dict.fromkeys(
            map(str, proofs)
        ):  # entered by different ways, a loop may have the same bound
            say(f"{file}: loop {line}", err=False)
    verdict = "ok" if not errors else "not ok"
    say(f"{file}: {verdict}, {counted(errors, 'error')}, {counted(warnings, 'warning')}", err=False)
