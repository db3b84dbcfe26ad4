"""Drives a run: has what it asks for done, and tells it what came of that."""

from __future__ import annotations

import asyncio
from typing import Any

from roundel.hosts.at_work import AtWork
from roundel.hosts.chronicle import Chronicle
from roundel.hosts.log import log_damage
from roundel.hosts.performer import Performer
from roundel.kernel.commands import Call, Command
from roundel.kernel.facts import Fact, Finished, Outcome, Stopped, Waited
from roundel.nodes.services import outcome_of

STEPS_BETWEEN_TURNS = 200
"""How many calls are awaited in place before others on the event loop get their turn."""


class Driving:
    """A run that is not kept. A call that is alone is awaited in place."""

    def __init__(self, chronicle: Chronicle, performer: Performer, at_work: AtWork) -> None:
        self._chronicle, self._performer, self._at_work = chronicle, performer, at_work
        self._task = asyncio.current_task()
        """That of the run; None once the run is idle."""
        self._interrupted = ""
        """Why somebody interrupted the run; empty if nobody did."""
        self._stopping = False
        self._requests = 0
        """How often the run's task was cancelled from here, which is not a cancellation by its caller."""
        self._cancelled_before = 0

    def start(self) -> None:
        """Before anything is driven."""

    async def drive(self, commands: list[Command]) -> None:
        """Until the run is over, or nothing will happen any more."""
        tasks, facts, behaviours = self._at_work.tasks, self._at_work.facts, self._performer.behaviours
        tell, now, alone = self._chronicle.tell, self._performer.now, 0
        while True:
            if len(commands) == 1 and not tasks and not facts and commands[0].__class__ is Call:
                # The same as the performer does, without a coroutine for each call.
                call: Call = commands[0]
                alone += 1
                if not alone % STEPS_BETWEEN_TURNS:
                    await asyncio.sleep(0)
                try:
                    outcome: Any = behaviours[call.site](call)
                    if outcome.__class__ is not Outcome:
                        outcome = await outcome
                        if outcome.__class__ is not Outcome:
                            outcome = outcome_of(outcome)
                    fact: Fact = Finished(call.address, outcome, now())
                except BaseException as error:
                    fact = self._performer.failure(call.address, error, self._task)
                if self._requests:  # the run was interrupted, and the node has kept that to itself
                    raise asyncio.CancelledError
            else:
                for command in commands:
                    self._at_work.begin(command)
                arrived = await self._next_fact()
                if arrived is None:
                    return
                fact = arrived
            commands = tell(fact)

    async def _next_fact(self) -> Fact | None:
        """What happens next; None if nothing will."""
        at_work, state = self._at_work, self._chronicle.state
        while not at_work.facts:
            at_work.check()
            if self._is_interrupted():
                return None
            if await self._makes_safe():
                continue
            if state.over or not at_work:
                return None
            if at_work.only_people:
                if state.status == "running":
                    return Waited(self._performer.now())
                if not at_work.tasks or state.status == "paused":
                    return None
            await at_work.wait()
        return at_work.facts.popleft()

    def _is_interrupted(self) -> bool:
        """Whether somebody wishes something first."""
        return False

    async def _makes_safe(self) -> bool:
        """Whether something had happened that must be safe before anybody waits."""
        return False

    # How it ends before its time.

    @property
    def is_ending(self) -> bool:
        """Whether the run's task was cancelled from here, although it may not have noticed yet."""
        return self._requests > 0

    def interrupt(self, reason: str) -> None:
        """Cancels the calls in flight and ends the drive; without effect on a run that is ending already."""
        if not (self._interrupted or self._stopping):
            self._interrupted = reason
            self._cancel_drive()

    def _cancel_drive(self) -> None:
        if self._task is None:
            return
        if not self._requests:
            self._cancelled_before = self._task.cancelling()
        self._requests += 1
        self._task.cancel()

    def was_cancelled(self) -> bool:
        """Once it has stopped: whether the caller of the run cancelled it, and has to hear of that."""
        if self._task is None or not self._requests:
            return self._chronicle.state.status == "stopped"
        left = 0
        for _ in range(self._requests):
            left = self._task.uncancel()
        return left > self._cancelled_before

    async def stop(self) -> None:
        """Cancels the calls in flight, and tells the run."""
        self._stopping = True
        await self._at_work.cancel()
        if not self.give_up():
            self._tell_of_stop(self._interrupted or "stopped")

    def give_up(self) -> bool:
        """Whether a step broke off in its middle, so that a run without a journal has failed now."""
        damage = self._chronicle.damage
        if damage is None:
            return False
        log_damage(damage)
        self._chronicle.give_up(self._performer.describe(damage))
        return True

    def _tell_of_stop(self, why: str) -> None:
        state = self._chronicle.state
        if not state.over and state.status != "new":
            self._chronicle.tell(Stopped(why, self._performer.now()))

    async def end(self) -> None:
        """Nothing is driven any more."""
        self._task = None
        await self._at_work.cancel()
