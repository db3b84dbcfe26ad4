"""`roundel runs`, `log` and `prune`: the commands that list stored runs, show their events, and delete
their rounds.

`runs` reads one row per run, with the summary that was stored when the run became idle. It never reads
journals, so a store with thousands of long runs is listed at once; the price is that the number of
rounds of a run in flight is unknown. `log` rebuilds the events from the journal.
"""

from __future__ import annotations

import re
import time
from datetime import datetime
from typing import Any, get_args

import click

from roundel.cli.call_text import show_call
from roundel.cli.event_lines import excerpt, format_event
from roundel.cli.next_step import suggest, suggest_without_store, suggestion_for
from roundel.cli.options import RunAddress, RunName, run_argument
from roundel.cli.output import console, echo, one_line, pluralize, print_json, styled
from roundel.cli.progress import arguments_text, state_reason
from roundel.cli.store_access import (
    count_option,
    find_run,
    open_runs,
    run_to_end,
    store_exists,
    store_option,
    with_runs,
)
from roundel.journal.store import RunRow, StoreError
from roundel.kernel.events import Event, RunStatus, is_over, stamp
from roundel.kernel.payloads import MessageEdited, RunFinished, RunStarted, RunStateChanged
from roundel.runs.retention import (
    KEEP_NOTHING,
    VersionPolicy,
    parse_policy,
    prune,
    prune_audit_log,
    prune_versions,
    with_room,
)
from roundel.runs.runs import Runs
from roundel.workflow.address import is_inside

COLOURS: dict[RunStatus, str] = {
    "running": "cyan",
    "completed": "green",
    "failed": "red",
    "stopped": "red",
    "waiting": "yellow",
    "paused": "yellow",
    "suspended_locked": "yellow",
}
LONGEST_AGE = len("59 min ago")
UNITS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))


@click.command("runs")
@click.option("--status", type=click.Choice(get_args(RunStatus)), help="Only runs with this status.")
@count_option(20)
@click.option("--json", "as_json", is_flag=True, help="Print each run as a line of JSON.")
@store_option
def runs_command(status: str | None, limit: int, as_json: bool, place: str | None) -> None:
    """List the stored runs, the newest first."""
    runs = open_runs(place)
    suggest_without_store("run", "--help")
    # One more than is shown, to know whether there are more.
    rows = run_to_end(lambda: _rows(runs, limit + 1, status or "")) if store_exists(runs) else []
    if rows:
        suggest(*suggestion_for(rows[0]))
    if as_json:
        for row in rows[:limit]:
            print_json(_as_data(row))
    elif rows:
        _print_table(rows[:limit], time.time())
        if len(rows) > limit:
            echo(f"there are more; --limit {limit * 5} shows more of them")
    else:
        echo(f"there are no runs{f' with status {status}' if status else ''} in {runs.store.location}")


async def _rows(runs: Runs, limit: int, status: str) -> list[RunRow]:
    async with runs:
        return await runs.list(limit=limit, status=status)


def _as_data(row: RunRow) -> dict[str, Any]:
    # The keys are an interface for programs: they may be added to, but not renamed.
    return {
        "run_id": row.id,
        "workflow": row.name,
        "status": row.status,
        "rounds": _rounds(row),
        "started": stamp(row.created),
        "updated": stamp(row.updated),
        "owner": row.owner or None,
        "input": row.input,
        "parent": row.parent or None,
        "forked_at": row.forked_at or None,
        "saved_as": row.saved_as or None,
        "workflow_version": row.workflow_version or None,
        "kept": row.pruned or "all",
        "deadline": _deadline(row),
    }


def _deadline(row: RunRow) -> str | None:
    """The time before which a question of the run has to be answered, if there is one."""
    return None if row.summary is None or row.status == "running" else row.summary.get("deadline")


def _status(row: RunRow, now: float) -> str:
    deadline = _deadline(row)
    if deadline is None or row.status not in ("waiting", "paused"):
        return row.status
    left = datetime.fromisoformat(deadline).timestamp() - now
    return f"{row.status}, {format_span(left) + ' left' if left > 0 else 'overdue'}"


def _rounds(row: RunRow) -> int | None:
    """The rounds of all loops together; None until the run is idle for the first time."""
    if row.summary is None:
        return None
    return sum(int(loop["rounds"]) for loop in row.summary.get("loops", {}).values())


SHORT_ID = 5
"""Characters of the id of the run that a fork comes from: enough to name it, and it fits beside the rest."""


