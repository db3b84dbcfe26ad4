"""What other processes wish of a run, and what became of it: a wish is done when its fact is safe."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

import msgspec

from roundel.journal.store import ControlRequest
from roundel.kernel.facts import Answered, Fact, Paused, Resumed
from roundel.workflow.message import Message


class Wishes:
    """Those that nobody has heeded yet, in order."""

    def __init__(self) -> None:
        self.open: deque[tuple[Fact, asyncio.Future[str]]] = deque()
        self._heeded: list[asyncio.Future[str]] = []
        """They are done with the next commit."""

    def __bool__(self) -> bool:
        return bool(self.open)

    def add(self, fact: Fact) -> asyncio.Future[str]:
        """Gives what becomes of it: nothing if it is done, else why not."""
        done: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.open.append((fact, done))
        return done

    def next(self) -> tuple[Fact, asyncio.Future[str]]:
        return self.open.popleft()

    def heed(self, done: asyncio.Future[str] | None = None) -> asyncio.Future[str]:
        """It is heeded, and has to be made safe."""
        done = done or asyncio.get_running_loop().create_future()
        self._heeded.append(done)
        return done

    def are_safe(self) -> None:
        if self._heeded:
            self._settle(self._heeded, "")

    def refuse(self, why: str) -> None:
        """All that are left."""
        self._settle([*self._heeded, *(done for _, done in self.open)], why)
        self.open.clear()

    def _settle(self, wishes: list[asyncio.Future[str]], outcome: str) -> None:
        self._heeded = []
        for done in wishes:
            if not done.done():
                done.set_result(outcome)


def fact_of(control: ControlRequest, now: Callable[[], float]) -> Fact:
    """What a run is told; KeyError or ValidationError if nobody knows."""
    wish, body = control.kind, control.body
    if wish == "answer":
        return Answered(body["address"], msgspec.convert(body["message"], Message), now())
    if wish == "pause":
        return Paused(str(body.get("reason") or "paused"), now())
    if wish == "resume":
        return Resumed(now())
    raise KeyError(wish)
