"""The decisions of a host, without I/O: what to start, to defer and to cancel, and when a run is idle.

Every host executes a run in the same way, whether it calls nodes on asyncio or as activities of a
distributed engine. `HostCore` is that part, in the manner of a sans-I/O protocol. The host calls
`next()`, executes what it returns, and reports back:

| `next()` returns                    | the host                                       | and reports    |
|-------------------------------------|------------------------------------------------|----------------|
| Call, Ask, EvaluateEdges, Intercept | starts the effect                              | `on_result`    |
| Cancel                              | cancels the effect at that address             |                |
| COMMIT                              | commits the log                                | `on_committed` |
| REBUILD                             | rebuilds the log's damaged state               | `on_rebuilt`   |
| APPLY                               | calls `apply_next` in another thread           |                |
| YIELD                               | lets other tasks use the event loop            |                |
| WAIT                                | waits until `on_result` or `request` is called |                |
|                                     | or `next_due()`, and calls `on_time` then      |                |
| IDLE                                | stops: nothing will happen by itself any more  |                |

A second host would be a second place for the order of these decisions to be wrong. Without I/O they can
be tested with random graphs, orders of results, requests and kills, in microseconds each
(tests/hosts/test_core.py).

The rules:

*Write ahead.* An effect starts only when everything it depends on is committed. Otherwise a crash could
forget the fact that caused a call, and the resumed run could take another path. Pure nodes are no
effects: the core runs them itself, and their results share the commit of the fact that they follow from.

*Control requests before results.* A pause that arrives together with the result of a call defers what
follows from that result. A request is settled when its fact is committed, not when it is applied: a caller
who requested a pause and got an answer finds the run paused even if the process is killed in between.

*Results in order of arrival.* The kernel's trace does not depend on it, but people who follow a run do.

*Idle* means: the run is over, or only people can make it continue and nobody here can ask them. A run
whose next question expires within SHORT_WAIT seconds is not idle: it would have to be resumed at once.

*Deadlines* are facts, and need a clock only to be noticed. `next_due` says when the host has to look at the
clock again, and `on_time` records what is due by then. An answer counts if its own time is before the
deadline, however late the host gets to it; after the deadline it is dropped, whether or not the host has
noticed yet.

*Clocks.* The time of a run is steady (clock.py). When the wall clock has run ahead of it, `next` records that
as a fact of its own, before the run applies anything that arrived later: so the jump is no working time. Only
deadlines of people are compared with the wall clock itself.

*Draining.* A host that shuts down hands its runs back: effects in flight finish and are recorded, effects
that follow are not started, and no status changes. The next host finds them in the state.

*Inherited results.* The fork of a run may have results for calls that it has not reached yet. They are used
as if they had just arrived, without an effect.

*Slow steps.* A step on an event loop may spend PATIENCE on patterns and expressions. One that needs more
breaks off, the state is rebuilt without it, and from then on all steps of the run are made in another thread
while the host waits (docs/decisions/0050). A run without a journal could not be rebuilt, so its steps have
only the budget that all steps have. While `apply_next` runs, the host calls nothing but `on_result`,
`request` and `on_time`, which add to queues.

*Addresses identify effects.* At most one effect is in flight at an address. A result that arrives after
its effect was cancelled is dropped by the host, since the effect is not in `in_flight` any more.

`RunLog` is the state of a run together with its journal. Every fact of a run passes through it, once, in
this order:

    context   the fact of a model call is told what the call got (contexts.py)
    mask      secrets are removed, so that neither the state nor anything derived from it contains one
    journal   the fact is encoded, and decoded again: the state sees exactly what a resumed run would see
    step      the kernel changes the state and returns commands and events
    publish   observers see the events; for a stored run only after the commit, since an event that a
              crash could take back must not be seen by anybody

After that, at most once a second and whenever the status of the run changes, observers see how far it is
(`run_progress`); nothing of this is computed for a run that nobody observes.

A run without a journal skips the second point and publishes at once. Committing is the only operation that
waits for anything, and the driver decides when it happens.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum, auto
from math import inf
from typing import Any, NamedTuple, Protocol

import msgspec

from roundel.hosts.clock import RunClock
from roundel.hosts.contexts import RunContexts
from roundel.hosts.live_events import Committed, LiveFeeds
from roundel.journal.run_journal import RunJournal, progress_of
from roundel.kernel.commands import Ask, Call, Cancel, Command, EvaluateEdges, Intercept
from roundel.kernel.events import Event, stamp
from roundel.kernel.facts import (
    Answered,
    CallRefused,
    ClockMoved,
    EdgesEvaluated,
    Entry,
    Expired,
    Fact,
    Failed,
    Finished,
    Intercepted,
    Paused,
    Stopped,
    TimeUp,
    Waited,
    mask_fact,
)
from roundel.kernel.payloads import EventData
from roundel.kernel.retry import inherited_result
from roundel.kernel.state import Run
from roundel.kernel.step import IllegalFact, abandon, step
from roundel.workflow.evaluation_budget import PATIENCE, SlowEvaluation
from roundel.workflow.limits import NO_TIME_LIMIT
from roundel.workflow.secrets import SecretMasker

Observer = Callable[[Event], object]
PROGRESS_EVERY = 1.0
"""Seconds between two events about the progress of a run, if its status does not change."""

CALL_RESULTS = (Finished, CallRefused, Answered, Expired, EdgesEvaluated, Intercepted)
"""Facts that report the result of a call. If the run cannot apply one, the call has failed."""


class TimerHandle(Protocol):
    """Something that happens later."""

    def cancel(self) -> object: ...


Timer = Callable[[float, Callable[[float], None]], TimerHandle]
"""Calls a function, with the time of the run, after so many seconds."""


class RunLog:
    """The state of one run, its journal and its observers. Created by LocalRun; its driver and core use
    it."""

    def __init__(self, state: Run, secrets: SecretMasker, contexts: RunContexts) -> None:
        self.state = state
        self.contexts = contexts
        self.journal: RunJournal | None = None
        self.observers: tuple[Observer, ...] = ()
        self.live: LiveFeeds | None = None
        """Where those who follow the run in this process get what is published."""
        self.published = 0
        """The number of the last event that observers have seen, or could have read in the store."""
        self.has_uncommitted = False
        """The state is ahead of the journal. Stays False without a journal."""
        self.damage: BaseException | None = None
        """What a step raised half-way: the state is unusable until `rebuild` or `abandon`."""
        self.is_slow = False
        """A step of this run took longer than an event loop can wait: all others are made aside."""
        self._secrets = secrets
        self._unpublished: list[Event] = []
        """Events of facts that are not committed yet."""
        self._written = 0
        """How many of them belong to an append that may be committed, and whose caller was cancelled."""
        self.timer: Timer | None = None
        """How to be called later. The driver sets it."""
        self._shown_status: str = "new"
        self._shown_at = 0.0
        """When observers were last shown how far the run is, by its clock."""
        self._due: TimerHandle | None = None
        """Shows what they were not shown because it was too soon."""

    @property
    def is_full(self) -> bool:
        """So many facts are uncommitted that they should be committed although no effect depends on
        them: a loop of pure nodes needs no commit otherwise, and a crash would lose all of it."""
        return self.journal is not None and self.journal.is_full

    def record(self, fact: Fact, *, patiently: bool = True) -> list[Command]:
        """Applies a fact and returns the commands that follow. IllegalFact if the run does not allow it;
        then nothing has changed. Any other exception leaves the state damaged. Unless `patiently`, it may
        raise SlowEvaluation: the caller then makes the step again after a rebuild."""
        journal, contexts = self.journal, self.contexts
        if contexts.in_flight and isinstance(fact, (Finished, Failed)):
            fact, pieces = contexts.record(fact)
            if journal is not None:
                journal.pieces |= pieces
        if journal is None:
            if self._secrets.known:
                fact = mask_fact(fact, self._secrets)
            try:
                commands, events = step(self.state, fact)
            except IllegalFact:
                raise  # the kernel raises it before it changes anything, so this is no damage
            except BaseException as error:
                self.damage = error
                raise
            self._show(events)
            return commands
        try:
            fact = journal.add(fact, self._secrets)
        except ValueError as error:
            fact = journal.add(_replace_unencodable(fact, error), self._secrets)
        self.state.decisions.patience = inf if patiently or self.is_slow else PATIENCE
        try:
            commands = self.apply(fact)
        except BaseException:
            # The fact was added before the step, which needs its decoded form. A fact that had no effect
            # must not be replayed.
            journal.discard_last()
            raise
        # Decisions may depend on versions of libraries and on the machine (patterns, CEL, Unicode
        # tables), so a replay reads them back instead of deciding again.
        journal.add_decisions(self.state.decisions.made)
        return commands

    def apply(self, fact: Fact, decisions: Sequence[Any] | None = None) -> list[Command]:
        """Applies a fact that the journal contains already, with the decisions that were stored with
        it."""
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

    def begin(self, entry: Entry) -> list[Command]:
        """Applies the first entry of a new run, which was committed when the run was created."""
        assert self.journal is not None
        commands = self.apply(*entry)
        self._written = len(self._unpublished)
        self._publish(self.journal.claim.position)
        if self.live is not None:
            self.live.end_write(self.state.run_id)
        return commands

    async def commit(self, alone: bool) -> None:
        """Writes the journal, then publishes. `alone`: the run has no call in flight, so that blocking the
        event loop for the length of a disk write delays no work of this run."""
        journal, live, run_id = self.journal, self.live, self.state.run_id
        assert journal is not None
        before, self._written = self._written, len(self._unpublished)
        if live is not None:
            live.begin_write(run_id)
        try:
            position = await journal.write(self.state, quiet=alone)
            self.has_uncommitted = False
            # If the process dies here, observers miss these events, but every reader of the store finds
            # them. The other order could show events that never happened.
            self._publish(position, before)
        finally:
            if live is not None:
                live.end_write(run_id)
        await journal.take_snapshot(self.state)

    async def rebuild(self) -> None:
        """Replaces a damaged state by a replay of the journal, uncommitted facts included, without the
        fact that damaged it."""
        assert self.journal is not None
        self.state = await self.journal.rebuild(self.state.plan, self.state.revision)
        self.damage = None

    def abandon(self, error: str) -> None:
        """Ends a damaged run that has no journal as failed."""
        events = abandon(self.state, error)
        self.damage = None
        self._show(events)

    def _publish(self, position: int, before: int = 0) -> None:
        """Publishes what is committed. The first `before` events belong to an earlier append than the one at
        this position."""
        events, self._unpublished = self._unpublished[: self._written], self._unpublished[self._written :]
        self._written = 0
        if self.live is not None:
            run_id, is_over = self.state.run_id, self.state.over
            if before:
                self.live.commit(Committed(run_id, 0, events[:before], is_over))
            if position or len(events) > before:
                self.live.commit(Committed(run_id, position, events[before:], is_over))
        self._show(events)

    def _show(self, events: list[Event]) -> None:
        if events:
            self.published = events[-1].seq
            for observe in self.observers:
                for event in events:
                    observe(event)
            state = self.state
            # Nearly every step ends here: it is too soon, and a timer is set.
            if (
                self._due is None
                or state.status != self._shown_status
                or state.since >= self._shown_at + PROGRESS_EVERY
            ) and (self.observers or (self.live is not None and self.live.is_followed(state.run_id))):
                self._show_progress()

    def _show_progress(self) -> None:
        """Shows observers how far the run is, or sees to it that they learn it soon."""
        state, before = self.state, self._shown_status
        self._shown_status = state.status
        if state.over:
            return  # `run_finished` is the last event, and has the figures
        if before == "new":  # nothing has happened yet
            self._shown_at = state.since
        elif state.status != before or state.since >= self._shown_at + PROGRESS_EVERY:
            self._publish_progress(state.since, state.stamp)
            return
        if self._due is None and self.timer is not None:
            # What comes next may be an hour away.
            self._due = self.timer(self._shown_at + PROGRESS_EVERY - state.since, self._on_due)

    def _on_due(self, now: float) -> None:
        self._due = None
        # What is not committed must not be seen, and a step may be under way in another thread: the commit
        # shows the progress then.
        if not (self.has_uncommitted or self.damage or self.is_slow or self.state.over):
            self._publish_progress(now, stamp(now))

    def _publish_progress(self, now: float, timestamp: str) -> None:
        self.cancel_progress()
        self._shown_at = now
        data = progress_of(self.state)
        if data is not None:
            self._publish_unnumbered(Event(0, data.event, timestamp, self.state.run_id, None, None, data))

    def cancel_progress(self) -> None:
        """Shows no progress until something happens again."""
        if self._due is not None:
            self._due.cancel()
            self._due = None

    def publish_transient(self, data: EventData, address: str, now: float, *, is_output: bool = True) -> None:
        """Publishes an event that is not part of the run, such as streamed text: it has no number and is
        not stored. Dropped if the call at the address has ended, or if it is output that must not be
        logged."""
        execution = self.state.calls.get(address)
        if execution is None or (is_output and not execution.node.logs_output):
            return
        path, part = self.state.around(address)
        node, run_id = execution.node.id, self.state.run_id
        self._publish_unnumbered(Event(0, data.event, stamp(now), run_id, node, address, data, path, part))

    def _publish_unnumbered(self, shown: Event) -> None:
        for observe in self.observers:
            observe(shown)
        if self.live is not None:
            self.live.publish(shown.run_id, self.published, shown)


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
"""Calls that are made in one iteration of the event loop, if none of them awaits anything. A loop of
pure nodes never suspends by itself: without a limit no other run, timer or signal would be served."""


SHORT_WAIT = 60.0
"""Seconds for which a run that only waits for people stays here, if a question expires by then."""


class Action(Enum):
    """What `next()` returns besides commands."""

    COMMIT = auto()
    REBUILD = auto()
    APPLY = auto()
    YIELD = auto()
    WAIT = auto()
    IDLE = auto()


class SettledRequest(NamedTuple):
    """A control request with its outcome."""

    token: object
    """What the host passed to `request`; the driver passes a future."""
    outcome: str
    """Empty if it was applied and committed, else the reason why not."""


class Effects(Protocol):
    """What the core has to know about effects. `Executor` (executor.py) implements it."""

    @property
    def pure(self) -> Sequence[bool]:
        """By site: whether the node's result depends on its input alone. A sequence and not a method,
        since it is read with each call."""

    def is_pure(self, command: Command) -> bool: ...

    def decide(self, command: Effect) -> Fact:
        """The result of a pure command. Raises only what is meant for the whole process."""

    def needs_person(self, command: Command | None) -> bool:
        """Whether it is a question that no script answers."""

    @property
    def can_ask(self) -> bool:
        """Whether this process has an ask handler."""

    def describe(self, error: BaseException) -> str: ...

    def failure_fact(self, address: str, error: BaseException) -> Failed:
        """The fact for a call that raised; raises the error if it is meant for the whole run."""

    @property
    def now(self) -> Callable[[], float]: ...

    @property
    def run_clock(self) -> RunClock: ...


class _Damage(NamedTuple):
    """The fact that was being applied when a step broke off."""

    fact: Fact
    error: BaseException
    request: tuple[Fact, object | None] | None
    """The control request that it was, with its token, or a deadline; None for a result."""


class HostCore:
    """The state machine of a host, for one run. Created by the driver.

    It never awaits, so it is consistent between two calls of its methods. It is not safe for threads, except
    for what may happen during `apply_next`."""

    def __init__(self, log: RunLog, effects: Effects) -> None:
        self._log, self._effects = log, effects
        self._clock = effects.run_clock
        self.in_flight: dict[str, Effect] = {}
        """Effects that the host has started, by address."""
        self.questions: set[str] = set()
        """Addresses where a person has to answer, whether or not the question is in flight here."""
        self.deadlines: dict[str, float] = {}
        """The deadlines of open questions, by address."""
        self.settled: list[SettledRequest] = []
        """The host removes these and informs those who made the requests."""
        self._commands: deque[Command] = deque()
        """Commands of the kernel that were not started yet."""
        self._held: deque[Command] = deque()
        """Commands that wait for the end of a pause (`_apply_request`)."""
        self._results: deque[Fact] = deque()
        """Results that were not applied yet, in order of arrival."""
        self._requests: deque[tuple[Fact, object | None]] = deque()
        """Control requests that were not applied yet, each with its token; None for a deadline."""
        self._applied: list[object] = []
        """The tokens of requests that the next commit settles."""
        self._damage: _Damage | None = None
        self._since_yield = 0
        self.is_draining = False
        """Calls in flight finish, and no other effect starts: the run is about to be handed back. What is not
        started stays in the state, from where the next host starts it."""

    # What the host reports.

    def begin(self, commands: Sequence[Command]) -> None:
        """The commands that a run starts or resumes with."""
        self._clock = self._effects.run_clock  # from now on it stays the same
        self._commands.extend(commands)

    def on_result(self, fact: Fact, address: str) -> None:
        """The result of the effect at an address."""
        del self.in_flight[address]
        self.questions.discard(address)
        if self.deadlines:
            deadline = self.deadlines.pop(address, None)
            if deadline is not None and (time := fact.time + self._clock.lag()) >= deadline:
                # Like a request, and not among the results: its time is that of the wall clock.
                self._requests.append((Expired(address, time), None))
                return
        self._results.append(fact)

    def on_unanswered(self, address: str) -> None:
        """Nobody answered, as if there were nobody to ask: the question stays open."""
        del self.in_flight[address]

    def request(self, fact: Fact, token: object) -> None:
        """Queues a control request; its token appears in `settled` later."""
        self._requests.append((fact, token))

    def next_due(self) -> float | None:
        """When the host has to call `on_time`, at the latest; None if there is nothing to wait for."""
        due = min(self.deadlines.values()) if self.deadlines else None
        state = self._log.state
        has_limit = state.deadline < NO_TIME_LIMIT and state.lock is None
        if has_limit and (due is None or state.deadline < due) and self._works():
            return state.deadline
        return due

    def _works(self) -> bool:
        """Whether anything but questions is in flight, so that time counts."""
        return any(effect.__class__ is not Ask for effect in self.in_flight.values())

    def on_time(self) -> bool:
        """Queues what is due by now, like a request that nobody waits for. Whether there was anything."""
        now, state = self._effects.now(), self._log.state
        due: list[Fact] = []
        wall = now + self._clock.lag()
        for address in [address for address, deadline in self.deadlines.items() if deadline <= wall]:
            del self.deadlines[address]
            due.append(Expired(address, wall))
        if state.deadline <= now and state.lock is None and self._works():
            due.append(TimeUp(now))
        self._requests.extend((fact, None) for fact in due)
        return bool(due)

    def settle_on_commit(self, token: object) -> None:
        """A request that the host applies itself, such as a stop; settled by the next commit."""
        self._applied.append(token)

    def on_committed(self) -> None:
        """Settles the requests whose facts are durable now."""
        if self._applied:
            self.settled += [SettledRequest(token, "") for token in self._applied]
            self._applied = []

    def on_rebuilt(self) -> None:
        """Reports the call whose result broke the step off as failed, or refuses the request that did."""
        damage, self._damage = self._damage, None
        assert damage is not None
        token = damage.request[1] if damage.request is not None else None
        if isinstance(damage.error, SlowEvaluation):
            self._log.is_slow = True
            if damage.request is not None:
                self._requests.appendleft(damage.request)
            else:
                self._results.appendleft(damage.fact)
        elif token is not None:
            text = f"the run could not take it: {self._effects.describe(damage.error)}"
            self.settled.append(SettledRequest(token, text))
        elif isinstance(damage.fact, CALL_RESULTS):
            self._commands.append(Cancel(damage.fact.address))  # an expired question may still be asked
            failure_fact = self._effects.failure_fact(damage.fact.address, damage.error)
            text = f"the run could not take its result: {failure_fact.error}"
            self._commands.extend(self._log.record(msgspec.structs.replace(failure_fact, error=text)))
        else:
            raise damage.error  # there is no call to report as failed, and a retry would fail again

    # What the host does.

    @property
    def has_requests(self) -> bool:
        return bool(self._requests)

    def is_alone(self) -> bool:
        """Whether the effect that `next()` has just returned is all there is: nothing else is in flight,
        queued or deferred. Then the host may await it in place instead of starting a task for it."""
        return (
            len(self.in_flight) == 1
            and not (self._commands or self._results or self._requests or self.questions)
            and not self._log.state.paused
        )

    def next(self, *, requests_only: bool = False) -> Command | Action:
        """What the host does next. With `requests_only` nothing but requests is applied, and what follows
        from them: for a host that awaits a call in place and will apply its result itself."""
        log = self._log
        if self._clock.is_behind:
            self._follow_clock()
        while self._damage is None:
            # The order of the branches is the priority. Requests come first. Commands come before
            # results, so that parallel branches start together before the first of their results is
            # applied. The commit comes last, so that everything that arrived together shares one; an
            # effect that depends on a commit demands it earlier, in `_start_command`.
            if log.is_slow and (
                self._requests or (self._results and not self._commands and not requests_only)
            ):
                return Action.APPLY
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

    def apply_next(self) -> None:
        """Applies the request or the result that is next. Called in a thread of its own, after APPLY."""
        if self._requests:
            self._apply_request(*self._requests.popleft())
        else:
            self._apply_result(self._results.popleft())

    def follow_up(self, fact: Fact, address: str) -> Call | None:
        """Reports the result of a call that was alone. Returns the call that follows if it is alone, too; the
        host has to commit before it starts that call. After None, `next()` decides how to continue.

        It does nothing that `on_result` and `next` do not do. It exists because nearly every step of a
        run that has one agent at a time takes this path, and a queue and a decision for each step would
        cost as much as the kernel does."""
        if self._requests or self._results or self.is_draining or self._log.is_slow or self._clock.is_behind:
            self.on_result(fact, address)
            return None
        log, in_flight = self._log, self.in_flight
        del in_flight[address]
        pure = self._effects.pure
        while True:
            try:
                commands = log.record(fact, patiently=False)
            except BaseException as error:
                self._note_damage(fact, error, None)
                return None
            self._since_yield += 1
            if len(commands) == 1 and self._since_yield < MAX_CALLS_BEFORE_YIELD:
                command = commands[0]
                if command.__class__ is Call and not (log.state.paused or log.state.inherited):
                    if not pure[command.site]:
                        in_flight[command.address] = command
                        return command
                    # A full log has to be committed first, which `next` arranges.
                    if not log.is_full:
                        fact = self._effects.decide(command)
                        continue
            self._commands.extend(commands)
            return None

    def _follow_clock(self) -> None:
        """Records that the wall clock has run ahead. What has arrived before has earlier times, so it is
        applied first, even before requests."""
        while self._results and self._damage is None:
            self._apply_result(self._results.popleft())
        state = self._log.state
        if self._damage is None and not state.over and state.status != "new":
            moved = self._clock.catch_up()
            self._commands.extend(self._log.record(ClockMoved(moved, self._effects.now())))

    def _start_command(self, command: Command) -> Command | Action | None:
        """What the host has to do for the first command; None if it needs nothing from the host."""
        effects, log = self._effects, self._log
        if isinstance(command, Cancel):
            self._commands.popleft()
            return command if self.drop_effect(command.address) else None
        # After YIELD and COMMIT the command is still in the queue, and `next` comes back to it.
        self._since_yield += 1
        if self._since_yield > MAX_CALLS_BEFORE_YIELD:
            self._since_yield = 0
            return Action.YIELD
        inherited = inherited_result(log.state, command) if log.state.inherited else None
        if inherited is not None:
            if log.is_full:
                return Action.COMMIT
            self._commands.popleft()
            self._results.append(msgspec.structs.replace(inherited, time=effects.now()))
            return None
        is_call = command.__class__ is Call
        if effects.pure[command.site] if is_call else effects.is_pure(command):
            if log.is_full:
                return Action.COMMIT
            self._commands.popleft()
            self._results.append(effects.decide(command))
            return None
        if log.has_uncommitted:
            return Action.COMMIT  # write ahead: the fact that caused this effect has to be durable
        self._commands.popleft()
        if self.is_draining:
            return None
        if command.__class__ is Ask and not self._may_ask(command):
            return None
        self.in_flight[command.address] = command
        return command

    def _may_ask(self, ask: Ask) -> bool:
        """Registers a question; whether it is to be asked here."""
        if ask.deadline is not None:
            self.deadlines[ask.address] = ask.deadline
            # It may have passed while no process executed the run: nobody has to be asked any more.
            if ask.deadline <= self._effects.now() + self._clock.lag():
                self.on_time()
                return False
        if self._effects.needs_person(ask):
            self.questions.add(ask.address)
            # Not in flight otherwise, so the run becomes idle; a control request may answer later.
            return self._effects.can_ask
        return True

    def _next_when_idle(self) -> Action | None:
        """What the host does if all queues are empty and everything is committed; None if there is
        something to do after all."""
        state = self._log.state
        if state.over or not (self.in_flight or self.questions):
            return Action.IDLE
        if self.is_draining:
            return Action.WAIT if self.in_flight.keys() - self.questions else Action.IDLE
        if self.in_flight.keys() <= self.questions:
            # Only people can continue the run. That is a fact of its own, so that the stored status is
            # `waiting`.
            if state.status == "running":
                self._commands.extend(self._log.record(Waited(self._effects.now())))
                return None
            if state.status in ("paused", "suspended_locked") or not (self.in_flight or self._expires_soon()):
                return Action.IDLE
        return Action.WAIT

    def _expires_soon(self) -> bool:
        due = self.next_due()
        return due is not None and due <= self._effects.now() + SHORT_WAIT

    def _apply_result(self, fact: Fact) -> None:
        """Applies a result; its commands are queued behind those of results before it."""
        try:
            self._commands.extend(self._log.record(fact, patiently=False))
        except BaseException as error:
            self._note_damage(fact, error, None)

    def _apply_request(self, fact: Fact, token: object | None) -> None:
        """Applies a control request. One that the run does not allow is settled at once: nothing has to
        be committed for a refusal."""
        # The calls that an answer has led to are in the same transaction as the pause, and were not made yet.
        # A pause lets calls in flight finish, but these would begin after it was acknowledged. So they are
        # left in the state, as after an interrupt.
        holds_back = isinstance(fact, Paused) and self._has_begun_nothing()
        if holds_back:
            fact = msgspec.structs.replace(fact, interrupt=True)
        try:
            commands = self._log.record(fact, patiently=False)
        except IllegalFact as error:
            if token is not None:  # else an answer came before the deadline, or the call has just ended
                self.settled.append(SettledRequest(token, f"{error}; it is {self._log.state.status}"))
            return
        except (Exception, SlowEvaluation) as error:
            self._note_damage(fact, error, (fact, token))
            return
        if holds_back:
            self._held.extend(self._commands)
            self._commands.clear()
        self._commands.extend(commands)
        state = self._log.state
        if self._held and (state.status != "paused" or state.lock is not None):
            self._commands.extendleft(reversed(self._held))
            self._held.clear()
        # Somebody may be asked the same question here; that prompt has to be cancelled. First in the
        # queue, since what follows from the answer may start another effect at the same address.
        if isinstance(fact, Answered):
            self._commands.appendleft(Cancel(fact.address))
        if token is not None:
            self._applied.append(token)
        if self._log.journal is None:
            self.on_committed()

    def _has_begun_nothing(self) -> bool:
        """Whether calls follow from what was just applied, and none is in flight."""
        is_waiting = any(not isinstance(each, (Ask, Cancel)) for each in self._commands)
        return is_waiting and not self._results and self.in_flight.keys() <= self.questions

    def _note_damage(
        self, fact: Fact, error: BaseException, request: tuple[Fact, object | None] | None
    ) -> None:
        """Remembers what `on_rebuilt` has to report. Raises the error if the step did not break off, or
        if there is no journal to rebuild the run from."""
        if self._log.damage is None or self._log.journal is None:
            raise error
        self._damage = _Damage(fact, error, request)

    def drop_effect(self, address: str) -> bool:
        """Forgets the effect at an address; whether the host has to cancel it. The effect may have
        finished just before: then its result, which is still queued, is dropped."""
        self.questions.discard(address)
        self.deadlines.pop(address, None)
        self._log.contexts.forget(address)
        for held in [each for each in self._held if each.address == address]:
            self._held.remove(held)
        for fact in [fact for fact in self._results if getattr(fact, "address", None) == address]:
            self._results.remove(fact)
        return self.in_flight.pop(address, None) is not None

    # How a run ends early. The host cancels all effects before it calls one of these.

    def stop(self, reason: str, by: str = "") -> None:
        """Records that the run was stopped, and by whom; it cannot be resumed."""
        self.in_flight.clear()
        state = self._log.state
        if not state.over and state.status != "new":
            self._log.record(Stopped(reason, self._effects.now(), by))

    def leave_resumable(self, reason: str) -> None:
        """Leaves the run so that it can be resumed: results that have arrived are recorded, and calls in
        flight stay in the state, from where a resume starts them again under the same addresses and
        idempotency keys. With nothing but questions in flight the run waits, otherwise it is paused. A
        pause that waits for the calls in flight could take an hour, and a stop could not be taken
        back."""
        self._leave()
        state, record = self._log.state, self._log.record
        if state.status != "running":
            return
        calls = state.calls.values()
        asks = calls and not state.paused and all(self._effects.needs_person(call.command) for call in calls)
        now = self._effects.now()
        record(Waited(now) if asks else Paused(reason, now, interrupt=True))

    def hand_back(self) -> None:
        """Leaves the run for another host to resume, in the status that it has. Only a pause that waited for
        the calls in flight takes effect now: somebody was promised it, and the next host would resume."""
        self._leave()
        state = self._log.state
        if state.status == "running" and state.paused:
            self._log.record(Paused(state.paused, self._effects.now(), interrupt=True))

    def _leave(self) -> None:
        """Records the results that have arrived, and forgets what is in flight: it stays in the state, from
        where a resume starts it again."""
        self.in_flight.clear()
        if self._damage is not None and isinstance(self._damage.error, SlowEvaluation):
            self.on_rebuilt()  # a result that was to be applied again; its call must not be made again
        state = self._log.state
        # Commands that follow are not started: they stay in the state, too. Only a Cancel counts, since the
        # result of the cancelled call may be further back in the queue.
        while self._results and not state.over:
            for command in self._log.record(self._results.popleft()):
                if isinstance(command, Cancel):
                    self.drop_effect(command.address)

    def refuse_requests(self, reason: str) -> None:
        """Settles every request that is left."""
        requests = [*self._requests]
        if self._damage is not None and self._damage.request is not None:
            requests.append(self._damage.request)  # the run could not be rebuilt
        tokens = [*self._applied, *(token for _, token in requests if token is not None)]
        self._applied, self._damage = [], None
        self._requests.clear()
        self.settled += [SettledRequest(token, reason) for token in tokens]
