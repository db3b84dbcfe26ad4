"""`roundel log`: what happened in a run, event by event."""

from __future__ import annotations

from collections.abc import Callable

import click

from roundel.cli.arguments import run_argument
from roundel.cli.live.bounds import Bounds
from roundel.cli.live.lines import excerpt, line_of
from roundel.cli.next_step import suggest
from roundel.cli.output import one_line, print_json, say, styled
from roundel.cli.stored import find_run, store_option, with_runs
from roundel.journal.store import StoreError
from roundel.kernel.events import Event
from roundel.plan.graph import Plan
from roundel.runs.runs import Runs

INSIDE = ("/", ".", "[", "#")
"""What may follow an address in that of something inside it."""


@click.command("log")
@run_argument
@click.option("--round", "address", metavar="ADDRESS", help="Only what happened there, such as 'Writer[3]'.")
@click.option(
    "--after",
    metavar="SEQ",
    type=click.IntRange(min=0),
    default=0,
    help="Only events with a larger `seq`; quick in long runs.",
)
@click.option("--follow", "-f", is_flag=True, help="Show more as it happens, until the run is over.")
@click.option("--json", "as_json", is_flag=True, help="Print each event as a line of JSON.")
@store_option
def log_command(
    run: str, address: str | None, after: int, follow: bool, as_json: bool, place: str | None
) -> None:
    """Show what happened in a run.

    RUN is an id, the beginning of one, or `last`.
    """

    async def work(runs: Runs) -> None:
        run_id = await find_run(runs, run)
        show = print_json if as_json else _printer(await runs.plan(run_id))
        shown, failed = False, ""
        async for event in runs.follow(run_id, after=after, live=follow):
            if event.event == "node_state_change" and event.data.get("status") == "failed":
                failed = event.address or ""
            if address is None or is_at(event.address or "", address):
                shown = True
                show(event)
        if address is not None and not shown:
            suggest("log", run_id)
            raise StoreError(_nothing(run_id, address, after))
        if failed and (await runs.row(run_id)).status == "failed":
            suggest("fork", run_id, "--at", failed)

    with_runs(place, work)


def _nothing(run_id: str, address: str, after: int) -> str:
    if after:
        return f"nothing happened at '{address}' in run {run_id} after event {after}"
    return f"nothing happened at '{address}' in run {run_id}; without --round all is shown"


def is_at(address: str, wanted: str) -> bool:
    """Whether an address is the wanted one, or inside it: `Writer[3]/Critic` is in `Writer[3]`."""
    return address == wanted or (address.startswith(wanted) and address[len(wanted) :].startswith(INSIDE))


def _printer(plan: Plan) -> Callable[[Event], None]:
    bounds = Bounds(plan)

    def show(event: Event) -> None:
        line = _line(event, bounds)
        if line:
            say(styled(event.timestamp[11:23], dim=True), f"  {line}", err=False)

    return show


def _line(event: Event, bounds: Bounds) -> str | None:
    """None for what is not worth a line."""
    kind, data = event.event, event.data
    if kind == "run_started":
        return f"started  {one_line(data['workflow'])}  {excerpt(data['input'])}".rstrip()
    if kind == "run_state_change":
        return f"{data['status']}  {one_line(data.get('reason', ''))}".rstrip()
    if kind == "run_finished":
        return f"{data['status']}  {excerpt(data.get('error') or data.get('output') or '')}".rstrip()
    if kind == "message_edited":
        return f"{one_line(event.address or '')}  changed  {excerpt(data['text'])}".rstrip()
    return line_of(event, bounds)
