"""Reads single keys from a terminal, and edits one line of text with them.

`Keyboard` sets the terminal so that each key arrives at once and is not echoed, and restores it at the
end, also after an error. Ctrl-C stays a signal: it has to work while the event loop is blocked. Ctrl-Z and
Ctrl-\\ are off, since a process that the terminal stops or kills could not restore it.

Special keys arrive as escape sequences. Whether an escape character is the key Esc or the beginning of a
sequence shows only in what follows, so a lone one waits ESCAPE_SECONDS. A pasted text arrives between two
sequences (bracketed paste) and is one key press: its letters must not be taken for commands.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import os
import re
import sys
import termios
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

from rich.cells import cell_len
from rich.text import Text

ESCAPE_SECONDS = 0.05
"""How long a lone escape character waits for the rest of a sequence; terminals send it at once."""
PASTE_ON, PASTE_OFF = "\x1b[?2004h", "\x1b[?2004l"
_PASTE_BEGIN, _PASTE_END = "\x1b[200~", "\x1b[201~"
_SEQUENCE = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|O[@-~])")
_INCOMPLETE = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*|O)?$")
_NAMES = {
    **{f"\x1b{kind}{code}": name for kind in "[O" for code, name in zip(
        "ABCDHF", ("up", "down", "right", "left", "home", "end"), strict=True
    )},
    "\x1b[1~": "home",
    "\x1b[3~": "delete",
    "\x1b[4~": "end",
    "\x1b[5~": "page-up",
    "\x1b[6~": "page-down",
    "\x1b[7~": "home",
    "\x1b[8~": "end",
    "\x1b[Z": "back-tab",
    "\t": "tab",
    "\r": "enter",
    "\n": "enter",
    "\x7f": "backspace",
    "\x08": "backspace",
    "\x04": "end-of-input",
}  # fmt: skip


class KeyPress(NamedTuple):
    """A key, or a pasted text. `KeyDecoder` creates it."""

    name: str
    """The character itself, or a name: `up`, `enter`, `ctrl-l`, `paste`."""
    text: str = ""
    """What it types; empty for a key that types nothing."""


class KeyDecoder:
    """Turns the bytes of a terminal into key presses; keeps what is not complete yet."""

    def __init__(self) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._pending = ""

    @property
    def waits(self) -> bool:
        """Whether a sequence may have begun that is not complete."""
        return bool(self._pending) and not self._pending.startswith(_PASTE_BEGIN)

    def feed(self, data: bytes) -> list[KeyPress]:
        self._pending += self._decode(data)
        pressed = []
        while (press := self._next()) is not None:
            if press.name:
                pressed.append(press)
        return pressed

    def flush(self) -> list[KeyPress]:
        """Takes an escape character that nothing has followed for the key Esc."""
        rest, self._pending = self._pending, ""
        return [KeyPress("escape")] if rest.startswith("\x1b") else []

    def _next(self) -> KeyPress | None:
        """The next key press; one without a name is ignored, None if more bytes are needed."""
        text = self._pending
        if text.startswith(_PASTE_BEGIN):
            pasted, end, rest = text[len(_PASTE_BEGIN) :].partition(_PASTE_END)
            if not end:
                return None
            self._pending = rest
            return KeyPress("paste", pasted.replace("\r", "\n"))
        if not text or _INCOMPLETE.match(text):
            return None
        sequence = _SEQUENCE.match(text)
        # An escape character before another key: a terminal sends it for Alt.
        taken = sequence[0] if sequence else text[: 2 if text[0] == "\x1b" else 1]
        self._pending = text[len(taken) :]
        if sequence and taken == _PASTE_BEGIN:
            self._pending = text
            return self._next()
        if taken in _NAMES:
            return KeyPress(_NAMES[taken])
        if len(taken) > 1:
            return KeyPress("")
        if taken < " ":
            return KeyPress(f"ctrl-{chr(ord(taken) + 96)}")
        return KeyPress(taken, taken)


class Keyboard:
    """The keys of the terminal at standard input, between `listen` and `restore`, in an event loop.

    `on_key` gets each key press, and None at the end of input: the terminal is gone."""

    def __init__(self, on_key: Callable[[KeyPress | None], None]) -> None:
        self._on_key = on_key
        self._terminal = sys.stdin.fileno()
        self._decoder = KeyDecoder()
        self._before: list[Any] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def listen(self) -> None:
        """Begins to read keys, also again after `restore`."""
        self._before = termios.tcgetattr(self._terminal)
        settings = termios.tcgetattr(self._terminal)
        settings[0] &= ~termios.IXON  # Ctrl-S and Ctrl-Q would stop and start the output
        settings[3] &= ~(termios.ICANON | termios.ECHO | termios.IEXTEN)
        characters = settings[6]
        characters[termios.VMIN], characters[termios.VTIME] = 1, 0
        for off in (termios.VSUSP, termios.VQUIT):
            characters[off] = b"\x00"
        termios.tcsetattr(self._terminal, termios.TCSADRAIN, settings)
        asyncio.get_running_loop().add_reader(self._terminal, self._read)

    def restore(self) -> None:
        """Returns the terminal to how it was; may be called more than once, and by a signal handler."""
        before, self._before = self._before, None
        if before is None:
            return
        with contextlib.suppress(RuntimeError):  # called while the loop is not running
            asyncio.get_running_loop().remove_reader(self._terminal)
        with contextlib.suppress(termios.error):  # the terminal is gone
            termios.tcsetattr(self._terminal, termios.TCSADRAIN, before)

    def _read(self) -> None:
        try:
            data = os.read(self._terminal, 65536)
        except OSError:
            data = b""
        if not data:
            asyncio.get_running_loop().remove_reader(self._terminal)  # it would be readable forever
            self._on_key(None)
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for press in self._decoder.feed(data):
            self._on_key(press)
        if self._decoder.waits:
            self._timer = asyncio.get_running_loop().call_later(ESCAPE_SECONDS, self._flush)

    def _flush(self) -> None:
        for press in self._decoder.flush():
            self._on_key(press)


class LineEditor:
    """A prompt in one line of the screen: a text, a cursor, and the keys that change them."""

    def __init__(self, label: str, text: str = "") -> None:
        self.label = label
        self.text = text
        self._cursor = len(text)

    def press(self, press: KeyPress) -> bool | None:
        """Applies a key: True if the text is complete, False if it was cancelled, None to continue."""
        name = press.name
        if name == "enter":
            return True
        if name in ("escape", "end-of-input"):
            return False
        if press.text:
            self._insert(" ".join(press.text.splitlines()))
        elif name in self._ACTIONS:
            self._ACTIONS[name](self)
        return None

    def _insert(self, text: str) -> None:
        self.text = self.text[: self._cursor] + text + self.text[self._cursor :]
        self._cursor += len(text)

    def _delete(self, begin: int, end: int) -> None:
        self.text = self.text[:begin] + self.text[end:]
        self._cursor = begin

    def _move(self, cursor: int) -> None:
        self._cursor = min(max(cursor, 0), len(self.text))

    def _delete_word(self) -> None:
        kept = self.text[: self._cursor].rstrip()
        self._delete(kept.rfind(" ") + 1, self._cursor)

    _ACTIONS: ClassVar[dict[str, Callable[[LineEditor], None]]] = {
        "left": lambda line: line._move(line._cursor - 1),
        "right": lambda line: line._move(line._cursor + 1),
        "home": lambda line: line._move(0),
        "end": lambda line: line._move(len(line.text)),
        "ctrl-a": lambda line: line._move(0),
        "ctrl-e": lambda line: line._move(len(line.text)),
        "backspace": lambda line: line._delete(max(line._cursor - 1, 0), line._cursor),
        "delete": lambda line: line._delete(line._cursor, line._cursor + 1),
        "ctrl-u": lambda line: line._delete(0, line._cursor),
        "ctrl-k": lambda line: line._delete(line._cursor, len(line.text)),
        "ctrl-w": _delete_word,
    }

    def render(self, width: int, show: Callable[[str], str]) -> Text:
        """The line in `width` columns, with the part of the text around the cursor; `show` makes it
        printable, which keeps the number of characters."""
        label = Text(self.label, "bold yellow", no_wrap=True)
        label.truncate(max(width // 2, 1), overflow="ellipsis")
        room = max(width - label.cell_len - 2, 1)
        shown = show(self.text)
        before, after = shown[: self._cursor], shown[self._cursor :] or " "
        # A quarter of the room stays for what follows the cursor.
        while cell_len(before) > room - min(cell_len(after), max(room // 4, 1)):
            before = before[1:]
        line = Text.assemble(label, " ", before, (after[0], "reverse"), after[1:], no_wrap=True)
        line.truncate(width)
        return line
