"""Asks a person in the terminal, while the rest of the run goes on."""

from __future__ import annotations

import asyncio
import os
import select
import sys
import threading

from rich.console import Console, Group
from rich.panel import Panel
from rich.text import Text

from roundel.cli.drawing.caption import one_line
from roundel.cli.live import LiveView
from roundel.hosts.result import Question
from roundel.workflow.message import Message

MARK, MORE = "> ", "… "
POLL_SECONDS = 0.2


async def ask_in_terminal(question: Question, view: LiveView) -> str:
    """The answer; a line that ends with a backslash goes on in the next. EOFError at the end of input."""
    with view.suspend():
        console = view.console
        console.print(_shown(question))
        lines: list[str] = []
        while True:
            line = await _line(console, MORE if lines else MARK)
            if not line.endswith("\\"):
                return "\n".join([*lines, line])
            lines.append(line[:-1])


def _shown(question: Question) -> Panel:
    parts = [_input(message) for message in question.inputs if message.text.strip()]
    prompt = Text(_printable(question.prompt or "Your answer?"), "bold")
    title = Text(one_line(question.address), "bold yellow")
    hint = Text("end a line with \\ to go on in the next", "dim")
    return Panel(
        Group(*parts, prompt), title=title, title_align="left", subtitle=hint, subtitle_align="right"
    )


def _input(message: Message) -> Text:
    who = one_line(message.source or "input")
    return Text.assemble((f"{who}\n", "cyan"), _printable(message.text.rstrip()), "\n")


def _printable(text: str) -> str:
    """All of it, line by line, with nothing in it that steers the terminal."""
    return "\n".join(
        "".join(char if char.isprintable() else " " for char in line) for line in text.splitlines()
    )


async def _line(console: Console, mark: str) -> str:
    console.print(Text(mark, "bold yellow"), end="")
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[str] = loop.create_future()
    given_up = threading.Event()

    def settle(line: str | None) -> None:
        if answer.done():
            return
        if line is None:
            answer.set_exception(EOFError("the terminal was closed before there was an answer"))
        else:
            answer.set_result(line)

    def read() -> None:
        try:
            line = _read_line(sys.stdin.fileno(), given_up)
            if not given_up.is_set():
                loop.call_soon_threadsafe(settle, line)
        except (OSError, RuntimeError, ValueError):  # the terminal or the loop is gone: nobody waits any more
            pass

    threading.Thread(target=read, daemon=True, name="roundel-answer").start()
    try:
        return await answer
    except BaseException:
        console.print()  # nobody ended the line
        raise
    finally:
        given_up.set()


def _read_line(terminal: int, given_up: threading.Event) -> str | None:
    """None at the end of input.

    Read byte by byte, not by `input()`: a thread that waits there cannot be called off, takes the next
    answer away, and may make Python abort when it ends.
    """
    line = bytearray()
    while not given_up.is_set():
        if not _ready(terminal):
            continue
        byte = os.read(terminal, 1)
        if not byte:
            return None if not line else _decoded(line)
        if byte == b"\n":
            return _decoded(line)
        line += byte
    return None


def _ready(terminal: int) -> bool:
    try:
        return bool(select.select([terminal], [], [], POLL_SECONDS)[0])
    except OSError:  # Windows waits for sockets only: there it is read without asking
        return True


def _decoded(line: bytearray) -> str:
    return line.decode(sys.stdin.encoding or "utf-8", "replace").rstrip("\r")
