"""Why a run is locked, for the person who decides whether it may go on.

Asks a person in the terminal, while the rest of the run goes on.
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
from roundel.kernel.state import Lock
from roundel.nodes.agent_conversation import approval_answer_problem
from roundel.workflow.message import Message

if TYPE_CHECKING:
    from roundel.cli.live_view import LiveView


def evidence(lock: Lock) -> Group:
    """The limit or the trigger, the figures behind it, and the last messages."""
    what = Text.assemble(("locked", "bold red"), f": {one_line(str(lock))}, at {one_line(lock.address)}")
    return Group(what, *_figures(dict(lock.evidence)))


def _figures(figures: dict[str, Any]) -> Iterator[Text]:
    messages = figures.pop("messages", ())
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
    """Which message it repeats, and what little changed."""
    changes = [f"'{before}' → '{now}'" for before, now in message["changed"]]
    return f"repeats {message['repeats']}" + (f", with {', '.join(changes)}" if changes else ", unchanged")


def _format_figure(name: str, value: Any) -> str:
    if name == "novelty":
        value = max(value)
    if isinstance(value, (int, float)):
        if name in _SHARES:
            return f"{value:.0%}"
        return f"{value:,.0f}" if value == int(value) else f"{value:,.4f}".rstrip("0")
    return value if isinstance(value, str) else msgspec.json.encode(value, enc_hook=repr).decode()


_SHARES = ("novelty", "threshold")
_PHRASES = {
    ("stale_rounds", "threshold", "novelty"): (
        "in {stale_rounds} rounds every message repeats an earlier one of its speaker: "
        "at most {novelty} new, where {threshold} would do"
    ),
    ("tokens", "estimate", "factor"): (
        "{tokens} tokens, where about {estimate} were expected; at {factor} times as many the breaker trips"
    ),
    ("seconds", "limit"): "{seconds} seconds of work; after {limit} the breaker trips",
    ("scope", "spent", "reserved", "wanted"): (
        "{scope}: {spent} spent, {reserved} reserved by calls in flight, {wanted} more wanted"
    ),
    ("guard",): "the guard that would end the loop: {guard}",
}
"""Figures that are one statement together."""


MARK, MORE = "> ", "… "
CHOICES = (
    ("approve", "it is called"),
    ("reject: why", "it is not; the model is told why, if you say so"),
    ('{"name": value}', "it is called with these arguments instead"),
)
HINT = "end a line with \\ to go on in the next"
POLL_SECONDS = 0.2


async def ask_in_terminal(question: Question, view: LiveView) -> str:
    """The answer; a line that ends with a backslash goes on in the next. EOFError at the end of input
    (Ctrl-D): then the question stays open."""
    with view.suspend():
        view.console.print(question_panel(question, HINT))
        try:
            return await _answer(question, view.console)
        except EOFError as end:
            ended = end
    raise ended


async def _answer(question: Question, console: Console) -> str:
    while True:
        answer = await _lines(console)
        problem = approval_answer_problem(Message(answer)) if question.tool is not None else ""
        if not problem:
            return answer
        console.print(Text(printable(problem), "yellow"))


# Questions of commands, asked while nothing else goes on.


def ask(question: str, *, required: bool = False) -> str:
    """One line from the terminal; click.Abort at the end of input."""
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
        # Not by `input()`: a signal that arrives just before it would be noticed only after the next key.
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
    title = Text(one_line(question.address), "bold yellow")
    parts = _question_parts(question) if question.tool is None else _tool(question.prompt, question.tool)
    below = Text(hint, "dim") if hint else None
    return Panel(Group(*parts), title=title, title_align="left", subtitle=below, subtitle_align="right")


def _question_parts(question: Question) -> list[Text]:
    inputs = [_input(message) for message in question.inputs if message.text.strip()]
    return [*inputs, Text(printable(question.prompt or "Your answer?"), "bold")]


def _tool(prompt: str, tool: dict[str, Any]) -> list[Text]:
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
        if answer.done():
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
        if not cancelled.is_set():
            with contextlib.suppress(RuntimeError):  # the loop is gone: nobody waits any more
                loop.call_soon_threadsafe(settle, line)

    threading.Thread(target=read, daemon=True, name="roundel-answer").start()
    try:
        return await answer
    except BaseException:
        with contextlib.suppress(OSError):  # the terminal may be gone
            console.print()  # nobody ended the line
        raise
    finally:
        cancelled.set()


def _read_line(terminal: int, cancelled: threading.Event) -> str | None:
    """None at the end of input.

    Read byte by byte, not by `input()`: a thread that waits there cannot be called off, takes the next
    answer away, and may make Python abort when it ends.
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
    except OSError:  # Windows waits for sockets only: there it is read without asking
        return True


def _decoded(line: bytearray) -> str:
    return line.decode(sys.stdin.encoding or "utf-8", "replace").rstrip("\r")
