"""`roundel plot`: the rounds of a run, drawn."""

from __future__ import annotations

from pathlib import Path

import click

from roundel.cli.arguments import run_argument
from roundel.cli.output import console, say
from roundel.cli.stored import Unknown, find_run, in_store, store_option
from roundel.journal.store import RunRow, Store, StoreError
from roundel.sessions.opening import events_of
from roundel.sessions.pinning import plan_of
from roundel.sessions.rounds import LoopRounds, loop_rounds


@click.command("plot")
@run_argument
@click.option("--format", "form", type=click.Choice(["text", "svg"]), help="Text unless --out names an .svg.")
@click.option("--out", metavar="FILE", help="Where to write it, instead of standard output.")
@click.option("--loop", "name", metavar="ID", help="Only this loop.")
@store_option
def command(run: str, form: str | None, out: str | None, name: str | None, place: str | None) -> None:
    """Draw the rounds of a run: score, tokens, cost, novelty and time.

    RUN is an id, the beginning of one, or `last`. Novelty says how new a round's text is beside the rounds
    before it: near 1 for fresh text, near 0 for what was said before.
    """
    row, loops = in_store(place, lambda store: _rounds(store, run))
    loops = _chosen(loops, name, row.id)
    form = form or ("svg" if out is not None and out.endswith(".svg") else "text")
    drawn = _svg(loops, row) if form == "svg" else None
    if out is None and drawn is None:
        _print(loops)
    elif out is None:
        say(drawn or "", err=False)
    else:
        _write(out, drawn if drawn is not None else _text(loops))


async def _rounds(store: Store, run: str) -> tuple[RunRow, list[LoopRounds]]:
    run_id = await find_run(store, run)
    events = await events_of(store, run_id)
    return await store.row(run_id), loop_rounds(events, await _speakers(store, run_id))


async def _speakers(store: Store, run_id: str) -> set[str]:
    try:
        plan = plan_of(await store.pinned(run_id))
    except StoreError:
        return set()  # built in Python: all that its nodes said counts
    return {node.id for node in plan.sites if node.kind.speaks or node.kind.asks}


def _chosen(loops: list[LoopRounds], name: str | None, run_id: str) -> list[LoopRounds]:
    if not loops:
        raise click.ClickException(f"run {run_id} has come to no loop, so there are no rounds to draw")
    chosen = [loop for loop in loops if name in (None, loop.loop)]
    if not chosen:
        raise Unknown(f"run {run_id} has no loop '{name}', but {', '.join(loop.loop for loop in loops)}")
    return chosen


def _print(loops: list[LoopRounds]) -> None:
    from roundel.cli.plotting.text import TextPlot

    console(stderr=False).print(TextPlot(loops))


def _text(loops: list[LoopRounds]) -> str:
    from io import StringIO

    from roundel.cli.console import SafeConsole
    from roundel.cli.plotting.text import TextPlot

    page = StringIO()
    SafeConsole(file=page, width=80, no_color=True).print(TextPlot(loops))
    return "".join(f"{line.rstrip()}\n" for line in page.getvalue().splitlines())


def _svg(loops: list[LoopRounds], row: RunRow) -> str:
    from roundel.cli.plotting.svg import svg

    return svg(loops, row.name)


def _write(out: str, text: str) -> None:
    try:
        Path(out).write_text(text.rstrip("\n") + "\n", encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"cannot write: {error}") from None
    say(f"wrote {out}")
