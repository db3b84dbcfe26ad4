"""One picture of a run at work, drawn some twelve times a second from a snapshot."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from roundel.cli.live.bounds import Bound, Bounds
from roundel.cli.live.progress import Said, Snapshot
from roundel.cli.live.standing import Round
from roundel.cli.live.talks import OPEN, ToolCall
from roundel.cli.live.words import clock, cost_words, duration, usage_words
from roundel.cli.output import one_line
from roundel.drawing.text import cut

SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
MOST_DOTS = 12
AT_WORK = 6
LEAST_LINES = 6
MOST_TOOLS = 4
SPEECH_LINES = 2
INDENT = " " * 6
TOOL_WIDTH = 60
"""Columns for a tool's name and arguments."""


class Display:
    def __init__(self, title: str, run: Snapshot, bounds: Bounds, run_id: str = "") -> None:
        self.title = title
        self.run_id = run_id
        self.run = run
        self.bounds = bounds

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        # One line less than the terminal has, since the cursor stands below.
        room = max(LEAST_LINES, (options.height or console.height) - 1)
        for line in self._lines(room, console, options.max_width):
            line.no_wrap, line.overflow = True, "ellipsis"
            line.truncate(options.max_width, overflow="ellipsis")
            yield line

    def _lines(self, room: int, console: Console, width: int) -> Iterator[Text]:
        top = [self._headline(), *self._loop_lines(), *self._at_work(console, width)][:room]
        yield from top
        rest = room - len(top)
        if rest > 0:
            yield from (_said(node) for node in self.run.recent[-rest:])

    def _headline(self) -> Text:
        run = self.run
        cost = cost_words(run.usage) if run.usage.priced else ""
        label = " · ".join(
            filter(None, (run.status, self.run_id, clock(run.seconds), *usage_words(run.usage), cost))
        )
        return Text.assemble((self._spin(), "cyan"), " ", (self.title, "bold"), ("  " + label, "dim"))

    def _spin(self, offset: int = 0) -> str:
        return SPINNER[(int(self.run.seconds * 12) + offset) % len(SPINNER)]

    def _loop_lines(self) -> Iterator[Text]:
        loops = self.run.loops
        inside: dict[str, list[str]] = {}
        for place in loops:
            inside.setdefault(_around(place, loops), []).append(place)

        def nested(around: str, depth: int) -> Iterator[Text]:
            for place in inside.get(around, ()):
                yield _loop_line(loops[place], self.bounds.at(loops[place].address), depth)
                yield from nested(place, depth + 1)

        yield from nested("", 1)

    def _at_work(self, console: Console, width: int) -> Iterator[Text]:
        run = self.run
        shown = [address for address in run.at_work if not _holds_another(address, run.at_work)]
        for number, address in enumerate(shown[:AT_WORK]):
            asked = address in run.asked
            sign = ("? ", "yellow") if asked else (self._spin(3 * number) + " ", "cyan")
            label = "waits for a person" if asked else duration(run.at_work[address])
            yield Text.assemble("  ", sign, one_line(address), ("  " + label, "dim"))
            if address in run.talks:
                agent = run.talks[address]
                yield from self._tools(agent.tools)
                yield from _speech(agent.saying, SPEECH_LINES if len(shown) < 4 else 1, console, width)
        if len(shown) > AT_WORK:
            yield Text(f"    and {len(shown) - AT_WORK} more at work", "dim")

    def _tools(self, calls: tuple[ToolCall, ...]) -> Iterator[Text]:
        # Those that are still at work come first, since there may be more than there is room for.
        for number, call in enumerate(sorted(calls, key=lambda call: call.status not in OPEN)[:MOST_TOOLS]):
            yield _tool_line(call, self._spin(5 * number))
        if len(calls) > MOST_TOOLS:
            yield Text(f"{INDENT}and {len(calls) - MOST_TOOLS} more tool calls", "dim")


def _around(place: str, loops: dict[str, Round]) -> str:
    """The loop at work that holds the one at a place; empty for none."""
    outer = [
        other for other, loop in loops.items() if place.startswith((loop.address + ".", loop.address + "/"))
    ]
    return max(outer, key=len, default="")


def _holds_another(address: str, at_work: dict[str, float]) -> bool:
    """A node that runs a graph is at work as long as one in it is, which says more."""
    return len(at_work) < 100 and any(other.startswith(address + "/") for other in at_work)


def _tool_line(call: ToolCall, spin: str) -> Text:
    name, text, label = one_line(call.name), one_line(call.text), f"  round {call.round} · "
    if call.status in OPEN:
        waits = call.status == "waiting"
        sign = ("? ", "yellow") if waits else (f"{spin} ", "cyan")
        arguments = cut(f" {text}", max(1, TOOL_WIDTH - len(name))) if text else ""
        label += "waits for a person" if waits else duration(call.seconds)
        return Text.assemble(INDENT, sign, name, (arguments + label, "dim"))
    done = call.status == "completed"
    label += "done" if done else call.status
    line = Text.assemble(INDENT, ("✓ ", "green") if done else ("✗ ", "red"), name, (label, "dim"))
    return line.append(f"  {text}", "dim" if done else "red") if text else line


def _speech(saying: str, most: int, console: Console, width: int) -> list[Text]:
    """The end of what a model is saying, in whole lines, so that they stand still while it goes on."""
    text = Text(one_line(saying, len(saying)), "italic")
    if not text:
        return []
    lines = list(text.wrap(console, max(10, width - len(INDENT) - 2)))
    more = len(lines) > most
    return [
        Text.assemble(INDENT, ("… " if more and not number else "  ", "dim"), line)
        for number, line in enumerate(lines[-most:])
    ]


def _loop_line(loop: Round, bound: Bound, depth: int) -> Text:
    line = Text("  " * depth).append(one_line(loop.loop), "bold yellow").append("  ")
    if bound.rounds is not None and loop.number <= bound.rounds:
        done, left = _bar(loop.number, bound.rounds)
        line.append(done, "yellow").append(left, "dim").append("  ")
    return line.append(bound.label(loop.number), "dim")


def _bar(number: int, limit: int) -> tuple[str, str]:
    if limit <= MOST_DOTS:
        return "●" * number, "○" * (limit - number)
    filled = max(1, number * MOST_DOTS // limit)
    return "━" * filled, "─" * (MOST_DOTS - filled)


def _said(node: Said) -> Text:
    sign = ("✗ ", "red") if node.failed else ("✓ ", "green")
    text = one_line(node.text)
    return Text.assemble("  ", sign, one_line(node.address), ("  " + text, "red" if node.failed else "dim"))
