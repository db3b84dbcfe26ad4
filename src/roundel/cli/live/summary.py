"""How a run ended: its nodes with how often each ran, its loops with their rounds and why they were left."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from roundel.cli.live.progress import Snapshot
from roundel.cli.live.words import ending
from roundel.cli.output import one_line

SIGNS = {
    "completed": ("✓", "green"),
    "failed": ("✗", "red"),
    "stopped": ("■", "red"),
    "waiting": ("?", "yellow"),
    "paused": ("‖", "yellow"),
    "suspended_locked": ("▲", "yellow"),
}
MOST_ROWS = 30
SIDE_BY_SIDE = 64


class Summary:
    def __init__(self, run: Snapshot, run_id: str = "") -> None:
        self.run = run
        self.run_id = run_id

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        tables = list(self._tables())
        if len(tables) > 1 and options.max_width >= SIDE_BY_SIDE:
            grid = Table.grid(padding=(0, 4, 0, 0))
            grid.add_row(*tables)
            yield grid
        else:
            yield from tables
        for note in self.run.notes:
            yield Text.assemble(("! ", "yellow"), one_line(note))
        sign, colour = SIGNS.get(self.run.status, ("·", "cyan"))
        line = Text.assemble((f"{sign} ", colour), (one_line(ending(self.run)), "bold"))
        yield line.append(f" · {self.run_id}", "dim") if self.run_id else line

    def _tables(self) -> Iterator[Table]:
        if self.run.runs:
            yield _table(("node", "times run"), [(name, str(n)) for name, n in self.run.runs.items()])
        if self.run.rounds:
            rows = [(name, str(loop["rounds"]), _left(loop)) for name, loop in self.run.rounds.items()]
            yield _table(("loop", "rounds", "left by"), rows)


def _left(loop: dict[str, Any]) -> str:
    by, reason = loop["by"], loop["exit_reason"]
    return f"{by} ({reason})" if by and reason else str(reason)


def _table(titles: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    for number, title in enumerate(titles):
        if number == 1:
            table.add_column(title, justify="right", min_width=len(title), no_wrap=True)
        else:
            table.add_column(title, overflow="ellipsis", no_wrap=True)
    for row in rows[:MOST_ROWS]:
        table.add_row(*(Text(one_line(cell)) for cell in row))
    if len(rows) > MOST_ROWS:
        table.add_row(Text(f"and {len(rows) - MOST_ROWS} more", "dim"))
    return table
