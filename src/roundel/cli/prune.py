"""`roundel prune`: keeps less of runs that are over."""

from __future__ import annotations

import re
import time

import click

from roundel.cli.arguments import RunName
from roundel.cli.next_step import suggest
from roundel.cli.output import counted, say
from roundel.cli.stored import find_run, store_option, with_runs
from roundel.journal.store import RunRow, StoreError
from roundel.runs.retention import NOTHING, OVER, parsed, prune
from roundel.runs.runs import Runs

AGE = re.compile(r"(\d+)\s*(s|min|h|d|w)")
SECONDS = {"s": 1, "min": 60, "h": 3600, "d": 86400, "w": 604800}
SIZES = ("bytes", "KB", "MB", "GB")


@click.command("prune")
@click.argument("names", nargs=-1, metavar="[RUN]...", type=RunName())
@click.option(
    "--keep",
    required=True,
    metavar="ROUNDS",
    help="Which rounds stay: first, last, best, every:N, several with commas; or nothing.",
)
@click.option("--older-than", "age", metavar="AGE", help="Runs that ended so long ago: 12h, 30d, 8w.")
@click.option("--dry-run", is_flag=True, help="Only say which runs it would be.")
@store_option
def prune_command(
    names: tuple[str, ...], keep: str, age: str | None, dry_run: bool, place: str | None
) -> None:
    """Keep some rounds of runs that are over, or nothing, and make the file smaller.

    RUN is an id, the beginning of one, or `last`; without any, --older-than says which.
    """
    if not names and age is None:
        raise click.UsageError("say which runs: name them, or give --older-than (0d means all that are over)")
    seconds = _seconds(age) if age is not None else 0.0
    try:
        keep = keep.strip()
        policy = NOTHING if keep == NOTHING else ",".join(parsed(keep))
    except StoreError as error:
        raise click.UsageError(str(error)) from None

    async def work(runs: Runs) -> None:
        store = runs.store
        rows = await _chosen(runs, names, time.time() - seconds, policy)
        if dry_run:
            for row in rows:
                say(f"{row.id}  {row.name}  {row.status}", err=False)
            say(f"{counted(len(rows), 'run')} would be pruned to '{policy}'")
            return
        before = await store.size()
        for row in rows:
            await prune(store, row.id, policy)
        await store.compact()
        saved = before - await store.size()
        smaller = f"{_told(saved)} smaller" if saved > 0 else "as large as before"
        say(f"pruned {counted(len(rows), 'run')} to '{policy}'; {store.location} is {smaller}")

    with_runs(place, work)
    suggest("runs")


async def _chosen(runs: Runs, names: tuple[str, ...], until: float, policy: str) -> list[RunRow]:
    if names:
        found = [await runs.store.row(await find_run(runs, name)) for name in dict.fromkeys(names)]
        for row in found:
            if row.status not in OVER:
                raise StoreError(
                    f"run {row.id} is {row.status}; only one that is over can be pruned "
                    f"(`roundel stop {row.id}` ends it)"
                )
    else:
        found = [row for row in await runs.store.rows(None) if row.status in OVER]
    return [row for row in found if row.updated <= until and (policy == NOTHING or not row.pruned)]


def _seconds(age: str) -> float:
    found = AGE.fullmatch(age.strip())
    if found is None:
        raise click.UsageError(f"--older-than takes a time such as 12h, 30d or 8w, not '{age}'")
    return int(found[1]) * SECONDS[found[2]]


def _told(size: float) -> str:
    for unit in SIZES:
        if size < 1000 or unit == SIZES[-1]:
            return f"{size:.0f} {unit}" if unit == SIZES[0] else f"{size:.1f} {unit}"
        size /= 1000
    raise AssertionError
