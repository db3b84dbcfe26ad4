"""A program that uses the whole terminal: it draws frames, gets keys, and always restores the terminal.

*Ctrl-C* arrives as the key `ctrl-c`, and not through signals.py, whose reaction ends the command: a program
on the whole screen decides itself. If a second one arrives before the program has handled the first,
something blocks its event loop, and the process ends at once.

What other code writes to standard output or error meanwhile would shift the lines of the screen; rich
catches what passes through Python, and the next frame repairs the rest.
"""

from __future__ import annotations

import contextlib
import os
import signal
from asyncio import get_running_loop
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Self

from rich.console import RenderableType
from rich.live import Live

from roundel.cli.keys import PASTE_OFF, PASTE_ON, Keyboard, KeyPress
from roundel.cli.output import console
from roundel.cli.signals import interrupts

# A terminal that knows these codes shows all changes between them at once; the others ignore them. Without
# them a long frame appears in parts.
FRAME_BEGIN, FRAME_END = "\x1b[?2026h", "\x1b[?2026l"
LEAVE_SCREEN = f"{FRAME_END}{PASTE_OFF}\x1b[?1049l\x1b[?25h"


class FullScreen:
    """The whole terminal, inside a `with` block and an event loop, in the main thread.

    `on_key` gets each key, and None if the terminal is gone; `on_resize` is called when its size has
    changed."""

    def __init__(self, on_key: Callable[[KeyPress | None], None], on_resize: Callable[[], None]) -> None:
        self.console = console(stderr=False)
        self._on_key, self._on_resize = on_key, on_resize
        self._loop = get_running_loop()
        self._live = Live(console=self.console, screen=True, auto_refresh=False, vertical_overflow="crop")
        self._keyboard = Keyboard(on_key)
        self._handlers: dict[int, Any] = {}
        """The handlers of signals that were there before."""
        self._unhandled = 0
        """How many times Ctrl-C was pressed that the program has not handled yet."""

    def __enter__(self) -> Self:
        for number, handler in ((signal.SIGINT, self._on_interrupt), (signal.SIGWINCH, self._on_window)):
            self._handlers[number] = signal.signal(number, handler)
        try:
            self._open()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _open(self) -> None:
        self._live.start()
        self._keyboard.listen()
        self._write(PASTE_ON)

    def close(self) -> None:
        """Returns the terminal to how it was; may be called more than once."""
        self._suspend()
        while self._handlers:
            signal.signal(*self._handlers.popitem())

    def draw(self, frame: RenderableType) -> None:
        """OSError if the terminal is gone."""
        self.console.file.write(FRAME_BEGIN)
        try:
            self._live.update(frame, refresh=True)
        finally:
            self._write(FRAME_END)

    def interrupt_handled(self) -> None:
        """To be called for each key `ctrl-c`."""
        self._unhandled = 0

    @contextlib.contextmanager
    def suspended(self) -> Iterator[None]:
        """Gives the terminal to another program, whose Ctrl-C is not ours."""
        self._suspend()
        handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, handler)
            self._open()

    def _suspend(self) -> None:
        self._keyboard.restore()
        with contextlib.suppress(OSError):  # the terminal may be gone
            self._write(PASTE_OFF)
            self._live.stop()

    def _write(self, codes: str) -> None:
        self.console.file.write(codes)
        self.console.file.flush()

    def _on_interrupt(self, _number: int, _frame: object) -> None:
        self._unhandled += 1
        if self._unhandled > 1:
            self._keyboard.restore()
            with contextlib.suppress(OSError):
                # Not through the stream: the code that this handler interrupts may hold its lock.
                os.write(1, LEAVE_SCREEN.encode())
            interrupts.exit_now()
        self._loop.call_soon_threadsafe(self._on_key, KeyPress("ctrl-c"))

    def _on_window(self, _number: int, _frame: object) -> None:
        self._loop.call_soon_threadsafe(self._on_resize)
