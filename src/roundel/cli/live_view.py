"""Shows a run while it is in flight: as a live view in a terminal, or as plain lines elsewhere.

`LiveView` receives the events, keeps a `Progress`, and owns the terminal. A thread of rich draws a
`Display` from a snapshot PER_SECOND times a second, so the cost of drawing does not grow with the number
of events, and a slow terminal cannot slow down the run. At the end, a `Summary` replaces the display:
how many times each node ran, and why each loop was left.

The display must not be higher than the terminal: rich then cannot move the cursor back to its first
line, and every frame leaves a copy behind. So all lists here have a maximum, and each line is cut to the
width.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.table import Table
from rich.text import Text

from roundel.cli.event_lines import format_event
from roundel.cli.output import dollars, one_line, printable
from roundel.cli.progress import (
    OPEN,
    ActiveRound,
    FinishedNode,
    LoopRow,
    Progress,
    ProgressSnapshot,
    ToolCall,
    UsageTotals,
)
from roundel.drawing.text import truncate
from roundel.kernel.events import Event, is_over
from roundel.plan.graph import Plan
from roundel.runs.view import ViewSnapshot
from roundel.workflow.address import is_below


def clock(seconds: float) -> str:
    """The elapsed time of a run in flight, with a steady width: `0:07`, `12:34`, `1:02:03`."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def duration(seconds: float) -> str:
    """How long something took: `1.2 s`, `3 min 20 s`, `2 h 5 min`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def usage_words(usage: UsageTotals) -> list[str]:
    counted = ((usage.model_calls, "model call"), (usage.tool_calls, "tool call"), (usage.tokens, "token"))
    return [f"{count:,} {word}{'' if count == 1 else 's'}" for count, word in counted if count]


def cost_words(usage: UsageTotals) -> str:
    """The cost, never as 0 if it is unknown; empty if the models cost nothing. That of a script is marked
    as such."""
    if not usage.paid:
        return f"{dollars(usage.cost_usd)}, scripted" if usage.cost_usd else ""
    if not (usage.model_calls or usage.cost_usd):
        return ""
    if not usage.priced:
        return "cost unknown"
    if not usage.unpriced_calls:
        return dollars(usage.cost_usd)
    calls = "1 call" if usage.unpriced_calls == 1 else f"{usage.unpriced_calls:,} calls"
    return f"at least {dollars(usage.cost_usd)}, {calls} without a price"


def ending_line(run: ProgressSnapshot) -> str:
    """The run in one line: `completed in 1.2 s · 7 model calls`."""
    # "waiting for Editor", "paused at Writer", but "suspended_locked: limit of 1 rounds". A paused or
    # locked run is not over, hence "after" and not "in".
    joint = " " if run.reason.startswith(("for ", "at ")) else ": "
    reason = joint + run.reason if run.reason not in ("", run.status) else ""
    preposition = "in" if is_over(run.status) else "after"
    parts = (f"{run.status}{reason} {preposition} {duration(run.seconds)}", *usage_words(run.usage))
    return " · ".join(filter(None, (*parts, cost_words(run.usage))))


SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
MAX_DOTS = 12
"""Rounds that are drawn as dots; more become a bar of this length."""
MAX_ACTIVE_SHOWN = 6
"""Nodes in flight to show; a graph may have hundreds."""
MIN_LINES = 6
MAX_TOOLS = 4
PARTIAL_TEXT_LINES = 2
INDENT = " " * 6
TOOL_WIDTH = 60
"""Columns for a tool's name and arguments."""


