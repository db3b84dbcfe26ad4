"""Forks and replays: a new run from any point of an old one, and an old run on another workflow, without
a model.

*Fork* copies the entries of a run up to a point into a new run, which can then be resumed. If the
workflow and the limits stay the same, the entries are copied with their stored decisions. Otherwise the
new state cannot be made by copying, since other nodes may run, and a Rerun makes it.

*Rerun* plays a stored run again on another plan. What came from outside (results of models, tools,
functions, people, middleware) is taken from the journal, by address; pure nodes and the kernel decide
anew. The rerun goes as far as the journal can answer, and reports where it first differs from what
happened. It calls no model and executes no code of the user.

A fact of the past is matched with a command of the rerun by its address and the kind of the command,
not by its order: with other limits, branches may proceed in another order although each of them is the
same. Facts that match no command are dropped: those of the way that only the old run took, such as what
followed a loop that now has more rounds. The first commands without a fact are in flight in the fork.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any

import msgspec
from msgspec import Struct

from roundel.hosts.engine import RunSpec
from roundel.hosts.executor import run_synchronously
from roundel.hosts.services import describe_error
from roundel.hosts.stored_run import (
    Origin,
    available_secrets,
    changed_plan,
    create,
    current_history,
    is_same_definition,
    new_run_id,
    open_run,
    pin,
    pinned_plan,
    plan_to_resume,
)
from roundel.hosts.unstored_parts import NO_PARTS, UnstoredParts
from roundel.journal.run_journal import RunJournal, pack
from roundel.journal.store import Chunk, Pinned, Store, StoreError
from roundel.kernel.commands import Ask, Call, Cancel, Command, EvaluateEdges, Intercept
from roundel.kernel.events import Event
from roundel.kernel.facts import (
    Answered,
    BreakpointsChanged,
    CallRetried,
    ClockMoved,
    EdgesEvaluated,
    Edited,
    Entry,
    Expired,
    Fact,
    Failed,
    Finished,
    Inherited,
    Intercepted,
    InterceptPoints,
    Locked,
    Outcome,
    Paused,
    Reopened,
    Resumed,
    Retried,
    Revised,
    Started,
    Stepped,
    Stopped,
    TimeUp,
    Unlocked,
    Waited,
    WaitingEdited,
    encode_entry,
    mask_fact,
    secrets_of,
)
from roundel.kernel.payloads import (
    LoopRound,
    ModelCallStarted,
    NodeFailed,
    NodeRunning,
    NodeStateChange,
    ToolCallChange,
    ToolCallStarted,
)
from roundel.kernel.state import GROUP_LIMIT, CompositeRun, Iteration, Lock, Run
from roundel.kernel.step import IllegalFact, step
from roundel.kernel.step import revise as apply_revised
from roundel.llm.script import Script
from roundel.nodes.loading import Source
from roundel.nodes.loop_controllers import ArrayController
from roundel.nodes.services import failure_type, outcome_of
from roundel.plan.graph import NodePlan, Plan
from roundel.plan.overrides import LimitValue, LimitValues
from roundel.workflow.address import address_label, is_round, text
from roundel.workflow.breakpoints import Breakpoint
from roundel.workflow.diagnostics import Diagnostic
from roundel.workflow.document import AllowPaths
from roundel.workflow.message import Message

RecordedEffect = Finished | Failed | Answered | Expired | EdgesEvaluated | Intercepted | Edited | CallRetried
ControlFact = (
    Waited
    | TimeUp
    | ClockMoved
    | Locked
    | Paused
    | Resumed
    | Retried
    | Inherited
    | Reopened
    | Unlocked
    | Stepped
    | BreakpointsChanged
    | WaitingEdited
)
"""Facts that answer no command, but decide what runs and which time counts."""
InterceptPoint = tuple[str, str]
"""An address, and whether middleware is called `before` or `after` the node there."""
_POINT_BY_STATUS = {"running": "before", "completed": "after"}
"""The point by the status in the node's events: `running` means that `before` is over."""


class Difference(Struct, frozen=True):
    """Where a rerun first differs from what happened. Created by Rerun."""

    address: str
    """Where it is, such as `Writer[3]`."""
    what: str
    """What is different."""
    before: str = ""
    """What happened in the run."""
    now: str = ""
    """What would happen now."""

    def __str__(self) -> str:
        texts = (("then", self.before), ("now", self.now))
        shown = "".join(f"\n  {name}: {text}" for name, text in texts if text)
        return f"{self.address}: {self.what}{shown}"


