"""Ctrl-C, SIGTERM and SIGHUP.

What the first of them does depends on what the command is doing:

    it reads, loads, or asks at a prompt   KeyboardInterrupt, as in any Python program
    its event loop runs                    the command's task is cancelled
    it drives a run (work.py)              the calls in flight are cancelled; the run is left to be resumed

The command then ends with exit code 130. A second Ctrl-C leaves at once, and so does a command that has not
ended GRACE seconds after the first. Repeated SIGTERM and SIGHUP have no further effect: closing a
terminal or stopping a service sends several. A signal that the process was started to ignore (nohup, a
background job of a shell) stays ignored.
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
"""Seconds that calls have to end when they were cancelled."""
SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
SHOW_CURSOR = "\x1b[?25h"

Action = Callable[[], object]


class Interrupts:
    """What the process does when it is interrupted. Until `listen` is called it changes nothing."""

    def __init__(self) -> None:
        self.received = False
        self._ctrl_c = 0
        """How often Ctrl-C was received."""
        self._listening = False
        self.next_step = ""
        """The command that goes on from here, if this one leaves at once."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._action: Action = lambda: None
        """What happens in the event loop."""
        self._synchronous = False
        self._first = threading.Event()
        self._terminals: list[int] = []

    def listen(self) -> None:
        self._listening = True
        self._terminals = [number for number in (1, 2) if os.isatty(number)]
        for number in SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._receive)

    def _receive(self, number: int, _frame: object) -> None:
        first, self.received = not self.received, True
        self._ctrl_c += number == signal.SIGINT
        self._silence_closed_terminals()
        if not first:
            # The second Ctrl-C, not just any signal after the first one: the system may deliver a SIGTERM
            # before the Ctrl-C that preceded it.
            if self._ctrl_c > 1 and number == signal.SIGINT:
                self.exit_now()
        elif self._loop is None or self._synchronous:
            raise KeyboardInterrupt
        else:
            self._first.set()
            self._loop.call_soon_threadsafe(self._act)

    def _act(self) -> None:
        # What is to be done now: the command may have gone on since the signal was received.
        self._action()

    # What the command is doing.

    @contextlib.contextmanager
    def in_event_loop(self, cancel: Action) -> Iterator[None]:
        """An event loop runs; to interrupt it is to cancel what it runs."""
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
    def with_action(self, action: Action) -> Iterator[None]:
        """Something else is to be done for a while. Once it ended well, the command is about to end, and an
        interrupt changes nothing any more."""
        before, self._action = self._action, action
        try:
            yield
        except BaseException:
            self._action = before
            raise
        self._action = lambda: None

    @contextlib.contextmanager
    def blocking_section(self) -> Iterator[None]:
        """Something is done that holds up the event loop: somebody is asked, modules are imported."""
        if self.received:
            raise KeyboardInterrupt
        self._synchronous = True
        try:
            yield
        finally:
            self._synchronous = False

    # How it ends.

    def _watch(self) -> None:
        """What was cancelled may not end: a function in a thread, a node that ignores it."""
        self._first.wait()
        threading.Event().wait(GRACE_SECONDS)
        self.exit_now()

    def exit_now(self) -> NoReturn:
        """At once, whatever is in flight: a run is as after a crash. May be called from a signal handler, so
        it takes no lock and uses no stream."""
        step = f"next: {self.next_step}\n" if self.next_step else ""
        text = f"{SHOW_CURSOR if 2 in self._terminals else ''}\nleft at once\n{step}"
        with contextlib.suppress(OSError):
            os.write(2, text.encode())
        os._exit(INTERRUPTED)

    def end(self, code: int) -> NoReturn:
        """The same when everything is in order: threads that cannot be cancelled are not waited for."""
        import logging

        logging.shutdown()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)

    def _silence_closed_terminals(self) -> None:
        """A terminal that was closed takes no output: what is still written goes nowhere."""
        for number in self._terminals:
            if not os.isatty(number):
                redirect_to_null(number)


def redirect_to_null(number: int) -> None:
    """What is written to a file descriptor from now on goes nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, number)
    os.close(nowhere)


interrupts = Interrupts()
"""Those of this process."""
