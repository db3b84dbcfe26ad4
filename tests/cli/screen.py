"""A screen that understands the codes that rich writes, so that a test reads what a person would see."""

from __future__ import annotations

import re

from rich.cells import cell_len

_CODE = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|\x1b[=>]|\x1b$|\x1b\[[0-9;?]*$")
EMPTY = " "
WIDE = ""
"""The second column of a wide character."""


class Screen:
    """The cells of a terminal, and the mistakes that a program has made with them."""

    def __init__(self, columns: int, lines: int) -> None:
        self.columns, self.height = columns, lines
        self._cells = [[EMPTY] * columns for _ in range(lines)]
        self._row = self._column = 0
        self._rest = ""
        self.is_alternate = False
        self._before: list[str] | None = None
        """What is shown while the program draws a frame, until the frame is complete."""
        self.mistakes: list[str] = []
        """Lines that did not fit, and what has scrolled, while the whole screen was in use."""

    @property
    def lines(self) -> list[str]:
        return self._before if self._before is not None else self._drawn()

    def _drawn(self) -> list[str]:
        return ["".join(cells).rstrip() for cells in self._cells]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def feed(self, text: str) -> None:
        text, self._rest = self._rest + text, ""
        at = 0
        while at < len(text):
            code = _CODE.match(text, at)
            if code is None:
                self._write(text[at])
                at += 1
            elif code[2] is None and code.end() == len(text):
                self._rest = text[at:]  # the end of the code has not been read yet
                return
            else:
                self._obey(code[1] or "", code[2] or "")
                at = code.end()

    def resize(self, columns: int, lines: int) -> None:
        self.columns, self.height = columns, lines
        self._clear()

    def _write(self, character: str) -> None:
        if character == "\r":
            self._column = 0
        elif character == "\n":
            self._row += 1
            if self._row >= self.height:
                self._scroll()
        elif character >= " ":
            self._put(character)

    def _put(self, character: str) -> None:
        width = cell_len(character)
        if self._column + width > self.columns:
            self._mistake(f"line {self._row} is too long: {self._drawn()[self._row]!r}")
            self._column = 0
            self._write("\n")
        cells = self._cells[self._row]
        cells[self._column] = character
        for number in range(1, width):
            cells[self._column + number] = WIDE
        self._column += width

    def _scroll(self) -> None:
        self._mistake("the screen has scrolled")
        self._cells = [*self._cells[1:], [EMPTY] * self.columns]
        self._row = self.height - 1

    def _mistake(self, what: str) -> None:
        if self.is_alternate:
            self.mistakes.append(what)

    def _obey(self, numbers: str, letter: str) -> None:
        if letter == "H":
            row, _, column = numbers.partition(";")
            self._row, self._column = int(row or 1) - 1, int(column or 1) - 1
        elif letter == "J":
            self._clear()
        elif letter == "K":
            cells = self._cells[self._row]
            cells[self._column :] = [EMPTY] * (self.columns - self._column)
        elif numbers == "?2026":
            self._before = self._drawn() if letter == "h" else None
        elif numbers == "?1049":
            self.is_alternate = letter == "h"
            self._clear()
        # Colours and the cursor's looks change no cell.

    def _clear(self) -> None:
        self._cells = [[EMPTY] * self.columns for _ in range(self.height)]
        self._row = self._column = 0