class Rerun:
    """A stored run, played again on another plan. Created by `fork` and `replay`.

    It is also the services of the pure nodes that it executes: they get a clock, and nothing else."""

    def __init__(
        self,
        before: Plan,
        entries: list[Entry],
        plan: Plan,
        begins: Mapping[str, Any] | None = None,
        *,
        history: Callable[[PastRun], list[PastFact]] = lambda past: past.history,
    ) -> None:
        """`begins` replaces fields of the first fact, `history` selects what of the past is played."""
        self.state = Run(plan)
        self.entries: list[Entry] = []
        """The journal of the rerun."""
        self.difference: Difference | None = None
        self.misfit: Difference | None = None
        """The first result that the rerun cannot use, or that belongs to another input."""
        self._before, self._plan = before, plan
        self._secrets = secrets_of(plan)
        # The past is replayed once on its own plan, to learn which command each fact answered.
        past = PastRun(before, entries)
        self._unused = dict(enumerate(history(past)))
        """The facts of the past that are not repeated yet, by their position, in order."""
        self._positions: dict[str, list[int]] = {}
        """The positions of the unused facts at each address; those of control facts under ''. A search
        through all of them would take quadratic time once many of them fit nothing."""
        for position, past_fact in self._unused.items():
            self._positions.setdefault(past_fact.address, []).append(position)
        self._ended, self._not_intercepted = past.ended, past.not_intercepted
        facts = [entry.fact for entry in entries]
        # Messages can only be edited where a run is paused, so the rerun has to pause where the past did.
        edits = any(isinstance(fact, WaitingEdited) for fact in facts)
        known = set(map(str, (*plan.breakpoints, *past.started.breakpoints)))
        self.borrowed = tuple(one for one in before.breakpoints if edits and str(one) not in known)
        """The breakpoints of the old plan that the new one does not have, and the rerun needs."""
        self._started = msgspec.structs.replace(
            past.started,
            intercepts=_all_intercepts(facts),
            breakpoints=(*past.started.breakpoints, *self.borrowed),
            model=plan.workflow.default_model,
            **(begins or {}),
        )
        self._time = 0.0
        self._behaviours: dict[int, Any] = {}
        self._pending_commands: dict[str, Command] = {}

    def play(self, until: Callable[[list[Event]], bool] = lambda _events: False) -> bool:
        """Plays until `until` returns True for the events of a step; whether it did. If it does not, the
        rerun ends where the journal cannot answer, and `difference` says whether that is where the past
        ended."""
        events: list[Event] | None = self._apply(self._started)
        while events is not None:
            if until(events):
                return True
            events = self._advance()
        self._conclude()
        return False

    @property
    def unused(self) -> list[PastFact]:
        """The facts of the past that fitted nothing, in order."""
        return list(self._unused.values())

    def _apply(self, fact: Fact) -> list[Event]:
        """Applies a fact to the rerun; IllegalFact, and nothing has changed, if the rerun does not allow
        it."""
        commands, events = step(self.state, fact)
        self._time = max(self._time, fact.time)  # facts may come in another order; time must not go back
        self.entries.append(Entry(fact, tuple(self.state.decisions.made)))
        for command in commands:
            if isinstance(command, Cancel):
                self._pending_commands.pop(command.address, None)
            else:
                self._pending_commands[command.address] = command
        return events

    def _advance(self) -> list[Event] | None:
        """One step: a pure node, if there is one; else the first fact of the past that fits. None if
        there is neither.

        Where no middleware was called in the past, none is called now: it counts as having changed
        nothing."""
        for address, command in self._pending_commands.items():
            if isinstance(command, Call) and self._plan.sites[command.site].kind.pure:
                del self._pending_commands[address]
                return self._apply(self._decide_pure(command))
            if isinstance(command, Intercept) and _intercept_point(command) in self._not_intercepted:
                del self._pending_commands[address]
                return self._apply(Intercepted(address, self._time))
        found = [
            self._positions[address]
            for address in ("", *self._pending_commands)
            if address in self._positions
        ]
        for position in sorted(chain.from_iterable(found)):
            past_fact = self._unused[position]
            events = self._repeat(past_fact)
            if events is not None:
                del self._unused[position]
                self._positions[past_fact.address].remove(position)
                # Facts before this one were skipped. A skipped unlock means that the run was locked
                # here.
                if isinstance(past_fact.fact, RecordedEffect):
                    self._compare_locks(position)
                return events
        return self._pass_breakpoint()

    def _pass_breakpoint(self) -> list[Event] | None:
        """Resumes the rerun where a breakpoint or a step paused it, and the past did not stop; None if it is
        not paused, or the past has nothing more to say. Breakpoints are no part of what a run does, so they
        must not keep the rerun from using results."""
        goes_on = any(isinstance(past.fact, RecordedEffect) for past in self._unused.values())
        if self.state.status != "paused" or self.state.debug is None or not goes_on:
            return None
        return self._apply(Resumed(max(self._time, self.state.since)))

    def _repeat(self, past_fact: PastFact) -> list[Event] | None:
        """Applies a fact of the past; None if it does not fit now: nothing is pending at its address, or
        a command of another kind."""
        fact, requested = past_fact.fact, past_fact.requested
        if isinstance(fact, ControlFact):
            return self._apply_control(fact, past_fact.lock)
        pending = self._pending_commands.get(fact.address)
        assert requested is not None
        fitting = self._fact_for(pending, fact, requested) if pending is not None else None
        if pending is None or fitting is None:
            return None
        self._compare(requested, pending, fact)
        del self._pending_commands[fact.address]
        try:
            return self._apply(fitting)
        except Exception as error:
            # The step is half done, so the rerun cannot go on without the fact either.
            raise StoreError(
                f"the run does not fit the workflow: what happened at '{fact.address}' cannot be repeated "
                f"there ({describe_error(error)}); begin the new run there (--at {fact.address})"
            ) from error

    def _fact_for(self, pending: Command, fact: RecordedEffect, requested: Command) -> RecordedEffect | None:
        """The fact as an answer to a command of the rerun; None if it answers another kind of command."""
        if isinstance(pending, Cancel) or isinstance(requested, Cancel):
            return None
        if pending.__class__ is not requested.__class__:
            return None
        then, now = self._before.sites[requested.site], self._plan.sites[pending.site]
        if isinstance(pending, EvaluateEdges) and isinstance(fact, EdgesEvaluated):
            return _renumbered(fact, then, now, pending)
        if isinstance(pending, Call) and isinstance(requested, Call):
            return fact if _call_form(then, requested) == _call_form(now, pending) else None
        if isinstance(fact, Answered | Expired):
            return _in_time(fact, requested, pending)
        return fact

    def _apply_control(self, fact: ControlFact, lock: Lock | None) -> list[Event] | None:
        now = self.state.lock
        if lock is not None and (now is None or (now.what, now.address) != (lock.what, lock.address)):
            return None  # a person unlocked that one lock, and no other that may exist now
        if isinstance(fact, Reopened):
            # The rerun intercepts from its start what was intercepted at any time in the past; where
            # that was not so at the time, `_not_intercepted` contains the point.
            fact = msgspec.structs.replace(fact, intercepts=None)
        if isinstance(fact, WaitingEdited):
            # The version was that of the message then. Pure nodes have run anew, at other times, and their
            # messages may contain the time.
            fact = msgspec.structs.replace(fact, version="")
        try:
            return self._apply(fact)
        except IllegalFact:
            return None

    def _decide_pure(self, call: Call) -> Finished | Failed:
        """Executes a pure node of the new plan. Behaviours are prepared when they are first needed,
        since most nodes of a plan may never run."""
        node = self._plan.sites[call.site]
        try:
            if call.site not in self._behaviours:
                self._behaviours[call.site] = node.kind.prepare(node.node, self)
            outcome = self._behaviours[call.site](call)
            if not isinstance(outcome, Outcome):
                outcome = outcome_of(run_synchronously(outcome))
            fact: Fact = Finished(call.address, outcome, self._time)
        except Exception as error:
            kind, attempts = failure_type(error)
            fact = Failed(call.address, describe_error(error), self._time, (), kind, attempts)
        masked = mask_fact(fact, self._secrets)
        assert isinstance(masked, (Finished, Failed))
        return masked

    def _compare(self, before: Command, command: Command, fact: RecordedEffect) -> None:
        """Reports if a node gets another input than in the past. The rerun still uses the old result:
        the first difference is what counts, and there is no model to ask."""
        then, now = _command_text(before), _command_text(command)
        if then != now:
            difference = Difference(command.address, "gets another input", then, now)
            self._report_difference(difference)
            self._report_misfit(difference, fact)

    def _compare_locks(self, position: int) -> None:
        """Reports if an effect happens although, in the past, a lock had to be unlocked before it
        could."""
        for skipped in self._positions.get("", ()):
            lock = self._unused[skipped].lock
            if skipped < position and lock is not None:
                self._report_difference(Difference(lock.address, "was locked then, and is not now"))

    def _conclude(self) -> None:
        """Reports what only the rerun does, and what only the past did, once no fact fits any more."""
        unused = [past.fact for past in self._unused.values() if not isinstance(past.fact, ControlFact)]
        ran = {fact.address for fact in unused}
        for address in self._pending_commands if self._ended else ():
            what = "is another kind of call now" if address in ran else "runs now, and did not then"
            self._report_difference(Difference(address, what))
        for fact in unused:
            what = f"ran then, and does not now: the run is {self.state.status}"
            difference = Difference(fact.address, what)
            self._report_difference(difference)
            self._report_misfit(difference, fact)

    def _report_difference(self, difference: Difference) -> None:
        """Remembers the first difference; later ones may be its consequences."""
        self.difference = self.difference or difference

    def _report_misfit(self, difference: Difference, fact: RecordedEffect) -> None:
        if not isinstance(fact, Failed):  # of a call that failed there is no result that could be lost
            self.misfit = self.misfit or difference

    def now(self) -> float:
        """The clock of the pure nodes."""
        return self._time

    def worked(self) -> float:
        return self.state.worked_at(self._time)


