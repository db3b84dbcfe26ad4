"""What is still to be sent when a run comes to rest.

A collector that is away neither fails a run nor holds it up.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
from collections.abc import Callable, Sequence
from urllib.parse import unquote

from roundel.workflow.secrets import Secrets

logger = logging.getLogger("roundel.telemetry")

SECONDS = 3.0
"""How long a run waits at its end."""
LONGEST_REASON = 300
_Waiting = tuple[asyncio.AbstractEventLoop, asyncio.Event]


class Sending:
    """One for all runs. What ends while something is being sent may be too late for it, and is sent next."""

    def __init__(self, *flushes: Callable[[], object], seconds: float = SECONDS) -> None:
        self._flushes = flushes
        self._seconds = seconds
        self._lock = threading.Lock()
        self._waiting: list[_Waiting] = []
        self._thread: threading.Thread | None = None
        self._late = False
        """Whether somebody has given up on what is being sent now."""

    async def finish(self) -> None:
        """Waits until everything is sent, but not for long, and not twice for the same collector."""
        done = asyncio.Event()
        if not self._ask(asyncio.get_running_loop(), done):
            return
        try:
            await asyncio.wait_for(done.wait(), self._seconds)
        except TimeoutError:
            self._late = True
            TROUBLE.tell(f"the collector takes longer than {self._seconds:g} s")

    def _ask(self, loop: asyncio.AbstractEventLoop, done: asyncio.Event) -> bool:
        with self._lock:
            # A process that was forked has none of its parent's threads.
            at_work = self._thread is not None and self._thread.is_alive()
            if at_work and self._late:
                return False
            self._waiting.append((loop, done))
            if not at_work:
                # Not one of the loop's own threads: the end of the program would wait for those.
                self._late = False
                self._thread = threading.Thread(target=self._work, name="roundel-telemetry", daemon=True)
                self._thread.start()
            return True

    def _work(self) -> None:
        while waiting := self._taken():
            for flush in self._flushes:
                try:
                    flush()
                except Exception as error:
                    TROUBLE.tell(repr(error))
            self._late = False
            for loop, done in waiting:
                with contextlib.suppress(RuntimeError):  # nobody waits any more
                    loop.call_soon_threadsafe(done.set)

    def _taken(self) -> list[_Waiting]:
        """Those for whom everything is to be sent now; if there are none, the thread ends."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
            if not waiting:
                self._thread = None
            return waiting


def _secrets() -> Secrets:
    """Those of the environment, and the headers that exporters take from it."""
    secrets = Secrets()
    for name, value in os.environ.items():
        if name.startswith("OTEL_") and name.endswith("_HEADERS"):
            for pair in value.split(","):
                header = pair.partition("=")[2]
                secrets.add(header)
                secrets.add_header(unquote(header))
    return secrets


class _Trouble(logging.Filter):
    """Says once what the exporters would say again and again, each in several lines."""

    def __init__(self) -> None:
        super().__init__()
        self._told = False

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno >= logging.WARNING:
            self.tell(record.getMessage())
            return False
        return True

    def tell(self, reason: str) -> None:
        if not self._told:
            self._told = True
            shown = _secrets().mask(reason)[:LONGEST_REASON]
            logger.warning("telemetry is being lost, and the run goes on: %s", shown)

    def listen(self, loggers: Sequence[str]) -> None:
        for name in loggers:
            logging.getLogger(name).addFilter(self)


TROUBLE = _Trouble()
"""One for the whole program, as the loggers of exporters are."""
