"""A host without an event loop. It asks the core what to do; dice decide what finishes, and when, who sends
control requests, and when the process is killed."""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Self, cast

from roundel.hosts.clock import GivenClock, RunClock
from roundel.hosts.contexts import RunContexts
from roundel.hosts.core import Action, Effect, HostCore, RunLog
from roundel.journal.run_journal import RunJournal, unpack
from roundel.journal.store import Chunk, Claim, Store
from roundel.kernel.commands import Ask, Cancel, Command
from roundel.kernel.facts import Entry, Fact, Failed, Paused, Resumed, Started, decode_entry
from roundel.kernel.state import Run
from roundel.kernel.step import replay
from roundel.plan.graph import Plan
from roundel.workflow.message import Message
from roundel.workflow.secrets import SecretMasker
from tests.kernel.simulator import Script, Simulator


class Entries:
    """The edge: a store that keeps what was appended, and does nothing else."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    async def append(self, _claim: Claim, first: int, chunk: Chunk, *_more: object) -> int:
        assert first == len(self.entries)
        self.entries += unpack(chunk.body)
        return len(self.entries)

    async def save_snapshot(self, *_more: object) -> None: ...


class CoreHost(Simulator):
    """Satisfies `Effects` (core.py) by answering from a script, and drives a core."""

    def __init__(
        self,
        plan: Plan,
        script: Script,
        dice: random.Random,
        *,
        stored: bool = True,
        person: bool = False,
    ) -> None:
        super().__init__(plan, script, dice.randrange)
        self.dice, self.person = dice, person
        """`person`: a person has to answer questions, and nobody can be asked here."""
        self.pure: Sequence[bool] = [node.kind.pure for node in plan.sites]
        self.store = Entries() if stored else None
        self.shown: list[Any] = []
        self.log = self._log(Run(plan))
        self.core = HostCore(self.log, self)
        self.started: list[str] = []
        """The addresses of effects, as often as they were started."""
        self.cut_off: set[str] = set()
        """Those that were in flight, or whose results were not committed, when the process was killed."""
        self.settled: dict[object, str] = {}

    def _log(self, state: Run) -> RunLog:
        log = RunLog(state, SecretMasker(), RunContexts(SecretMasker(), 0))
        log.observers = (self.shown.append,)
        if self.store is not None:
            claim = Claim("run", 1, 1, len(self.store.entries))
            log.journal = RunJournal(cast(Store, self.store), claim)
        return log

    # What the core has to know of effects.

    @property
    def run_clock(self) -> RunClock:
        return GivenClock(self.now)

    def is_pure(self, command: Command) -> bool:
        return not isinstance(command, Cancel) and self.pure[command.site]

    def decide(self, command: Effect) -> Fact:
        return self.answer(command)

    def needs_person(self, command: Command | None) -> bool:
        return self.person and isinstance(command, Ask)

    can_ask = False

    def describe(self, error: BaseException) -> str:
        return str(error)

    def failure_fact(self, address: str, error: BaseException) -> Failed:
        return Failed(address, str(error), self.now())

    # What happens.

    def begin(self, text: str) -> Self:
        self.core.begin(self.log.record(Started("run", (Message(text),), self.now())))
        return self

    def run(self, between: Callable[[Self], object] = lambda _host: None) -> Self:
        """Until the core is idle. `between` may do anything before each action."""
        while True:
            between(self)
            action = self.core.next()
            self._collect()
            if action is Action.IDLE:
                return self
            self.perform(action)

    def perform(self, action: Command | Action) -> None:
        if action is Action.COMMIT:
            self.commit()
        elif action is Action.APPLY:
            self.core.apply_next()
        elif action is Action.WAIT:
            assert self.core.in_flight
            self.finish_one()
        elif isinstance(action, Cancel):
            assert action.address not in self.core.in_flight
        elif not isinstance(action, Action):
            assert self.store is None or not self.log.has_uncommitted, (
                "it starts before what it depends on is safe"
            )
            self.started.append(action.address)

    def finish_one(self) -> None:
        in_flight = sorted(self.core.in_flight)
        if in_flight:
            address = self.dice.choice(in_flight)
            self.core.on_result(self.answer(self.core.in_flight[address]), address)

    def commit(self) -> None:
        at_once(self.log.commit(alone=not self.core.in_flight))
        self.core.on_committed()
        self._collect()

    def _collect(self) -> None:
        for token, outcome in self.core.settled:
            self.settled[token] = outcome
        self.core.settled = []

    def kill(self) -> None:
        """What was not committed is lost; another process resumes the run."""
        assert self.store is not None
        journal = self.log.journal
        assert journal is not None
        lost = [*self.core._results, *(decode_entry(line).fact for line in journal._lines)]
        self.cut_off |= {*self.core.in_flight, *(getattr(fact, "address", "") for fact in lost)}
        state, commands = replay(self.plan, self.store.entries)
        self.log = self._log(state)
        self.core = HostCore(self.log, self)
        if state.status == "new":
            raise AssertionError("the first entry is written with the run")
        self.core.begin(commands)


def disturb(host: CoreHost) -> None:
    """Something finishes, somebody pauses the run or resumes it."""
    if host.dice.random() < 0.3:
        host.finish_one()
    if host.dice.random() < 0.1:
        host.core.request(Paused("lunch", host.now()), object())
    if host.log.state.paused and host.dice.random() < 0.6:
        host.core.request(Resumed(host.now()), object())


def at_once(work: Coroutine[Any, Any, Any]) -> Any:
    """What a coroutine returns that waits for nothing."""
    try:
        work.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("it waits for something")
