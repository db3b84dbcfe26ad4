"""Does what the kernel asks for, and says what came of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from roundel.hosts.attendance import Attendance
from roundel.hosts.edges import Consultant
from roundel.hosts.lent import Lent, told
from roundel.hosts.people import People
from roundel.kernel.commands import Ask, Call, Command, Consult, Review
from roundel.kernel.facts import Answered, Consulted, Fact, Failed, Finished, Outcome
from roundel.nodes.services import Behaviour, outcome_of
from roundel.nodes.threads import is_ours
from roundel.plan.graph import Plan

Errand = Call | Ask | Consult | Review
"""A command that has an answer."""


class Performer:
    def __init__(
        self,
        plan: Plan,
        behaviours: list[Behaviour],
        consultant: Consultant,
        lent: Lent,
        people: People,
        attendance: Attendance,
    ) -> None:
        self._plan, self._lent, self._people, self._attendance = plan, lent, people, attendance
        self._consultant = consultant
        self.behaviours = behaviours
        self.pure = [
            node.kind.pure and node.node.timeout is None and node.node.retry is None for node in plan.sites
        ]
        """Whether what a node does depends on nothing but what it is given, by site."""

    def decides(self, command: Command) -> bool:
        """Whether its result follows from what is stored already, so that it needs no commit before it."""
        if isinstance(command, Call):
            return self.pure[command.site]
        if isinstance(command, Consult):
            return self._consultant.is_pure(self._plan.sites[command.site].edges)
        return False

    @property
    def now(self) -> Callable[[], float]:
        """The clock, which is the same as long as the run is driven."""
        return self._lent.now

    async def carry_out(self, errand: Errand) -> Fact:
        """What came of it; whatever it raises is for `failure`."""
        if isinstance(errand, Ask):
            return Answered(errand.address, await self._people.answer(errand), self.now())
        if isinstance(errand, Consult):
            edges = self._plan.sites[errand.site].edges
            verdicts = await self._consultant.verdicts(errand, edges)
            return Consulted(errand.address, verdicts, self.now())
        if isinstance(errand, Review):
            return await self._attendance.review(errand, self.now)
        outcome = self.behaviours[errand.site](errand)
        if not isinstance(outcome, Outcome):
            outcome = outcome_of(await outcome)
        return Finished(errand.address, outcome, self.now())

    def failure(self, address: str, error: BaseException, task: asyncio.Task[Any] | None) -> Failed:
        """A node that raised in a task has failed; whatever is meant for the whole run goes on up."""
        if isinstance(error, KeyboardInterrupt) or is_ours(error, task):
            raise error
        return Failed(address, self.describe(error), self.now())

    def describe(self, error: BaseException) -> str:
        """An exception as text for events and results, without secrets."""
        return self._lent.secrets.mask(told(error))
