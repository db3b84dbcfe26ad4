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

from roundel.hosts.stored_run import Origin, create, new_id, pin, plan_of, plan_of_another, secrets_at_hand
from roundel.journal.run_journal import pack
from roundel.journal.store import Chunk, Pinned, Store, StoreError
from roundel.kernel.commands import Ask, Call, Cancel, Command, Review
from roundel.kernel.events import Event
from roundel.kernel.facts import (
    Answered,
    Consulted,
    Edited,
    Entry,
    Fact,
    Failed,
    Finished,
    Outcome,
    Paused,
    Reopened,
    Resumed,
    Reviewed,
    Reviews,
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
from roundel.workflow.file_access import AllowPaths
from roundel.workflow.message import Message

Effect = Finished | Failed | Answered | Consulted | Reviewed | Edited
Steering = Waited | Paused | Resumed | Reopened | Unlocked
"""Not an answer to any command, but it decides what runs and which time counts."""
Moment = tuple[str, str]
"""An address, and whether the node there is yet to run or has."""
_SEEN = {"running": "before", "completed": "after"}
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
        past = _Past(before, entries)
        self._history, self._ended, self._unasked = past.history, past.ended, past.unasked
        self._begun = msgspec.structs.replace(past.begun, reviews=_reviews([entry.fact for entry in entries]))
        self._run_id = run_id
        self._time = 0.0
        self._behaviours: dict[int, Any] = {}
        self._waiting: dict[str, Command] = {}

    def play(self, until: Callable[[list[Event]], bool] = lambda _events: False) -> bool:
        """Goes on until something is shown that is waited for; whether it was."""
        begun = self._begun
        events: list[Event] | None = self._apply(
            msgspec.structs.replace(begun, run_id=self._run_id or begun.run_id)
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
                self._waiting.pop(command.address, None)
            else:
                self._waiting[command.address] = command
        return events

    def _advance(self) -> list[Event] | None:
        """Pure nodes decide first, and where no middleware was asked then, none is now; then what happened
        first happens again. None if there is nothing left that can."""
        for address, command in self._waiting.items():
            if isinstance(command, Call) and self._plan.sites[command.site].kind.pure:
                del self._waiting[address]
                return self._apply(Finished(address, self._decided(command), self._time))
            if isinstance(command, Review) and _moment(command) in self._unasked:
                del self._waiting[address]
                return self._apply(Reviewed(address, self._time))
        for number, happened in enumerate(self._history):
            events = self._repeat(happened)
            if events is not None:
                del self._history[number]
                if isinstance(happened.fact, Effect):
                    self._compare_locks(self._history[:number])
                return events
        return None

    def _repeat(self, happened: _Happened) -> list[Event] | None:
        """None if it cannot happen now."""
        fact, requested = happened.fact, happened.requested
        if isinstance(fact, Steering):
            return self._steer(fact, happened.lock)
        waits = self._waiting.get(fact.address)
        if waits is None or waits.__class__ is not requested.__class__:
            return None
        assert requested is not None
        self._compare(requested, waits)
        del self._waiting[fact.address]
        return self._apply(fact)

    def _steer(self, fact: Steering, lock: Lock | None) -> list[Event] | None:
        now = self.state.lock
        if lock is not None and (now is None or (now.what, now.address) != (lock.what, lock.address)):
            return None  # one lock was looked into and opened, not any other that there may be now
        if isinstance(fact, Reopened):
            # The middleware of all parts of the run is asked from the start (`_reviews`, `_unasked`).
            fact = msgspec.structs.replace(fact, reviews=None)
        try:
            return self._apply(fact)
        except IllegalFact:
            return None

    def _decided(self, call: Call) -> Outcome:
        node = self._plan.sites[call.site]
        if call.site not in self._behaviours:
            self._behaviours[call.site] = node.kind.prepare(node.node, self)
        outcome = self._behaviours[call.site](call)
        assert isinstance(outcome, Outcome)
        return outcome

    def _compare(self, before: Command, command: Command) -> None:
        then, now = _text(before), _text(command)
        if then != now:
            self._differ(Difference(command.address, "is asked something else", then, now))

    def _compare_locks(self, before: list[_Happened]) -> None:
        """A node has gone on although, then, a lock had to be opened before it could."""
        for happened in before:
            if happened.lock is not None:
                self._differ(Difference(happened.lock.address, "was locked then, and is not now"))

    def _conclude(self) -> None:
        for address in self._waiting if self._ended else ():
            self._differ(Difference(address, "runs now, and did not then"))
        for happened in self._history:
            if not isinstance(happened.fact, Steering):
                what = f"ran then, and does not now: the run is {self.state.status}"
                self._differ(Difference(happened.fact.address, what))

    def _differ(self, difference: Difference) -> None:
        self.difference = self.difference or difference

    # What pure nodes are lent.

    def now(self) -> float:
        return self._time

    def workspace(self) -> Path:
        raise StoreError("a pure node asks for a folder")


class _Happened(Struct, frozen=True):
    """A fact of the run that happened."""

    fact: Effect | Steering
    requested: Command | None = None
    """What an effect answered."""
    lock: Lock | None = None
    """What was unlocked."""


class _Past:
    """What the run that happened can tell."""

    def __init__(self, plan: Plan, entries: list[Entry]) -> None:
        begun, state = entries[0].fact, Run(plan)
        assert isinstance(begun, Started)
        self.begun = begun
        self.history: list[_Happened] = []
        """In order; what pure nodes decided is left out."""
        requested: set[Moment] = set()
        came: set[Moment] = set()
        for fact, decisions in entries:
            self._note(plan, state, fact)
            commands, events = step(state, fact, decisions)
            requested |= {_moment(command) for command in commands if isinstance(command, Review)}
            came |= {
                (event.address or "", _SEEN[event.data["status"]])
                for event in events
                if event.event == "node_state_change" and event.data.get("status") in _SEEN
            }
        self.unasked = came - requested
        """The moments at which no middleware was asked: it may have been another one, before and after the
        run was left for a while."""
        self.ended = state.status in ("completed", "failed", "suspended_locked")
        """It came to an end of its own. One that was stopped, or is not over, might have gone on."""

    def _note(self, plan: Plan, state: Run, fact: Fact) -> None:
        if isinstance(fact, Steering):
            self.history.append(_Happened(fact, lock=state.lock if isinstance(fact, Unlocked) else None))
        elif isinstance(fact, Effect):
            command = state.calls[fact.address].command
            assert command is not None
            if not (isinstance(command, Call) and plan.sites[command.site].kind.pure):
                self.history.append(_Happened(fact, command))


def _moment(review: Review) -> Moment:
    return review.address, "before" if review.messages is None else "after"


def _reviews(facts: list[Fact]) -> Reviews:
    """Whatever middleware was asked about at some time."""
    recorded = [fact.reviews for fact in facts if isinstance(fact, (Started, Reopened)) and fact.reviews]
    before = dict.fromkeys(node for reviews in recorded for node in reviews.before)
    after = dict.fromkeys(node for reviews in recorded for node in reviews.after)
    return Reviews(tuple(before), tuple(after))


def _text(command: Command) -> str:
    messages: tuple[Message, ...] = ()
    if isinstance(command, (Call, Ask, Review)):
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
    entries = _without_end(await store.entries(run_id))
    before = plan_of(pinned)
    changed = workflow is not None or bool(limits)
    plan = plan_of_another(pinned, workflow, limits, allow_paths) if changed else before
    made = new_id()
    state, new_entries = _played(before, entries, plan, made, at, changed)
    if message is not None:
        said = Message(secrets_of(plan).mask(secrets_at_hand(pinned).mask(message)))
        edited = Edited(_call_at(state, at), said, max(time.time(), new_entries[-1].fact.time))
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
    now = plan_of_another(pinned, workflow, limits, allow_paths)
    rerun = Rerun(plan_of(pinned), await store.entries(run_id), now)
    rerun.play()
    return rerun.difference


def _without_end(entries: list[Entry]) -> list[Entry]:
    """A stopped run goes on, in its fork, from before it was stopped."""
    return [entry for entry in entries if not isinstance(entry.fact, Stopped)]


def _played(
    before: Plan, entries: list[Entry], plan: Plan, run_id: str, at: str, changed: bool
) -> tuple[Run, list[Entry]]:
    comes_up = _comes_up(at) if at else (lambda _events: False)
    if changed:
        rerun = Rerun(before, entries, plan, run_id)
        found, state, new_entries = rerun.play(comes_up), rerun.state, rerun.entries
    else:
        found, state, new_entries = False, Run(plan), []
        for fact, decisions in entries:
            own = msgspec.structs.replace(fact, run_id=run_id) if isinstance(fact, Started) else fact
            events = step(state, own, decisions)[1]
            new_entries.append(Entry(own, tuple(state.decisions.made)))
            if comes_up(events):
                found = True
                break
    if at and not found:
        raise StoreError(f"the run never came to '{at}'; `roundel log RUN` shows its addresses")
    return state, new_entries


def _comes_up(at: str) -> Callable[[list[Event]], bool]:
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