class ItemFailure(Struct, frozen=True):
    """An item of a list that failed, where the list went on without it. Created by PastRun."""

    items: tuple[ListItem, ...]
    """The item, after the items of outer lists that it is in."""
    position: int
    """The position in the history of the fact with which it failed; -1 if no call failed."""
    error: str

    @property
    def address(self) -> str:
        return self.items[-1].address


class PastFact(Struct, frozen=True):
    """A fact of the past that the rerun may apply."""

    fact: RecordedEffect | ControlFact
    requested: Command | None = None
    """The command that an effect answered."""
    issued: int = 0
    """The number of the entry whose step issued that command."""
    items: tuple[ListItem, ...] = ()
    """The items of lists that it happened in, the outermost first."""
    lock: Lock | None = None
    """The lock that was unlocked."""

    @property
    def address(self) -> str:
        """Where it happened; empty for a control fact, which is about the run as a whole."""
        return "" if isinstance(self.fact, ControlFact) else self.fact.address


class ListItem(Struct, frozen=True):
    """The round of a list that runs one of its items."""

    node: str
    """The address of the list."""
    stem: str
    """What the addresses of all its rounds begin with, such as `Each[`."""
    round: int

    @property
    def address(self) -> str:
        return f"{self.stem}{self.round}]"


class PastRun:
    """The past, replayed on its own plan, with its stored decisions. Created by Rerun."""

    def __init__(self, plan: Plan, entries: list[Entry]) -> None:
        started, state = entries[0].fact, Run(plan)
        assert isinstance(started, Started)
        self.started = started
        self.history: list[PastFact] = []
        """The facts in order, without those of pure nodes, which decide anew."""
        self._failures: set[int] = set()
        """The positions in the history of the facts that failed the run, and of its retries."""
        self._retried = 0
        self.item_failures: list[ItemFailure] = []
        """The items of lists that failed, in order."""
        self.list_ends: dict[str, int] = {}
        """The number of the entry with which each list ended, by the address of its node."""
        self._issued: dict[str, int] = {}
        requested: set[InterceptPoint] = set()
        seen_points: set[InterceptPoint] = set()
        for number, (fact, decisions) in enumerate(entries):
            position, around = len(self.history), lists_around(state, getattr(fact, "address", ""))
            self._add_past_fact(plan, state, fact, around)
            commands, events = step(state, fact, decisions)
            for command in commands:
                self._issued[command.address] = number
            self._note_items(around, fact, position, number, events)
            requested |= {_intercept_point(command) for command in commands if isinstance(command, Intercept)}
            seen_points |= {
                (event.address or "", _POINT_BY_STATUS[event.data.status])
                for event in events
                if isinstance(event.data, NodeStateChange) and event.data.status in _POINT_BY_STATUS
            }
        self.not_intercepted = seen_points - requested
        """The points at which no middleware was called. A run may have had other middleware before and
        after it was resumed."""
        self.ended = state.status in ("completed", "failed", "suspended_locked")
        """The past ended by itself. A run that was stopped, or is not over, might have continued, so
        what only the rerun does is no difference then."""
        self._note_failures(state)
        self.ordinals = state.ordinals
        """How often each node was called, by site."""

    def _note_items(
        self, around: ListRounds, fact: Fact, position: int, number: int, events: list[Event]
    ) -> None:
        """Notes an item of a list that failed with a fact, and lists that have ended."""
        for event in events:
            if event.event == "loop_exit":
                self.list_ends[_node_that_ended(event)] = number
        for inside, (list_run, iteration) in enumerate(around):
            assert isinstance(list_run.controller, ArrayController)
            error = list_run.controller.errors.get(iteration.round)
            if error is None:
                continue
            kinds = {event.data.type for event in events if isinstance(event.data, NodeFailed)}
            # A condition that cannot be evaluated is no failure of the call before it.
            called = isinstance(fact, Failed | Expired) or not kinds & {"EdgeError", "ExpressionError"}
            known = called and len(self.history) > position
            items = _list_items(around[inside:])
            self.item_failures.append(ItemFailure(items, position if known else -1, error))
            return

    def history_with_retries(self) -> list[PastFact]:
        """The history in which calls that failed an item of a list, or the run in the end, are retried, and
        earlier failures of the run are left out."""
        final = {number for number in self._failures if number >= self._retried}
        again = {failure.position for failure in self.item_failures} | final
        ordinals, history = list(self.ordinals), []
        for number, past in enumerate(self.history):
            if number in again and not isinstance(past.fact, ControlFact):
                assert past.requested is not None and not isinstance(past.requested, Cancel)
                site = past.requested.site
                fact = CallRetried(past.fact.address, past.fact.time, ordinals[site])
                ordinals[site] += 1
                history.append(msgspec.structs.replace(past, fact=fact))
            elif number not in self._failures:
                history.append(past)
        return history

    def history_without_failures(self) -> list[PastFact]:
        """The history without the failures of the run, and without its retries."""
        return [past for number, past in enumerate(self.history) if number not in self._failures]

    def _note_failures(self, state: Run) -> None:
        """Notes which facts failed the run since the last retry; called when it is retried, and at its
        end."""
        failed = {failure.execution.address for failure in state.unfinished if failure.error}
        for number in range(self._retried, len(self.history)):
            fact = self.history[number].fact
            if isinstance(fact, Failed) and fact.address in failed:
                self._failures.add(number)

    def _add_past_fact(self, plan: Plan, state: Run, fact: Fact, around: ListRounds) -> None:
        """Adds a fact that the rerun needs, with what the state knows of it before the fact is applied:
        the step removes the call, and the lock."""
        if isinstance(fact, Retried):
            self._note_failures(state)
            self._retried = len(self.history)
            self._failures.add(self._retried)
        # What a group had left that day is no part of what the run does.
        if isinstance(fact, Unlocked) and state.lock is not None and state.lock.what == GROUP_LIMIT:
            return
        if isinstance(fact, ControlFact):
            self.history.append(PastFact(fact, lock=state.lock if isinstance(fact, Unlocked) else None))
        elif isinstance(fact, RecordedEffect):
            command = state.calls[fact.address].command
            assert command is not None
            if not (isinstance(command, Call) and plan.sites[command.site].kind.pure):
                issued = self._issued.get(fact.address, 0)
                self.history.append(PastFact(fact, command, issued, _list_items(around)))


