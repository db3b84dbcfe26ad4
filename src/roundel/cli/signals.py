"""Handles Ctrl-C, SIGTERM and SIGHUP for the commands (docs/decisions/0016-interrupts.md).

The effect of the first signal depends on what the command is doing:

    it reads, loads, or asks at a prompt   KeyboardInterrupt, as in any Python program
    its event loop runs                    the command's task is cancelled
    it executes a run (execution.py)       the calls in flight are cancelled; the run stays resumable

The command then exits with code 130. A second Ctrl-C ends the process at once, and so does a watchdog
thread if the command has not ended GRACE_SECONDS after the first signal. Both are safe because the
journal is complete at every moment: nothing that matters depends on work that a process does while it
ends.

Repeated SIGTERM and SIGHUP have no further effect: closing a terminal or stopping a service sends
several. A signal that the process was started to ignore (nohup, a background job of a shell) stays
ignored.

`loop.add_signal_handler` of asyncio is not used: it works only while a loop runs, and its callbacks
never run while a prompt or an import blocks the loop. A plain handler covers all three rows of the
table.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    import asyncio

INTERRUPTED = 130
GRACE_SECONDS = 10.0
"""How long cancelled calls may take to end before the process exits without them."""
SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
SHOW_CURSOR = "\x1b[?25h"

SignalAction = Callable[[], object]


class Interrupts:
    """The reaction of this process to signals; the module creates the only instance, `interrupts`.

    Until `main` calls `listen`, no handler is installed: a program that imports the commands, such as a
    test, keeps its own handlers.
    """

    def __init__(self) -> None:
        self.received = False
        self._ctrl_c = 0
        """How many times Ctrl-C was received."""
        self._listening = False
        self.next_step = ""
        """The command that `exit_now` suggests; it is set in advance, since `exit_now` must not compute
        it."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._action: SignalAction = lambda: None
        """What the first signal does inside the event loop."""
        self._synchronous = False
        """Whether code now blocks the event loop, so that a callback in the loop would run too late."""
        self._first = threading.Event()
        self.grace_seconds = GRACE_SECONDS
        """How long cancelled work may take to end; a server that shuts down takes as long as it was told."""
        self._terminals: list[int] = []

    def listen(self) -> None:
        self._listening = True
        # Noted now: after a hangup a descriptor no longer answers that it is a terminal.
        for number in (1, 2):
            self.note_terminal(number)
        for number in SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._receive)

    def note_terminal(self, number: int) -> None:
        """Notes a descriptor that output goes to, if it is a terminal, which may be closed later."""
        if os.isatty(number):
            self._terminals.append(number)

    def _receive(self, number: int, _frame: object) -> None:
        first, self.received = not self.received, True
        self._ctrl_c += number == signal.SIGINT
        self._silence_closed_terminals()
        if not first:
            # The second Ctrl-C, not just any signal after the first one: the system may deliver a
            # SIGTERM before the Ctrl-C that preceded it.
            if self._ctrl_c > 1 and number == signal.SIGINT:
                self.exit_now()
        elif self._loop is None or self._synchronous:
            raise KeyboardInterrupt
        else:
            # Only this path needs the watchdog: KeyboardInterrupt unwinds the main thread by itself.
            self._first.set()
            self._loop.call_soon_threadsafe(self._act)

    def _act(self) -> None:
        # Reads the action when the callback runs, not when the signal arrived: the command may have
        # changed it in between, for example because the run has ended.
        self._action()

    # The states of a command.

    @contextlib.contextmanager
    def in_event_loop(self, cancel: SignalAction) -> Iterator[None]:
        """While an event loop runs in the main thread: the first signal calls `cancel` in that loop."""
        import asyncio

        self._loop = asyncio.get_running_loop()
        if self._listening:
            threading.Thread(target=self._watch, daemon=True, name="roundel-interrupts").start()
        try:
            with self.with_action(cancel):
                yield
        finally:
            self._loop = None

    @contextlib.contextmanager
    def with_action(self, action: SignalAction) -> Iterator[None]:
        """Replaces the action of the first signal inside the block.

        If the block succeeds, the action becomes a no-op and is not restored: the command has its
        result, and to cancel it while it prints that result would lose it. After an error the former
        action applies again.
        """
        before, self._action = self._action, action
        try:
            yield
        except BaseException:
            self._action = before
            raise
        self._action = lambda: None

    @contextlib.contextmanager
    def blocking_section(self) -> Iterator[None]:
        """Marks code that blocks the event loop, such as a prompt or an import.

        Inside the block a signal raises KeyboardInterrupt.
        """
        # A signal just before the block has only scheduled a callback, which the block would delay until
        # its end.
        if self.received:
            raise KeyboardInterrupt
        self._synchronous = True
        try:
            yield
        finally:
            self._synchronous = False

    # The end of the process.

    def _watch(self) -> None:
        """Ends a process whose cancelled work does not end: a function in a thread, a node that ignores
        it."""
        self._first.wait()
        threading.Event().wait(self.grace_seconds)  # nobody sets it: a sleep
        self.exit_now()

    def exit_now(self) -> NoReturn:
        """Ends the process at once; a run in flight is then in the same state as after a crash.

        A signal handler may call this, so it takes no lock and uses no stream: the interrupted code may
        hold the lock of `sys.stderr`, and a write to it would deadlock or fail as reentrant. `os.write`
        has no such lock.
        """
        step = f"next: {self.next_step}\n" if self.next_step else ""
        text = f"{SHOW_CURSOR if 2 in self._terminals else ''}\nexited at once\n{step}"
        with contextlib.suppress(OSError):
            os.write(2, text.encode())
        os._exit(INTERRUPTED)

    def end(self, code: int) -> NoReturn:
        """Ends an interrupted process after its cleanup, without waiting for threads that cannot be
        cancelled.

        A normal exit would join the threads of the default executor, and so wait for a Python function
        for as long as it takes. `os._exit` skips atexit handlers; therefore logs and streams are flushed
        here.
        """
        import logging

        logging.shutdown()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)

    def _silence_closed_terminals(self) -> None:
        """Redirects the streams of a closed terminal, so that later writes do not fail with EIO."""
        for number in self._terminals:
            if not os.isatty(number):
                redirect_to_null(number)


def redirect_to_null(number: int) -> None:
    """Discards everything that is written to a file descriptor from now on.

    At the level of the descriptor, because buffers of Python and threads of libraries still hold the old
    stream.
    """
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, number)
    os.close(null)


interrupts = Interrupts()
"""The only instance: signals belong to the process."""
