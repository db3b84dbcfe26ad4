"""The rounds of a run as text, for a terminal of 80 columns.

Up to MAX_ROWS rounds, each round is a row with bars. More rounds become a sparkline of two lines for
each measure, in which a column may stand for the mean of several rounds: a long run must fit on a
screen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from roundel.cli.output import one_line
from roundel.cli.plot import Measure, measures
from roundel.runs.rounds import LoopRounds, Round
from roundel.workflow.address import innermost_round, loop_of

COLOURS = {"score": "green", "tokens": "blue", "cost": "yellow", "novelty": "magenta", "time": "cyan"}
MAX_ROWS = 24
WIDTHS = {1: 24, 2: 18, 3: 12, 4: 8, 5: 5}
"""The length of bars by the number of measures, so that a row has at most 80 columns."""
LINE = 48
PARTS = " ▏▎▍▌▋▊▉█"
HEIGHTS = " ▁▂▃▄▅▆▇█"


class TextPlot:
    """A plot that rich can print; `roundel plot` and the demo create it."""

    def __init__(self, loops: Sequence[LoopRounds]) -> None:
        self.loops = loops

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for number, loop in enumerate(self.loops):
            if number:
                yield Text()
            yield _title(loop)
            found = measures(loop)
            if len(loop.rounds) <= MAX_ROWS:
                yield _bars(loop.rounds, found)
            else:
                yield _lines(found)


def _title(loop: LoopRounds) -> Text:
    count = len(loop.rounds)
    rounds = f"{count:,} round{'' if count == 1 else 's'}"
    left = one_line(loop.exit_reason) or "in flight"
    return Text.assemble((one_line(loop.loop), "bold"), (f"  {rounds} · {left}", "dim"))


def _bars(rounds: tuple[Round, ...], found: list[Measure]) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="dim", pad_edge=False)
    table.add_column("round", justify="right", no_wrap=True)
    for measure in found:
        table.add_column(measure.name, justify="right", no_wrap=True)
        table.add_column("", no_wrap=True, min_width=WIDTHS[len(found)] + 1)
    for number, one in enumerate(rounds):
        table.add_row(Text(_number(one, rounds), "dim"), *_cells(found, number))
    if len(rounds) > 1:
        table.add_row("", *(Text(word, "dim") for measure in found for word in measure.total))
    return table


def _number(one: Round, rounds: tuple[Round, ...]) -> str:
    """The number of a round; with the round of the loop around it if the loop was entered several
    times."""
    entries = sum(other.number == 1 for other in rounds)
    if entries < 2:
        return str(one.number)
    _, number = innermost_round(loop_of(one.address))
    return f"{number}.{one.number}" if number else str(one.number)


def _cells(found: list[Measure], number: int) -> Iterator[Text]:
    for measure in found:
        value = measure.values[number]
        if value is None:
            yield Text("–", "dim")
            yield Text("")
        else:
            yield Text(measure.format_value(value))
            yield Text(bar(value / measure.top, WIDTHS[len(found)]), COLOURS[measure.name])


def bar(share: float, width: int) -> str:
    """A bar for a share of the width, in eighths of a column; anything above zero is visible."""
    # Blocks of an eighth of a column make even short bars comparable.
    eighths = round(min(1.0, max(0.0, share)) * width * 8)
    if share > 0:
        eighths = max(1, eighths)
    total, rest = divmod(eighths, 8)
    return "█" * total + (PARTS[rest] if rest else "")


def _lines(found: list[Measure]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, style="dim")
    for measure in found:
        first, last = (
            measure.format_value(value) if value is not None else "–" for value in _ends(measure.values)
        )
        colour = COLOURS[measure.name]
        upper, lower = sparkline(measure.values, measure.top)
        table.add_row(measure.name, Text(upper, colour), f"{first} → {last}")
        table.add_row("", Text(lower, colour), " ".join(measure.total))
    return table


def _ends(values: tuple[float | None, ...]) -> tuple[float | None, float | None]:
    known = [value for value in values if value is not None]
    return (known[0], known[-1]) if known else (None, None)


def sparkline(values: Sequence[float | None], top: float, width: int = LINE) -> tuple[str, str]:
    """Two lines, one above the other, with a column for each round or for the mean of several rounds.

    Two lines give 16 heights, where one line has 8.
    """
    columns = min(width, len(values))
    levels = [
        _level(values[column * len(values) // columns : (column + 1) * len(values) // columns], top)
        for column in range(columns)
    ]
    half = len(HEIGHTS) - 1
    upper = "".join(HEIGHTS[max(0, level - half)] for level in levels)
    return upper, "".join(HEIGHTS[min(half, level)] for level in levels)


def _level(values: Sequence[float | None], top: float) -> int:
    """The height of a column: 0 without a value, otherwise at least 1, so that zero is not taken for a
    gap."""
    known = [value for value in values if value is not None]
    if not known:
        return 0
    share = min(1.0, max(0.0, sum(known) / len(known) / top))
    return max(1, round(share * 2 * (len(HEIGHTS) - 1)))
