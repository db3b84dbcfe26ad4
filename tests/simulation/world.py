"""One simulated world: processes on a shared store, a clock, a disk, and the order in which things happen.

`step` is the scheduler. It chooses by dice among the processes that have something to do, runs one step of
one of them, and sets the clock to the next timer when none has. A process that has died is booted again
after some seconds, as a service manager does.
"""

from __future__ import annotations

import asyncio
import heapq
import random
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from roundel.server.identity import Identities
from tests.simulation import clock
from tests.simulation.clock import Clock
from tests.simulation.disk import Disk, SharedStore
from tests.simulation.loops import SimulatedLoop
from tests.simulation.processes import Process
from tests.simulation.workloads import Calls

MAX_STEPS = 400_000
"""Steps of all loops in one wait: far more than anything legitimate takes."""
STEP_SECONDS = 1e-6
"""What a step takes. In a world in which work takes no time, a timer that fires a moment early would fire
again and again in that moment."""


class Stuck(Exception):
    """What was waited for did not happen, although the world had hours."""


class World:
    """A world begins when it is made and ends with `close`."""

    def __init__(self, seed: int, places: int = 2) -> None:
        self.dice = random.Random(seed)
        self.clock = Clock()
        clock.use(self.clock)
        self.disk = Disk(random.Random(self.dice.random()))
        self.store = SharedStore(clock=lambda: self.clock.wall)
        self.calls = Calls(random.Random(self.dice.random()))
        self.processes: dict[int, Process] = {}
        self.past: list[Process] = []
        """Processes that have ended. They are kept: to collect their tasks would run their `finally`."""
        self.deaths = self.steps = 0
        self.lethal = 0.0
        """How likely a process dies before an operation of its store, and how likely after one."""
        self.token = ""
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._event_count = 0
        self.token = self._alone(
            Identities(self.store.documents()).create_token("test", "admin", None)
        ).secret
        for place in range(places):
            self.boot(place)

    def _alone(self, work: Coroutine[Any, Any, Any]) -> Any:
        loop = SimulatedLoop(self.clock)
        try:
            return loop.run_until_complete(work)
        finally:
            loop.close()

    # Processes.

    def boot(self, place: int) -> None:
        """Starts a process in a place that has none."""
        if place not in self.processes:
            self.processes[place] = Process(self, place, len(self.past), self.lethal)

    def bury(self) -> None:
        """Notes which processes have died or ended, and lets them be started again."""
        for place, process in list(self.processes.items()):
            if process.is_alive and not process.life.done():
                continue
            del self.processes[place]
            self.past.append(process)
            self.deaths += not process.is_alive
            self.after(self.dice.uniform(0.5, 5), partial(self.boot, place))

    def alive(self) -> list[Process]:
        return [process for process in self.processes.values() if process.context.is_ready]

    # Time.

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        self._event_count += 1
        heapq.heappush(self._events, (self.clock.monotonic + seconds, self._event_count, action))

    def step(self) -> None:
        """Lets one thing happen."""
        now = self.clock.monotonic
        while self._events and self._events[0][0] <= now:
            heapq.heappop(self._events)[2]()
        ready, soonest = [], self._events[0][0] if self._events else float("inf")
        for process in self.processes.values():
            at = process.loop.next_time()
            if at is not None:
                if at <= now:
                    ready.append(process)
                soonest = min(soonest, at)
        if ready:
            chosen = ready[0] if len(ready) == 1 else self.dice.choice(ready)
            chosen.loop.step()
            self.steps += 1
            self.clock.monotonic += STEP_SECONDS
            if not chosen.is_alive or chosen.life.done():
                self.bury()
        elif soonest == float("inf"):
            raise Stuck("nothing is left that could happen")
        else:
            self.clock.monotonic = max(now, soonest)

    def advance(self, seconds: float) -> None:
        """Lets time pass."""
        end = self.clock.monotonic + seconds
        self.after(seconds, lambda: None)
        while self.clock.monotonic < end:
            self.step()

    def until(self, condition: Callable[[], bool], what: str, seconds: float = 7200) -> None:
        """Lets things happen until a condition holds; `Stuck` if it does not."""
        end = self.clock.monotonic + seconds
        for _ in range(MAX_STEPS):
            if condition():
                return
            if self.clock.monotonic > end:
                break
            self.step()
        raise Stuck(f"{what}: not within {self.clock.monotonic - end + seconds:.0f} s")

    def finished(self, task: asyncio.Task[Any], process: Process) -> bool:
        """Whether a request has an answer, or will never have one."""
        return task.done() or not process.is_alive or process.life.done()

    def close(self) -> None:
        """Removes everything. What the tasks of dead processes do about that has no consequences."""
        for process in [*self.processes.values(), *self.past]:
            process.is_alive = False
            for task in asyncio.all_tasks(process.loop):
                task._log_destroy_pending = False  # type: ignore[attr-defined]
            process.loop.close()
