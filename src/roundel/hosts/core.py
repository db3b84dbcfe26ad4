"""The log of one run: applies facts to its state, adds them to its journal, and publishes what follows.

Every fact of a run passes through here, once, in this order:

    mask      secrets are removed, so that neither the state nor anything derived from it holds one
    journal   the fact is encoded, and decoded again: the state sees exactly what a resumed run would see
    step      the kernel changes the state and returns commands and events
    publish   observers see the events; for a stored run only after the commit, since an event that a
              crash could take back must not be seen by anybody

A run without a journal skips the second point and publishes at once. Committing is the only operation that
waits for anything, and the driver decides when it happens.

The decisions of a host, without I/O: what to start, to hold back and to cancel, and when a run is idle.

Every host executes a run in the same way, whether it calls nodes on asyncio or as activities of a
distributed engine. `HostCore` is that part, in the manner of a sans-I/O protocol. The host asks `next()`
what to do, does it, and reports back:

| `next()` returns              | the host                                          | and reports           |
|-------------------------------|---------------------------------------------------|-----------------------|
| a Call, Ask, Consult, Review  | starts the effect                                 | `finished(fact)`      |
| a Cancel                      | cancels the effect at that address                |                       |
| COMMIT                        | commits the log                                   | `committed()`         |
| REBUILD                       | rebuilds the log's damaged state                  | `rebuilt()`           |
| YIELD                         | lets others use the event loop                    |                       |
| WAIT                          | waits until `finished` or `request` was called    |                       |
| IDLE                          | stops: nothing will happen by itself any more     |                       |

The rules that it keeps:

*Write ahead.* An effect starts only when everything it depends on is committed. Pure nodes are no effects:
the core runs them itself, and what they decide shares the commit of the fact that they follow from.

*Control requests before results.* A pause that arrives together with the result of a call holds back what
follows from that result. A request is settled when its fact is committed, not when it is applied: a caller
who asked for a pause and got an answer finds the run paused even if the process is killed in between.

*Results in order of arrival.* The kernel's trace does not depend on it, but people who follow a run do.

*Idle* means: the run is over, or only people can make it continue and nobody here can ask them.

Addresses identify effects: at most one effect is in flight at an address. A result that arrives after its
effect was cancelled is dropped by the host, since it is not in `in_flight` any more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import Any, NamedTuple, Protocol

import msgspec

from roundel.journal.run_journal import RunJournal
from roundel.kernel.commands import Ask, Call, Cancel, Command, EvaluateEdges, Intercept
from roundel.kernel.events import Event, stamp
from roundel.kernel.facts import (
    Answered,
    EdgesEvaluated,
    Fact,
    Failed,
    Finished,
    Intercepted,
    Paused,
    Stopped,
    Waited,
    mask_fact,
)
from roundel.kernel.state import Run
from roundel.kernel.step import IllegalFact, abandon, step
from roundel.workflow.secrets import SecretMasker

Observer = Callable[[Event], object]

CALL_RESULTS = (Finished, Answered, EdgesEvaluated, Intercepted)
"""Facts that report the result of a call. If the run cannot take one, the call has failed."""


class RunLog:
    def __init__(self, state: Run, secrets: SecretMasker) -> None:
        self.state = state
        self.journal: RunJournal | None = None
        self.observers: tuple[Observer, ...] = ()
        self.has_uncommitted = False
        """The state is ahead of the journal. Stays False without a journal."""
        self.damage: BaseException | None = None
        """What a step raised half-way: the state is unusable until `rebuild` or `abandon`."""
        self._secrets = secrets
        self._unpublished: list[Event] = []

    @property
    def is_full(self) -> bool:
        """So many facts are uncommitted that they should be committed although nothing depends on it."""
        return self.journal is not None and self.journal.is_full

    def record(self, fact: Fact) -> list[Command]:
        """Applies a fact and returns what is to be done now. IllegalFact if the run cannot take it."""
        journal = self.journal
        if journal is None:
            if self._secrets.known:
                fact = mask_fact(fact, self._secrets)
            try:
                commands, events = step(self.state, fact)
            except IllegalFact:
                raise  # nothing has changed
            except BaseException as error:
                self.damage = error
                raise
            for observe in self.observers:
                for event in events:
                    observe(event)
            return commands
        try:
            fact = journal.add(fact, self._secrets)
        except ValueError as error:
            fact = journal.add(_replace_unencodable(fact, error), self._secrets)
        try:
            commands = self.apply(fact)
        except BaseException:
            journal.discard_last()
            raise
        journal.add_decisions(self.state.decisions.made)
        return commands

    def apply(self, fact: Fact, decisions: Sequence[Any] | None = None) -> list[Command]:
        """The same for a fact that the journal already holds, with the decisions that were stored."""
        try:
            commands, events = step(self.state, fact, decisions)
        except IllegalFact:
            raise
        except BaseException as error:
            self.damage = error
            raise
        self._unpublished += events
        self.has_uncommitted = True
        return commands

    async def commit(self, alone: bool) -> None:
        """Writes the journal, then publishes. `alone`: the run has no call in flight, so that blocking the
        event loop for the length of a disk write holds up nothing of its own."""
        assert self.journal is not None
        await self.journal.commit(self.state, quiet=alone)
        self.has_uncommitted = False
        self._publish()

    async def rebuild(self) -> None:
        """Replaces a damaged state by the one that the journal makes, without the fact that damaged it."""
        assert self.journal is not None
        self.state = await self.journal.rebuild(self.state.plan)
        self.damage = None

    def abandon(self, error: str) -> None:
        """Ends a damaged run that has no journal as failed."""
        self._unpublished = abandon(self.state, error)
        self.damage = None
        self._publish()

    def _publish(self) -> None:
        events, self._unpublished = self._unpublished, []
        for observe in self.observers:
            for event in events:
                observe(event)

    def publish_transient(self, event: str, address: str, data: dict[str, Any], now: float) -> None:
        """Shows an event that is no part of the run: it has no number and is not stored."""
        execution = self.state.calls.get(address)
        if execution is None or not execution.node.logs_output:
            return
        node_id = execution.node.id
        for observe in self.observers:
            observe(Event(0, event, stamp(now), self.state.run_id, node_id, address, data))


def _replace_unencodable(fact: Fact, error: ValueError) -> Failed:
    """What is recorded in place of a fact that cannot be encoded; raises the error if it is about no call."""
    if isinstance(fact, Failed):  # its text is not valid Unicode, or an event of middleware is not JSON
        return Failed(fact.address, fact.error.encode(errors="backslashreplace").decode(), fact.time)
    if not isinstance(fact, CALL_RESULTS):
        raise error
    return Failed(fact.address, f"its result cannot be stored: {error}", fact.time)


Effect = Call | Ask | EvaluateEdges | Intercept
"""A command that has a result."""

MAX_CALLS_BEFORE_YIELD = 200
"""Calls that are made in one turn of the event loop, if none of them waits for anything."""


class Action(Enum):
    """What `next()` returns besides commands."""

    COMMIT = auto()
    REBUILD = auto()
    YIELD = auto()
    WAIT = auto()
    IDLE = auto()


class SettledRequest(NamedTuple):
    """A control request that is done with."""

    token: object
    outcome: str
    """Empty if it was applied and committed, else the reason why not."""


class Effects(Protocol):
    """What the core has to know about effects; the executor (executor.py) is one."""

    @property
    def pure(self) -> Sequence[bool]:
        """By site: the node decides from its input alone."""

    def is_pure(self, command: Command) -> bool: ...

    def decide(self, command: Effect) -> Fact:
        """The result of a pure command. Raises only what is meant for the whole process."""

    def needs_person(self, command: Command | None) -> bool:
        """Whether it is a question that no script answers."""

    @property
    def can_ask(self) -> bool:
        """Whether people can be asked here and now."""

    def describe(self, error: BaseException) -> str: ...

    def failure_fact(self, address: str, error: BaseException) -> Failed:
        """The fact for a call that raised; raises the error if it is meant for the whole run."""

    @property
    def now(self) -> Callable[[], float]: ...


class _Damage(NamedTuple):
    """What was being applied when a step broke off."""

    fact: Fact
    error: BaseException
    token: object | None
    """Of the control request that it was, if it was one."""


class HostCore:
    def __init__(self, log: RunLog, effects: Effects) -> None:
        self._log, self._effects = log, effects
        self.in_flight: dict[str, Effect] = {}
        """Effects that the host has started, by address."""
        self.questions: set[str] = set()
        """Addresses where a person has to answer, whether or not somebody is being asked."""
        self.settled: list[SettledRequest] = []
        """For the host to take."""
        self._commands: deque[Command] = deque()
        self._results: deque[Fact] = deque()
        self._requests: deque[tuple[Fact, object]] = deque()
        self._applied: list[object] = []
        """Requests that are settled by the next commit."""
        self._damage: _Damage | None = None
        self._since_yield = 0

    # What the host reports.

    def begin(self, commands: Sequence[Command]) -> None:
        """The commands that a run starts or resumes with."""
        self._commands.extend(commands)

    def on_result(self, fact: Fact, address: str) -> None:
        """The result of the effect at an address."""
        del self.in_flight[address]
        self.questions.discard(address)
        self._results.append(fact)

    def on_unanswered(self, address: str) -> None:
        """Nobody answered, as if there were nobody to ask: the question stays open."""
        del self.in_flight[address]

    def request(self, fact: Fact, token: object) -> None:
        """A control request; `settled` will hold its token."""
        self._requests.append((fact, token))

    def settle_on_commit(self, token: object) -> None:
        """A request that the host applies itself, such as a stop; settled by the next commit."""
        self._applied.append(token)

    def on_committed(self) -> None:
        if self._applied:
            self.settled += [SettledRequest(token, "") for token in self._applied]
            self._applied = []

    def on_rebuilt(self) -> None:
        """Reports the call whose result broke the step off as failed, or refuses the request that did."""
        damage, self._damage = self._damage, None
        assert damage is not None
        if damage.token is not None:
            text = f"the run could not take it: {self._effects.describe(damage.error)}"
            self.settled.append(SettledRequest(damage.token, text))
        elif isinstance(damage.fact, CALL_RESULTS):
            failure_fact = self._effects.failure_fact(damage.fact.address, damage.error)
            text = f"the run could not take its result: {failure_fact.error}"
            self._commands.extend(self._log.record(msgspec.structs.replace(failure_fact, error=text)))
        else:
            raise damage.error

    # What the host does.

    @property
    def has_requests(self) -> bool:
        return bool(self._requests)

    def is_alone(self) -> bool:
        """Whether the effect that `next()` has just returned is all there is: nothing else is in flight, has
        finished or is held back. Then the host may await it in place instead of starting a task for it."""
        return (
            len(self.in_flight) == 1
            and not (self._commands or self._results or self._requests or self.questions)
            and not self._log.state.paused
        )

    def next(self, *, requests_only: bool = False) -> Command | Action:
        """What the host does next. With `requests_only` nothing but requests is applied, and what follows
        from them: for a host that awaits a call in place and will apply its result itself."""
        log = self._log
        while self._damage is None:
            if self._requests:
                self._apply_request(*self._requests.popleft())
            elif self._commands:
                action = self._start_command(self._commands[0])
                if action is not None:
                    return action
            elif self._results and not requests_only:
                self._apply_result(self._results.popleft())
            elif log.has_uncommitted:
                return Action.COMMIT
            elif requests_only:
                return Action.WAIT
            else:
                action = self._next_when_idle()
                if action is not None:
                    return action
        return Action.REBUILD

    def follow_up(self, fact: Fact, address: str) -> Call | None:
        """Reports the result of a call that was alone. Returns the call that follows if it is alone, too; the
        host has to commit before it starts that call. With None, `next()` says how to continue.

        It does nothing that `finished` and `next` do not do. It exists because nearly every step of a run
        that has one agent at a time takes this way, and a queue and a decision for each would cost as much
        as the kernel does."""
        if self._requests or self._results:
            self.on_result(fact, address)
            return None
        log, in_flight = self._log, self.in_flight
        del in_flight[address]
        pure = self._effects.pure
        while True:
            try:
                commands = log.record(fact)
            except BaseException as error:
                self._note_damage(fact, error, None)
                return None
            self._since_yield += 1
            if len(commands) == 1 and self._since_yield < MAX_CALLS_BEFORE_YIELD:
                command = commands[0]
                if command.__class__ is Call and not log.state.paused:
                    if not pure[command.site]:
                        in_flight[command.address] = command
                        return command
                    if not log.is_full:
                        fact = self._effects.decide(command)
                        continue
            self._commands.extend(commands)
            return None

    def _start_command(self, command: Command) -> Command | Action | None:
        """What to do about the first command; None if it is done with."""
        effects, log = self._effects, self._log
        if isinstance(command, Cancel):
            self._commands.popleft()
            return command if self.drop_effect(command.address) else None
        self._since_yield += 1
        if self._since_yield > MAX_CALLS_BEFORE_YIELD:
            self._since_yield = 0
            return Action.YIELD
        is_call = command.__class__ is Call
        if effects.pure[command.site] if is_call else effects.is_pure(command):
            if log.is_full:
                return Action.COMMIT
            self._commands.popleft()
            self._results.append(effects.decide(command))
            return None
        if log.has_uncommitted:
            return Action.COMMIT
        self._commands.popleft()
        if not is_call and command.__class__ is Ask and effects.needs_person(command):
            self.questions.add(command.address)
            if not effects.can_ask:
                return None
        self.in_flight[command.address] = command
        return command

    def _next_when_idle(self) -> Action | None:
        """What a run does that has nothing to do at the moment; None if it has, after all."""
        state = self._log.state
        if state.over or not (self.in_flight or self.questions):
            return Action.IDLE
        if self.in_flight.keys() <= self.questions:
            if state.status == "running":
                self._commands.extend(self._log.record(Waited(self._effects.now())))
                return None
            if not self.in_flight or state.status == "paused":
                return Action.IDLE
        return Action.WAIT

    def _apply_result(self, fact: Fact) -> None:
        try:
            self._commands.extend(self._log.record(fact))
        except BaseException as error:
            self._note_damage(fact, error, None)

    def _apply_request(self, fact: Fact, token: object) -> None:
        try:
            self._commands.extend(self._log.record(fact))
        except IllegalFact as error:
            self.settled.append(SettledRequest(token, f"{error}; it is {self._log.state.status}"))
            return
        except Exception as error:
            self._note_damage(fact, error, token)
            return
        if isinstance(fact, Answered):  # somebody may be asked here at the same time
            self._commands.appendleft(Cancel(fact.address))
        self._applied.append(token)
        if self._log.journal is None:
            self.on_committed()

    def _note_damage(self, fact: Fact, error: BaseException, token: object | None) -> None:
        """Raises the error if the step did not break off, or if nothing can rebuild the run."""
        if self._log.damage is None or self._log.journal is None:
            raise error
        self._damage = _Damage(fact, error, token)

    def drop_effect(self, address: str) -> bool:
        """Nobody waits for the effect at an address any more; whether the host has to cancel it. It may have
        finished in the same turn: then its result is dropped."""
        self.questions.discard(address)
        for fact in [fact for fact in self._results if getattr(fact, "address", None) == address]:
            self._results.remove(fact)
        return self.in_flight.pop(address, None) is not None

    # How a run ends before its time. The host has cancelled all effects.

    def stop(self, reason: str) -> None:
        """Records that the run was stopped; it cannot be resumed."""
        self.in_flight.clear()
        state = self._log.state
        if not state.over and state.status != "new":
            self._log.record(Stopped(reason, self._effects.now()))

    def leave_resumable(self, reason: str) -> None:
        """Leaves the run so that it can be resumed: finished results are kept, and calls in flight stay in
        the state, from where a resume starts them again. With nothing but questions in flight the run waits,
        otherwise it is paused."""
        self.in_flight.clear()
        state, record = self._log.state, self._log.record
        while self._results and not state.over:
            for command in record(self._results.popleft()):
                if isinstance(command, Cancel):
                    self.drop_effect(command.address)
        if state.status != "running":
            return
        calls = state.calls.values()
        asks = calls and not state.paused and all(self._effects.needs_person(call.command) for call in calls)
        now = self._effects.now()
        record(Waited(now) if asks else Paused(reason, now, interrupt=True))

    def refuse_requests(self, reason: str) -> None:
        """Settles every request that is left."""
        tokens = [*self._applied, *(token for _, token in self._requests)]
        if self._damage is not None and self._damage.token is not None:
            tokens.append(self._damage.token)  # the run could not be rebuilt
        self._applied, self._damage = [], None
        self._requests.clear()
        self.settled += [SettledRequest(token, reason) for token in tokens]
