"""The debugger without a screen: one command a line from standard input, plain text to standard output.

For pipes, scripts, dumb terminals and screen readers. A command that lets the run continue waits until it
is idle again, so that the next command finds it where this one left it. There are no control codes in the
output, and nothing in it depends on the size of a terminal.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import ClassVar

import click

from roundel.cli.debug_panes import PANES, DebugPanes
from roundel.cli.debug_session import DebugSession
from roundel.cli.output import console, echo, one_line
from roundel.cli.signals import interrupts
from roundel.cli.standard_output import standard_output
from roundel.journal.store import StoreError
from roundel.plan.graph import NodePlan
from roundel.workflow.breakpoints import BreakpointError
from roundel.workflow.diagnostics import WorkflowError, did_you_mean

WIDTH = 100
PROMPT = "debug> "
HELP = """\
s, step             run the first ready node, hold the others
r, round            step to the next round of the innermost loop
c, continue         continue to the next breakpoint
b [PLACE]           set a breakpoint: a node, Writer[3], an address, cel: CONDITION; or list them
remove PLACE        remove a breakpoint
e [POSITION] TEXT   change a waiting message of the selected node; by default the last one
answer TEXT         answer the open question
pause               pause a running run
select NODE         select a node: the one that queue, diff, e and answer are about
state               the run, its outline and what is next
queue, diff, ready, guards, events, unlock
q, quit             quit without changing the run"""
_ALIASES = {
    "s": "step",
    "r": "round",
    "c": "continue",
    "b": "break",
    "e": "edit",
    "a": "answer",
    "p": "pause",
    "u": "unlock",
    "?": "help",
    "q": "quit",
}


class PlainDebugger:
    """A debugging session line by line. The command creates it and awaits `run`."""

    def __init__(self, session: DebugSession) -> None:
        self._session = session
        self._panes = DebugPanes(session, console(stderr=False), marked=True)
        self._selected: NodePlan | None = None
        self._follow()

    async def run(self) -> None:
        """Executes commands until `quit`, the end of input, or an interrupt."""
        with interrupts.with_action(self._interrupt):
            self._print_state()
            while not self._session.was_interrupted and (line := self._read_line()) is not None:
                words = line.strip().split(None, 1)
                if not words:
                    continue
                name = _ALIASES.get(words[0], words[0].lower())
                if name == "quit":
                    break
                await self._execute(name, words[1] if len(words) > 1 else "")

    def _interrupt(self) -> None:
        """A signal cancels the calls in flight, and ends the session in any case."""
        self._session.interrupt()
        self._session.was_interrupted = True

    def _read_line(self) -> str | None:
        if sys.stdin.isatty():
            click.echo(PROMPT, standard_output(), nl=False)
        # Nothing of the run is in flight here, so nothing is lost while this blocks the event loop.
        with interrupts.blocking_section():
            line = sys.stdin.readline()
        return line or None

    async def _execute(self, name: str, text: str) -> None:
        command = self._COMMANDS.get(name)
        if command is None:
            hint = did_you_mean(name, (*self._COMMANDS, *PANES, "quit"))
            command = self._pane_command(name)
            if command is None:
                _print(f"error: unknown command '{one_line(name)}'; {hint or 'help lists them'}")
                return
        try:
            # First of all: another process may have changed the run since the last command.
            await self._refresh(report=True)
            await command(self, text)
        except (StoreError, BreakpointError) as error:
            _print(f"error: {error}")
        except WorkflowError as error:
            for diagnostic in error.diagnostics:
                _print(f"error: {diagnostic.message}")

    async def _refresh(self, *, report: bool = False) -> None:
        selected = self._session.first_ready
        if await self._session.refresh():
            if report:
                for line in self._session.happened():
                    _print(f"somebody else: {line}")
            if selected is not self._session.first_ready:
                self._follow()

    def _follow(self) -> None:
        self._selected = self._session.first_ready or self._selected
        if self._selected is None:
            self._selected = next(iter(self._session.outline.nodes), None)

    # What it prints.

    def _print_state(self) -> None:
        left, figures = self._panes.header()
        _print(f"{left.plain}  {' · '.join(figures)}".rstrip())
        _print(self._panes.situation().plain)
        self._print_outline()

    def _print_outline(self) -> None:
        outline, seen = self._session.outline, self._session.picture.seen
        positions, rounds = outline.positions(seen), outline.loop_rounds(seen.loops)
        counts = self._session.picture.summary["nodes"]
        for row in outline.rows:
            indent, name = "  " * (row.depth + 1), one_line(row.node.id)
            if row.loop is not None:
                _print(f"{indent}loop {name}  {rounds.get(row, '')}".rstrip())
                continue
            position, count = positions[row.node.site], counts.get(row.node.id, 0)
            facts = (
                (position.rounds, bool(position.rounds)),
                ("ready", position.ready),
                ("running", position.running),
                ("asks", position.asks),
                ("breakpoint", position.breakpoint or position.partial_breakpoint),
                (f"has run {count}×", count > 0),
                ("selected", row.node is self._selected),
            )
            said = ", ".join(word for word, applies in facts if applies)
            _print(f"{indent}{name}" + (f"  ({said})" if said else ""))

    def _print_outcome(self) -> None:
        """What has happened since the last command, and what is next."""
        for line in self._session.happened():
            _print(line)
        _print(self._panes.situation().plain)

    def _pane_command(self, name: str) -> Callable[[PlainDebugger, str], Awaitable[None]] | None:
        if name not in PANES:
            return None

        async def show(debugger: PlainDebugger, _text: str) -> None:
            for line in debugger._panes.pane(name, debugger._selected, WIDTH):
                _print(line.plain)

        return show

    # Commands.

    async def _proceed(self, work: Awaitable[None]) -> None:
        try:
            await work
        finally:
            await self._refresh()
        self._print_outcome()

    async def _step(self, _text: str) -> None:
        await self._proceed(self._session.step())

    async def _round(self, _text: str) -> None:
        await self._proceed(self._session.step(whole_round=True))

    async def _continue(self, _text: str) -> None:
        await self._proceed(self._session.resume())

    async def _break(self, place: str) -> None:
        if place:
            await self._session.add_breakpoint(place)
            await self._refresh()
        self._print_breakpoints()

    async def _remove(self, place: str) -> None:
        await self._session.remove_breakpoint(place)
        await self._refresh()
        self._print_breakpoints()

    def _print_breakpoints(self) -> None:
        states = self._session.picture.seen.breakpoints
        _print(f"breakpoints: {', '.join(state.text for state in states) or 'none'}")

    async def _edit(self, text: str) -> None:
        node = self._selected
        chosen = self._session.chosen_message(node, None) if node is not None else None
        if node is None or chosen is None:
            raise StoreError("no message waits at the selected node; `select NODE` selects another")
        waiting = self._session.queue_of(node)
        first, _, rest = text.partition(" ")
        position = int(first) if first.isdecimal() and rest else None
        if position is not None:
            numbers = [number for number, (_, message) in enumerate(waiting) if message.position == position]
            if not numbers:
                raise StoreError(f"no message {position} waits at the selected node; `queue` lists them")
            chosen = numbers[0]
        address, message = waiting[chosen]
        await self._session.edit(address, message, text if position is None else rest)
        await self._refresh()
        _print(f"edited message {message.position} at {one_line(address)}")

    async def _answer(self, text: str) -> None:
        question = self._session.question_for(self._selected)
        if question is None:
            raise StoreError("no question is open")
        await self._proceed(self._session.answer(question, text))

    async def _pause(self, _text: str) -> None:
        await self._session.pause()
        # The process that executes the run lets its calls finish first.
        await self._session.runs.result(self._session.run_id)
        await self._proceed(self._session.wait())

    async def _select(self, name: str) -> None:
        node = self._session.outline.find_by_name(name.strip())
        if node is None:
            hint = did_you_mean(name, [node.id for node in self._session.outline.nodes])
            raise StoreError(f"the workflow has no node '{name}'; {hint or '`state` lists them'}")
        self._selected = node
        _print(f"selected {one_line(node.id)}")

    async def _state(self, _text: str) -> None:
        self._print_state()

    async def _unlock(self, _text: str) -> None:
        for line in self._panes.unlocking(WIDTH):
            _print(line.plain)

    async def _help(self, _text: str) -> None:
        _print(HELP)

    _COMMANDS: ClassVar[dict[str, Callable[[PlainDebugger, str], Awaitable[None]]]] = {
        "step": _step,
        "round": _round,
        "continue": _continue,
        "break": _break,
        "remove": _remove,
        "edit": _edit,
        "answer": _answer,
        "pause": _pause,
        "select": _select,
        "state": _state,
        "unlock": _unlock,
        "help": _help,
    }


def _print(text: str) -> None:
    echo(text, err=False)
