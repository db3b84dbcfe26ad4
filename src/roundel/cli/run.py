"""`roundel run`, `fork` and `replay`: the commands that start a run, or compare one with another
workflow.

`run` does all its checks before it opens the store, so that bad usage leaves no trace. The run is stored
from its start; with `--no-store` a crash loses it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple

import click

from roundel.cli import INVALID
from roundel.cli.execution import execute, is_interactive
from roundel.cli.next_step import current_step, set_current_run, suggest_for_run, suggest_without_store
from roundel.cli.options import (
    RunAddress,
    WorkflowPath,
    breakpoint_option,
    data_option,
    file_argument,
    limit_option,
    model_option,
    parse_limits,
    run_argument,
    suggest_check,
    variable_option,
)
from roundel.cli.output import (
    ALLOW_PATH_WITHOUT_WORKFLOW,
    allow_option,
    echo,
    parse_variables,
    print_diagnostics,
    print_warnings,
    secret_masking,
    styled,
)
from roundel.cli.store_access import (
    context_option,
    find_run,
    open_runs,
    run_to_end,
    store_option,
    user_name,
    with_run,
    with_runs,
)
from roundel.hosts.engine import Attach, Attachment, Inspection, resolve_attachment
from roundel.journal.store import StoreError
from roundel.kernel.facts import secrets_of
from roundel.llm.script import Script, ScriptRecorder, load_script
from roundel.nodes.loading import check
from roundel.plan.breakpoints import parse_breakpoints
from roundel.plan.graph import Plan, compile_workflow
from roundel.plan.overrides import LimitError, with_limits
from roundel.runs.forking import Difference
from roundel.runs.runs import Runs
from roundel.workflow.breakpoints import Breakpoint, BreakpointError
from roundel.workflow.diagnostics import WorkflowError
from roundel.workflow.graph import Workflow, with_group
from roundel.workflow.message import Message, data_text

input_option = click.option(
    "--input", "-i", "text", metavar="TEXT|-", help="The input; - reads standard input."
)
input_data_option = data_option("Structured fields of the input, as a JSON object.")
script_option = click.option(
    "--script",
    "script_file",
    metavar="FILE",
    type=WorkflowPath(),
    help="Replies for models and people, to run offline.",
)


@click.command("run")
@file_argument
@input_option
@input_data_option
@script_option
@click.option("--record", "record_file", metavar="FILE", help="Write the model replies to a script.")
@click.option("--json", "as_json", is_flag=True, help="Print each event as a line of JSON.")
@store_option
@click.option("--no-store", "not_stored", is_flag=True, help="Do not store the run.")
@limit_option
@variable_option
@model_option
@click.option("--group", metavar="NAME", help="The group whose memory the run shares.")
@breakpoint_option
@click.option("--paused", is_flag=True, help="Pause before the first node.")
@context_option
@allow_option
def run_command(
    file: str,
    text: str | None,
    data: dict[str, Any] | None,
    script_file: str | None,
    record_file: str | None,
    as_json: bool,
    place: str | None,
    not_stored: bool,
    limits: tuple[str, ...],
    pairs: tuple[str, ...],
    model: str,
    group: str | None,
    places: tuple[str, ...],
    paused: bool,
    context_bytes: int,
    allowed: tuple[str, ...],
) -> None:
    """Run a workflow to its end.

    The result goes to standard output, everything else to standard error. The run is stored, so that you
    can resume it after a crash (roundel resume), inspect it and fork it. Exit codes: 0 completed, 1
    failed, 2 bad usage or an invalid workflow, 3 locked by a limit, 4 waiting for a person or paused,
    130 interrupted (`roundel resume` continues it) or stopped.
    """
    if not_stored and place:
        raise click.UsageError("--store and --no-store exclude each other; give one of them")
    if not_stored and (places or paused):
        raise click.UsageError("a run that pauses has to be stored; leave out --no-store")
    loaded = load_for_start(file, script_file, limits, pairs, places, model, group=group, allowed=allowed)
    recorder = _recorder(record_file, script_file)
    if not_stored:
        runs = Runs(on_warnings=print_warnings, by=user_name(), context_bytes=context_bytes)
    else:
        runs = open_runs(place, context_bytes)
    message = read_input(text, loaded.plan.workflow, data)

    async def work() -> int:
        async def begin(attach: Attach) -> None:
            try:
                await runs.start(
                    loaded.plan,
                    message,
                    script=loaded.script,
                    limits=loaded.limits,
                    stored=not not_stored,
                    breakpoints=loaded.breakpoints,
                    paused=paused,
                    attach=attach,
                )
            except BreakpointError as error:
                raise click.UsageError(str(error)) from None
            except StoreError:
                set_current_run("")  # the run was not stored, so there is nothing to resume
                suggest_without_store("run", "--help")
                raise

        async with runs:
            try:
                return await execute(runs, begin, as_json, stored=not not_stored, recorder=recorder)
            finally:
                if not_stored:
                    # There is no stored run to suggest a step for, so suggest the same command with a
                    # store.
                    suggest_without_store(
                        *(word for word in current_step().arguments if word != "--no-store")
                    )
                else:
                    await suggest_for_run(runs)

    code = run_to_end(work)
    # A record that cannot be written does not fail the run: its result is paid for.
    if recorder is not None and recorder.problem:
        echo(styled(recorder.problem, fg="red"))
    sys.exit(code)


class LoadedStart(NamedTuple):
    """A workflow file and the options of a run, loaded and checked. `load_for_start` creates it."""

    plan: Plan
    script: Script | None
    limits: dict[str, float | str]
    breakpoints: tuple[Breakpoint, ...]


def load_for_start(
    file: str,
    script_file: str | None,
    limits: tuple[str, ...],
    pairs: tuple[str, ...],
    places: tuple[str, ...],
    model: str,
    *,
    group: str | None = None,
    allowed: tuple[str, ...] = (),
) -> LoadedStart:
    """Loads what a new run needs, and sets the secrets to mask. `model` is that of agents that name none.
    Ends the command if the workflow is invalid; raises UsageError if an option does not fit it."""
    try:
        values, bounds = parse_variables(pairs), parse_limits(limits)
        workflow = with_group(with_limits(_load_workflow(file, values, allowed, model), bounds), group)
        plan = compile_workflow(workflow)
        # Before anything that may print a text of the file.
        secret_masking.set_secrets(secrets_of(plan))
        # Its warnings are printed when the run starts.
        script = load_script(script_file)[0] if script_file is not None else None
        return LoadedStart(plan, script, bounds, parse_breakpoints(plan, places))
    except (LimitError, BreakpointError) as error:
        raise click.UsageError(str(error)) from None
    except WorkflowError as error:
        print_diagnostics(error.diagnostics)
        suggest_check(file)
        sys.exit(INVALID)


def _load_workflow(file: str, values: dict[str, Any], allowed: tuple[str, ...], model: str) -> Workflow:
    """Loads and checks a file; prints its warnings, and raises WorkflowError if it has errors."""
    workflow, report = check(file, values, allow_paths=allowed, model=model)
    if workflow is None or not report.ok:
        raise WorkflowError(report.diagnostics)
    print_diagnostics(report.diagnostics)
    return workflow


def _recorder(file: str | None, script_file: str | None) -> ScriptRecorder | None:
    if file is None:
        return None
    if script_file is not None:
        raise click.UsageError(
            "--record writes the replies of models, but with --script no model is called; give one of them"
        )
    recorder = ScriptRecorder(Path(file))
    # Tried now: an unwritable file must stop the run before it costs anything.
    try:
        recorder.check()
    except OSError as error:
        raise click.UsageError(str(error)) from None
    return recorder


def read_input(text: str | None, workflow: Workflow, data: dict[str, Any] | None) -> Message:
    """The input of a new run, from the options, standard input or a person."""
    return Message(_input_text(text, workflow, data), data=data)


def _input_text(text: str | None, workflow: Workflow, data: dict[str, Any] | None) -> str:
    """The input: from the option, from standard input for `-`, from a person in a terminal, or the data as
    text."""
    if text == "-":
        return sys.stdin.buffer.read().decode("utf-8", "replace")
    if text is None and data is not None:
        return data_text(data)
    if text is None and is_interactive():
        if workflow.graph.initial_instruction:
            echo(workflow.graph.initial_instruction)
        from roundel.cli.prompt import ask

        return ask("input: ")
    # Arguments that are not UTF-8 arrive as surrogates, which could not be stored.
    return (text or "").encode("utf-8", "surrogateescape").decode("utf-8", "replace")


Changes = dict[str, Any]
"""The changes that a fork, a retry or a replay brings, as the methods of Runs take them."""
OTHER_WORKFLOW = "Use this workflow instead of the one that the run was started with."


def change_options(
    workflow_help: str, *, replies: bool = True
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The options for changes to a stored run; the command gets them as `changes`."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def call(
            workflow: str | None,
            allowed: tuple[str, ...],
            limits: tuple[str, ...],
            pairs: tuple[str, ...],
            script_file: str | None = None,
            **given: Any,
        ) -> None:
            values = parse_variables(pairs)
            if allowed and workflow is None and not values:
                raise click.UsageError(ALLOW_PATH_WITHOUT_WORKFLOW)
            changes: Changes = {
                "workflow": workflow,
                "limits": parse_limits(limits),
                "variables": values,
                "allow_paths": allowed,
            }
            command(changes=changes | ({"script": script_file} if replies else {}), **given)

        file = WorkflowPath()
        script = click.option(
            "--script", "script_file", metavar="FILE", type=file, help="Other replies for models and people."
        )
        other = click.option("--workflow", metavar="FILE", type=file, help=workflow_help)
        # As decorators do it: the last one is the first in the help.
        options = (*((script,) if replies else ()), variable_option, limit_option, allow_option, other)
        decorated: Callable[..., None] = call
        for option in options:
            decorated = option(decorated)
        return decorated

    return decorate


@click.command("fork")
@run_argument
@click.option(
    "--at",
    default="",
    type=RunAddress(),
    metavar="ADDRESS",
    help="Where the new run begins; by default, where the run is now.",
)
@click.option("--message", metavar="TEXT", help="Replace the last message at that point.")
@change_options(OTHER_WORKFLOW)
@click.option("--no-run", is_flag=True, help="Print the id of the new run, and do not execute it.")
@click.option("--json", "as_json", is_flag=True, help="Print each event as a line of JSON.")
@store_option
def fork_command(
    run: str,
    at: str,
    message: str | None,
    changes: Changes,
    no_run: bool,
    as_json: bool,
    place: str | None,
) -> None:
    """Start a new run from a point of an old one.

    RUN is an id, the beginning of one, or `last`. The old run does not change, and steps before that
    point are not repeated. With --var, the file that the run was started from is read again, unless
    --workflow names another. Output and exit codes are those of `roundel run`.
    """

    async def work(runs: Runs) -> int:
        run_id = await find_run(runs, run)
        if changes["workflow"] is None and not no_run:
            _refuse_missing_code(await runs.plan(run_id))
        new_id = await runs.fork(run_id, at, message=message, **changes)
        # From now on the next step is about the new run.
        set_current_run(new_id)
        if no_run:
            echo(new_id, err=False)
            return 0
        if not as_json:
            echo(f"forked {run_id}{f' at {at}' if at else ''} as {new_id}")
        return await execute(runs, lambda attach: runs.resume_in_background(new_id, attach=attach), as_json)

    sys.exit(with_runs(place, work))


@click.command("retry")
@run_argument
@click.option(
    "--failed-items",
    is_flag=True,
    help="Retry the items of lists that failed while the run went on, in a new run.",
)
@change_options("A corrected workflow. What the run has done has to fit it.")
@click.option("--json", "as_json", is_flag=True, help="Print each event as a line of JSON.")
@store_option
def retry_command(run: str, failed_items: bool, changes: Changes, as_json: bool, place: str | None) -> None:
    """Retry a failed run: run again what failed, and keep everything that finished.

    RUN is an id, the beginning of one, or `last`. Calls are made with the same idempotency keys as
    before. With --failed-items, the run may have completed: a new run keeps the items that succeeded,
    and runs again what follows the list. With --var, the file that the run was started from is read
    again, unless --workflow names another. Output and exit codes are those of `roundel run`.
    """

    async def work(runs: Runs) -> int:
        run_id = await find_run(runs, run)

        async def retry(attach: Attach) -> str:
            return await runs.retry_in_background(
                run_id, failed_items=failed_items, attach=announced(attach), **changes
            )

        def announced(attach: Attach) -> Attach:
            """Says which run retries the items, before its first event."""

            async def attach_and_announce(new_id: str, inspection: Inspection) -> Attachment:
                if new_id != run_id and not as_json:
                    echo(f"retrying the failed items of {run_id} as {new_id}")
                return await resolve_attachment(attach, new_id, inspection)

            return attach_and_announce

        return await execute(runs, retry, as_json)

    sys.exit(with_runs(place, work))


def _refuse_missing_code(plan: Plan) -> None:
    """Refuses to execute a fork whose functions only the Python program has, before it is created."""
    for name in plan.workflow.functions:
        raise click.UsageError(
            f"the function '{name}' was given in Python, and its code is not stored with the run; fork it in "
            "Python with the same workflow: runs.fork(run, workflow=…), then runs.resume(new, workflow=…)"
        )


@click.command("replay")
@run_argument
@change_options(OTHER_WORKFLOW, replies=False)
@store_option
def replay_command(run: str, changes: Changes, place: str | None) -> None:
    """Replay a run with another workflow, other limits or variables, and report the first difference.

    RUN is an id, the beginning of one, or `last`. No model is called and no person is asked: their
    replies are taken from the run. With --var, the file that the run was started from is read again,
    unless --workflow names another. Exit codes: 0 no difference, 1 a difference, 2 bad usage.
    """

    async def work(runs: Runs, run_id: str) -> tuple[str, Difference | None]:
        return run_id, await runs.replay(run_id, **changes)

    run_id, difference = with_run(place, run, work)
    echo(str(difference) if difference is not None else f"run {run_id} would take the same path", err=False)
    sys.exit(0 if difference is None else 1)