ListRounds = list[tuple[CompositeRun, Iteration]]
"""Lists with the rounds that something happens in, the innermost first."""


def lists_around(state: Run, address: str) -> ListRounds:
    """The lists that a call in flight is made in."""
    execution = state.calls.get(address)
    instance = execution.activation.instance if execution is not None else None
    found: ListRounds = []
    while instance is not None:
        list_run, iteration = instance.composite_run, instance.iteration
        if (
            list_run is not None
            and iteration is not None
            and isinstance(list_run.controller, ArrayController)
        ):
            found.append((list_run, iteration))
        instance = instance.caller.activation.instance if instance.caller is not None else None
    return found


def _node_that_ended(event: Event) -> str:
    """The address of the node whose loop has ended: the event has that of its last round, if it had one."""
    if not is_round(event.address or ""):
        return event.address or ""
    *around, step = event.path
    return text(tuple(around), address_label(step.node or ""), step.part)


def _list_items(around: ListRounds) -> tuple[ListItem, ...]:
    return tuple(
        ListItem(one.execution.address, one.stem, iteration.round) for one, iteration in reversed(around)
    )


def _call_form(node: NodePlan, call: Call) -> tuple[Any, ...]:
    """What decides the form of a call's result: the type of the node, and for a node that makes several
    calls the kind of this one. The result of another form would mean nothing."""
    if node.has_tool_loop:
        return node.kind.name, call.state.__class__
    if node.kind.controller is not None:
        return node.kind.name, node.kind.controller(node.config).__class__
    return (node.kind.name,)


