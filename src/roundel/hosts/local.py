"""Runs a workflow in this process, on asyncio.

The host does what the kernel commands and tells it what happened. A call that is alone is awaited in
place; calls that do not depend on each other run as tasks of their own. Functions that are not
coroutines run in threads, so that none of them holds up the rest.

    performer.py      does what is asked for: nodes, people, functions on edges, middleware
    at_work.py        what was begun and is not over
    chronicle.py      tells the run what happened, keeps it, shows it
    driving.py        goes from one to the next, for a run that is not kept
    kept_driving.py   the same for one that is, and that others may steer
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from roundel.hosts.at_work import AtWork
from roundel.hosts.attendance import Attendance
from roundel.hosts.behaviours import Prepared, prepared
from roundel.hosts.chronicle import Chronicle
from roundel.hosts.clock import steady
from roundel.hosts.driving import Driving
from roundel.hosts.edges import Consultant
from roundel.hosts.kept_driving import KeptDriving
from roundel.hosts.lent import Lent, remembers
from roundel.hosts.log import event_logger
from roundel.hosts.people import People
from roundel.hosts.performer import Performer
from roundel.hosts.result import Asker, Result, result_of
from roundel.journal.run_journal import RunJournal
from roundel.journal.shield import shielded
from roundel.journal.store import StoreError
from roundel.kernel.commands import Command
from roundel.kernel.events import Event
from roundel.kernel.facts import Fact, Reopened, Reviews, Started
from roundel.kernel.state import Run
from roundel.llm.recorder import Recorder
from roundel.llm.scripted import Script
from roundel.nodes.middleware import Middleware
from roundel.plan.graph import Plan
from roundel.workflow.diagnostics import WorkflowError
from roundel.workflow.message import Message

WORK = Path(".roundel", "work")
"""Where code works in a run that is not kept."""


class LocalHost:
    """One run. `asker` answers for people; without one, unanswered questions leave the run waiting."""

    def __init__(
        self,
        plan: Plan,
        *,
        script: Script | None = None,
        asker: Asker | None = None,
        on_event: Callable[[Event], object] | None = None,
        folder: Path | None = None,
        run_id: str | None = None,
        record: Recorder | None = None,
        middleware: Sequence[Middleware] = (),
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.plan = plan
        self.run_id = run_id or os.urandom(6).hex()
        self._clock = clock
        self._beside_store = folder is None
        self._lent = Lent(
            plan, self.run_id, clock, script=script, folder=folder or WORK, record=record, say=self._say
        )
        people = People(plan, script, asker)
        ready = self._prepared()
        # Last, so that what is remembered is what the others have made of it.
        memory = (self._lent.remembered.middleware(),) if remembers(plan) else ()
        self._attendance = Attendance(plan, (*ready.middleware, *middleware, *memory), self._lent)
        consultant = Consultant(ready.functions, self._lent)
        self._performer = Performer(plan, ready.behaviours, consultant, self._lent, people, self._attendance)
        self._at_work = AtWork(self._performer, people)
        self._chronicle = Chronicle(Run(plan), self._lent.secrets)
        self._driving: Driving | None = None
        self._interrupted = ""
        observers = (on_event, event_logger(plan.graph.graph.log_level), *self._attendance.observers)
        self._chronicle.observers = tuple(observer for observer in observers if observer is not None)

    def _prepared(self) -> Prepared:
        try:
            return prepared(self.plan, self._lent)
        except WorkflowError as error:  # it repeats what users' code and client libraries say
            masked = self._lent.secrets.masked(error.diagnostics)
        raise WorkflowError(masked)

    def _say(self, address: str, text: str, attempt: int, offset: int) -> None:
        data = {"text": text, "attempt": attempt, "offset": offset}
        self._chronicle.publish("token_stream", address, data, self.now())

    def now(self) -> float:
        return self._lent.now()

    @property
    def state(self) -> Run:
        return self._chronicle.state

    @property
    def reviews(self) -> Reviews:
        """Which nodes middleware is asked about."""
        return self._attendance.reviews

    @property
    def script(self) -> Script | None:
        return self._lent.script

    def look_on(self, observe: Callable[[Event], object]) -> None:
        """One more who is shown every event from now on."""
        self._chronicle.observers = (*self._chronicle.observers, observe)

    def keep(self, journal: RunJournal) -> None:
        """From now on everything that happens goes into a journal, and code works beside the store: whoever
        goes on with the run, from whichever folder, finds what was made there."""
        self._chronicle.journal = journal
        if self._beside_store and journal.store.workspaces is not None:
            self._lent.folder = journal.store.workspaces
        self._lent.keep(journal.store)
        self._go_on_from(0)

    def result(self) -> Result:
        return result_of(self.state)

    def interrupt(self, reason: str = "interrupted") -> None:
        """Cancels the calls in flight. A run that is kept is left so that it can be resumed: paused, or
        waiting if only people were asked. One that is not kept is stopped. May be called before it begins."""
        self._interrupted = self._interrupted or reason
        if self._driving is not None:
            self._driving.interrupt(self._interrupted)

    async def run(self, messages: tuple[Message, ...]) -> Result:
        journal = self._chronicle.journal
        started = journal.started if journal is not None else None
        if started is not None:
            self._go_on_from(started.fact.time)
            return await self._carry(lambda: self._chronicle.take(*started))
        begun = Started(self.run_id, messages, self.now(), self.reviews)
        return await self._carry(lambda: self._chronicle.tell(begun))

    async def resume(self, state: Run, *facts: Fact) -> Result:
        """Goes on with a run as it was left, told what has happened since."""
        self._chronicle.state = state
        self._go_on_from(state.since)
        reviews = None if self.reviews == state.reviews else self.reviews

        def begin() -> list[Command]:
            for fact in (Reopened(0, reviews), *facts):
                self._chronicle.tell(msgspec.structs.replace(fact, time=self.now()))
            return [call.command for call in state.calls.values() if call.command is not None]

        return await self._carry(begin)

    def _go_on_from(self, time: float) -> None:
        """The clock may be another one than it was, or may have been put back."""
        self._lent.now = steady(self._clock, time)

    async def _carry(self, begin: Callable[[], list[Command]]) -> Result:
        journal, parts = self._chronicle.journal, (self._chronicle, self._performer, self._at_work)
        driving = Driving(*parts) if journal is None else KeptDriving(*parts, journal)
        async with contextlib.AsyncExitStack() as leaving:  # the last first, whatever becomes of the others
            if journal is not None:
                leaving.push_async_callback(self._let_go, journal)
            leaving.push_async_callback(self._attendance.close)
            leaving.push_async_callback(self._lent.close)
            leaving.push_async_callback(driving.end)
            try:
                await self._drive(driving, begin)
            except (asyncio.CancelledError, KeyboardInterrupt) as error:
                await shielded(driving.stop())
                if driving.was_cancelled() or isinstance(error, KeyboardInterrupt):
                    raise
            except BaseException:
                if journal is not None or not driving.give_up():
                    raise
        return self.result()

    async def _drive(self, driving: Driving, begin: Callable[[], list[Command]]) -> None:
        self._attendance.begin()
        driving.start()
        self._driving = driving
        if self._interrupted:
            driving.interrupt(self._interrupted)
        commands = begin()
        if not driving.is_ending:
            await driving.drive(commands)
        if driving.is_ending:  # the task was cancelled, and has not noticed yet
            raise asyncio.CancelledError

    async def _let_go(self, journal: RunJournal) -> None:
        """Others may go on with the run; if the store cannot be told, they find that we are gone."""
        with contextlib.suppress(StoreError):
            await journal.close()