def _print_table(rows: list[RunRow], now: float) -> None:
    from rich.table import Table
    from rich.text import Text

    # Names give way in a narrow terminal; ids, times and figures are never cut.
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    table.add_column("run", no_wrap=True)
    table.add_column("workflow", overflow="ellipsis", no_wrap=True)
    table.add_column("status", no_wrap=True)
    table.add_column("rounds", justify="right", no_wrap=True)
    for heading in ("started", "updated"):
        table.add_column(heading, justify="right", no_wrap=True, min_width=LONGEST_AGE)
    table.add_column("owner", overflow="ellipsis", no_wrap=True)
    has_forks = any(row.parent for row in rows)
    if has_forks:
        table.add_column("from", no_wrap=True)
    for row in rows:
        rounds, owner = _rounds(row), row.owner
        # A run that is running without an owner has lost its process; `roundel resume` continues it.
        nobody = Text("nobody", "yellow") if row.status == "running" else Text("")
        table.add_row(
            Text(row.id, "bold"),
            Text(one_line(row.name)),
            Text(_status(row, now), COLOURS.get(row.status, "")),
            "" if rounds is None else f"{rounds:,}",
            format_age(now - row.created),
            format_age(now - row.updated),
            Text(owner, "cyan") if owner else nobody,
            *([row.parent[:SHORT_ID]] if has_forks else ()),
        )
    console(stderr=False).print(table)


def format_age(seconds: float) -> str:
    """`12 s ago`, `5 min ago`, `3 d ago`."""
    return f"{format_span(seconds)} ago" if seconds >= 1 else "now"


def format_span(seconds: float) -> str:
    """`12 s`, `5 min`, `3 d`."""
    size, unit = next((pair for pair in UNITS if seconds >= pair[0]), UNITS[-1])
    return f"{int(seconds // size)} {unit}"


@click.command("log")
@run_argument
@click.option(
    "--round",
    "address",
    type=RunAddress(),
    metavar="ADDRESS",
    help="Only events at this address and inside it, such as 'Writer[3]'.",
)
@click.option(
    "--after",
    metavar="SEQ",
    type=click.IntRange(min=0),
    default=0,
    help="Only events with a larger `seq`; fast in long runs.",
)
@click.option("--follow", "-f", is_flag=True, help="Wait for new events, until the run has ended.")
@click.option(
    "--call",
    "called",
    type=RunAddress(),
    metavar="ADDRESS",
    help="Show what the model or the tool got that was called at this address.",
)
@click.option(
    "--call-number",
    "number",
    type=click.IntRange(min=1),
    metavar="N",
    help="The N-th call of a model at the address of --call; otherwise the last one.",
)
@click.option("--json", "as_json", is_flag=True, help="Print each event as a line of JSON.")
@store_option
def log_command(
    run: str,
    address: str | None,
    after: int,
    follow: bool,
    called: str | None,
    number: int | None,
    as_json: bool,
    place: str | None,
) -> None:
    """Show the events of a run, or what one of its calls got.

    RUN is an id, the beginning of one, or `last`.
    """
    if number is not None and called is None:
        raise click.UsageError("--call-number belongs to --call; give the address of the call")
    if called is not None:
        if follow or after or address is not None:
            raise click.UsageError("--call shows one call; leave out --round, --after and --follow")
        show_call(run, called, number, as_json, place)
        return

    async def work(runs: Runs) -> None:
        run_id = await find_run(runs, run)
        show = print_json if as_json else _print_line
        shown = False
        async for event in runs.follow(run_id, after=after, live=follow):
            if address is None or is_inside(event.address or "", address):
                shown = True
                show(event)
        if address is not None and not shown:
            suggest("log", run_id)
            raise StoreError(_nothing_found(run_id, address, after))

    with_runs(place, work)


def _nothing_found(run_id: str, address: str, after: int) -> str:
    if after:
        return f"run {run_id} has no event at '{address}' after event {after}"
    return f"run {run_id} has no event at '{address}'; omit --round to see all events"


def _print_line(event: Event) -> None:
    line = _line(event)
    if line:
        echo(styled(event.timestamp[11:23], dim=True), f"  {line}", err=False)


def _line(event: Event) -> str | None:
    """The event as a line; None for events that a person does not need."""
    # The events of the run itself are only in the log: the live view shows them in its own way.
    match event.data:
        case RunStarted(workflow=workflow, input=given):
            return f"started  {one_line(workflow)}  {excerpt(given)}".rstrip()
        case RunStateChanged(status=status) as data:
            return f"{status}  {one_line(state_reason(data))}".rstrip()
        case RunFinished(status=status) as data:
            return f"{status}  {excerpt(data.error or data.output)}".rstrip()
        case MessageEdited() as data:
            return _edit_line(one_line(event.address or ""), data)
        case _:
            return format_event(event)


def _edit_line(address: str, data: MessageEdited) -> str:
    """A message that a fork replaced, or one that a person edited while it waited."""
    fields = excerpt(arguments_text(data.data))
    what = f"edited message {data.position}" if data.position is not None else "changed"
    return "  ".join(filter(None, (address, what, excerpt(data.text), fields)))


AGE = re.compile(r"(\d+)\s*(s|min|h|d|w)")
SECONDS = {"s": 1, "min": 60, "h": 3600, "d": 86400, "w": 604800}
SIZES = ("bytes", "KB", "MB", "GB")