def _renumbered(
    fact: EdgesEvaluated, then: NodePlan, now: NodePlan, pending: EvaluateEdges
) -> EdgesEvaluated | None:
    """The results of the functions on edges, with the numbers that the edges have now; None if some
    function has no result. An edge is the same if it leads to the same node and has the same kinds of
    functions; their names may differ, as those of lambdas do."""
    numbers = {key: number for number, key in _edge_keys(then).items()}
    results = {(result.edge, result.message): result for result in fact.edge_results}
    keys, found = _edge_keys(now), []
    for edge, message in pending.pairs:
        result = results.get((numbers.get(keys[edge], -1), message))
        if result is None:
            return None
        found.append(msgspec.structs.replace(result, edge=edge))
    return msgspec.structs.replace(fact, edge_results=tuple(found))


def _edge_keys(node: NodePlan) -> dict[int, tuple[Any, ...]]:
    """What identifies each edge of a node, by its number; the last part counts edges that are alike."""
    keys: dict[int, tuple[Any, ...]] = {}
    alike: dict[tuple[Any, ...], int] = {}
    for edge in node.edges:
        key = (edge.edge.target, edge.port, edge.condition_function is None, edge.processor_function is None)
        keys[edge.index] = (*key, alike.setdefault(key, 0))
        alike[key] += 1
    return keys


def _in_time(fact: Answered | Expired, then: Command, now: Command) -> Answered | Expired | None:
    """The end of a question as the rerun can apply it; None if the question has another deadline now,
    with which it would have ended in another way.

    With the same time to answer it ends as it did: the rerun may only ask some moments earlier or later,
    since it does not repeat the times of pure nodes."""
    assert isinstance(then, Ask) and isinstance(now, Ask)
    is_late = now.deadline is not None and fact.time >= now.deadline
    if is_late == isinstance(fact, Expired):
        return fact
    if now.deadline is None or now.timeout != then.timeout:
        return None
    time = now.deadline if isinstance(fact, Expired) else now.deadline - 0.001
    return msgspec.structs.replace(fact, time=time)


def _intercept_point(intercept: Intercept) -> InterceptPoint:
    return intercept.address, "before" if intercept.messages is None else "after"


def _all_intercepts(facts: list[Fact]) -> InterceptPoints:
    """Every node that middleware intercepted at any time of a run."""
    recorded = [
        fact.intercepts for fact in facts if isinstance(fact, (Started, Reopened)) and fact.intercepts
    ]
    before = dict.fromkeys(node for intercepts in recorded for node in intercepts.before)
    after = dict.fromkeys(node for intercepts in recorded for node in intercepts.after)
    return InterceptPoints(tuple(before), tuple(after))


