"""`roundel plot`: the rounds of a run as charts, as text or as SVG.

`measures` selects what is drawn and formats the values; text_plot.py and the SVG here use the same
measures, so both show the same numbers. The SVG is self-contained and uses the colours of the drawings
of workflows, with a small chart for each measure of each loop: one chart with several axes could not be
read.

Sums over rounds (tokens, cost, time) are bars, other measures (score, novelty) are curves. A curve
leaves out rounds without a value, and does not draw them as zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

import click

from roundel.cli.options import run_argument
from roundel.cli.output import console, dollars, echo, one_line
from roundel.cli.store_access import NotFound, store_option, with_run
from roundel.drawing.svg import RULES, stylesheet
from roundel.drawing.text import fit, text_width
from roundel.journal.store import RunRow
from roundel.runs.rounds import LoopRounds
from roundel.runs.runs import Runs

IN_ALL = "in all"
STEPS = (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)
"""Round ends of an axis: one of these, times a power of ten."""


class Measure(NamedTuple):
    """One quantity of a loop, round by round; `measures` creates it."""

    name: str
    values: tuple[float | None, ...]
    """One value per round; None for a round without one."""
    format_value: Callable[[float], str]
    total: tuple[str, str]
    """All rounds in one figure, and the name of that figure: best, mean, or the sum."""
    is_additive: bool
    """Whether a sum over the rounds has a meaning."""
    top: float
    """The end of its axis, which begins at 0."""


def measures(loop: LoopRounds) -> list[Measure]:
    """The measures of a loop that have at least one value; time always has one."""
    rounds = loop.rounds
    scores = tuple(one.score for one in rounds)
    tokens = tuple(float(one.tokens) for one in rounds)
    costs = tuple(one.cost_usd for one in rounds)
    novelties = tuple(one.novelty for one in rounds)
    times = tuple(max(0.0, one.seconds) for one in rounds)
    found = []
    if any(score is not None for score in scores):
        found.append(Measure("score", scores, _number, _best(scores), False, _top(scores)))
    if any(tokens):
        found.append(Measure("tokens", tokens, _count, (_count(sum(tokens)), IN_ALL), True, _top(tokens)))
    if any(costs):
        # A round with an unknown price makes the sum a lower bound.
        paid = sum(cost or 0 for cost in costs)
        total = (dollars(paid) if None not in costs else f"≥ {dollars(paid)}", IN_ALL)
        found.append(Measure("cost", costs, dollars, total, True, _top(costs)))
    if any(one is not None for one in novelties):
        found.append(Measure("novelty", novelties, "{:.2f}".format, _mean(novelties), False, 1.0))
    found.append(Measure("time", times, _time, (_time(sum(times)), IN_ALL), True, _top(times)))
    return found


def _best(scores: tuple[float | None, ...]) -> tuple[str, str]:
    return _number(max(score for score in scores if score is not None)), "best"


def _mean(values: tuple[float | None, ...]) -> tuple[str, str]:
    known = [value for value in values if value is not None]
    return f"{sum(known) / len(known):.2f}", "mean"


def _top(values: tuple[float | None, ...]) -> float:
    most = max((value for value in values if value is not None), default=0.0)
    if most <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(most))
    # The tolerance is for powers of ten that floats cannot represent: 0.3 must not end at 0.4.
    return next(step * power for step in STEPS if step * power >= most * 0.999999)


def _number(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def _count(value: float) -> str:
    return f"{value:,.0f}" if value < 100_000 else f"{value / 1000:,.0f}k"


def _time(seconds: float) -> str:
    """`0.8 s`, `95 s`, `12.5 min`, `3.2 h`: one figure, so that rounds can be compared."""
    if seconds < 120:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


PAD, GAP = 22, 14
WIDTH, HEIGHT = 244, 156
MAX_COLUMNS = 3
LEFT, RIGHT, TOP, BOTTOM = 52, 14, 42, 34
"""The space between the edges of a chart's card and its axes."""
TITLE = 34
MAX_DOTS = 30
LABEL = 10
COLOURS = {"score": "leave", "tokens": "agent", "cost": "loop", "novelty": "graph", "time": "python"}

