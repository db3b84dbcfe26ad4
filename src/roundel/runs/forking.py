"""A stored run played again on another workflow or with other limits, with no model called.

What the world said is taken from the journal, by address; what pure nodes decide is decided anew. The rerun
goes as far as the journal can tell, and says where it first differs from what happened.

A new run from any point of an old one, with other limits, another message or another workflow.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from roundel.hosts.stored_run import (
    Origin,
    available_secrets,
    changed_plan,
    create,
    new_run_id,
    pin,
    pinned_plan,
)
from roundel.journal.run_journal import pack
from roundel.journal.store import Chunk, Pinned, Store, StoreError
from roundel.kernel.commands import Ask, Call, Cancel, Command, Intercept
from roundel.kernel.events import Event
from roundel.kernel.facts import (
    Answered,
    EdgesEvaluated,
    Edited,
    Entry,
    Fact,
    Failed,
    Finished,
    Intercepted,
    InterceptPoints,
    Outcome,
    Paused,
    Reopened,
    Resumed,
    Started,
    Stopped,
    Unlocked,
    Waited,
    encode_entry,
    secrets_of,
)
from roundel.kernel.state import Lock, Run
from roundel.kernel.step import IllegalFact, step
from roundel.llm.script import Script
from roundel.nodes.loading import Source
from roundel.plan.graph import Plan
from roundel.workflow.document import AllowPaths
from roundel.workflow.message import Message

Effect = Finished | Failed | Answered | EdgesEvaluated | Intercepted | Edited
ControlFact = Waited | Paused | Resumed | Reopened | Unlocked
"""Not an answer to any command, but it decides what runs and which time counts."""
InterceptPoint = tuple[str, str]
"""An address, and whether the node there is yet to run or has."""
_POINT_BY_STATUS = {"running": "before", "completed": "after"}
"""What its events say of that."""


class Difference(Struct, frozen=True):
    """Where a rerun first goes another way."""

    address: str
    what: str
    before: str = ""
    now: str = ""

    def __str__(self) -> str:
        texts = (("then", self.before), ("now", self.now))
        shown = "".join(f"\n  {name}: {text}" for name, text in texts if text)
        return f"{self.address}: {self.what}{shown}"


class Rerun:
    def __init__(self, before: Plan, entries: list[Entry], plan: Plan, run_id: str = "") -> None:
        self.state = Run(plan)
        self.entries: list[Entry] = []
        """The journal of the rerun."""
        self.difference: Difference | None = None
        self._plan = plan
        past = _PastRun(before, entries)
        self._history, self._ended, self._not_intercepted = past.history, past.ended, past.not_intercepted
        self._started = msgspec.structs.replace(
            past.started, intercepts=_reviews([entry.fact for entry in entries])
        )
        self._run_id = run_id
        self._time = 0.0
        self._behaviours: dict[int, Any] = {}
        self._pending_commands: dict[str, Command] = {}

    def play(self, until: Callable[[list[Event]], bool] = lambda _events: False) -> bool:
        """Goes on until something is shown that is waited for; whether it was."""
        started = self._started
        events: list[Event] | None = self._apply(
            msgspec.structs.replace(started, run_id=self._run_id or started.run_id)
        )
        while events is not None:
            if until(events):
                return True
            events = self._advance()
        self._conclude()
        return False

    def _apply(self, fact: Fact) -> list[Event]:
        """IllegalFact, and nothing has changed, if it cannot be true of the rerun."""
        commands, events = step(self.state, fact)
        self._time = max(self._time, fact.time)
        self.entries.append(Entry(fact, tuple(self.state.decisions.made)))
        for command in commands:
            if isinstance(command, Cancel):
                self._pending_commands.pop(command.address, None)
            else:
                self._pending_commands[command.address] = command
        return events

    def _advance(self) -> list[Event] | None:
        """Pure nodes decide first, and where no middleware was asked then, none is now; then what happened
        first happens again. None if there is nothing left that can."""
        for address, command in self._pending_commands.items():
            if isinstance(command, Call) and self._plan.sites[command.site].kind.pure:
                del self._pending_commands[address]
                return self._apply(Finished(address, self._decide_pure(command), self._time))
            if isinstance(command, Intercept) and _intercept_point(command) in self._not_intercepted:
                del self._pending_commands[address]
                return self._apply(Intercepted(address, self._time))
        for number, past_fact in enumerate(self._history):
            events = self._repeat(past_fact)
            if events is not None:
                del self._history[number]
                if isinstance(past_fact.fact, Effect):
                    self._compare_locks(self._history[:number])
                return events
        return None

    def _repeat(self, past_fact: _PastFact) -> list[Event] | None:
        """None if it cannot happen now."""
        fact, requested = past_fact.fact, past_fact.requested
        if isinstance(fact, ControlFact):
            return self._apply_control(fact, past_fact.lock)
        pending = self._pending_commands.get(fact.address)
        if pending is None or pending.__class__ is not requested.__class__:
            return None
        assert requested is not None
        self._compare(requested, pending)
        del self._pending_commands[fact.address]
        return self._apply(fact)

    def _apply_control(self, fact: ControlFact, lock: Lock | None) -> list[Event] | None:
        now = self.state.lock
        if lock is not None and (now is None or (now.what, now.address) != (lock.what, lock.address)):
            return None  # one lock was looked into and opened, not any other that there may be now
        if isinstance(fact, Reopened):
            # The middleware of all parts of the run is asked from the start (`_reviews`, `_unasked`).
            fact = msgspec.structs.replace(fact, intercepts=None)
        try:
            return self._apply(fact)
        except IllegalFact:
            return None

    def _decide_pure(self, call: Call) -> Outcome:
        node = self._plan.sites[call.site]
        if call.site not in self._behaviours:
            self._behaviours[call.site] = node.kind.prepare(node.node, self)
        outcome = self._behaviours[call.site](call)
        assert isinstance(outcome, Outcome)
        return outcome

    def _compare(self, before: Command, command: Command) -> None:
        then, now = _command_text(before), _command_text(command)
        if then != now:
            self._report_difference(Difference(command.address, "is asked something else", then, now))

    def _compare_locks(self, before: list[_PastFact]) -> None:
        """A node has gone on although, then, a lock had to be opened before it could."""
        for past_fact in before:
            if past_fact.lock is not None:
                self._report_difference(Difference(past_fact.lock.address, "was locked then, and is not now"))

    def _conclude(self) -> None:
        for address in self._pending_commands if self._ended else ():
            self._report_difference(Difference(address, "runs now, and did not then"))
        for past_fact in self._history:
            if not isinstance(past_fact.fact, ControlFact):
                what = f"ran then, and does not now: the run is {self.state.status}"
                self._report_difference(Difference(past_fact.fact.address, what))

    def _report_difference(self, difference: Difference) -> None:
        self.difference = self.difference or difference

    # What pure nodes are lent.

    def now(self) -> float:
        return self._time

    def workspace(self) -> Path:
        raise StoreError("a pure node asks for a folder")


class _PastFact(Struct, frozen=True):
    """A fact of the run that happened."""

    fact: Effect | ControlFact
    requested: Command | None = None
    """What an effect answered."""
    lock: Lock | None = None
    """What was unlocked."""


class _PastRun:
    """What the run that happened can tell."""

    def __init__(self, plan: Plan, entries: list[Entry]) -> None:
        started, state = entries[0].fact, Run(plan)
        assert isinstance(started, Started)
        self.started = started
        self.history: list[_PastFact] = []
        """In order; what pure nodes decided is left out."""
        requested: set[InterceptPoint] = set()
        seen_points: set[InterceptPoint] = set()
        for fact, decisions in entries:
            self._add_past_fact(plan, state, fact)
            commands, events = step(state, fact, decisions)
            requested |= {_intercept_point(command) for command in commands if isinstance(command, Intercept)}
            seen_points |= {
                (event.address or "", _POINT_BY_STATUS[event.data["status"]])
                for event in events
                if event.event == "node_state_change" and event.data.get("status") in _POINT_BY_STATUS
            }
        self.not_intercepted = seen_points - requested
        """The moments at which no middleware was asked: it may have been another one, before and after the
        run was left for a while."""
        self.ended = state.status in ("completed", "failed", "suspended_locked")
        """It came to an end of its own. One that was stopped, or is not over, might have gone on."""

    def _add_past_fact(self, plan: Plan, state: Run, fact: Fact) -> None:
        if isinstance(fact, ControlFact):
            self.history.append(_PastFact(fact, lock=state.lock if isinstance(fact, Unlocked) else None))
        elif isinstance(fact, Effect):
            command = state.calls[fact.address].command
            assert command is not None
            if not (isinstance(command, Call) and plan.sites[command.site].kind.pure):
                self.history.append(_PastFact(fact, command))


def _intercept_point(intercept: Intercept) -> InterceptPoint:
    return intercept.address, "before" if intercept.messages is None else "after"


def _reviews(facts: list[Fact]) -> InterceptPoints:
    """Whatever middleware was asked about at some time."""
    recorded = [
        fact.intercepts for fact in facts if isinstance(fact, (Started, Reopened)) and fact.intercepts
    ]
    before = dict.fromkeys(node for intercepts in recorded for node in intercepts.before)
    after = dict.fromkeys(node for intercepts in recorded for node in intercepts.after)
    return InterceptPoints(tuple(before), tuple(after))


def _command_text(command: Command) -> str:
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
    limits: Mapping[str, float] | None = None,
    message: str | None = None,
    script: Script | None = None,
    allow_paths: AllowPaths = (),
) -> str:
    """The id of the new run, which nobody is at work on yet.

    `at` is an address: the new run begins where the old one came to it, before it ran. Without it, it begins
    where the old one is now."""
    pinned = await store.pinned(run_id)
    entries = _without_stop(await store.entries(run_id))
    before = pinned_plan(pinned)
    changed = workflow is not None or bool(limits)
    plan = changed_plan(pinned, workflow, limits, allow_paths) if changed else before
    made = new_run_id()
    state, new_entries = _replay_until(before, entries, plan, made, at, changed)
    if message is not None:
        new_message = Message(secrets_of(plan).mask(available_secrets(pinned).mask(message)))
        edited = Edited(_call_at(state, at), new_message, max(time.time(), new_entries[-1].fact.time))
        try:
            step(state, edited)
        except IllegalFact:
            raise StoreError(
                f"'{edited.address}' has done its work, and no message of it can be changed; "
                "say where the new run is to begin (--at ADDRESS)"
            ) from None
        new_entries.append(Entry(edited, tuple(state.decisions.made)))
    if state.over:
        raise StoreError(f"run {run_id} is over; say where the new one is to begin (--at ADDRESS)")
    lines = [encode_entry(entry) for entry in new_entries]
    new_pinned = _pinned(pinned, plan if changed else None, limits, script)
    origin = Origin(run_id, at, Chunk(len(lines), pack(lines)))
    journal = await create(store, made, plan, new_pinned, state.input, origin=origin)
    try:
        await journal.commit(state)
    finally:
        await journal.close()
    return made


async def replay(
    store: Store,
    run_id: str,
    workflow: Source | None = None,
    limits: Mapping[str, float] | None = None,
    allow_paths: AllowPaths = (),
) -> Difference | None:
    """Where the run would first have gone another way; None if it would not."""
    pinned = await store.pinned(run_id)
    now = changed_plan(pinned, workflow, limits, allow_paths)
    rerun = Rerun(pinned_plan(pinned), await store.entries(run_id), now)
    rerun.play()
    return rerun.difference


def _without_stop(entries: list[Entry]) -> list[Entry]:
    """A stopped run goes on, in its fork, from before it was stopped."""
    return [entry for entry in entries if not isinstance(entry.fact, Stopped)]


def _replay_until(
    before: Plan, entries: list[Entry], plan: Plan, run_id: str, at: str, changed: bool
) -> tuple[Run, list[Entry]]:
    is_reached = _starts_at(at) if at else (lambda _events: False)
    if changed:
        rerun = Rerun(before, entries, plan, run_id)
        found, state, new_entries = rerun.play(is_reached), rerun.state, rerun.entries
    else:
        found, state, new_entries = False, Run(plan), []
        for fact, decisions in entries:
            own = msgspec.structs.replace(fact, run_id=run_id) if isinstance(fact, Started) else fact
            events = step(state, own, decisions)[1]
            new_entries.append(Entry(own, tuple(state.decisions.made)))
            if is_reached(events):
                found = True
                break
    if at and not found:
        raise StoreError(f"the run never came to '{at}'; `roundel log RUN` shows its addresses")
    return state, new_entries


def _starts_at(at: str) -> Callable[[list[Event]], bool]:
    def holds(events: list[Event]) -> bool:
        return any(
            event.address == at
            and (event.event in ("loop_round", "tool_call") or event.data.get("status") == "running")
            for event in events
        )

    return holds


def _call_at(state: Run, at: str) -> str:
    """The call that a changed message is for."""
    there = [address for address in state.calls if not at or address == at or address.startswith(f"{at}/")]
    if len(there) == 1:
        return there[0]
    if not there:
        raise StoreError(f"nothing is asked at '{at}' whose message could be changed")
    raise StoreError(f"the message could be for {', '.join(sorted(there))}; say which (--at ADDRESS)")


def _pinned(
    pinned: Pinned, changed: Plan | None, limits: Mapping[str, float] | None, script: Script | None
) -> Pinned:
    changes: dict[str, Any] = {"limits": {**pinned.limits, **(limits or {})}}
    if script is not None:
        changes["script"] = script.text
    if changed is not None:
        changes["workflow"] = pin(changed).workflow
    return msgspec.structs.replace(pinned, **changes)