def _command_text(command: Command) -> str:
    """The input of a command as text, to compare and to show it."""
    messages: tuple[Message, ...] = ()
    if isinstance(command, (Call, Ask, Intercept)):
        messages = getattr(command, "messages", None) or command.inputs
    return "\n".join(f"{message.role}: {message.text}" for message in messages)


async def fork(
    store: Store,
    run_id: str,
    at: str = "",
    *,
    workflow: Source | None = None,
    limits: LimitValues | None = None,
    variables: Mapping[str, Any] | None = None,
    message: str | None = None,
    script: Script | None = None,
    script_rights: Sequence[str] | None = None,
    allow_paths: AllowPaths = (),
    started_by: str | None = None,
    by: str = "",
    saved_as: str = "",
    workflow_version: str = "",
    warnings: list[Diagnostic],
) -> str:
    """Creates a new run from a point of an old one and returns its id. No process executes it yet;
    `resume` does.

    `at` is an address: the new run begins where the old one reached it, before the node there ran.
    Without `at` it begins where the old one is now; if that has failed, what failed runs again.
    `message` replaces the input of the call there. `warnings` gets those about the workflow and the
    script."""
    pinned, entries = await current_history(store, run_id)
    begins = forked_start(new_run_id(), run_id, at, {**pinned.limits, **(limits or {})}, by)
    if workflow is not None:
        begins |= {"saved_as": saved_as, "workflow_version": workflow_version}

    def play() -> tuple[Plan, Pinned, Run, list[Entry]]:
        past, before = without_stop(entries), pinned_plan(pinned)
        given = workflow is not None or bool(limits) or bool(variables)
        plan = changed_plan(pinned, workflow, limits, variables, allow_paths) if given else before
        warnings.extend(_warnings(plan, script))
        changed = given and not is_same_definition(pinned, plan.workflow)
        state, new_entries = _replay_until(before, past, plan, begins, at, changed)
        if state.status == "failed":
            raise StoreError(f"the new run would fail at once, as run {run_id} did: {state.error}")
        if state.over:
            too = ", with these changes too" if changed else ""
            raise StoreError(f"run {run_id} is over{too}; say where the new one is to begin (--at ADDRESS)")
        if message is not None:
            _change_message(pinned, plan, state, new_entries, at, message, by)
        new_pinned = pin_changes(pinned, plan if given else None, limits, script, script_rights)
        return plan, new_pinned, state, new_entries

    # In a thread: a long run takes seconds, and a server has other requests meanwhile.
    plan, new_pinned, state, new_entries = await asyncio.to_thread(play)
    await create_fork(store, run_id, at, plan, new_pinned, state, new_entries, started_by)
    return state.run_id


def forked_start(new: str, parent: str, at: str, limits: Mapping[str, LimitValue], by: str) -> dict[str, Any]:
    """What the first fact of a fork has in place of that of the old run. Idempotency keys contain the id of
    the run, and must not repeat those of the old one."""
    return {"run_id": new, "parent": parent, "forked_at": at, "limits": dict(limits), "by": by}


def _change_message(
    pinned: Pinned, plan: Plan, state: Run, entries: list[Entry], at: str, message: str, by: str
) -> None:
    """Replaces the input of the call at an address of the fork."""
    # Masked by the secrets of both workflows: the message may quote one of the old run.
    new_message = Message(secrets_of(plan).mask(available_secrets(pinned).mask(message)))
    # At the time of the last fact: the fork does not work before it is resumed.
    edited = Edited(_call_at(state, at), new_message, entries[-1].fact.time, by)
    try:
        append_fact(state, entries, edited)
    except IllegalFact:
        raise StoreError(
            f"'{edited.address}' has finished, so its message cannot be changed; "
            "say where the new run is to begin (--at ADDRESS)"
        ) from None


async def create_fork(
    store: Store,
    run_id: str,
    at: str,
    plan: Plan,
    pinned: Pinned,
    state: Run,
    entries: list[Entry],
    started_by: str | None = None,
) -> None:
    """Stores a fork of a run, with its history. Its id is that of the state."""
    origin = Origin(run_id, at, await asyncio.to_thread(_chunks_of, entries, state.seq))
    row = await store.row(run_id)
    started = entries[0].fact
    assert isinstance(started, Started)
    spec = RunSpec(
        plan,
        state.input,
        group=row.group,
        started_by=row.started_by if started_by is None else started_by,
        saved_as=started.saved_as,
        workflow_version=started.workflow_version,
    )
    journal = await create(store, state.run_id, spec, pinned, origin=origin)
    # The entries are written with the run; this writes its status and summary.
    try:
        await journal.commit(state)
    finally:
        await journal.close()


CHUNK_FACTS = 64
"""Facts of a chunk in a new fork. A reader unpacks a chunk for each page of it that it reads."""


def _chunks_of(entries: list[Entry], seq: int) -> tuple[Chunk, ...]:
    """The chunks of a fork; `seq` is the number of the last event after all of them."""
    parts = [entries[at : at + CHUNK_FACTS] for at in range(0, len(entries), CHUNK_FACTS)]
    last = len(parts) - 1
    return tuple(
        Chunk(len(part), pack(map(encode_entry, part)), seq if at == last else None)
        for at, part in enumerate(parts)
    )


