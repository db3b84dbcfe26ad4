"""What a run has begun that is not over: tasks, and questions to people."""

from __future__ import annotations

import asyncio
from collections import deque

from roundel.hosts.people import People, Unanswered
from roundel.hosts.performer import Errand, Performer
from roundel.kernel.commands import Ask, Cancel, Command
from roundel.kernel.facts import Fact


class AtWork:
    def __init__(self, performer: Performer, people: People) -> None:
        self._performer, self._people = performer, people
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.asked: set[str] = set()
        """The questions that people have not answered yet."""
        self.facts: deque[Fact] = deque()
        """What came of it, and the run has not been told yet."""
        self.arrived = asyncio.Event()
        self._broken: BaseException | None = None
        """The host itself failed, while something was at work."""

    def __bool__(self) -> bool:
        return bool(self.tasks or self.asked)

    @property
    def only_people(self) -> bool:
        return self.tasks.keys() <= self.asked

    def is_for_people(self, command: Command | None) -> bool:
        """Whether it is a question that no script answers."""
        return isinstance(command, Ask) and self._people.must_answer(command)

    def begin(self, command: Command) -> None:
        if isinstance(command, Cancel):
            self.call_off(command.address)
            return
        if self.is_for_people(command):
            self.asked.add(command.address)
            if not self._people.can_be_asked:
                return
        self.tasks[command.address] = asyncio.create_task(self._report(command))

    async def _report(self, errand: Errand) -> None:
        address, task = errand.address, asyncio.current_task()
        try:
            fact = await self._performer.carry_out(errand)
        except Unanswered:  # as if there were nobody to ask
            if self.tasks.get(address) is asyncio.current_task():
                del self.tasks[address]
                self.arrived.set()
            return
        except BaseException as error:
            try:
                fact = self._performer.failure(address, error, task)
            except (asyncio.CancelledError, KeyboardInterrupt):
                raise
            except BaseException as problem:
                self._broken = problem
                self.arrived.set()
                return
        if self.tasks.get(address) is not task:
            return  # it was called off, and has kept that to itself
        del self.tasks[address]
        self.asked.discard(address)
        self.facts.append(fact)
        self.arrived.set()

    def check(self) -> None:
        """Raises what the host itself has failed of."""
        if self._broken is not None:
            raise self._broken

    async def wait(self) -> None:
        """Until something has come of it, or somebody says `arrived`."""
        self.arrived.clear()
        await self.arrived.wait()

    def call_off(self, address: str) -> None:
        """Nobody waits for it any more; it may have finished in the same turn."""
        task = self.tasks.pop(address, None)
        if task is not None:
            task.cancel()
        self.asked.discard(address)
        for fact in [fact for fact in self.facts if getattr(fact, "address", None) == address]:
            self.facts.remove(fact)

    async def cancel(self) -> None:
        tasks = list(self.tasks.values())
        self.tasks.clear()
        for task in tasks:
            task.cancel()
        if tasks:  # to wait for nothing takes a turn of the loop
            await asyncio.gather(*tasks, return_exceptions=True)
