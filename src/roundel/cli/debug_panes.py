"""The contents of the debugger's panes, as lines of text: queue, difference, ready nodes, guards, events.

The screen puts them beside each other (debug_view.py), the plain mode prints one after the other. Texts of
models are made printable before they are cut or wrapped: a secret that crosses a cut would not be found,
and a replaced character may have another width.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator

from rich.console import Console
from rich.text import Text

from roundel.cli.debug_session import DebugPicture, DebugSession
from roundel.cli.event_lines import format_event
from roundel.cli.live_view import SIGNS, cost_words, usage_words
from roundel.cli.next_step import command_line
from roundel.cli.output import one_line, pluralize, printable
from roundel.cli.prompt import CHOICES, evidence
from roundel.cli.word_diff import compare_words, counts, diff_text
from roundel.drawing.text import truncate
from roundel.hosts.control import Question
from roundel.kernel.payloads import GuardState
from roundel.plan.graph import NodePlan
from roundel.runs.inspection import BlockedNode, BreakpointState, ReadyNode

MAX_TEXT = 20_000
"""The characters of a message that are shown; wrapping takes time for each of them."""
PANES = ("queue", "diff", "ready", "events", "guards")
BAR = 8
RUNNING = "»"


class DebugPanes:
    """The panes of one session. `marked` shows differences with marks, for terminals without colour; names
    and addresses are cut to `longest_name` columns, so that one of them cannot fill a pane."""

    def __init__(
        self, session: DebugSession, console: Console, *, marked: bool, longest_name: int = 1000
    ) -> None:
        self._session = session
        self._console = console
        self._marked = marked
        self._longest_name = longest_name

    @property
    def _picture(self) -> DebugPicture:
        return self._session.picture

    def pane(self, name: str, node: NodePlan | None, width: int, chosen: int | None = None) -> list[Text]:
        """The lines of a pane, each at most `width` columns wide, about the selected node."""
        if name == "queue":
            return self.queue(node, width, chosen)
        panes: dict[str, Callable[[], Iterable[Text]]] = {
            "diff": lambda: self._diff(node),
            "ready": lambda: self._ready(node),
            "events": self._events,
            "guards": lambda: (self.guard(state, width) for state in self._picture.seen.guards),
        }
        return self._wrapped(panes[name](), width)

    # The lines above the panes.

    def header(self) -> tuple[Text, list[str]]:
        """The workflow, the run and its status; and what it has used, the most important figure first."""
        seen, usage = self._picture.seen, self._picture.usage
        sign, colour = SIGNS.get(seen.status, (RUNNING, "cyan"))
        status = f"{sign} {seen.status.replace('suspended_', '')}"
        if seen.reason and seen.reason != "paused":
            status += f": {one_line(seen.reason)}"
        if seen.breakpoint:
            status += f" {one_line(seen.breakpoint)}"
        left = Text.assemble(
            (truncate(one_line(seen.workflow) or "workflow", 30), "bold"),
            (f"  {seen.run_id}  ", "dim"),
            (status, f"bold {colour}"),
        )
        return left, [*usage_words(usage), *filter(None, (cost_words(usage),))]

    def situation(self) -> Text:
        """What happens next, or why nothing does."""
        picture = self._picture
        seen, owner = picture.seen, picture.row.owner
        if picture.lock is not None:
            return Text.assemble(
                ("locked: ", "yellow"), one_line(str(picture.lock)), ("  u says how to unlock it", "dim")
            )
        if seen.status == "running":
            where = "" if self._session.is_executed_here else f" in {owner}, p pauses it"
            where = where if owner else ", but no process executes it; c resumes it"
            at = ", ".join(map(one_line, seen.in_flight))
            return Text.assemble((f"{RUNNING} running", "cyan"), where, f"  {at}" if at else "")
        if seen.questions:
            question = seen.questions[0]
            asked = one_line(question.prompt or "Your answer?")
            return Text.assemble(
                ("? ", "yellow"), f"{one_line(question.address)} asks: {asked}", ("  a answers", "dim")
            )
        if seen.ready:
            ready = seen.ready[0]
            calls = f": {', '.join(map(one_line, ready.calls))}" if ready.calls else ""
            why = f"{one_line(ready.address)}: {one_line(ready.why)}{calls}"
            return Text.assemble(("▶ next ", "green"), why)
        if seen.in_flight and not picture.is_over:
            calls = ", ".join(map(one_line, seen.in_flight))
            return Text.assemble(("▶ next ", "green"), f"the calls that were begun: {calls}")
        return self._ending()

    def _ending(self) -> Text:
        summary = self._picture.summary
        if summary.get("error"):
            return Text.assemble(("error ", "red"), one_line(str(summary["error"])))
        if self._picture.is_over:
            return Text.assemble(("result ", "green"), one_line(str(summary["output"])) or "none")
        return Text("nothing is ready", "dim")

    # The panes.

    def queue(self, node: NodePlan | None, width: int, chosen: int | None = None) -> list[Text]:
        """The messages that wait at a node; the chosen one is marked, and is the one that `e` edits."""
        waiting = self._session.queue_of(node) if node is not None else []
        if not waiting:
            return [Text("the queue is empty", "dim")]
        lines: list[Text] = []
        place = ""
        for number, (address, message) in enumerate(waiting):
            if address != place:
                place = address
                lines.append(Text(self._name(address), "cyan"))
            mark = ">" if number == chosen else " "
            source = f"from {self._name(message.source)}" if message.source else "input"
            kept = ", kept" if message.keep else ""
            head = Text.assemble(
                (f"{mark}{message.position} ", "bold" if number == chosen else ""),
                (f"{source}{kept}", "bold" if number == chosen else "dim"),
            )
            lines += self._wrapped([head], width)
            lines += self._wrapped([Text(f"   {_shown(message.text)}")], width)
            if message.data:
                lines += self._wrapped([Text(f"   data {one_line(_json(message.data))}", "dim")], width)
        return lines

    def _diff(self, node: NodePlan | None) -> Iterator[Text]:
        outputs = self._session.outputs.of(node) if node is not None else ()
        if not outputs:
            yield Text("no output yet", "dim")
            return
        if len(outputs) == 1:
            yield Text.assemble((self._name(outputs[0].address), "cyan"), (" is the first output", "dim"))
            yield Text(_shown(outputs[0].text))
            return
        before, after = outputs
        passages = compare_words(_shown(before.text), _shown(after.text))
        added, removed = counts(passages)
        words = f"+{added} -{removed} words" if added or removed else "the same words"
        yield Text.assemble((self._name(before.address), "cyan"), " → ", (self._name(after.address), "cyan"))
        yield Text(words, "dim")
        yield diff_text(passages, marked=self._marked)

    def _ready(self, node: NodePlan | None) -> Iterator[Text]:
        seen = self._picture.seen
        for question in seen.questions:
            yield from self._question(question)
        for number, ready in enumerate(seen.ready, 1):
            yield from self._ready_lines(number, ready)
        for address in seen.in_flight:
            if seen.status == "running":
                yield Text(f"{RUNNING} {self._name(address)} is running", "cyan")
            else:
                yield Text.assemble(("▶ ", "green"), f"{self._name(address)} was begun; a step continues it")
        if not (seen.ready or seen.questions or seen.in_flight):
            yield Text("nothing is ready", "dim")
        own = [blocked for blocked in seen.blocked if self._session.outline.find(blocked.address) is node]
        others = [blocked for blocked in seen.blocked if blocked not in own]
        for blocked in own:
            then = "then it runs" if blocked.is_triggered else "then it runs if an edge triggers it"
            why = f" is not ready: it {self._waits(blocked)}, {then}"
            yield Text.assemble((self._name(blocked.address), "bold"), why)
        yield from map(_breakpoint_line, seen.breakpoints)
        for blocked in others:
            yield Text(f"· {self._name(blocked.address)} {self._waits(blocked)}", "dim")

    def _ready_lines(self, number: int, ready: ReadyNode) -> Iterator[Text]:
        sign = ("▶ ", "green") if number == 1 else "  "
        head = Text.assemble(sign, f"{number} ", (self._name(ready.address), "bold"))
        head.append(f"  {one_line(ready.type)}", "dim")
        yield head.append(" ●", "red") if ready.breakpoints else head
        calls = f": {', '.join(map(self._name, ready.calls))}" if ready.calls else ""
        yield Text(f"    {truncate(one_line(ready.why), 2 * self._longest_name)}{calls}")

    def _waits(self, blocked: BlockedNode) -> str:
        names = ", ".join(map(self._name, blocked.waits_for))
        return f"waits for {names}" if names else "waits for a call in flight"

    def _question(self, question: Question) -> Iterator[Text]:
        yield Text.assemble(("? ", "bold yellow"), (self._name(question.address), "bold"), " asks")
        yield Text(f"  {_shown(question.prompt or 'Your answer?')}")
        if question.tool is not None:
            arguments = _json(question.tool.get("arguments") or {})
            yield Text(f"  {one_line(question.tool['name'])} {printable(arguments)}", "cyan")
            yield Text(f"  answers: {' · '.join(word for word, _ in CHOICES)}", "dim")
        for message in question.inputs:
            if message.text.strip():
                yield Text(f"  {one_line(message.source or 'input')}: {_shown(message.text)}", "dim")

    def _events(self) -> Iterator[Text]:
        for event in self._session.events:
            line = format_event(event)
            if line:
                yield Text(one_line(line))
        if not self._session.events:
            yield Text("no events yet", "dim")

    def guard(self, state: GuardState, width: int) -> Text:
        """A guard in one line: its bar, how much is used, its name."""
        share = min(max(state.share, 0.0), 1.0)
        full = round(share * BAR)
        colour = "red" if share >= 0.8 else "yellow" if share >= 0.5 else "green"
        if state.kind == "novelty":
            figures = f"{max(state.used, 0):.0%} ≥ {state.limit:.0%}"
        else:
            figures = f"{_figure(state.used)}/{_figure(state.limit)}"
        line = Text.assemble(
            ("█" * full, colour),
            ("░" * (BAR - full), "dim"),
            f" {figures} ",
            (state.kind.replace("_", " "), "dim"),
            f" {one_line(state.name)}",
        )
        line.truncate(width, overflow="ellipsis")
        return line

    def unlocking(self, width: int) -> list[Text]:
        """Why the run is locked, and the command that unlocks it."""
        lock = self._picture.lock
        if lock is None:
            return [Text("the run is not locked", "dim")]
        command = Text.assemble(("unlock it with\n", "dim"), command_line("unlock", self._session.run_id))
        texts = [part for part in evidence(lock).renderables if isinstance(part, Text)]
        return self._wrapped([*texts, Text(), command], width)

    # Layout of texts.

    def _name(self, text: str) -> str:
        return truncate(one_line(text), self._longest_name)

    def _wrapped(self, texts: Iterable[Text], width: int) -> list[Text]:
        """The texts in lines; the lines of an indented text have the same indent."""
        lines: list[Text] = []
        for text in texts:
            indent = len(text.plain) - len(text.plain.lstrip(" "))
            wrapped = text[indent:].wrap(self._console, max(width - indent, 8), overflow="fold")
            for line in wrapped:
                line.rstrip()
                lines.append(Text.assemble(" " * indent, line))
        return lines


def _shown(text: str) -> str:
    shown = printable(text).strip("\n")
    return shown if len(shown) <= MAX_TEXT else f"{shown[:MAX_TEXT]} …"


def _breakpoint_line(state: BreakpointState) -> Text:
    reached = f"  reached {pluralize(state.hits, 'time')}" if state.hits else ""
    line = Text.assemble(("● ", "red"), one_line(state.text), (reached, "dim"))
    return line.append(f"  {one_line(state.problem)}", "red") if state.problem else line


def _figure(number: float) -> str:
    """A figure of a guard; the time of a run may be slightly negative after a clock was corrected."""
    number = abs(max(number, 0))  # not -0, which is not below 0
    return f"{number:,.0f}" if number == int(number) or number >= 100 else f"{number:.1f}"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=repr)
