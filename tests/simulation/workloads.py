"""The workflows of the simulation, the calls that they make, and what each run must have done in the end.

Every call appends a dot to its text. So the text says how far a run is: once `a..` was called, the result of
`a.` is stored, and `a.` must never be called again. That one rule finds calls that are made twice, results
that are lost, and two processes that execute the same run.
"""

from __future__ import annotations

import asyncio
import random
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from msgspec import Struct

if TYPE_CHECKING:
    from tests.simulation.processes import Process

CALL = "tests.simulation.workloads:call"


class Calls:
    """The calls of all runs of a world, by the text before the dots, which is the input of the run."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.counts: dict[str, int] = {}
        self.farthest: dict[str, int] = {}
        self.poison: dict[str, tuple[int, int]] = {}
        """Runs that kill their process: at which call, and how often."""
        self.kills = 0
        """How often they did."""
        self.violations: list[str] = []

    async def make(self, text: str, process: Process) -> str:
        name = text.rstrip(".")
        step = len(text) - len(name)
        self.counts[text] = self.counts.get(text, 0) + 1
        if step < self.farthest.get(name, 0):
            self.violations.append(f"{text!r} was called again, although its result was stored")
        # The name of an answer has an end of its own.
        if process.world.store.is_paused(name.partition("-")[0]):
            self.violations.append(f"{text!r} was called after a pause")
        self.farthest[name] = max(step, self.farthest.get(name, 0))
        await asyncio.sleep(self.dice.choice((0.0, 0.01, 0.1, 1.0, 5.0)))
        at, times = self.poison.get(name, (-1, 0))
        if step == at and times:
            self.poison[name] = (at, times - 1)
            self.kills += 1
            process.die()
            await asyncio.get_running_loop().create_future()
        return f"{text}."


async def call(text: str) -> str:
    """The function of all nodes."""
    loop: Any = asyncio.get_running_loop()
    process: Process = loop.process
    made: str = await process.world.calls.make(text, process)
    return made


class Workload(Struct, frozen=True):
    """A workflow, and how to tell that a run of it is complete."""

    name: str
    """The input of the run."""
    text: str
    steps: int
    """The number of calls. A run with a question makes half of them before it, and half after it."""
    asks: bool = False
    loops: bool = False

    @property
    def answer(self) -> str:
        """The answer to the question: the text that it interrupts, under another name."""
        return self.name + "-y" + "." * (self.steps // 2)

    def outputs(self) -> list[str]:
        """What a run may return: with the answer, and with the default; or all that there is."""
        dots = "." * self.steps
        if self.asks:
            return [f"{self.name}-y{dots}", f"{self.name}-n{dots}"]
        return [f"Loop limit reached ({self.steps})" if self.loops else self.name + dots]


def chain(name: str, steps: int) -> Workload:
    """One call after the other."""
    return Workload(name, _graph([f"N{number}" for number in range(steps)]), steps)


def question(name: str, steps: int, timeout: float | None) -> Workload:
    """The same with a person in the middle."""
    half = steps // 2
    dots = "." * half
    names = (
        [f"N{number}" for number in range(half)] + ["Ask"] + [f"N{number}" for number in range(half, steps)]
    )
    options = "" if timeout is None else f", timeout: {timeout}, default: '{name}-n{dots}'"
    return Workload(name, _graph(names, options), steps, asks=True)


def loop(name: str, rounds: int) -> Workload:
    """A free loop, with limits on time that no run comes near by its own work."""
    text = f"""
graph:
  id: loop
  nodes:
    - {{id: Work, type: python, config: {{function: '{CALL}'}}}}
    - {{id: Guard, type: loop_counter, config: {{max_iterations: {rounds}}}}}
    - {{id: Clock, type: loop_timer, config: {{max_duration: 36000}}}}
    - {{id: Final, type: passthrough}}
  edges:
    - {{from: Work, to: Work}}
    - {{from: Work, to: Guard}}
    - {{from: Work, to: Clock}}
    - {{from: Guard, to: Final}}
    - {{from: Guard, to: Work}}
    - {{from: Clock, to: Final}}
    - {{from: Clock, to: Work}}
  start: Work
  end: Final
limits: {{seconds: 36000}}
"""
    return Workload(name, text, rounds, loops=True)


def _graph(names: list[str], options: str = "") -> str:
    nodes = "".join(
        f"    - {{id: Ask, type: human, config: {{description: 'Shall we?'{options}}}}}\n"
        if name == "Ask"
        else f"    - {{id: {name}, type: python, config: {{function: '{CALL}'}}}}\n"
        for name in names
    )
    edges = "".join(f"    - {{from: {one}, to: {other}}}\n" for one, other in pairwise(names))
    bounds = f"  start: {names[0]}\n  end: {names[-1]}\nlimits: {{seconds: 36000}}\n"
    return f"graph:\n  id: chain\n  nodes:\n{nodes}  edges:\n{edges}{bounds}"
