"""The last lines that a server wrote to its standard error, for the error that says why it failed.

Nothing of it reaches our own terminal, where it would tear the live view apart.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections import deque
from collections.abc import Callable
from threading import Thread
from typing import TextIO

MAX_LINES = 10
MAX_LINE_LENGTH = 400
"""Characters that are shown of a line."""
MAX_READ_BYTES = 64 * 1024
"""Bytes that are held of one: a server may never end its line."""
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f]")


class StderrTail:
    def __init__(self, clean: Callable[[str], str]) -> None:
        self._clean = clean
        """Masks secrets. It sees a line before that is cut: half a secret would no longer be found."""
        self._lines: deque[str] = deque(maxlen=MAX_LINES)
        self._reader: Thread | None = None

    def writer(self) -> TextIO:
        """The end for the server. A thread reads the other end: not every event loop reads pipes."""
        reading, writing = os.pipe()
        self._reader = Thread(target=self._read, args=(reading,), name="mcp-stderr", daemon=True)
        self._reader.start()
        return os.fdopen(writing, "w", encoding="utf-8")

    async def finish(self) -> None:
        """Waits for what an ended server wrote last; not for long, since a child of it may hold the pipe."""
        if self._reader is not None:
            await asyncio.to_thread(self._reader.join, 0.5)

    def lines(self) -> tuple[str, ...]:
        return tuple(self._lines)

    def _read(self, descriptor: int) -> None:
        with os.fdopen(descriptor, "rb") as pipe:
            while line := pipe.readline(MAX_READ_BYTES):
                if text := self._clean(_CONTROL.sub("", line.decode("utf-8", "replace")).rstrip()):
                    self._lines.append(text[:MAX_LINE_LENGTH])