@click.command("prune")
@click.argument("names", nargs=-1, metavar="[RUN]...", type=RunName())
@click.option(
    "--keep",
    metavar="ROUNDS",
    help="The rounds to keep: first, last, best, every:N, several with commas; or nothing.",
)
@click.option(
    "--older-than", "age", metavar="AGE", help="Only runs that ended at least this long ago: 12h, 30d, 8w."
)
@click.option(
    "--audit-log",
    "audit_age",
    metavar="AGE",
    help="Delete entries of the audit log that are older than this.",
)
@click.option(
    "--versions",
    metavar="N|AGE",
    help="Delete versions of saved workflows: all but the newest N, or those older than this.",
)
@click.option("--dry-run", is_flag=True, help="Only list the runs that would be pruned.")
@store_option
def prune_command(
    names: tuple[str, ...],
    keep: str | None,
    age: str | None,
    audit_age: str | None,
    versions: str | None,
    dry_run: bool,
    place: str | None,
) -> None:
    """Delete all but some rounds of finished runs, or the whole runs, and make the file smaller.

    Also deletes old entries of a server's audit log, and old versions of its workflows.

    RUN is an id, the beginning of one, or `last`; without any, --older-than selects runs.
    """
    records = audit_age is not None or versions is not None
    selects = bool(names) or age is not None
    if dry_run and records:
        raise click.UsageError("--dry-run lists runs; leave out --audit-log and --versions")
    if not selects and (keep is not None or not records):
        raise click.UsageError(
            "say which runs: name them, or give --older-than (0d selects all finished runs)"
        )
    if keep is None and selects:
        raise click.UsageError("say which rounds of the runs to keep: --keep")
    seconds = _seconds(age) if age is not None else 0.0
    policy = None if keep is None else _run_policy(keep.strip())
    audit_until = None if audit_age is None else time.time() - _seconds(audit_age, "--audit-log")
    versions_policy = None if versions is None else _version_policy(versions)

    async def work(runs: Runs) -> None:
        store = runs.store
        # On a full disk, even opening the store may need room.
        rows = (
            await with_room(store, lambda: _choose_runs(runs, names, time.time() - seconds, policy))
            if policy is not None
            else []
        )
        if dry_run:
            for row in rows:
                echo(f"{row.id}  {row.name}  {row.status}", err=False)
            echo(f"{pluralize(len(rows), 'run')} would be pruned to '{policy}'")
            return
        before = await store.size()
        if versions_policy is not None:
            deleted = await prune_versions(store.documents(), versions_policy)
            echo(f"deleted {pluralize(deleted, 'version')} of workflows")
        if audit_until is not None:
            deleted = await prune_audit_log(store.documents(), audit_until)
            echo(f"deleted {deleted} {'entry' if deleted == 1 else 'entries'} of the audit log")
        # Each run is pruned by itself; the file shrinks only with the compaction at the end.
        for row in rows:
            assert policy is not None
            await prune(store, row.id, policy)
        await store.compact()
        saved = before - await store.size()
        smaller = f"{_format_size(saved)} smaller" if saved > 0 else "as large as before"
        pruned = f"pruned {pluralize(len(rows), 'run')} to '{policy}'; " if policy is not None else ""
        echo(f"{pruned}{store.location} is {smaller}")

    with_runs(place, work)
    suggest("runs")


async def _choose_runs(runs: Runs, names: tuple[str, ...], until: float, policy: str) -> list[RunRow]:
    if names:
        found = [await runs.store.row(await find_run(runs, name)) for name in dict.fromkeys(names)]
        for row in found:
            if not is_over(row.status):
                # An error for a named run, and a filter otherwise: who names a run expects it to be
                # pruned.
                raise StoreError(
                    f"run {row.id} is {row.status}; only a finished run can be pruned "
                    f"(`roundel stop {row.id}` ends it)"
                )
    else:
        found = [row for row in await runs.store.rows(None) if is_over(row.status)]
    # A pruned run has lost the rounds that another policy would need; only all of it can still be
    # deleted.
    return [row for row in found if row.updated <= until and (policy == KEEP_NOTHING or not row.pruned)]


def _seconds(age: str, option: str = "--older-than") -> float:
    found = AGE.fullmatch(age.strip())
    if found is None:
        raise click.UsageError(f"{option} takes a time such as 12h, 30d or 8w, not '{age}'")
    return int(found[1]) * SECONDS[found[2]]


def _run_policy(keep: str) -> str:
    try:
        return KEEP_NOTHING if keep == KEEP_NOTHING else ",".join(parse_policy(keep))
    except StoreError as error:
        raise click.UsageError(str(error)) from None


def _version_policy(text: str) -> VersionPolicy:
    if text.strip().isdecimal() and int(text) > 0:
        return VersionPolicy(keep=int(text))
    if AGE.fullmatch(text.strip()) is None:
        raise click.UsageError(f"--versions takes a number such as 20, or a time such as 90d, not '{text}'")
    return VersionPolicy(until=time.time() - _seconds(text))


def _format_size(size: float) -> str:
    for unit in SIZES:
        if size < 1000 or unit == SIZES[-1]:
            return f"{size:.0f} {unit}" if unit == SIZES[0] else f"{size:.1f} {unit}"
        size /= 1000
    raise AssertionError
