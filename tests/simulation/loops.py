"""Event loops of simulated processes.

All loops of a world run in one thread. `step` runs what is ready in one of them, once. When nothing is ready
in any of them, the world sets the clock to the next timer, so that hours pass in milliseconds.

A process that dies is a loop that is never stepped again. Its tasks do not notice: no `finally` runs, nothing
is written or released, exactly as after SIGKILL.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from tests.simulation.clock import Clock


class SimulatedLoop(asyncio.SelectorEventLoop):
    """One event loop. It reads the clock of the world, and never blocks."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._world_clock = clock
        self.errors: list[dict[str, Any]] = []
        """What asyncio has reported: exceptions that nobody received."""
        self.set_exception_handler(lambda _loop, context: self.errors.append(context))

    def time(self) -> float:
        return self._world_clock.monotonic

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        """Calls the function at once: a thread would make the order of events depend on the machine."""
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future

    def step(self) -> None:
        """Runs what is ready, once."""
        self.stop()  # so that `run_forever` returns after one iteration, which does not wait
        self.run_forever()

    def next_time(self) -> float | None:
        """When there is something to do: now, at a timer, or not before another loop causes it."""
        # The names are private, but have been the same since Python 3.4, and nothing public tells.
        if self._ready:  # type: ignore[attr-defined]
            return self._world_clock.monotonic
        timers = self._scheduled  # type: ignore[attr-defined]
        return min((timer.when() for timer in timers if not timer.cancelled()), default=None)