class Display:
    """One frame of the live view; `LiveView` creates it from a snapshot."""

    def __init__(self, title: str, run: ProgressSnapshot, run_id: str = "") -> None:
        self.title = title
        self.run_id = run_id
        self.run = run

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        # One line less than the terminal has, since the cursor is on the line below.
        room = max(MIN_LINES, (options.height or console.height) - 1)
        for line in self._lines(room, console, options.max_width):
            line.no_wrap, line.overflow = True, "ellipsis"
            line.truncate(options.max_width, overflow="ellipsis")
            yield line

    def _lines(self, room: int, console: Console, width: int) -> Iterator[Text]:
        # What is in flight is worth more than history: finished nodes get the lines that are left.
        top = [self._headline(), *self._loop_lines(), *self._active(console, width)][:room]
        yield from top
        rest = room - len(top)
        if rest > 0:
            yield from (_finished_line(node) for node in self.run.recent[-rest:])

    def _headline(self) -> Text:
        run = self.run
        cost = cost_words(run.usage) if run.usage.priced else ""
        label = " · ".join(
            filter(None, (run.status, self.run_id, clock(run.seconds), *usage_words(run.usage), cost))
        )
        return Text.assemble((self._spin(), "cyan"), " ", (self.title, "bold"), ("  " + label, "dim"))

    def _spin(self, offset: int = 0) -> str:
        # From the clock of the run, so that no state is needed; the offsets keep several spinners out of
        # step.
        return SPINNER[(int(self.run.seconds * 12) + offset) % len(SPINNER)]

    def _loop_lines(self) -> Iterator[Text]:
        """The loops in flight as a tree."""
        loops = self.run.loops
        inside: dict[str, list[str]] = {}
        for place, loop in loops.items():
            inside.setdefault(loop.around if loop.around in loops else "", []).append(place)

        def nested(around: str, depth: int) -> Iterator[Text]:
            for place in inside.get(around, ()):
                yield _loop_line(loops[place], depth)
                yield from nested(place, depth + 1)

        yield from nested("", 1)

    def _active(self, console: Console, width: int) -> Iterator[Text]:
        run = self.run
        shown = [address for address in run.active if not _holds_another(address, run.active)]
        waiting, reports = run.awaiting_answer, run.reports
        for number, address in enumerate(shown[:MAX_ACTIVE_SHOWN]):
            awaiting_answer = address in waiting
            sign = ("? ", "yellow") if awaiting_answer else (self._spin(3 * number) + " ", "cyan")
            label = "waits for a person" if awaiting_answer else duration(run.active[address])
            if address in run.waits:
                sign, label = ("… ", "yellow"), f"{label} · {one_line(run.waits[address])}"
            yield Text.assemble("  ", sign, one_line(address), ("  " + label, "dim"))
            if address in reports:
                yield Text.assemble(INDENT, "  ", (one_line(reports[address]), "italic"))
            if address in run.agents:
                # Several agents in flight get one line of text each, so that all of them fit.
                agent = run.agents[address]
                yield from self._tools(agent.tools)
                yield from _partial_text_lines(
                    agent.partial_text, PARTIAL_TEXT_LINES if len(shown) < 4 else 1, console, width
                )
        if len(shown) > MAX_ACTIVE_SHOWN:
            yield Text(f"    and {len(shown) - MAX_ACTIVE_SHOWN} more in flight", "dim")

    def _tools(self, calls: tuple[ToolCall, ...]) -> Iterator[Text]:
        # Calls in flight come first, since there may be more calls than lines for them.
        for number, call in enumerate(sorted(calls, key=lambda call: call.status not in OPEN)[:MAX_TOOLS]):
            yield _tool_line(call, self._spin(5 * number))
        if len(calls) > MAX_TOOLS:
            yield Text(f"{INDENT}and {len(calls) - MAX_TOOLS} more tool calls", "dim")


def _holds_another(address: str, active: dict[str, float]) -> bool:
    """Whether a node inside this one is in flight: only that one is shown, since it says more."""
    # Quadratic in the number of nodes in flight, in every frame; beyond 100 most of them are not shown
    # anyway.
    return len(active) < 100 and any(is_below(other, address) for other in active)


def _tool_line(call: ToolCall, spin: str) -> Text:
    name, text, label = one_line(call.name), one_line(call.text), f"  round {call.round} · "
    if call.status in OPEN:
        waits = call.status == "waiting"
        sign = ("? ", "yellow") if waits else (f"{spin} ", "cyan")
        arguments = truncate(f" {text}", max(1, TOOL_WIDTH - len(name))) if text else ""
        label += "waits for a person" if waits else duration(call.seconds)
        return Text.assemble(INDENT, sign, name, (arguments + label, "dim"))
    done = call.status == "completed"
    label += "done" if done else call.status
    line = Text.assemble(INDENT, ("✓ ", "green") if done else ("✗ ", "red"), name, (label, "dim"))
    return line.append(f"  {text}", "dim" if done else "red") if text else line


def _partial_text_lines(partial_text: str, most: int, console: Console, width: int) -> list[Text]:
    """The end of a streaming reply.

    The whole text is wrapped and the last lines are shown. To cut it by characters would shift every
    line with each token.
    """
    text = Text(one_line(partial_text, len(partial_text)), "italic")
    if not text:
        return []
    lines = list(text.wrap(console, max(10, width - len(INDENT) - 2)))
    more = len(lines) > most
    return [
        Text.assemble(INDENT, ("… " if more and not number else "  ", "dim"), line)
        for number, line in enumerate(lines[-most:])
    ]


def _loop_line(loop: ActiveRound, depth: int) -> Text:
    line = Text("  " * depth).append(one_line(loop.loop), "bold yellow").append("  ")
    if loop.bound.rounds is not None:
        done, left = _bar(loop.number, loop.bound.rounds)
        line.append(done, "yellow").append(left, "dim").append("  ")
    return line.append(loop.bound.label(loop.number), "dim")