async def replay(
    store: Store,
    run_id: str,
    workflow: Source | None = None,
    limits: LimitValues | None = None,
    variables: Mapping[str, Any] | None = None,
    allow_paths: AllowPaths = (),
    *,
    warnings: list[Diagnostic],
) -> Difference | None:
    """Plays a run again on another workflow, or with other limits or variables. Returns where it would
    first have differed; None if it would not have. `warnings` gets those about the workflow."""
    pinned, entries = await current_history(store, run_id)

    def play() -> Difference | None:
        now = changed_plan(pinned, workflow, limits, variables, allow_paths)
        warnings.extend(now.warnings)
        rerun = Rerun(pinned_plan(pinned), entries, now)
        rerun.play()
        return rerun.difference

    # In a thread: a long run takes seconds, and a server has other requests meanwhile.
    return await asyncio.to_thread(play)


async def revise(
    store: Store,
    run_id: str,
    *,
    workflow: Source | None = None,
    limits: LimitValues | None = None,
    variables: Mapping[str, Any] | None = None,
    script: Script | None = None,
    script_rights: Sequence[str] | None = None,
    allow_paths: AllowPaths = (),
    warnings: list[Diagnostic],
    parts: UnstoredParts = NO_PARTS,
    by: str = "",
) -> tuple[bool, Plan]:
    """Gives a failed run another workflow, other limits, variables or replies, and puts in flight what
    failed; `resume` executes it. Returns whether anything of the run is different, else it is left as it is;
    and the plan, which contains the secrets among the variables. `warnings` gets those about the workflow and
    the script, `parts` are what this process remembers of the run.

    StoreError if the run has not failed, or if what it has done does not fit the new workflow: everything
    that finished has to be of use, with the same input."""
    journal = RunJournal(store, await store.claim(run_id))
    try:
        pinned, entries = await current_history(store, run_id)
        opened = await open_run(store, run_id)
        if opened.state.status != "failed":
            raise StoreError(
                f"run {run_id} has not failed, so it cannot be retried; it is {opened.state.status}"
            )

        def play() -> tuple[Plan, Run | None]:
            plan = changed_plan(pinned, workflow, limits, variables, allow_paths, parts)
            warnings.extend(_warnings(plan, script))
            if script is None and is_same_definition(pinned, plan.workflow):
                return plan, None
            new_pinned = pin_changes(pinned, plan, limits, script, script_rights)
            # Fails if something is missing here that the run needs.
            plan_to_resume(new_pinned, plan if workflow is not None or variables else None, parts)
            before = pinned_plan(pinned)
            state, new_entries = _replay_until(
                before, entries, plan, {"run_id": run_id}, "", changed=True, fits=True, by=by
            )
            if state.status == "failed":
                raise StoreError(f"with these changes run {run_id} would fail again: {state.error}")
            fact = Revised(
                new_pinned.workflow,
                new_pinned.limits,
                tuple(encode_entry(entry).decode() for entry in new_entries),
                opened.state.seq,
                opened.state.revision + 1,
                _now(new_entries),
                new_pinned.script,
                _new_events(_events_of(before, entries), _events_of(plan, new_entries), state),
                new_pinned.script_rights,
                by,
            )
            journal.add(fact)
            return plan, apply_revised(fact, plan)[0]

        # In a thread, as in `fork`. Nobody else uses this journal.
        plan, revised = await asyncio.to_thread(play)
        if revised is not None:
            await journal.commit(revised)
        return revised is not None, plan
    finally:
        await journal.close()


def _warnings(plan: Plan, script: Script | None) -> list[Diagnostic]:
    return [*plan.warnings, *(script.check(plan.node_ids) if script is not None else ())]


def _events_of(plan: Plan, entries: list[Entry]) -> list[Event]:
    run = Run(plan)
    return [event for fact, decisions in entries for event in step(run, fact, decisions)[1]]


def _new_events(
    before: list[Event], now: list[Event], state: Run
) -> tuple[tuple[str, str | None, str | None, Any], ...]:
    """The events that only the changed run has: nodes that have run by now, and what is in flight. The calls
    in flight begin with the revision itself."""
    old = Counter(map(_signature, before))
    new = []
    for event in now:
        signature = _signature(event)
        if old[signature]:
            old[signature] -= 1
        elif event.event != "run_state_change" and not _begins_call(event, state):
            # Both are events of the revision itself.
            new.append((event.event, event.node_id, event.address, event.fields()))
    return tuple(new)


def _signature(event: Event) -> tuple[str, str | None, bytes]:
    data = event.fields()
    for name in _FIGURES:  # they depend on when something happens, and what happens beside it
        data.pop(name, None)
    return event.event, event.address, msgspec.json.encode(data, enc_hook=repr, order="sorted")


_FIGURES = ("total", "work_seconds", "waited")


def _begins_call(event: Event, state: Run) -> bool:
    begins = isinstance(event.data, ModelCallStarted | ToolCallStarted)
    return begins and event.address in state.calls


