"""Asks a person in the terminal: for answers to a run, for confirmations, and shows why a run is locked.

A run asks while its other branches continue, so its questions must not block the event loop. A thread
reads the line and hands it over (`_line`). Questions of commands, asked before or after a run, read in
the main thread (`_ask_once`). Both read from the file descriptor byte by byte, and not with `input()`: a
thread that waits in `input()` cannot be cancelled, takes the line that answers the next question, and
holds the lock of standard input, so that Python may abort when the process ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import select
import sys
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click
import msgspec
from rich.console import Console, Group
from rich.panel import Panel
from rich.text import Text

from roundel.cli.output import one_line, printable
from roundel.cli.signals import interrupts
from roundel.hosts.control import Question
from roundel.kernel.events import stamp
from roundel.kernel.state import Lock
from roundel.nodes.agent_conversation import approval_answer_problem
from roundel.workflow.message import Message

if TYPE_CHECKING:
    from roundel.cli.live_view import LiveView


def evidence(lock: Lock) -> Group:
    """Why a run is locked: the limit or the trigger, its figures, and the last messages."""
    place = f", at {one_line(lock.address)}" if lock.address else ""
    what = Text.assemble(("locked", "bold red"), f": {one_line(str(lock))}{place}")
    return Group(what, *_figures(dict(lock.evidence)))


def _figures(figures: dict[str, Any]) -> Iterator[Text]:
    messages = figures.pop("messages", ())
    # Figures that no phrase covers are shown by their names: a new trigger of the breaker must not hide
    # evidence.
    for names, words in _PHRASES.items():
        if all(name in figures for name in names):
            yield Text(
                one_line(words.format(**{name: _format_figure(name, figures.pop(name)) for name in names}))
            )
    for name, value in figures.items():
        yield Text(one_line(f"{name.replace('_', ' ')}: {_format_figure(name, value)}"))
    for message in messages:
        yield Text.assemble("  ", (one_line(message["address"]), "cyan"), f"  {one_line(message['text'])}")
        if "repeats" in message:
            yield Text(f"    {one_line(_repetition_text(message))}", style="dim")


def _repetition_text(message: dict[str, Any]) -> str:
    """Which earlier message this one repeats, and which words differ."""
    changes = [f"'{before}' → '{now}'" for before, now in message["changed"]]
    return f"repeats {message['repeats']}" + (f", with {', '.join(changes)}" if changes else ", unchanged")


def _format_figure(name: str, value: Any) -> str:
    if name == "novelty":
        value = max(value)  # one value for each stale round; the phrase says "at most"
    if isinstance(value, (int, float)):
        if name in _SHARES:
            return f"{value:.0%}"
        digits = 4 if abs(value) >= 0.01 else 8  # the cost of a single request is a fraction of a cent
        return f"{value:,.0f}" if value == int(value) else f"{value:,.{digits}f}".rstrip("0")
    return value if isinstance(value, str) else msgspec.json.encode(value, enc_hook=repr).decode()


_SHARES = ("novelty", "threshold")
_PHRASES = {
    ("crashes", "in_flight"): (
        "{crashes} processes in a row died while they executed it, without progress; in flight: {in_flight}"
    ),
    ("stale_rounds", "threshold", "novelty"): (
        "in {stale_rounds} rounds every message repeats an earlier one by the same speaker: "
        "at most {novelty} new, {threshold} required"
    ),
    ("tokens", "estimate", "factor"): (
        "{tokens} tokens instead of the expected {estimate}; the breaker trips at {factor} times the estimate"
    ),
    ("call", "usual_call", "calls"): (
        "the last of {calls} model calls took {call} tokens; up to {usual_call} are usual for it"
    ),
    ("seconds", "limit"): "{seconds} seconds of work; the breaker trips after {limit}",
    ("scope", "spent", "reserved", "wanted"): (
        "{scope}: {spent} spent, {reserved} reserved by calls in flight, {wanted} more wanted"
    ),
    ("limit", "what", "per"): "the limit: {limit} {what} {per}",
    ("resets",): "there is room again from {resets} on, or with a higher limit in the server's allow-list",
    ("guard",): "the guard that would end the loop: {guard}",
}
"""Sentences for figures that belong together, in the order in which they are shown."""


MARK, MORE = "> ", "… "
CHOICES = (
    ("approve", "call the tool"),
    ("reject: why", "do not call it; the model gets the reason, if you give one"),
    ('{"name": value}', "call it with these arguments instead"),
)
HINT = "end a line with \\ to continue on the next"
POLL_SECONDS = 0.2
"""How long a reading thread outlives its question at most: it checks for cancellation this often."""


async def ask_in_terminal(question: Question, view: LiveView) -> str:
    """Asks a question of a run, while the run continues, and returns the answer.

    A line that ends with a backslash continues on the next one. Raises EOFError at the end of input
    (Ctrl-D): the question then stays open, and the run ends as waiting.
    """
    with view.suspend():
        view.console.print(question_panel(question, HINT))
        try:
            return await _answer(question, view.console)
        except EOFError as end:
            # Raised outside the block: `suspend` shows the view again only if the block ends without an
            # error, and other branches of the run may continue.
            ended = end
    raise ended


async def _answer(question: Question, console: Console) -> str:
    """Asks again until a tool approval has a valid answer; other questions take any text."""
    while True:
        answer = await _lines(console)
        problem = approval_answer_problem(Message(answer)) if question.tool is not None else ""
        if not problem:
            return answer
        console.print(Text(printable(problem), "yellow"))


# Questions of commands, asked while no run is in flight.


def ask(question: str, *, required: bool = False) -> str:
    """Reads one line from the terminal; raises click.Abort at the end of input."""
    while True:
        answer = _ask_once(question)
        if answer.strip() or not required:
            return answer


def confirm(question: str) -> bool:
    while True:
        answer = _ask_once(f"{question} [y/N]: ").strip().lower()
        if answer in ("y", "yes"):
            return True
        if answer in ("", "n", "no"):
            return False
        click.echo("Please answer y or n.", err=True)


def _ask_once(question: str) -> str:
    with interrupts.blocking_section():
        click.echo(question, nl=False, err=True)
        # Not with `input()`: a signal that arrives just before it would take effect only after the next
        # key. The event is never set; a signal raises KeyboardInterrupt out of the poll.
        line = _read_line(sys.stdin.fileno(), threading.Event())
    if line is None:
        click.echo(err=True)
        raise click.Abort
    return line


async def _lines(console: Console) -> str:
    lines: list[str] = []
    while True:
        line = await _line(console, MORE if lines else MARK)
        if not line.endswith("\\"):
            return "\n".join([*lines, line])
        lines.append(line[:-1])


def question_panel(question: Question, hint: str = "") -> Panel:
    """A question of a run with the messages that it is about, or with the tool call to approve."""
    title = Text(one_line(question.address), "bold yellow")
    parts = _question_parts(question) if question.tool is None else _tool(question.prompt, question.tool)
    if question.deadline is not None:
        parts = [*parts, Text(f"answer before {stamp(question.deadline)}", "yellow")]
    below = Text(hint, "dim") if hint else None
    return Panel(Group(*parts), title=title, title_align="left", subtitle=below, subtitle_align="right")


def _question_parts(question: Question) -> list[Text]:
    inputs = [_input(message) for message in question.inputs if message.text.strip()]
    return [*inputs, Text(printable(question.prompt or "Your answer?"), "bold")]


def _tool(prompt: str, tool: dict[str, Any]) -> list[Text]:
    # In full, and not as an excerpt: a person approves exactly what is shown.
    arguments = tool.get("arguments") or {}
    arguments_text = json.dumps(arguments, ensure_ascii=False, indent=2) if arguments else "no arguments"
    return [
        Text.assemble((one_line(tool["name"]), "cyan"), " ", printable(arguments_text)),
        Text("\n" + printable(prompt), "bold"),
        *(Text.assemble((f"{word:<16}", "yellow"), (meaning, "dim")) for word, meaning in CHOICES),
    ]


def _input(message: Message) -> Text:
    who = one_line(message.source or "input")
    return Text.assemble((f"{who}\n", "cyan"), printable(message.text.rstrip()), "\n")


async def _line(console: Console, mark: str) -> str:
    console.print(Text(mark, "bold yellow"), end="")
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[str] = loop.create_future()
    cancelled = threading.Event()

    def settle(line: str | None) -> None:
        if answer.done():  # the question was cancelled after the line was read
            return
        if line is None:
            answer.set_exception(EOFError("the terminal was closed before there was an answer"))
        else:
            answer.set_result(line)

    def read() -> None:
        try:
            line = _read_line(sys.stdin.fileno(), cancelled)
        except (OSError, ValueError):  # the terminal is gone
            line = None
        # Checked again after the read: a cancelled question has no use for the line.
        if not cancelled.is_set():
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
                loop.call_soon_threadsafe(settle, line)

    # A thread of its own, not of the default executor, whose threads the end of the event loop waits
    # for.
    threading.Thread(target=read, daemon=True, name="roundel-answer").start()
    try:
        return await answer
    except BaseException:
        with contextlib.suppress(OSError):  # the terminal may be gone
            console.print()  # the line with the mark is still open
        raise
    finally:
        cancelled.set()


def _read_line(terminal: int, cancelled: threading.Event) -> str | None:
    """Reads a line, and returns None at the end of input or when it was cancelled.

    One byte at a time, so that nothing beyond the line is consumed: the rest belongs to the next
    question. The terminal collects and echoes the line itself, so it arrives whole.
    """
    line = bytearray()
    while not cancelled.is_set():
        if not _has_input(terminal):
            continue
        byte = os.read(terminal, 1)
        if not byte:
            return None if not line else _decoded(line)
        if byte == b"\n":
            return _decoded(line)
        line += byte
    return None


def _has_input(terminal: int) -> bool:
    try:
        return bool(select.select([terminal], [], [], POLL_SECONDS)[0])
    except OSError:  # on Windows `select` takes only sockets: read at once, and block
        return True


def _decoded(line: bytearray) -> str:
    return line.decode(sys.stdin.encoding or "utf-8", "replace").rstrip("\r")