def _bar(number: int, limit: int) -> tuple[str, str]:
    if limit <= MAX_DOTS:
        return "●" * number, "○" * (limit - number)
    filled = max(1, number * MAX_DOTS // limit)  # the first round is visible, whatever the limit
    return "━" * filled, "─" * (MAX_DOTS - filled)


def _finished_line(node: FinishedNode) -> Text:
    sign = ("! ", "yellow") if node.handled else ("✗ ", "red") if node.failed else ("✓ ", "green")
    text = ("handled: " if node.handled else "") + one_line(node.text)
    style = sign[1] if node.failed else "dim"
    return Text.assemble("  ", sign, one_line(node.address), ("  " + text, style))


SIGNS = {
    "completed": ("✓", "green"),
    "failed": ("✗", "red"),
    "stopped": ("■", "red"),
    "waiting": ("?", "yellow"),
    "paused": ("‖", "yellow"),
    "suspended_locked": ("▲", "yellow"),
}
MAX_ROWS = 30
SIDE_BY_SIDE = 64
"""Columns from which the two tables of the summary are beside each other."""


class Summary:
    """The tables at the end of a run, and its last line; `LiveView` creates it."""

    def __init__(self, run: ProgressSnapshot, run_id: str = "") -> None:
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
        line = Text.assemble((f"{sign} ", colour), (one_line(ending_line(self.run)), "bold"))
        yield line.append(f" · {self.run_id}", "dim") if self.run_id else line

    def _tables(self) -> Iterator[Table]:
        if self.run.runs:
            yield _table(("node", "times run"), [(name, str(n)) for name, n in self.run.runs.items()])
        if self.run.view.loops:
            rows = [(name, str(loop.rounds), _exit_text(loop)) for name, loop in self.run.rounds.items()]
            yield _table(("loop", "rounds", "left by"), rows)


def _exit_text(loop: LoopRow) -> str:
    by, reason = loop.by, loop.exit_reason
    return f"{by} ({reason})" if by and reason else reason


def _table(titles: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    for number, title in enumerate(titles):
        if number == 1:
            table.add_column(title, justify="right", min_width=len(title), no_wrap=True)
        else:
            table.add_column(title, overflow="ellipsis", no_wrap=True)
    for row in rows[:MAX_ROWS]:
        table.add_row(*(Text(one_line(cell)) for cell in row))
    if len(rows) > MAX_ROWS:
        table.add_row(Text(f"and {len(rows) - MAX_ROWS} more", "dim"))
    return table


PER_SECOND = 12


class LiveView:
    """Shows one run; `roundel run` and the demo create it, and pass it to the engine as `on_event`.

    The run executes inside it as a context. Interactive: a thread redraws a display, and tables follow
    at the end. Otherwise: one plain line per event, without colour or control codes, for logs and pipes.
    """

    def __init__(
        self,
        plan: Plan,
        console: Console,
        interactive: bool,
        *,
        scripted: bool = False,
        before: ViewSnapshot | None = None,
        worked: float = 0.0,
    ) -> None:
        self.console = console
        self.interactive = interactive
        self.run_id = ""
        """The id of a stored run; empty for a run that is not stored."""
        self._title = one_line(plan.workflow.graph.id) or "workflow"
        self._progress = Progress(scripted=scripted, before=before, worked=worked)
        self._live: Live | None = None

    def __call__(self, event: Event) -> None:
        """Takes an event, in the run's thread."""
        self._progress.apply_event(event)
        if not self.interactive:
            line = format_event(event)
            if line is not None:
                self.console.file.write(printable(line) + "\n")

    def __enter__(self) -> LiveView:
        if self.interactive:
            self._show()
        elif self.run_id:
            self.console.file.write(f"run {self.run_id}\n")
            self.console.file.flush()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._hide()  # first, or the thread of the display would draw over the summary
        run = self._progress.snapshot()
        if self.interactive:
            self.console.print(Summary(run, self.run_id))
            return
        for line in (*run.notes, ending_line(run)):
            self.console.file.write(one_line(line) + "\n")
        self.console.file.flush()

    @contextmanager
    def suspend(self) -> Iterator[None]:
        """Hides the display while something else uses the terminal, such as a question; events still
        count."""
        shown = self._live is not None
        self._hide()
        yield
        # No `finally`: after an error the run is over, and `__exit__` prints the summary at this place.
        if shown:
            self._show()

    def _show(self) -> None:
        self._live = Live(
            console=self.console,
            get_renderable=self._render,
            refresh_per_second=PER_SECOND,
            transient=True,
            # Prints of nodes appear above the display: while a command runs, `sys.stdout` is standard error.
            # A stream that goes to a file must not be redirected, or its text would appear in the terminal.
            redirect_stdout=sys.stdout.isatty(),
            redirect_stderr=sys.stderr.isatty(),
        )
        self._live.start()

    def _hide(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _render(self) -> Display:
        return Display(self._title, self._progress.snapshot(), self.run_id)
