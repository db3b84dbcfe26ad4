"""What is still to be sent when a run comes to rest.

A collector that is away neither fails a run nor holds it up.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Sequence

logger = logging.getLogger("roundel.telemetry")

SECONDS = 3.0
"""How long a run waits at its end."""
LONGEST_REASON = 300


class Sending:
    def __init__(self, *flushes: Callable[[], object], seconds: float = SECONDS) -> None:
        self._flushes = flushes
        self._seconds = seconds
        self._thread: threading.Thread | None = None

    async def finish(self) -> None:
        """Waits until everything is sent, but not for long, and not twice for the same collector."""
        if self._thread is not None and self._thread.is_alive():
            return
        loop, done = asyncio.get_running_loop(), asyncio.Event()

        def work() -> None:
            for flush in self._flushes:
                try:
                    flush()
                except Exception as error:
                    TROUBLE.tell(repr(error))
            with contextlib.suppress(RuntimeError):  # nobody waits any more
                loop.call_soon_threadsafe(done.set)

        # Not one of the loop's own threads: the end of the program would wait for those.
        self._thread = threading.Thread(target=work, name="roundel-telemetry", daemon=True)
        self._thread.start()
        try:
            await asyncio.wait_for(done.wait(), self._seconds)
        except TimeoutError:
            TROUBLE.tell(f"the collector takes longer than {self._seconds:g} s")


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
            logger.warning("telemetry is being lost, and the run goes on: %s", reason[:LONGEST_REASON])

    def listen(self, loggers: Sequence[str]) -> None:
        for name in loggers:
            logging.getLogger(name).addFilter(self)


TROUBLE = _Trouble()
"""One for the whole program, as the loggers of exporters are."""