_RULES = {
    **{name: RULES[name] for name in ("text", ".page", ".id", ".type", ".card")},
    ".card": "fill: $card; stroke: $rule; stroke-width: 1",
    ".grid": "stroke: $rule; stroke-width: 1",
    ".axis": "stroke: $line; stroke-width: 1",
    ".tick": f"font-size: {LABEL}px; fill: $soft",
    **{f".c-{name}": f"fill: ${colour}" for name, colour in COLOURS.items()},
    **{f".line.c-{name}": f"fill: none; stroke: ${colour}" for name, colour in COLOURS.items()},
    ".line": "stroke-width: 2; stroke-linejoin: round; stroke-linecap: round",
    ".area": "opacity: .12",
    ".bar": "opacity: .85",
    ".dot": "stroke: $card; stroke-width: 1.5",
}


class PlotArea(NamedTuple):
    """Where the values of a chart are drawn."""

    x: float
    y: float
    width: float
    height: float


def svg(loops: Sequence[LoopRounds], name: str) -> str:
    return "\n".join(_lines(loops, name))


def _lines(loops: Sequence[LoopRounds], name: str) -> Iterator[str]:
    # All loops have the same number of columns, so that their charts are below each other.
    found = [(loop, measures(loop)) for loop in loops]
    across = _columns(max(len(charts) for _, charts in found))
    width = 2 * PAD + across * WIDTH + (across - 1) * GAP
    height = PAD + sum(TITLE + -(-len(charts) // across) * (HEIGHT + GAP) for _, charts in found) + PAD - GAP
    size = f'width="{width}" height="{height}"'
    yield (
        f'<svg class="roundel" xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {width} {height}" '
        'role="img">'
    )
    yield f"<title>{_text(name)}: the rounds of its loops</title>"
    yield f"<style>{stylesheet(_RULES)}</style>"
    yield f'<rect class="page" {size} rx="12"/>'
    y = PAD
    for loop, charts in found:
        yield from _title(loop, y, width)
        y += TITLE
        for number, measure in enumerate(charts):
            x = PAD + number % across * (WIDTH + GAP)
            yield from _chart(measure, x, y + number // across * (HEIGHT + GAP), loop)
        y += -(-len(charts) // across) * (HEIGHT + GAP)
    yield "</svg>"


def _columns(charts: int) -> int:
    """How many charts are in a row; four make a square."""
    return 2 if charts == 4 else min(MAX_COLUMNS, charts)


def _title(loop: LoopRounds, y: float, width: float) -> Iterator[str]:
    count = len(loop.rounds)
    rounds = f"{count:,} round{'' if count == 1 else 's'} · {one_line(loop.exit_reason) or 'in flight'}"
    name = fit(one_line(loop.loop), 13, width - 2 * PAD - text_width(rounds, 11) - 12, bold=True)
    yield _text_element(name, PAD, y + 14, "id")
    yield _text_element(rounds, PAD + text_width(name, 13, bold=True) + 12, y + 14, "type")


def _chart(measure: Measure, x: float, y: float, loop: LoopRounds) -> Iterator[str]:
    box = PlotArea(x + LEFT, y + TOP, WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM)
    yield "<g>"
    yield f'<rect class="card" x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="10"/>'
    yield f'<rect class="c-{measure.name}" x="{x + 12}" y="{y + 14}" width="4" height="14" rx="2"/>'
    yield _text_element(measure.name, x + 22, y + 25, "id")
    yield _text_element(" ".join(measure.total), x + WIDTH - 12, y + 25, "type", "end")
    yield from _axes(measure, box, [one.number for one in loop.rounds])
    yield from _bars(measure, box) if measure.is_additive else _curve(measure, box)
    yield "</g>"


def _axes(measure: Measure, box: PlotArea, numbers: list[int]) -> Iterator[str]:
    """Three horizontal lines with their values, and the numbers of rounds below."""
    for share in (0.0, 0.5, 1.0):
        y = box.y + box.height * (1 - share)
        kind = "grid" if share else "axis"
        yield f'<path class="{kind}" d="M{_number_text(box.x)} {_number_text(y)}h{_number_text(box.width)}"/>'
        yield _text_element(_short(measure, share * measure.top), box.x - 6, y + 3.5, "tick", "end")
    for index in _ticks(len(numbers), box.width):
        x = _middle(box, index, len(numbers))
        yield _text_element(str(numbers[index]), x, box.y + box.height + 13, "tick", "middle")
    yield _text_element("round", box.x + box.width / 2, box.y + box.height + 26, "tick", "middle")


def _short(measure: Measure, value: float) -> str:
    """A value beside an axis, where there is little space."""
    if not value:
        return "0"
    if measure.name == "tokens":
        return f"{value:,.0f}" if value < 10_000 else f"{value / 1000:,.4g}k"
    if measure.name == "cost":
        return f"${value:.3g}"
    if measure.name == "time" and value >= 60:
        return f"{value / 60:.3g} min" if value < 3600 else f"{value / 3600:.3g} h"
    return f"{value:.3g} s" if measure.name == "time" else f"{value:g}"


def _ticks(count: int, width: float) -> list[int]:
    """The rounds that have their number below the axis: the first, the last, and as many as fit."""
    room = max(2, int(width // (text_width(str(count), LABEL) + 12)))
    step = next(
        step
        for power in range(9)
        for step in (10**power, 2 * 10**power, 5 * 10**power)
        if count <= room * step
    )
    chosen = [0, *(index for index in range(step - 1, count, step) if index)]
    if step > 1 and chosen[-1] != count - 1:
        # The last number replaces its neighbour if the two would touch.
        if count - 1 - chosen[-1] < step * 0.7 and len(chosen) > 1:
            chosen.pop()
        chosen.append(count - 1)
    return chosen


def _middle(box: PlotArea, index: int, count: int) -> float:
    return box.x + box.width * (index + 0.5) / count


def _bars(measure: Measure, box: PlotArea) -> Iterator[str]:
    """Bars with round upper corners; `bend` is their radius, which a thin or flat bar limits."""
    count = len(measure.values)
    slot = box.width / count
    width = min(26.0, slot * 0.64 if count <= MAX_DOTS else slot * 0.9)
    for index, value in enumerate(measure.values):
        if not value:
            continue
        height = max(1.0, box.height * value / measure.top)  # a small value is visible, unlike none
        x, y = _middle(box, index, count) - width / 2, box.y + box.height - height
        bend = min(3.0, width / 3, height)
        bent = _number_text(bend)
        shape = (
            f"M{_number_text(x)} {_number_text(y + height)}v{_number_text(bend - height)}"
            f"q0 {_number_text(-bend)} {bent} {_number_text(-bend)}"
            f"h{_number_text(width - 2 * bend)}q{bent} 0 {bent} {bent}v{_number_text(height - bend)}Z"
        )
        title = f"<title>{_tooltip(measure, index)}</title>"
        yield f'<path class="bar c-{measure.name}" d="{shape}">{title}</path>'


def _curve(measure: Measure, box: PlotArea) -> Iterator[str]:
    count, values = len(measure.values), measure.values
    points = [
        (index, _middle(box, index, count), box.y + box.height * (1 - max(0.0, value) / measure.top))
        for index, value in enumerate(values)
        if value is not None
    ]
    if len(points) > 1:
        line = "L".join(f"{_number_text(x)} {_number_text(y)}" for _, x, y in points)
        floor = _number_text(box.y + box.height)
        area = f"M{_number_text(points[0][1])} {floor}L{line}L{_number_text(points[-1][1])} {floor}Z"
        yield f'<path class="area c-{measure.name}" d="{area}"/>'
        yield f'<path class="line c-{measure.name}" d="M{line}"/>'
    # Dots show where the rounds are, and have the tooltips; more of them would hide the curve.
    if count <= MAX_DOTS:
        for index, x, y in points:
            title = f"<title>{_tooltip(measure, index)}</title>"
            centre = f'cx="{_number_text(x)}" cy="{_number_text(y)}"'
            yield f'<circle class="dot c-{measure.name}" {centre} r="3.5">{title}</circle>'


def _tooltip(measure: Measure, index: int) -> str:
    value = measure.values[index]
    return _text(f"round {index + 1}: {measure.format_value(value or 0)}")


def _text_element(text: str, x: float, y: float, kind: str, anchor: str = "") -> str:
    at = f' text-anchor="{anchor}"' if anchor else ""
    return f'<text class="{kind}" x="{_number_text(x)}" y="{_number_text(y)}"{at}>{_text(text)}</text>'


def _text(text: str) -> str:
    return escape(one_line(text))


def _number_text(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


@click.command("plot")
@run_argument
@click.option(
    "--format", "form", type=click.Choice(["text", "svg"]), help="Text unless --out names an .svg file."
)
@click.option("--out", metavar="FILE", help="Write to this file instead of standard output.")
@click.option("--loop", "name", metavar="ID", help="Only this loop.")
@store_option
def plot_command(run: str, form: str | None, out: str | None, name: str | None, place: str | None) -> None:
    """Draw the rounds of a run: score, tokens, cost, novelty and time.

    RUN is an id, the beginning of one, or `last`. Novelty compares the text of a round with the
    rounds before it: near 1 for new text, near 0 for a repetition.
    """

    # The suffix decides only without --format: an explicit choice wins over a file name.
    form = form or (_format_of(out) if out is not None else "text")

    async def work(runs: Runs, run_id: str) -> tuple[RunRow, Sequence[LoopRounds]]:
        return await runs.row(run_id), await runs.rounds(run_id)

    row, loops = with_run(place, run, work)
    loops = _chosen(loops, name, row.id)
    drawn = _svg_text(loops, row) if form == "svg" else None
    if out is None and drawn is None:
        _print(loops)
    elif out is None:
        echo(drawn or "", err=False)
    else:
        _write(out, drawn if drawn is not None else _plain_text(loops))


SUFFIXES = {".svg": "svg", ".txt": "text", "": "text"}
"""The format of a file, by the end of its name."""


def _format_of(out: str) -> str:
    """The format that the name of a file asks for; UsageError if it is one that plots do not have: a file
    called `.png` that contains text would be a surprise later."""
    path = Path(out)
    found = SUFFIXES.get(path.suffix.lower())
    if found is None:
        raise click.UsageError(
            f"a plot can be written as SVG (.svg) or as text (.txt), not as '{path.suffix}': "
            f"use --out {path.with_suffix('.svg')}, or choose the format with --format svg or --format text"
        )
    return found


def _chosen(loops: Sequence[LoopRounds], name: str | None, run_id: str) -> Sequence[LoopRounds]:
    if not loops:
        raise click.ClickException(f"run {run_id} has entered no loop, so there are no rounds to draw")
    chosen = [loop for loop in loops if name in (None, loop.loop)]
    if not chosen:
        raise NotFound(f"run {run_id} has no loop '{name}'; it has {', '.join(loop.loop for loop in loops)}")
    return chosen


def _print(loops: Sequence[LoopRounds]) -> None:
    from roundel.cli.text_plot import TextPlot

    console(stderr=False).print(TextPlot(loops))


def _plain_text(loops: Sequence[LoopRounds]) -> str:
    from io import StringIO

    from roundel.cli.console import SafeConsole
    from roundel.cli.text_plot import TextPlot

    page = StringIO()  # a fixed width, so that a file does not depend on the terminal
    SafeConsole(file=page, width=80, no_color=True).print(TextPlot(loops))
    return "".join(f"{line.rstrip()}\n" for line in page.getvalue().splitlines())


def _svg_text(loops: Sequence[LoopRounds], row: RunRow) -> str:
    return svg(loops, row.name)


def _write(out: str, text: str) -> None:
    """Writes a file with exactly one line break at its end, whichever format it has."""
    try:
        Path(out).write_text(text.rstrip("\n") + "\n", encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"cannot write: {error}") from None
    echo(f"wrote {out}")