def without_stop(entries: list[Entry]) -> list[Entry]:
    """The entries without a stop: the fork of a stopped run continues from before it was stopped."""
    return [entry for entry in entries if not isinstance(entry.fact, Stopped)]


def _replay_until(
    before: Plan,
    entries: list[Entry],
    plan: Plan,
    begins: Mapping[str, Any],
    at: str,
    changed: bool,
    fits: bool = False,
    by: str = "",
) -> tuple[Run, list[Entry]]:
    """The state of the fork and its entries, up to the address. Without an address, the fork of a failed
    run has everything that finished, and in flight what failed.

    With `fits`, StoreError if the changed run could not use everything that happened."""
    is_reached = _starts_at(at) if at else (lambda _events: False)
    borrowed: tuple[Breakpoint, ...] = ()
    if changed:
        rerun = Rerun(before, entries, plan, begins)
        found = rerun.play(is_reached)
        if not found and rerun.state.error is not None and not rerun.state.over:
            # Calls that only the changed run makes are in flight beside the failure, which would end the
            # fork after them.
            rerun = Rerun(before, entries, plan, begins, history=PastRun.history_without_failures)
            found = rerun.play(is_reached)
        state, new_entries = rerun.state, rerun.entries
        borrowed = rerun.borrowed
        if fits and rerun.misfit is not None:
            raise StoreError(
                f"what run {begins['run_id']} has done does not fit these changes: {rerun.misfit}\n"
                f"`roundel fork {begins['run_id']}` starts a new run, which keeps what fits"
            )
    else:
        found, state, new_entries = False, Run(plan), []
        for fact, decisions in entries:
            own = msgspec.structs.replace(fact, **begins) if isinstance(fact, Started) else fact
            events = step(state, own, decisions)[1]
            new_entries.append(Entry(own, tuple(state.decisions.made)))
            if is_reached(events):
                found = True
                break
    if state.status == "failed" and not at:
        try:
            append_fact(state, new_entries, Retried(_now(new_entries), by))
        except IllegalFact as error:
            raise StoreError(f"the run has failed, and {error}; say where the new one is to begin") from None
    if at and not found:
        raise StoreError(_not_reached(at, state, changed))
    if borrowed and not state.over:
        append_fact(state, new_entries, BreakpointsChanged(_now(new_entries), remove=borrowed))
    return state, new_entries


def _not_reached(at: str, state: Run, changed: bool) -> str:
    if changed and state.calls:
        first = ", ".join(sorted(state.calls))
        return (
            f"with these changes the run does not reach '{at}' by what it has done so far: {first} would "
            "come first; leave out --at to begin there"
        )
    return f"the run never reached '{at}'; `roundel log RUN` shows its addresses"


def append_fact(state: Run, entries: list[Entry], fact: Fact) -> None:
    """Applies a fact that the fork adds to those of the old run; IllegalFact if it does not allow it."""
    step(state, fact)
    entries.append(Entry(fact, tuple(state.decisions.made)))


def _now(entries: list[Entry]) -> float:
    return max(time.time(), entries[-1].fact.time)


def _starts_at(at: str) -> Callable[[list[Event]], bool]:
    """Whether a step's events show that a node, a round or a tool call starts at an address."""

    def is_reached(events: list[Event]) -> bool:
        return any(
            event.address == at and isinstance(event.data, NodeRunning | LoopRound | ToolCallChange)
            for event in events
        )

    return is_reached


def _call_at(state: Run, at: str) -> str:
    """The address of the call that a changed message is for: the only one in flight at `at` or inside of
    it."""
    there = [address for address in state.calls if not at or address == at or address.startswith(f"{at}/")]
    if len(there) == 1:
        return there[0]
    if not there:
        raise StoreError(f"no call is in flight at '{at}' whose message could be changed")
    raise StoreError(f"the message could be for {', '.join(sorted(there))}; say which (--at ADDRESS)")


def inherited_rights(pinned: Pinned, script_rights: Sequence[str]) -> tuple[str, ...]:
    """The rights of a script that somebody with these rights inherits."""
    before = script_rights if pinned.script_rights is None else pinned.script_rights
    return tuple(right for right in before if right in script_rights)


def pin_changes(
    pinned: Pinned,
    changed: Plan | None,
    limits: LimitValues | None,
    script: Script | None,
    script_rights: Sequence[str] | None = None,
) -> Pinned:
    """What the fork is pinned to: as the old run, with what was changed. A script that it inherits keeps the
    rights that `script_rights` has, too: who forks a run gets no rights from its script."""
    changes: dict[str, Any] = {"limits": {**pinned.limits, **(limits or {})}}
    if script is not None:
        secrets = secrets_of(changed) if changed is not None else available_secrets(pinned)
        changes["script"] = secrets.mask(script.text)
        changes["script_rights"] = script.rights
    elif pinned.script and script_rights is not None:
        changes["script_rights"] = inherited_rights(pinned, script_rights)
    if changed is not None:
        changes["workflow"] = pin(changed).workflow
    return msgspec.structs.replace(pinned, **changes)
