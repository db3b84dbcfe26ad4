"""`roundel plot`: the rounds of a run, drawn."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from roundel.cli.arguments import run_argument
from roundel.cli.output import console, say
from roundel.cli.stored import Unknown, store_option, with_run
from roundel.journal.store import RunRow
from roundel.runs.rounds import LoopRounds
from roundel.runs.runs import Runs


@click.command("plot")
@run_argument
@click.option("--format", "form", type=click.Choice(["text", "svg"]), help="Text unless --out names an .svg.")
@click.option("--out", metavar="FILE", help="Where to write it, instead of standard output.")
@click.option("--loop", "name", metavar="ID", help="Only this loop.")
@store_option
def plot_command(run: str, form: str | None, out: str | None, name: str | None, place: str | None) -> None:
    """Draw the rounds of a run: score, tokens, cost, novelty and time.

    RUN is an id, the beginning of one, or `last`. Novelty says how new a round's text is beside the rounds
    before it: near 1 for fresh text, near 0 for what was said before.
    """

    async def work(runs: Runs, run_id: str) -> tuple[RunRow, Sequence[LoopRounds]]:
        return await runs.row(run_id), await runs.rounds(run_id)

    row, loops = with_run(place, run, work)
    loops = _chosen(loops, name, row.id)
    form = form or ("svg" if out is not None and out.endswith(".svg") else "text")
    drawn = _svg_text(loops, row) if form == "svg" else None
    if out is None and drawn is None:
        _print(loops)
    elif out is None:
        say(drawn or "", err=False)
    else:
        _write(out, drawn if drawn is not None else _plain_text(loops))


def _chosen(loops: Sequence[LoopRounds], name: str | None, run_id: str) -> Sequence[LoopRounds]:
    if not loops:
        raise click.ClickException(f"run {run_id} has come to no loop, so there are no rounds to draw")
    chosen = [loop for loop in loops if name in (None, loop.loop)]
    if not chosen:
        raise Unknown(f"run {run_id} has no loop '{name}', but {', '.join(loop.loop for loop in loops)}")
    return chosen


def _print(loops: Sequence[LoopRounds]) -> None:
    from roundel.cli.plotting.text import TextPlot

    console(stderr=False).print(TextPlot(loops))


def _plain_text(loops: Sequence[LoopRounds]) -> str:
    from io import StringIO

    from roundel.cli.console import SafeConsole
    from roundel.cli.plotting.text import TextPlot

    page = StringIO()
    SafeConsole(file=page, width=80, no_color=True).print(TextPlot(loops))
    return "".join(f"{line.rstrip()}\n" for line in page.getvalue().splitlines())


def _svg_text(loops: Sequence[LoopRounds], row: RunRow) -> str:
    from roundel.cli.plotting.svg import svg

    return svg(loops, row.name)


def _write(out: str, text: str) -> None:
    try:
        Path(out).write_text(text.rstrip("\n") + "\n", encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"cannot write: {error}") from None
    say(f"wrote {out}")
