"""Worker processes for texts, as a simulated server has them.

The pool with its queue, quotas and time limits is the real one. Its workers are simulated: they do the real
jobs, in simulated time, and now and then one dies, cannot be started, or never answers.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any

import msgspec

from roundel.server import worker
from roundel.server.worker_pool import WorkerPool, _Worker
from roundel.workflow.policy import Policy

_answers: dict[bytes, bytes] = {}
"""The answers to all jobs: they do not depend on the world."""
DIES, HANGS, CANNOT_START = 0.05, 0.03, 0.05
"""How often."""


class SimulatedWorker(_Worker):
    """A worker without a process."""

    def __init__(self, pool: SimulatedPool, dice: random.Random) -> None:
        super().__init__(pool, None, None)  # type: ignore[arg-type]
        self._dice, self._policy = dice, pool.policy

    def send(self, frame: bytes) -> None:
        fate = self._dice.random()
        if fate > HANGS:
            loop, delay = asyncio.get_running_loop(), self._dice.choice((0.001, 0.01, 0.3, 3.0))
            loop.call_later(delay, self._end_job, frame, fate < HANGS + DIES)

    def _end_job(self, frame: bytes, dies: bool) -> None:
        if self.is_over:
            return
        if dies:
            self._pool.on_lost(self)
            return
        if frame not in _answers:
            given: Any = msgspec.json.decode(frame, type=worker.Frame)
            _answers[frame] = (
                worker.READY if isinstance(given, worker.Setup) else worker._perform(given, self._policy)
            )
        answer = _answers[frame]
        self._pool.on_answer(self, answer[:1], answer[1:])

    def detach(self) -> None:
        self.is_over = True

    def kill(self) -> None:
        self.detach()


class SimulatedPool(WorkerPool):
    """The pool of a simulated server."""

    def __init__(self, policy: Policy, seed: float) -> None:
        super().__init__(policy)
        self.policy = policy
        self._dice = random.Random(seed)

    async def _start(self) -> None:
        if self._dice.random() < CANNOT_START:
            self._on_start_failed("simulated")
            return
        one = SimulatedWorker(self, self._dice)
        if self._closed:
            return
        self._workers.add(one)
        setup = worker.Setup(self._policy, False, {})
        one.send(msgspec.json.encode(setup))
        asyncio.get_running_loop().call_later(60, self._check_started, one)

    def _end(self, one: _Worker) -> None:
        one.kill()

    def _on_long(self, one: _Worker, task: Any) -> None:
        """There are no priorities here."""
