"""`roundel log`: what happened in a run, event by event."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import click

from roundel.cli.arguments import run_argument
from roundel.cli.drawing.caption import one_line
from roundel.cli.live.bounds import Bounds
from roundel.cli.live.lines import excerpt, line_of
from roundel.cli.next_step import suggest
from roundel.cli.output import print_json, say, styled
from roundel.cli.stored import find_run, in_store, store_option
from roundel.journal.rebuilding import played
from roundel.journal.snapshots import restore
from roundel.journal.store import Store, StoreError
from roundel.kernel.events import Event
from roundel.plan.graph import Plan
from roundel.sessions.pinning import plan_of

LOOK_EVERY = 0.2
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
@click.option("--follow", "-f", is_flag=True, help="Go on as more happens, until the run is over.")
@click.option("--json", "as_json", is_flag=True, help="Print each event as a line of JSON.")
@store_option
def command(
    run: str, address: str | None, after: int, follow: bool, as_json: bool, place: str | None
) -> None:
    """Show what happened in a run.

    RUN is an id, the beginning of one, or `last`.
    """

    async def work(store: Store) -> None:
        run_id = await find_run(store, run)
        plan = await _plan(store, run_id)
        show = print_json if as_json else _printer(plan)
        shown, failed = False, ""
        async for event in _events(store, run_id, plan, after, follow):
            if event.event == "node_state_change" and event.data.get("status") == "failed":
                failed = event.address or ""
            if address is None or is_at(event.address or "", address):
                shown = True
                show(event)
        if address is not None and not shown:
            suggest("log", run_id)
            raise StoreError(_nothing(run_id, address, after))
        if failed and (await store.row(run_id)).status == "failed":
            suggest("fork", run_id, "--at", failed)

    in_store(place, work)


def _nothing(run_id: str, address: str, after: int) -> str:
    if after:
        return f"nothing happened at '{address}' in run {run_id} after event {after}"
    return f"nothing happened at '{address}' in run {run_id}; without --round all is shown"


def is_at(address: str, wanted: str) -> bool:
    """Whether an address is the wanted one, or inside it: `Writer[3]/Critic` is in `Writer[3]`."""
    return address == wanted or (address.startswith(wanted) and address[len(wanted) :].startswith(INSIDE))


async def _plan(store: Store, run_id: str) -> Plan | None:
    """None for a run of which only some rounds were kept: nothing of it has to be made again."""
    return None if await store.kept(run_id) is not None else plan_of(await store.pinned(run_id))


async def _events(
    store: Store, run_id: str, plan: Plan | None, after: int, follow: bool
) -> AsyncIterator[Event]:
    if plan is None:
        for event in await store.kept(run_id) or ():
            if event.seq > after:
                yield event
        return
    state, known = await restore(store, run_id, plan, after)
    while True:
        entries = await store.entries(run_id, known)
        for _, events in played(state, entries, run_id, known):
            for event in events:
                if event.seq > after:
                    yield event
        known += len(entries)
        if not follow or state.over:
            return
        await asyncio.sleep(LOOK_EVERY)


def _printer(plan: Plan | None) -> Callable[[Event], None]:
    bounds = Bounds(plan) if plan is not None else None

    def show(event: Event) -> None:
        line = _line(event, bounds)
        if line:
            say(styled(event.timestamp[11:23], dim=True), f"  {line}", err=False)

    return show


def _line(event: Event, bounds: Bounds | None) -> str | None:
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
