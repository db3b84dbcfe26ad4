"""`roundel runs`: the runs that are kept."""

from __future__ import annotations

import time
from typing import Any

import click

from roundel.cli.next_step import suggest, suggest_plainly, words_for
from roundel.cli.output import console, one_line, print_json, say
from roundel.cli.stored import finished, is_there, most_option, runs_at, store_option
from roundel.journal.store import RunRow
from roundel.kernel.events import stamp
from roundel.runs.runs import Runs

STATUSES = ("running", "waiting", "paused", "suspended_locked", "completed", "failed", "stopped")
COLOURS = {
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
@click.option("--status", type=click.Choice(STATUSES), help="Only runs with this status.")
@most_option(20)
@click.option("--json", "as_json", is_flag=True, help="Print each run as a line of JSON.")
@store_option
def runs_command(status: str | None, limit: int, as_json: bool, place: str | None) -> None:
    """List the runs that are kept, the newest first."""
    runs = runs_at(place)
    suggest_plainly("run", "--help")
    rows = finished(lambda: _rows(runs, limit + 1, status or "")) if is_there(runs) else []
    if rows:
        suggest(*words_for(rows[0]))
    if as_json:
        for row in rows[:limit]:
            print_json(_as_data(row))
    elif rows:
        _tell(rows[:limit], time.time())
        if len(rows) > limit:
            say(f"and more; --limit {limit * 5} shows more of them")
    else:
        say(f"there are no runs{f' that are {status}' if status else ''} in {runs.store.location}")


async def _rows(runs: Runs, limit: int, status: str) -> list[RunRow]:
    async with runs:
        return await runs.list(limit=limit, status=status)


def _as_data(row: RunRow) -> dict[str, Any]:
    return {
        "run_id": row.id,
        "workflow": row.name,
        "status": row.status,
        "rounds": _rounds(row),
        "started": stamp(row.created),
        "updated": stamp(row.updated),
        "at_work": row.owner or None,
        "input": row.input,
        "parent": row.parent or None,
        "forked_at": row.forked_at or None,
        "kept": row.pruned or "all",
    }


def _rounds(row: RunRow) -> int | None:
    """In all loops; None while it is not known."""
    if row.summary is None:
        return None
    return sum(int(loop["rounds"]) for loop in row.summary.get("loops", {}).values())


def _tell(rows: list[RunRow], now: float) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    table.add_column("run", no_wrap=True)
    table.add_column("workflow", overflow="ellipsis", no_wrap=True)
    table.add_column("status", no_wrap=True)
    table.add_column("rounds", justify="right", no_wrap=True)
    for heading in ("started", "updated"):
        table.add_column(heading, justify="right", no_wrap=True, min_width=LONGEST_AGE)
    table.add_column("at work", overflow="ellipsis", no_wrap=True)
    for row in rows:
        rounds, worker = _rounds(row), row.owner
        # A run that is to go on, with nobody at work on it, was cut off.
        nobody = Text("nobody", "yellow") if row.status == "running" else Text("")
        table.add_row(
            Text(row.id, "bold"),
            Text(one_line(row.name)),
            Text(row.status, COLOURS.get(row.status, "")),
            "" if rounds is None else f"{rounds:,}",
            ago(now - row.created),
            ago(now - row.updated),
            Text(worker, "cyan") if worker else nobody,
        )
    console(stderr=False).print(table)


def ago(seconds: float) -> str:
    """`12 s ago`, `5 min ago`, `3 d ago`."""
    for size, unit in UNITS:
        if seconds >= size:
            return f"{int(seconds // size)} {unit} ago"
    return "now"
