"""`roundel run`: runs a workflow to its end, with a live view or with its events as JSON."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from roundel.cli import INVALID
from roundel.cli.arguments import WorkflowFile, file_argument
from roundel.cli.execution import execute, person_is_there
from roundel.cli.invalid import suggest_check
from roundel.cli.limits import limit_option, limits_of
from roundel.cli.next_step import about, current, suggest_for_run, suggest_plainly
from roundel.cli.output import allow_option, concealment, say, styled, tell, variables
from roundel.cli.stored import finished, runs_at, store_option
from roundel.hosts.engine import Attach
from roundel.journal.store import StoreError
from roundel.kernel.fact_masking import secrets_of
from roundel.llm.recorder import ScriptRecorder
from roundel.llm.scripted import Script, load_script
from roundel.nodes.sources import check
from roundel.plan.graph import Plan, compile_workflow
from roundel.runs.runs import Runs
from roundel.workflow.diagnostics import WorkflowError
from roundel.workflow.graph import Workflow
from roundel.workflow.grouping import grouped
from roundel.workflow.limiting import limited
from roundel.workflow.message import Message


@click.command("run")
@file_argument
@click.option("--input", "-i", "text", metavar="TEXT|-", help="The input; - reads standard input.")
@click.option(
    "--script",
    "script_file",
    metavar="FILE",
    type=WorkflowFile(),
    help="Replies for models and people, to run offline.",
)
@click.option("--record", "record_file", metavar="FILE", help="Keep what models say, as a script.")
@click.option("--json", "as_json", is_flag=True, help="Print each event as a line of JSON.")
@store_option
@click.option("--no-store", "forgotten", is_flag=True, help="Keep nothing of the run.")
@limit_option
@click.option("--var", "pairs", multiple=True, metavar="NAME=VALUE", help="Set a variable of the workflow.")
@click.option("--group", metavar="NAME", help="Whose memory the run has part in.")
@allow_option
def run_command(
    file: str,
    text: str | None,
    script_file: str | None,
    record_file: str | None,
    as_json: bool,
    place: str | None,
    forgotten: bool,
    limits: tuple[str, ...],
    pairs: tuple[str, ...],
    group: str | None,
    allowed: tuple[str, ...],
) -> None:
    """Run a workflow to its end.

    The result goes to standard output, everything else to standard error. The run is stored, so that it can
    be resumed after a crash (roundel resume), looked at and forked.
    Exit codes: 0 completed, 1 failed, 2 bad usage or an invalid workflow, 3 locked by a limit,
    4 waiting for a person or paused, 130 interrupted (`roundel resume` continues it) or stopped.
    """
    if forgotten and place:
        raise click.UsageError("--store stores the run, and --no-store does not; give one of them")
    try:
        values, bounds = variables(pairs), limits_of(limits)
        workflow = grouped(limited(_loaded(file, values, allowed), bounds), group)
        plan = compile_workflow(workflow)
        concealment.know(secrets_of(plan))
        recorder = _recorder(record_file, script_file)
        script = _scripted(script_file, plan)
        runs = Runs() if forgotten else runs_at(place)
        message = Message(_input(text, workflow))
    except WorkflowError as error:
        tell(error.diagnostics)
        suggest_check(file)
        sys.exit(INVALID)

    async def work() -> int:
        async def begin(attach: Attach) -> None:
            try:
                await runs.start(
                    plan, message, script=script, limits=bounds, stored=not forgotten, attach=attach
                )
            except StoreError:
                about("")  # there is no such run to resume
                suggest_plainly("run", "--help")
                raise

        async with runs:
            try:
                return await execute(runs, begin, as_json, stored=not forgotten, recorder=recorder)
            finally:
                if forgotten:
                    # Nothing is stored that could be looked at or resumed; the same run, stored, can.
                    suggest_plainly(*(word for word in current().arguments if word != "--no-store"))
                else:
                    await suggest_for_run(runs)

    code = finished(work)
    if recorder is not None and recorder.problem:
        say(styled(recorder.problem, fg="red"))
    sys.exit(code)


def _loaded(file: str, values: dict[str, Any], allowed: tuple[str, ...]) -> Workflow:
    workflow, report = check(file, values, allow_paths=allowed)
    if workflow is None or not report.ok:
        raise WorkflowError(report.diagnostics)
    tell(report.diagnostics)
    return workflow


def _scripted(file: str | None, plan: Plan) -> Script | None:
    if file is None:
        return None
    script, report = load_script(file)
    script.check((node.id for node in plan.sites), report)
    tell(report.diagnostics)
    return script


def _recorder(file: str | None, script_file: str | None) -> ScriptRecorder | None:
    if file is None:
        return None
    if script_file is not None:
        raise click.UsageError("--record keeps what models say, and with --script none is asked")
    recorder = ScriptRecorder(Path(file))
    try:
        recorder.check()
    except OSError as error:
        raise click.UsageError(str(error)) from None
    return recorder


def _input(text: str | None, workflow: Workflow) -> str:
    if text == "-":
        return sys.stdin.buffer.read().decode("utf-8", "replace")
    if text is None and person_is_there():
        if workflow.graph.initial_instruction:
            say(workflow.graph.initial_instruction)
        from roundel.cli.prompt import ask

        return ask("input: ")
    return (text or "").encode("utf-8", "surrogateescape").decode("utf-8", "replace")
