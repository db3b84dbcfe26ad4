"""Drives a run that is kept, and that others may steer while it is at work.

What happened is safe before anything that depends on it begins, and before anybody is shown it; what pure
nodes decide in between shares the commit of what they were told. What others wish is heeded before the run
goes on: beside a call, if the run awaits one in place.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from roundel.hosts.at_work import AtWork
from roundel.hosts.chronicle import ABOUT_CALLS, Chronicle
from roundel.hosts.driving import STEPS_BETWEEN_TURNS, Driving
from roundel.hosts.log import log_damage
from roundel.hosts.performer import Performer
from roundel.hosts.steering import Steering
from roundel.hosts.wishes import Wishes, fact_of
from roundel.journal.run_journal import RunJournal
from roundel.journal.store import ControlRequest
from roundel.kernel.commands import Call, Cancel, Command
from roundel.kernel.facts import Answered, Fact, Finished, Outcome, Paused, Waited
from roundel.kernel.step import IllegalFact
from roundel.nodes.services import outcome_of


class KeptDriving(Driving):
    def __init__(
        self, chronicle: Chronicle, performer: Performer, at_work: AtWork, journal: RunJournal
    ) -> None:
        super().__init__(chronicle, performer, at_work)
        self._journal = journal
        self._steering = Steering(journal, self._obey, self._lose)
        self._wishes = Wishes()
        self._wished = False
        """Another process wished the run to stop."""
        self._why = "stopped"
        self._lost: Exception | None = None
        self._decisions = 0
        """The calls since others on the event loop had their turn."""
        self._calling = False
        """The run awaits a call in place."""
        self._heeding = asyncio.Lock()
        """Held while a wish is heeded beside such a call; the run goes on when it is safe."""

    def start(self) -> None:
        self._steering.start()

    async def drive(self, commands: list[Command]) -> None:
        wishes, tell = self._wishes.open, self._chronicle.tell
        while True:
            if len(commands) == 1 and commands[0].__class__ is Call and self._is_idle():
                fact = await self._in_place(commands[0])
            else:
                await self._begin_all(commands)
                fact = await self._next_fact()
            if wishes:
                if fact is not None:  # what is wished may be that nobody waits for it any more
                    self._at_work.facts.appendleft(fact)
                commands = await self._heed()
            elif fact is not None:
                try:
                    commands = tell(fact)
                except BaseException as error:
                    commands = await self._recover(fact, error)
            else:
                return

    def _is_idle(self) -> bool:
        """Nothing is at work, has happened, or is held back."""
        at_work = self._at_work
        return not (at_work.tasks or at_work.facts or at_work.asked or self._chronicle.state.paused)

    async def _in_place(self, call: Call) -> Fact | None:
        """What a call gives that is alone; None if somebody wishes something before it begins. What is wished
        later is heeded beside it, and safe before the run goes on."""
        performer = self._performer
        await self._make_ready(performer.pure[call.site])
        if self._wishes.open:
            self._at_work.begin(call)
            return None
        self._calling = True
        try:
            outcome: Any = performer.behaviours[call.site](call)
            if outcome.__class__ is not Outcome:
                outcome = outcome_of(await outcome)
            fact: Fact = Finished(call.address, outcome, performer.now())
        except BaseException as error:
            fact = performer.failure(call.address, error, self._task)
        finally:
            self._calling = False
        if self._heeding.locked():
            await self._heeding.acquire()
            self._heeding.release()
        if self.is_ending:  # whatever a call says that was cancelled, it is not believed
            await asyncio.sleep(0)  # here the run is cancelled, unless the node has kept that to itself
            raise asyncio.CancelledError
        return fact

    async def _make_ready(self, pure: bool, many: int = 1) -> None:
        """What pure nodes decide needs no commit of its own; before anything else begins, what has happened
        is safe."""
        self._decisions += many
        if not pure or self._journal.full:
            await self._commit()
        if self._decisions >= STEPS_BETWEEN_TURNS:
            self._decisions = 0
            await asyncio.sleep(0)

    async def _begin_all(self, commands: list[Command]) -> None:
        pure = [self._performer.decides(command) for command in commands]
        await self._make_ready(all(pure), len(pure))
        for command, decides in zip(commands, pure, strict=True):
            if decides:
                self._at_work.facts.append(await self._decided(command))
            else:
                self._at_work.begin(command)

    async def _decided(self, call: Any) -> Fact:
        try:
            return await self._performer.carry_out(call)
        except BaseException as error:
            return self._performer.failure(call.address, error, self._task)

    async def _commit(self) -> None:
        await self._chronicle.commit(quiet=not (self._at_work.tasks or self._calling))
        self._wishes.are_safe()

    def _is_interrupted(self) -> bool:
        return bool(self._wishes)

    async def _makes_safe(self) -> bool:
        if not self._chronicle.unsafe:
            return False
        await self._commit()
        return True

    async def _recover(self, fact: Fact, error: BaseException) -> list[Command]:
        """After a step that broke off in its middle: rebuilds the run and tells it that the call has failed.
        Raises the error if the fact was about no call; the journal holds the run as it was before."""
        if self._chronicle.damage is None:
            raise error
        await self._rebuild()
        if not isinstance(fact, ABOUT_CALLS):
            raise error
        failed = self._performer.failure(fact.address, error, self._task)
        text = f"the run could not go on with what it gave: {failed.error}"
        return self._chronicle.tell(msgspec.structs.replace(failed, error=text))

    async def _rebuild(self) -> None:
        if self._chronicle.damage is not None:
            log_damage(self._chronicle.damage)
            await self._chronicle.rebuild()

    # What other processes wish.

    async def _obey(self, control: ControlRequest) -> str:
        """Comes back when it is done and safe; says why not if it cannot be done."""
        if self._task is None:
            return f"the run is {self._chronicle.state.status}"
        if control.kind == "stop":
            self._why = str(control.body.get("reason") or self._why)
            if not self._stopping:  # else it would be called off while it is told so
                self._wished = True
                self._cancel_drive()
            elif self._interrupted and not self._wished:
                return "it was interrupted at the same time, and can be resumed; try again"
            return await self._wishes.heed()  # the next commit says that the run has stopped
        try:
            done = self._wishes.add(fact_of(control, self._performer.now))
        except (KeyError, msgspec.ValidationError) as error:
            return f"nobody knows what '{control.kind}' is to mean here: {error}"
        self._at_work.arrived.set()
        if self._calling:
            await self._heed_beside()
        return await done

    async def _heed_beside(self) -> None:
        """The run itself awaits a call, and will not look at what is wished before that is over."""
        async with self._heeding:
            commands = await self._heed()
            await self._commit()
            for command in commands:
                self._at_work.begin(command)

    async def _heed(self) -> list[Command]:
        """What others wish comes before what happened meanwhile, so that a pause holds back what follows."""
        commands: list[Command] = []
        while self._wishes:
            wish, done = self._wishes.next()
            try:
                commands += self._chronicle.tell(wish)
            except IllegalFact as error:
                done.set_result(f"{error}; it is {self._chronicle.state.status}")
                continue
            except Exception as error:
                if self._chronicle.damage is None:
                    raise
                await self._rebuild()
                done.set_result(f"the run could not go on with it: {self._performer.describe(error)}")
                continue
            self._wishes.heed(done)
            if isinstance(wish, Answered):  # somebody else was quicker
                self._at_work.call_off(wish.address)
        return commands

    def _lose(self, error: Exception) -> None:
        """The run is not ours any more, cannot be kept, or is not steered any more."""
        self._lost = error
        self._cancel_drive()

    async def stop(self) -> None:
        """Raises why the run was lost, if it was. Interrupted, it is left so that it can be resumed."""
        self._stopping = True
        async with self._heeding:
            await self._at_work.cancel()
            if self._lost is not None:
                raise self._lost from None
            await self._rebuild()
            if self._interrupted and not self._wished:
                self._leave()
            else:
                self._tell_of_stop(self._why)
            await self._commit()

    def _leave(self) -> None:
        """What has finished is kept. What was in flight stays in the state, and is begun again when the run
        is resumed; an open question stays open."""
        state, tell, facts = self._chronicle.state, self._chronicle.tell, self._at_work.facts
        while facts and not state.over:
            for command in tell(facts.popleft()):
                if isinstance(command, Cancel):
                    self._at_work.call_off(command.address)
        if state.status != "running":
            return
        now = self._performer.now()
        calls = state.calls.values()
        asks = calls and not state.paused and all(self._at_work.is_for_people(call.command) for call in calls)
        tell(Waited(now) if asks else Paused(self._interrupted, now, interrupt=True))

    async def end(self) -> None:
        """Whoever still wishes something is told how the run is."""
        await super().end()
        self._wishes.refuse(str(self._lost or f"the run is {self._chronicle.state.status}"))
        await self._steering.stop()
