"""`roundel step`, `break` and `edit`: breakpoints, single steps and waiting messages of a stored run.

`roundel debug` (debug.py) shows the same in one screen.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from roundel.cli.event_lines import excerpt
from roundel.cli.execution import execute
from roundel.cli.options import BreakpointPlace, RunAddress, data_option, run_argument
from roundel.cli.output import echo, one_line, print_json
from roundel.cli.progress import arguments_text
from roundel.cli.store_access import find_run, store_option, with_run, with_runs
from roundel.hosts.engine import Attach
from roundel.runs.inspection import BreakpointState, RunInspection
from roundel.runs.runs import Runs
from roundel.workflow.breakpoints import BreakpointError


@click.command("step")
@run_argument
@click.option(
    "--round", "whole_round", is_flag=True, help="Continue to the next round of the innermost loop."
)
@click.option("--json", "as_json", is_flag=True, help="Print each event as a line of JSON.")
@store_option
def step_command(run: str, whole_round: bool, as_json: bool, place: str | None) -> None:
    """Let a paused run take one step, and pause it again.

    RUN is an id, the beginning of one, or `last`. The first node that is ready runs, the others wait. With
    --round the run continues to the next round of the innermost loop, or to a breakpoint on the way. Output
    and exit codes are those of `roundel run`; a run that pauses again has 4.
    """

    async def work(runs: Runs) -> int:
        run_id = await find_run(runs, run)

        async def step(attach: Attach) -> str:
            return await runs.step_in_background(run_id, round=whole_round, attach=attach)

        return await execute(runs, step, as_json)

    sys.exit(with_runs(place, work))


@click.command("break")
@run_argument
@click.argument("places", nargs=-1, type=BreakpointPlace(), metavar="[PLACE]...")
@click.option("--remove", "removed", multiple=True, metavar="PLACE", help="Remove a breakpoint.")
@click.option("--clear", is_flag=True, help="Remove all breakpoints.")
@click.option("--json", "as_json", is_flag=True, help="Print the breakpoints as JSON.")
@store_option
def break_command(
    run: str,
    places: tuple[str, ...],
    removed: tuple[str, ...],
    clear: bool,
    as_json: bool,
    place: str | None,
) -> None:
    """Set, list and remove the breakpoints of a run, whichever process executes it.

    RUN is an id, the beginning of one, or `last`. PLACE is a node, a round such as 'Writer[3]', an address
    such as 'Writer[3]/Reviewer', or a condition: 'cel: round > 3'. Without a PLACE, the breakpoints are
    listed with how often the run has reached each.
    """

    async def work(runs: Runs, run_id: str) -> Sequence[BreakpointState]:
        gone = list(removed)
        if clear:
            gone += [state.text for state in await runs.breakpoints(run_id) if state.text not in gone]
        if not (places or gone):
            return await runs.breakpoints(run_id)
        try:
            return await runs.set_breakpoints(run_id, *places, remove=gone)
        except BreakpointError as error:
            raise click.UsageError(str(error)) from None

    states = with_run(place, run, work)
    if as_json:
        print_json(states)
    elif not states:
        echo("no breakpoints", err=False)
    else:
        for state in states:
            hits = f"reached {state.hits} times" if state.hits != 1 else "reached once"
            problem = f"; {state.problem}" if state.problem else ""
            echo(f"{one_line(state.text)}  ({hits}{one_line(problem)})", err=False)


@click.command("edit")
@run_argument
@click.argument("text", required=False, metavar="[TEXT|-]")
@data_option("New structured fields of the message, as a JSON object.")
@click.option(
    "--at",
    "address",
    default="",
    type=RunAddress(),
    metavar="ADDRESS",
    help="The node in whose queue the message is.",
)
@click.option(
    "--position",
    type=click.IntRange(min=0),
    metavar="N",
    help="Its number in the queue, from 0; by default, the last one.",
)
@click.option(
    "--version",
    default="",
    metavar="VERSION",
    help="Refuse the edit if the message no longer has this version.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the waiting messages as JSON.")
@store_option
def edit_command(
    run: str,
    text: str | None,
    data: dict[str, Any] | None,
    address: str,
    position: int | None,
    version: str,
    as_json: bool,
    place: str | None,
) -> None:
    """Edit a message that waits at a node of a paused or locked run.

    RUN is an id, the beginning of one, or `last`. TEXT is the new text, - reads it from standard input.
    Without TEXT and --data, the waiting messages are listed. Without --at, the message waits at the first
    node that is ready.
    """
    if text == "-":
        text = sys.stdin.buffer.read().decode("utf-8", "replace").rstrip("\n")

    async def work(runs: Runs, run_id: str) -> RunInspection:
        if text is None and data is None:
            return await runs.debug(run_id)
        return await runs.edit(run_id, text, at=address, position=position, data=data, version=version)

    seen = with_run(place, run, work)
    if as_json:
        print_json(seen.queues)
        return
    if text is not None or data is not None:
        echo("edited")
    if not seen.queues:
        echo("no message waits", err=False)
    for queue in seen.queues:
        echo(one_line(queue.address), err=False)
        for message in queue.messages:
            source = f" from {one_line(message.source)}" if message.source else ""
            content = "  ".join(filter(None, (excerpt(message.text), excerpt(arguments_text(message.data)))))
            echo(f"  {message.position} {message.version}{source}: {content}", err=False)
