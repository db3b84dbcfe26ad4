"""A command in a terminal of its own, at whose keyboard the test sits."""

from __future__ import annotations

import codecs
import contextlib
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

from tests.cli.screen import Screen

CTRL_C, CTRL_D = b"\x03", b"\x04"
_CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_TAKE = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, "-m", "roundel", *sys.argv[1:]])
"""
"""Makes the terminal that of the process, and becomes the command."""
DEADLINE = 60.0
"""Seconds after which a test gives up; nothing is expected to take so long."""


class Terminal:
    """Standard input, output and error are the terminal, which controls the process: Ctrl-C is a signal."""

    def __init__(
        self,
        folder: Path,
        *arguments: str,
        size: tuple[int, int] | None = None,
        output: Path | None = None,
        **variables: str,
    ) -> None:
        """`output` is a file for standard output, in place of the terminal."""
        self.keyboard, screen = pty.openpty()
        self._screen = screen
        self.settings = termios.tcgetattr(screen)
        self.seen = ""
        # A read may end inside a character.
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        environment = {**os.environ, "TERM": "xterm", **variables}
        columns, lines = size or (100, 24)
        self.screen = Screen(columns, lines)
        if size is None:
            environment |= {"COLUMNS": str(columns), "LINES": str(lines)}
        else:  # the program asks the terminal, as it has to if its size may change
            environment.pop("COLUMNS", None)
            environment.pop("LINES", None)
            self.resize(columns, lines)
        with contextlib.ExitStack() as files:
            self.popen = subprocess.Popen(
                [sys.executable, "-c", _TAKE, *arguments],
                cwd=folder,
                stdin=screen,
                stdout=screen if output is None else files.enter_context(output.open("wb")),
                stderr=screen,
                env=environment,
                start_new_session=True,
            )

    def type(self, keys: bytes) -> None:
        os.write(self.keyboard, keys)

    def until(self, *texts: str) -> None:
        """Until all of them have appeared; the next call looks only at what comes after."""
        until = time.monotonic() + DEADLINE
        seen = ""
        while not all(text in seen for text in texts):
            assert time.monotonic() < until, f"no {texts} in {self.seen!r}"
            seen += self._read()

    def until_shown(self, *texts: str) -> list[str]:
        """Until all of them are on the screen at once; returns its lines."""
        until = time.monotonic() + DEADLINE
        while not all(text in self.screen.text for text in texts):
            assert time.monotonic() < until, f"no {texts} in\n{self.screen.text}"
            self._read()
        return self.screen.lines

    def resize(self, columns: int, lines: int) -> None:
        """Changes the size of the window; the process gets a signal."""
        self.screen.resize(columns, lines)
        fcntl.ioctl(self._screen, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def _read(self) -> str:
        if not select.select([self.keyboard], [], [], 0.05)[0]:
            return ""
        read = self._decode(os.read(self.keyboard, 65536))
        self.seen += read
        self.screen.feed(read)
        return read

    def end(self) -> int:
        """The exit code, once all that was written has been read."""
        until = time.monotonic() + DEADLINE
        while self.popen.poll() is None:
            assert time.monotonic() < until, self.seen
            self._read()
        while self._read():
            pass
        return self.popen.returncode

    @property
    def lines(self) -> list[str]:
        """What is to be read there, without the codes that steer the terminal."""
        return [line for line in _CODES.sub("", self.seen).replace("\r", "\n").splitlines() if line.strip()]

    @property
    def is_restored(self) -> bool:
        """The cursor is shown, and what is typed is echoed as before."""
        shown = self.seen.rfind("\x1b[?25h") >= self.seen.rfind("\x1b[?25l")
        return shown and termios.tcgetattr(self._screen) == self.settings

    def hang_up(self) -> None:
        """Somebody closes the window."""
        os.close(self._screen)
        os.close(self.keyboard)
        self._screen = self.keyboard = -1

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self.popen.kill()
        self.popen.wait()
        if self.keyboard >= 0:
            self.hang_up()
