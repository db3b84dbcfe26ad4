"""The debugger's screen as lines of text: one frame for any size of the terminal.

    header       the workflow, the run, its status, what it has used
    situation    what the next step starts and why, or why there is none
    outline      the graph with its loops and the position of the run     | panes about the selected node
    guards       the nearest limits
    notice       the last message or error, or the prompt
    keys

A frame has exactly as many lines as the terminal, each exactly as wide: a line that wraps, or one too many,
would scroll the screen and leave garbage behind. So nothing is laid out by rich; each pane gets its size
and is cut to it. On the right, the pane that Tab has chosen is at the top, and others are below it as far
as there is room: one at 80x24, all of them in a high terminal. Their sizes do not depend on what they show,
unless the one at the top needs more, so that a step does not move everything around.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from roundel.cli.debug_outline import NodePosition, OutlineRow
from roundel.cli.debug_panes import PANES, RUNNING, DebugPanes
from roundel.cli.debug_session import DebugSession
from roundel.cli.keys import LineEditor
from roundel.cli.output import one_line
from roundel.drawing.text import truncate, visible
from roundel.plan.graph import NodePlan

STACKED = ("queue", "diff", "ready", "events")
"""The panes below the first one, by importance; the guards have their own lines."""
PANE_LINES = 5
"""Lines that a pane below the first one has at least, with its title."""
FIRST_PANE_LINES = 7
OUTLINE_WIDTH = (32, 60)
NAME_WIDTH = 36
TINY = 4
"""Up to this many lines the outline has no room to say how many more there are."""
GUARD_LINES = 3
GUARD_WIDTH = 38
HELP = (
    ("s", "step: run the first ready node, hold the others"),
    ("r", "step to the next round of the innermost loop"),
    ("c", "continue to the next breakpoint"),
    ("b", "set or remove a breakpoint on the selected node"),
    ("B", "set a breakpoint: Writer[3], an address, cel: CONDITION"),
    ("e", "edit the selected message; long texts open $EDITOR"),
    ("a", "answer an open question"),
    ("p", "pause a running run"),
    ("u", "why a run is locked, and how to unlock it"),
    ("↑ ↓  k j", "select a node"),
    ("← →  h l", "select a message in its queue"),
    ("Tab", "next pane; Shift-Tab the one before"),
    ("PgUp PgDn", "scroll the pane"),
    ("Ctrl-C", "cancel the calls in flight; twice: quit"),
    ("q", "quit without changing the run"),
)
SIGNS_HELP = "▶ ready  » running  ? asks  … entered  ✓ has run  ● breakpoint  ○ at one place"


@dataclass(slots=True)
class DebugViewState:
    """What a person has selected and sees. `DebugScreen` changes it."""

    selected: NodePlan | None = None
    message: int | None = None
    """The number of the message that was chosen in the queue of the selected node; None if none was."""
    pane: str = "queue"
    overlay: str = ""
    """`help` or `unlock`, in place of the panes."""
    notice: str = ""
    is_error: bool = False
    prompt: LineEditor | None = None
    outline_offset: int = 0
    scrolled: dict[str, int] = field(default_factory=dict)
    """How many lines each pane is scrolled from where it begins."""


class DebugFrame:
    """Draws a session; the screen creates one and passes it to rich for each frame."""

    def __init__(self, session: DebugSession, state: DebugViewState, console: Console) -> None:
        self._session = session
        self._state = state
        self._panes = DebugPanes(
            session, console, marked=console.no_color or console.color_system is None, longest_name=NAME_WIDTH
        )
        self.pane_height = 1
        """The lines of the current pane in the last frame, to scroll by pages."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        size = options.size
        yield from self.lines(size.width, options.height or size.height)

    def lines(self, width: int, height: int) -> list[Text]:
        """Exactly `height` lines of exactly `width` columns."""
        header = [self._header(width), fitted(self._panes.situation(), width)]
        guards = self._guards(width, min(GUARD_LINES, max(height // 8, 1)))
        footer = [self._notice(width), self._keys(width)]
        room = max(height - len(header) - len(guards) - len(footer), 1)
        lines = [*header, *self._body(width, room), *guards, *footer]
        if len(lines) > height:  # a tiny terminal: the middle gives way
            lines = [*lines[: max(height - 1, 0)], lines[-1]]
        return [fitted(line, width) for line in lines]

    # The lines at the top and the bottom.

    def _header(self, width: int) -> Text:
        left, figures = self._panes.header()
        # The status is worth more than the figures: as many of them as fit.
        while figures and left.cell_len + 2 + len(" · ".join(figures)) > width:
            figures.pop()
        right = " · ".join(figures)
        return Text.assemble(fitted(left, width - len(right)), (right, "dim"))

    def _guards(self, width: int, most: int) -> list[Text]:
        states = self._session.picture.seen.guards
        columns = max(width // GUARD_WIDTH, 1)
        rows = min(max(-(-len(states) // columns), 1), most)
        cell = width // columns
        hidden = len(states) - rows * columns
        title = f"guards, nearest first{f', {hidden} more' if hidden > 0 else ''}"
        lines = [rule(width, title)]
        for row in range(rows):
            line = Text()
            # By columns: the nearest ones are below each other.
            for state in states[row : rows * columns : rows]:
                line.append_text(fitted(Text(" ").append_text(self._panes.guard(state, cell - 2)), cell))
            lines.append(line if states else Text(" none", "dim"))
        return lines

    def _notice(self, width: int) -> Text:
        state = self._state
        if state.prompt is not None:
            return state.prompt.render(width, visible)
        return Text(one_line(state.notice), "red" if state.is_error else "cyan")

    def _keys(self, width: int) -> Text:
        if self._state.prompt is not None:
            return Text("Enter accepts · Esc cancels", "dim")
        always = _key_words((("?", "help"), ("q", "quit")))
        moving = (("Tab", "pane"), ("↑↓", "node"), ("←→", "message"), ("PgUp PgDn", "scroll"))
        line = Text()
        for key in (*self._possible_keys(), *moving):
            words = _key_words((key,))
            if line.cell_len + words.cell_len + always.cell_len <= width:
                line.append_text(words)
        return line.append_text(always)

    def _possible_keys(self) -> list[tuple[str, str]]:
        """The keys for the status of the run."""
        picture = self._session.picture
        status = picture.seen.status
        keys = [("a", "answer")] if picture.seen.questions else []
        if status == "paused":
            keys = [("s", "step"), ("r", "round"), ("c", "continue"), ("e", "edit"), *keys]
        elif status == "suspended_locked":
            keys = [("u", "how to unlock"), ("e", "edit")]
        elif status == "running":
            keys = [("p", "pause") if picture.row.owner else ("c", "continue")]
            if self._session.is_executed_here:
                keys.append(("Ctrl-C", "interrupt"))
        return keys if picture.is_over else [*keys, ("b", "break")]

    # The body: the outline, and the panes beside it.

    def _body(self, width: int, height: int) -> list[Text]:
        if self._state.overlay == "help":
            return [rule(width, "help"), *self._scrolled("help", _help(), height - 1)]
        outline = self._outline()
        least, most = OUTLINE_WIDTH
        wanted = max((line.cell_len for line, _ in outline), default=0) + 6
        left = min(max(wanted, least), most, width * 3 // 7)
        right = width - left - 1
        titled = self._right(right, height)
        shown = self._outline_window(outline, left, height - 1)
        rows = [rule(left, "graph"), *shown]
        lines = []
        for number, (beside, pane) in enumerate(zip(rows, titled, strict=True)):
            joint = "┬" if number == 0 else "├" if pane.plain.startswith("─") else "│"
            lines.append(Text.assemble(fitted(beside, left), (joint, "dim"), fitted(pane, right)))
        return lines

    def _outline(self) -> list[tuple[Text, str]]:
        """The rows, and how often each node has run, which is shown at the right edge."""
        positions = self._session.outline.positions(self._session.picture.seen)
        rounds = self._session.outline.loop_rounds(self._session.picture.seen.loops)
        counts = self._session.picture.summary["nodes"]
        lines = []
        for row in self._session.outline.rows:
            if row.loop is not None:
                lines.append((self._loop_line(row, rounds.get(row, "")), ""))
                continue
            count = counts.get(row.node.id, 0)
            line = self._node_line(row, positions[row.node.site], count)
            lines.append((line, f"×{count}" if count else ""))
        return lines

    def _loop_line(self, row: OutlineRow, rounds: str) -> Text:
        line = Text("    " + "  " * row.depth)
        line.append("↺ ", "yellow").append(truncate(one_line(row.node.id), 24), "bold yellow")
        return line.append(f"  {rounds}", "yellow") if rounds else line

    def _node_line(self, row: OutlineRow, position: NodePosition, count: int) -> Text:
        selected = row.node is self._state.selected
        line = Text(">" if selected else " ", "bold")
        line.append_text(_sign(position, count)).append_text(_breakpoint_sign(position))
        line.append(" " + "  " * row.depth)
        name = one_line(row.node.id)
        line.append(name, "bold reverse" if selected else "bold" if position.ready else "")
        return line.append(f"  {position.rounds}", "yellow") if position.rounds else line

    def _outline_window(self, outline: list[tuple[Text, str]], width: int, height: int) -> list[Text]:
        """The rows around the selected node, as many as fit."""
        rows = self._session.outline.rows
        at = [
            number for number, row in enumerate(rows) if row.loop is None and row.node is self._state.selected
        ]
        offset = self._state.outline_offset
        if at:
            # One row of context on each side, if there is room: it shows the loop around the node.
            margin = 1 if height > TINY else 0
            offset = min(offset, max(at[0] - margin, 0))
            offset = max(offset, at[0] - height + 1 + margin)
        offset = self._state.outline_offset = max(min(offset, len(outline) - height), 0)
        window = [_with_count(*line, width) for line in outline[offset : offset + height]]
        if height <= TINY:
            return window + [Text()] * (height - len(window))
        if offset:
            window[0] = Text(f" ↑ {offset + 1} more", "dim")
        below = len(outline) - offset - height
        if below > 0:
            window[-1] = Text(f" ↓ {below + 1} more", "dim")
        return window + [Text()] * (height - len(window))

    def _right(self, width: int, height: int) -> list[Text]:
        """The panes about the selected node, with their titles, in exactly `height` lines."""
        state = self._state
        if state.overlay:
            lines = self._panes.unlocking(width - 2)
            return _titled(Text("locked", "bold"), self._scrolled(state.overlay, lines, height - 1), width)
        return self._stack(width, height)

    def _stack(self, width: int, height: int) -> list[Text]:
        first = self._state.pane
        others = [name for name in STACKED if name != first]
        fitting = others[: max((height - FIRST_PANE_LINES) // PANE_LINES, 0)]
        wanted = len(self._panes.pane(first, self._state.selected, width - 2)) + 1
        # Half of the place at most, if there are others: what is longer can be scrolled.
        least = FIRST_PANE_LINES + (height - FIRST_PANE_LINES) % PANE_LINES
        own = min(max(wanted, least), max(height // 2, least)) if fitting else height
        each, rest = divmod(height - own, len(fitting)) if fitting else (0, 0)
        lines = _titled(_tabs(first), self._pane_window(first, width, own + rest - 1), width)
        for name in fitting:
            title = Text(self._title(name), "dim")
            lines += _titled(title, self._pane_window(name, width, each - 1), width)
        return lines

    def _title(self, name: str) -> str:
        node = self._state.selected
        if node is None or name not in ("queue", "diff"):
            return name
        return f"{'queue of' if name == 'queue' else 'difference of'} {truncate(one_line(node.id), 30)}"

    def _pane_window(self, name: str, width: int, height: int) -> list[Text]:
        node = self._state.selected
        chosen = self._session.chosen_message(node, self._state.message) if node is not None else None
        lines = self._panes.pane(name, node, width - 2, chosen)
        first = 0
        if name == "events":
            first = max(len(lines) - height, 0)  # the newest ones are at the end
        elif name == "queue":
            heads = [number for number, line in enumerate(lines) if line.plain.startswith(">")]
            # The chosen message, and as much of what is before it as fits.
            following = len(lines) - heads[0] if heads else 0
            first = max(len(lines) - height, 0) if following <= height else heads[0]
        return self._scrolled(name, lines, height, first)

    def _scrolled(self, name: str, lines: list[Text], height: int, first: int = 0) -> list[Text]:
        last = max(len(lines) - height, 0)
        offset = min(max(first + self._state.scrolled.get(name, 0), 0), last)
        self._state.scrolled[name] = offset - first
        if name in (self._state.pane, self._state.overlay):
            self.pane_height = max(height - 1, 1)
        window = list(lines[offset : offset + height])
        if offset + height < len(lines) and height > 1:
            window[-1] = Text(f"… {len(lines) - offset - height + 1} more lines", "dim")
        return [Text(" ").append_text(line) for line in window] + [Text()] * (height - len(window))


# Signs and lines.


def _key_words(keys: Sequence[tuple[str, str]]) -> Text:
    line = Text()
    for key, word in keys:
        line.append(f" {key}", "bold").append(f" {word} ", "dim")
    return line


def _sign(position: NodePosition, count: int) -> Text:
    if position.asks:
        return Text("?", "bold yellow")
    if position.running:
        return Text(RUNNING, "bold cyan")
    if position.ready:
        return Text("▶", "bold green")
    if position.entered:
        return Text("…", "bold")
    return Text("✓", "dim green") if count else Text(" ")


def _breakpoint_sign(position: NodePosition) -> Text:
    sign = "●" if position.breakpoint else "○" if position.partial_breakpoint else " "
    return Text(sign, "red")


def _with_count(line: Text, count: str, width: int) -> Text:
    return Text.assemble(fitted(line, width - len(count) - 2), " ", (count, "dim"), " ")


def _help() -> list[Text]:
    lines = [Text.assemble((f"{key:<10}", "bold"), meaning) for key, meaning in HELP]
    return [*lines, Text(SIGNS_HELP, "dim")]


def _tabs(current: str) -> Text:
    line = Text()
    for number, name in enumerate(PANES):
        line.append(" " if number else "")
        line.append(f"[{name}]" if name == current else f" {name} ", "bold" if name == current else "dim")
    return line


def _titled(title: Text, lines: Sequence[Text], width: int) -> list[Text]:
    return [rule(width, title), *lines]


def rule(width: int, title: str | Text = "") -> Text:
    """A line across a pane, with its title."""
    line = Text.assemble(("─ ", "dim"), title, " ") if title else Text()
    line.truncate(width, overflow="ellipsis")
    return line.append("─" * max(width - line.cell_len, 0), "dim")


def fitted(line: Text, width: int) -> Text:
    """The line in exactly `width` columns."""
    fits = line.copy()
    fits.no_wrap = True
    fits.truncate(max(width, 0), overflow="ellipsis", pad=True)
    return fits
