"""Runs a workflow in this process, on asyncio.

The host does what the kernel commands and tells it what happened. A call that is alone is awaited in
place; calls that do not depend on each other run as tasks of their own. Functions that are not
coroutines run in threads, so that none of them holds up the rest.

With a journal, what happened is safe before anything that depends on it begins, and before anybody is shown
it; what pure nodes decide in between shares the commit of what they were told.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from roundel.hosts.attendance import Attendance
from roundel.hosts.behaviours import prepared
from roundel.hosts.clock import steady
from roundel.hosts.edges import consulted
from roundel.hosts.lent import Lent, remembers, told
from roundel.hosts.log import event_logger
from roundel.hosts.middleware import Middleware
from roundel.hosts.people import People
from roundel.hosts.result import Asker, Result, result_of
from roundel.hosts.steering import Steering
from roundel.hosts.wishes import Wishes, fact_of
from roundel.journal.run_journal import RunJournal
from roundel.journal.store import Control, StoreError
from roundel.kernel.commands import Ask, Call, Cancel, Command, Consult, Review
from roundel.kernel.events import Event
from roundel.kernel.facts import (
    Answered,
    Consulted,
    Fact,
    Failed,
    Finished,
    Outcome,
    Reopened,
    Reviewed,
    Reviews,
    Started,
    Stopped,
    Streamed,
    Waited,
)
from roundel.kernel.state import Run
from roundel.kernel.step import IllegalFact, step
from roundel.llm.recorder import Recorder
from roundel.llm.scripted import Script
from roundel.nodes.services import outcome_of
from roundel.plan.graph import Plan
from roundel.workflow.message import Message

WORK = Path(".roundel", "work")
"""Where code works in a run that is not kept."""
STEPS_BETWEEN_TURNS = 200
"""How many calls are awaited in place before others on the event loop get their turn."""


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
        self.state = Run(plan)
        self.run_id = run_id or os.urandom(6).hex()
        self.now = self._clock = clock
        self._journal: RunJournal | None = None
        self._unshown: list[Event] = []
        self._unsafe = False
        """Something happened that is not in the journal yet."""
        self._pure = [
            node.kind.pure and node.node.timeout is None and node.node.retry is None for node in plan.sites
        ]
        self._lost: StoreError | None = None
        self._beside_store = folder is None
        self._lent = Lent(
            plan,
            self.run_id,
            self.now,
            script=script,
            folder=folder or WORK,
            record=record,
            say=self._say,
        )
        self._people = People(plan, script, asker)
        self._behaviours, own = prepared(plan, self._lent)
        # Last, so that what is remembered is what the others have made of it.
        memory = (self._lent.remembered.middleware(),) if remembers(plan) else ()
        self._attendance = Attendance(plan, (*own, *middleware, *memory), self._lent)
        observers = (on_event, event_logger(plan.graph.graph.log_level), *self._attendance.observers)
        self._observers = tuple(observer for observer in observers if observer is not None)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._asked: set[str] = set()
        """The questions that people have not answered yet."""
        self._facts: deque[Fact] = deque()
        self._arrived = asyncio.Event()
        self._broken: Exception | None = None
        """The host itself failed, while a call was at work."""
        self._task: asyncio.Task[Any] | None = None
        self._wished = False
        """Another process wished the run to stop."""
        self._wishes = Wishes()
        self._decisions = 0
        """The calls of a kept run since others on the event loop had their turn."""
        self._calling = False
        """A kept run awaits a call in place."""
        self._heeding = asyncio.Lock()
        """Held while a wish is heeded beside such a call; the run goes on when it is safe."""

    # The run.

    async def run(self, messages: tuple[Message, ...]) -> Result:
        started = self._journal.started if self._journal is not None else None
        if started is not None:
            self._go_on_from(started.time)
            return await self._carry(lambda: self._take(started))
        begun = Started(self.run_id, messages, self.now(), self.reviews)
        return await self._carry(lambda: self._step(begun))

    async def resume(self, state: Run, *facts: Fact) -> Result:
        """Goes on with a run as it was left, told what has happened since."""
        self.state = state
        self._go_on_from(state.since)
        reviews = None if self.reviews == state.reviews else self.reviews

        def begin() -> list[Command]:
            for fact in (Reopened(0, reviews), *facts):
                self._step(msgspec.structs.replace(fact, time=self.now()))
            return [call.command for call in self.state.calls.values() if call.command is not None]

        return await self._carry(begin)

    def _go_on_from(self, time: float) -> None:
        """The clock may be another one than it was, or may have been put back."""
        self.now = self._lent.now = steady(self._clock, time)

    async def _carry(self, begin: Callable[[], list[Command]]) -> Result:
        journal = self._journal
        steering = Steering(journal, self._obey, self._lose) if journal is not None else None
        self._task = asyncio.current_task()
        try:
            self._attendance.begin()
            if steering is not None:
                steering.start()
            await (self._drive if journal is None else self._drive_safely)(begin())
        except asyncio.CancelledError:
            await self._stop()
            if self._lost is not None:
                raise self._lost from None
            if self._wished:
                assert self._task is not None
                self._task.uncancel()
            elif self.state.status == "stopped":
                raise
        finally:
            self._task = None
            await self._cancel_tasks()
            if steering is not None:
                self._wishes.refuse(str(self._lost or f"the run is {self.state.status}"))
                await steering.stop()
            await self._lent.close()
            await self._attendance.close()
            if journal is not None:
                await self._let_go(journal)
        return self.result()

    async def _let_go(self, journal: RunJournal) -> None:
        """Others may go on with the run; if the store cannot be told, they find that we are gone."""
        with contextlib.suppress(StoreError):
            await journal.close()

    @property
    def reviews(self) -> Reviews:
        """Which nodes middleware is asked about."""
        return self._attendance.reviews

    @property
    def script(self) -> Script | None:
        return self._lent.script

    def look_on(self, observe: Callable[[Event], object]) -> None:
        """One more who is shown every event from now on."""
        self._observers = (*self._observers, observe)

    def keep(self, journal: RunJournal) -> None:
        """From now on everything that happens goes into a journal, and code works beside the store: whoever
        goes on with the run, from whichever folder, finds what was made there."""
        self._journal = journal
        if self._beside_store:
            self._lent.folder = journal.store.folder / "work"
        self._lent.keep(journal.store)
        self.now = self._lent.now = steady(self._clock)

    def result(self) -> Result:
        return result_of(self.state)

    async def _drive(self, commands: list[Command]) -> None:
        tasks, facts, behaviours, now = self._tasks, self._facts, self._behaviours, self.now
        tell, alone = self._step, 0
        while True:
            if len(commands) == 1 and not tasks and not facts and commands[0].__class__ is Call:
                # The same as _perform, without a coroutine for each call.
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
                    fact = self._failure(call.address, error)
            else:
                for command in commands:
                    self._begin(command)
                arrived = await self._next_fact()
                if arrived is None:
                    return
                fact = arrived
            commands = tell(fact)

    async def _drive_safely(self, commands: list[Command]) -> None:
        """The same for a run that is kept, and that others may steer."""
        wishes = self._wishes.open
        while True:
            if len(commands) == 1 and commands[0].__class__ is Call and self._is_idle():
                fact = await self._in_place(commands[0])
            else:
                await self._begin_all(commands)
                fact = await self._next_fact()
            if wishes:
                commands = self._heed(fact)
            elif fact is not None:
                commands = self._step(fact)
            else:
                return

    def _is_idle(self) -> bool:
        """Nothing is at work, has happened, or is held back."""
        return not (self._tasks or self._facts or self._asked or self.state.paused)

    async def _in_place(self, call: Call) -> Fact | None:
        """What a call gives that is alone; None if somebody wishes something before it begins. What is wished
        later is heeded beside it, and safe before the run goes on."""
        await self._make_ready(self._pure[call.site])
        if self._wishes.open:
            self._begin(call)
            return None
        self._calling = True
        try:
            outcome: Any = self._behaviours[call.site](call)
            if outcome.__class__ is not Outcome:
                outcome = outcome_of(await outcome)
            fact: Fact = Finished(call.address, outcome, self.now())
        except BaseException as error:
            fact = self._failure(call.address, error)
        finally:
            self._calling = False
        if self._heeding.locked():
            await self._heeding.acquire()
            self._heeding.release()
        if self._wished or self._lost is not None:
            await asyncio.sleep(0)  # here the run is cancelled, unless the node has kept that to itself
            raise asyncio.CancelledError
        return fact

    async def _make_ready(self, pure: bool, many: int = 1) -> None:
        """What pure nodes decide needs no commit of its own; before anything else begins, what has happened
        is safe."""
        assert self._journal is not None
        self._decisions += many
        if not pure or self._journal.full:
            await self._commit()
        if self._decisions >= STEPS_BETWEEN_TURNS:
            self._decisions = 0
            await asyncio.sleep(0)

    async def _begin_all(self, commands: list[Command]) -> None:
        pure = [command.__class__ is Call and self._pure[command.site] for command in commands]
        await self._make_ready(all(pure), len(pure))
        for command, decides in zip(commands, pure, strict=True):
            if decides:
                self._facts.append(await self._decided(command))
            else:
                self._begin(command)

    async def _decided(self, call: Any) -> Fact:
        try:
            return await self._perform(call)
        except BaseException as error:
            return self._failure(call.address, error)

    async def _next_fact(self) -> Fact | None:
        """What happens next; None if nothing will, or if somebody wishes something first."""
        while not self._facts:
            if self._broken is not None:
                raise self._broken
            if self._wishes:
                return None
            if self._unsafe:
                await self._commit()
                continue
            if self.state.over or not (self._tasks or self._asked):
                return None
            if self._tasks.keys() <= self._asked:  # only people are at work
                if self.state.status == "running":
                    return Waited(self.now())
                if not self._tasks or self.state.status == "paused":
                    return None
            self._arrived.clear()
            await self._arrived.wait()
        return self._facts.popleft()

    def _step(self, fact: Fact) -> list[Command]:
        journal = self._journal
        if journal is None:
            commands, events = step(self.state, fact)
            for observe in self._observers:
                for event in events:
                    observe(event)
            return commands
        try:
            fact = journal.add(fact)
        except ValueError as error:
            if not isinstance(fact, (Finished, Answered, Consulted, Reviewed)):
                raise
            fact = journal.add(Failed(fact.address, f"what it gave cannot be kept: {error}", fact.time))
        try:
            return self._take(fact)
        except BaseException:
            journal.take_back()
            raise

    def _take(self, fact: Fact) -> list[Command]:
        """Takes a fact that is in the journal."""
        commands, events = step(self.state, fact)
        self._unshown += events
        self._unsafe = True
        return commands

    async def _commit(self) -> None:
        """What has happened is safe, and only then seen."""
        assert self._journal is not None
        await self._journal.commit(self.state, quiet=not (self._tasks or self._calling))
        self._unsafe = False
        self._wishes.are_safe()
        self._show()

    def _show(self) -> None:
        events, self._unshown = self._unshown, []
        for observe in self._observers:
            for event in events:
                observe(event)

    def _say(self, address: str, text: str, attempt: int) -> None:
        """A model is speaking. Nothing follows from it, so it needs no turn of its own."""
        if address not in self.state.calls:
            return
        unsafe = self._unsafe
        self._step(Streamed(address, text, attempt, self.now()))
        if not unsafe and self._journal is not None:
            self._unsafe = (
                False  # what is being said is seen at once; the whole of it is kept when it is over
            )
            self._show()

    def _begin(self, command: Command) -> None:
        if isinstance(command, Cancel):
            self._asked.discard(command.address)
            task = self._tasks.pop(command.address, None)
            if task is not None:
                task.cancel()
            self._forget(command.address)
            return
        if isinstance(command, Ask) and self._people.must_answer(command):
            self._asked.add(command.address)
            if not self._people.can_be_asked:
                return
        self._tasks[command.address] = asyncio.create_task(self._report(command))

    def _forget(self, address: str) -> None:
        """It may have finished in the same turn; nobody waits for what it gave any more."""
        late = [fact for fact in self._facts if getattr(fact, "address", None) == address]
        for fact in late:
            self._facts.remove(fact)

    async def _report(self, command: Call | Ask | Consult | Review) -> None:
        address = command.address
        try:
            fact = await self._carry_out(command)
        except BaseException as error:
            try:
                fact = self._failure(address, error)
            except Exception as problem:
                self._broken = problem
                self._arrived.set()
                return
        self._tasks.pop(address, None)
        self._asked.discard(address)
        self._facts.append(fact)
        self._arrived.set()

    async def _carry_out(self, command: Call | Ask | Consult | Review) -> Fact:
        if isinstance(command, Ask):
            return Answered(command.address, await self._people.answer(command), self.now())
        if isinstance(command, Consult):
            edges = self.plan.sites[command.site].edges
            return Consulted(command.address, await consulted(command, edges, self._lent), self.now())
        if isinstance(command, Review):
            return await self._attendance.review(command, self.now)
        return await self._perform(command)

    async def _perform(self, call: Call) -> Fact:
        outcome = self._behaviours[call.site](call)
        if not isinstance(outcome, Outcome):
            outcome = outcome_of(await outcome)
        return Finished(call.address, outcome, self.now())

    def _failure(self, address: str, error: BaseException) -> Failed:
        """A node that raised has failed; whatever is meant for the whole run goes on up."""
        task = asyncio.current_task()
        stopping = isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling()
        if stopping or isinstance(error, (KeyboardInterrupt, GeneratorExit)):
            raise error
        return Failed(address, self._lent.secrets.scrub(told(error)), self.now())

    # Beginnings and ends.

    async def _stop(self) -> None:
        await self._cancel_tasks()
        async with self._heeding:
            if self._lost is None and not self.state.over and self.state.status != "new":
                self._step(Stopped("stopped", self.now()))
            if self._journal is not None and self._lost is None:
                await self._commit()

    # What other processes wish.

    async def _obey(self, control: Control) -> str:
        if self._task is None:
            return f"the run is {self.state.status}"
        if control.wish == "stop":
            self._wished = True
            self._task.cancel()
            return await self._wishes.heed()  # the next commit says that the run has stopped
        try:
            done = self._wishes.add(fact_of(control, self.now))
        except (KeyError, msgspec.ValidationError) as error:
            return f"nobody knows what '{control.wish}' is to mean here: {error}"
        self._arrived.set()
        if self._calling:
            await self._heed_beside()
        return await done

    async def _heed_beside(self) -> None:
        """The run itself awaits a call, and will not look at what is wished before that is over."""
        async with self._heeding:
            commands = self._heed(None)
            await self._commit()
            for command in commands:
                self._begin(command)

    def _heed(self, fact: Fact | None) -> list[Command]:
        """What others wish comes before what happened meanwhile, so that a pause holds back what follows."""
        commands: list[Command] = []
        while self._wishes:
            wish, done = self._wishes.next()
            try:
                commands += self._step(wish)
            except IllegalFact as error:
                done.set_result(f"{error}; it is {self.state.status}")
                continue
            self._wishes.heed(done)
            if isinstance(wish, Answered):
                self._call_off(wish.address)
        address = getattr(fact, "address", None)
        if fact is not None and (address is None or address in self.state.calls):
            commands += self._step(fact)
        return commands

    def _call_off(self, address: str) -> None:
        """Somebody else was quicker to answer."""
        task = self._tasks.pop(address, None)
        if task is not None:
            task.cancel()
        self._asked.discard(address)
        self._forget(address)

    def _lose(self, error: StoreError) -> None:
        """The run is not ours any more, or cannot be kept."""
        self._lost = error
        if self._task is not None:
            self._task.cancel()

    async def _cancel_tasks(self) -> None:
        tasks = list(self._tasks.values())
        self._tasks.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
