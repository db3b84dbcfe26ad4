"""Unlocking: a person lets a locked run continue, with a reason, three confirmed checks and maybe a
change.

The run continues in the same round. The changes:

    limits     a raised limit applies from now on to the loop, graph or node that reached it; without
               one, rounds, lists and working time are allowed as many again, and a model without a known
               price is accepted for the rest of the run
    message    replaces the last message that waits for the next node
    note       is added after it, for the next agent
    exit       leaves the loop for a node outside of it

A second unlock of the same lock in a row needs a change: a raised limit, an edited message or an exit.

`check_unlock` refuses without changing anything, because an illegal fact must leave the run unchanged.
`unlock` relies on its checks.
"""

from __future__ import annotations

from typing import Any

import msgspec

from roundel.kernel.breaker import history_of
from roundel.kernel.facts import Unlocked
from roundel.kernel.lifecycle import update_intercept_inputs
from roundel.kernel.loops import leave_between_rounds, raise_cap
from roundel.kernel.payloads import BreakerUnlocked, Change
from roundel.kernel.rounds import cap_of
from roundel.kernel.state import (
    BEGIN_COMPOSITE,
    CRASHES,
    GROUP_LIMIT,
    MANUAL,
    NEXT_ROUND,
    START_CALLS,
    START_ITERATIONS,
    TIMEOUT,
    TRIPS,
    UNPRICED,
    Activation,
    CompositeRun,
    Lock,
    Run,
    ToolLoop,
)
from roundel.workflow.message import Message

CHECKS = ("cause_understood", "cost_accepted", "workflow_reviewed")
"""What the person has to confirm: the cause of the lock is understood, the cost of continuing is
accepted, and the workflow or its limits were reviewed."""


class UnlockRefused(Exception):
    """The unlock is refused; the text gives the reason."""

    def __init__(self, text: str, *fields: str) -> None:
        super().__init__(text)
        self.fields = fields
        """The fields of `Unlocked` that have to change."""


def check_unlock(run: Run, fact: Unlocked) -> None:
    """Raises UnlockRefused if the run cannot be unlocked with this fact. Changes nothing."""
    lock = run.lock
    if lock is None or run.status != "suspended_locked":
        raise UnlockRefused("the run is not locked")
    if not fact.reason.strip():
        raise UnlockRefused("a reason is needed", "reason")
    missing = [name for name in CHECKS if name not in fact.checks]
    if missing:
        raise UnlockRefused(f"not confirmed: {', '.join(missing)}", "checks")
    changed = bool(fact.limits or fact.message is not None or fact.exit)
    if run.guard_stats.last_unlock == _scope(lock) and not changed:
        advice = "raise a limit, edit the last message or leave the loop"
        raise UnlockRefused(
            f"it was locked by {lock.what} twice in a row; {advice}", "limits", "message", "exit"
        )
    known = _raisable_limits(run, lock)
    unknown = sorted(fact.limits.keys() - known.keys())
    if unknown:
        raise UnlockRefused(
            f"'{unknown[0]}' did not lock this run; {', '.join(sorted(known)) or 'no limit'} can be raised",
            "limits",
        )
    for name, limit in fact.limits.items():
        if not limit > known[name]:
            raise UnlockRefused(
                f"'{name}' is {known[name]:g} already; the raised limit must be larger", "limits"
            )
    if fact.message is not None and _next_input(run) is None:
        raise UnlockRefused("no message is waiting that could be edited", "message")
    if fact.exit:
        _find_exit(run, fact.exit)


def unlock(run: Run, fact: Unlocked) -> None:
    """Applies a fact that `check_unlock` has accepted."""
    lock = run.lock
    assert lock is not None
    changed = bool(fact.limits or fact.message is not None or fact.exit)
    changes = _changes(run, lock, fact)
    # A person may lock a run as often as they like, the cause of crashes may be repaired outside of it, and
    # the next day may be used up as this one was.
    repeatable = changed or lock.what in (CRASHES, MANUAL, GROUP_LIMIT)
    run.guard_stats.last_unlock = "" if repeatable else _scope(lock)
    if fact.message is not None:
        _edit(run, fact.message)
    if fact.note:
        run.note = Message(fact.note, "system", metadata={"source": "unlock"})
    unlocked = BreakerUnlocked(
        fact.reason, fact.by, "RESUMED", lock.what, changes or None, fact.note, fact.exit
    )
    run.emit(unlocked, lock.node_id or None, lock.address or None)
    _raise(run, lock, fact.limits)
    if fact.exit:
        _leave(run, fact.exit)
    run.lock, run.lock_budget = None, None
    # Limits are raised and the loop is left before the lock is removed: `_raise` and `_leave` need the
    # lock's budget and the held entries. These are decided again afterwards, and may find another limit
    # reached.
    run.update_fast_path()
    run.emit_status("running", f"unlocked: {fact.reason}", "unlock", fact.by)
    run.ready_queue.extend(run.held)
    run.held.clear()


def _changes(run: Run, lock: Lock, fact: Unlocked) -> list[Change]:
    """What the person changes, with the values before."""
    known = _raisable_limits(run, lock)
    changes = [Change(f"/limits/{name}", known[name], _whole(limit)) for name, limit in fact.limits.items()]
    if fact.message is not None:
        changes.append(Change("/message", _last_text(run), fact.message))
    return changes


def _whole(limit: float) -> float:
    """As people write it: 5, not 5.0, which is what a fact has."""
    return int(limit) if limit == int(limit) else limit


def _scope(lock: Lock) -> str:
    """What two locks have in common if they are the same in a row.

    For a budget that is its scope, not the node: any node inside can be the one that reaches it. For a
    price that is not known it is the model.
    """
    return f"{lock.what} {lock.evidence.get('model', lock.evidence.get('scope', lock.node_id))}"


def _raisable_limits(run: Run, lock: Lock) -> dict[str, float]:
    """The limits that the unlock may raise, with their current values."""
    if run.lock_budget is not None:
        return run.lock_budget.limits
    if lock.what in TRIPS:
        trip = TRIPS[lock.what]
        return {trip.raises: trip.reached(run)} if trip.raises else {}
    return {"rounds": lock.limit} if lock.what in _ROUNDS else {}


_ROUNDS = ("rounds", "items", "tool_rounds")
"""Locks after which more rounds can be allowed."""


def _raise(run: Run, lock: Lock, limits: dict[str, float]) -> None:
    """Raises limits: of the budget that locked the run, or of everything held back at its cap. The model
    whose price is not known is accepted, for the rest of the run."""
    if lock.what == UNPRICED:
        run.guard_stats.unpriced_models.append(lock.evidence["model"])
    if run.lock_budget is not None:
        run.lock_budget.raise_to(limits)
        return
    run.allow(limits.get("seconds", _time_limit(run, lock)))
    # Runs of semantics 0 forget at the next unlock what an earlier one has allowed.
    kept = run.guard_stats.surge_allowance if run.plan.semantics else 0.0
    run.guard_stats.surge_allowance = limits.get("tokens", kept)
    for item, index in run.held:
        if index == NEXT_ROUND and isinstance(item, Activation):
            cap = cap_of(run, item)
            # All loops that wait at their cap, not only the first: several can reach it while the run is
            # being locked.
            if item.round >= cap:
                raise_cap(run, item, max(cap, int(limits.get("rounds", cap + item.scope.cap))))
        elif "rounds" in limits and isinstance(item, CompositeRun) and item.execution.address == lock.address:
            item.controller.allow(int(limits["rounds"]))
        elif "rounds" in limits and isinstance(item, ToolLoop) and item.execution.address == lock.address:
            item.conversation.allow(int(limits["rounds"]))


def _time_limit(run: Run, lock: Lock) -> float:
    """The working time that an unlock allows if the person names none: after a timeout, the same time again.

    It counts from the unlock. Calls in flight at the trip may have worked for long after it, and that time is
    not taken from what the person grants.
    """
    if lock.what == TIMEOUT and run.plan.semantics:
        return run.worked + run.plan.time_limit
    return run.time_limit


def _next_input(run: Run) -> tuple[Any, int] | None:
    """The place of the message that the next node will get: a list and an index, or a composite run or
    tool loop."""
    for item, index in run.held:
        if index in (START_CALLS, START_ITERATIONS, BEGIN_COMPOSITE):
            return (item, -1) if _inputs(item) else None
        if not isinstance(item, Activation):
            continue
        instance = item.instance
        node = item.scope.entry if index == NEXT_ROUND else _node_of(item, index)
        if node is None:
            continue
        # Arrivals are admitted after the messages in the queue.
        for messages in (instance.arrivals[node], instance.queues[node]):
            if messages:
                return messages, len(messages) - 1
    return None


def _node_of(activation: Activation, index: int) -> int | None:
    node = activation.scope.units[index].node if index >= 0 else None
    return node.index if node is not None else None


def _edit(run: Run, text: str) -> None:
    """Replaces the last message that waits for the next node."""
    found = _next_input(run)
    assert found is not None
    messages, place = found
    # The inputs of pending iterations are copies; the node's own inputs have been used already.
    if isinstance(messages, CompositeRun) and messages.pending:
        messages.pending = [
            msgspec.structs.replace(iteration, inputs=_replace_last(iteration.inputs, text))
            for iteration in messages.pending
        ]
        return
    if isinstance(messages, (CompositeRun, ToolLoop)):
        messages.inputs = _replace_last(messages.inputs, text)
        update_intercept_inputs(messages.execution, messages.inputs)
        return
    last = messages[place]
    if isinstance(last, Message):
        messages[place] = msgspec.structs.replace(last, content=text)
    else:
        key, edge, message = last
        messages[place] = (key, edge, msgspec.structs.replace(message or Message(), content=text))


def _last_text(run: Run) -> str:
    """The text that `_edit` replaces."""
    found = _next_input(run)
    assert found is not None
    messages, place = found
    if isinstance(messages, (CompositeRun, ToolLoop)):
        return _inputs(messages)[-1].text
    last = messages[place]
    message = last if isinstance(last, Message) else last[2]
    return "" if message is None else message.text


def _inputs(item: CompositeRun | ToolLoop) -> tuple[Message, ...]:
    if isinstance(item, CompositeRun) and item.pending:
        return item.pending[-1].inputs
    return item.inputs


def _replace_last(inputs: tuple[Message, ...], text: str) -> tuple[Message, ...]:
    return (*inputs[:-1], msgspec.structs.replace(inputs[-1], content=text)) if inputs else inputs


def _find_exit(run: Run, target: str) -> tuple[Activation, int]:
    """The innermost free loop that waits, and the node outside of it that `exit` names;
    UnlockRefused."""
    for item, index in run.held:
        if isinstance(item, Activation) and (index >= 0 or index == NEXT_ROUND) and item.parent is not None:
            plan = item.instance.plan
            outside = {
                plan.nodes[edge.target].id: edge.target
                for edge in plan.edges
                if edge.source in item.scope.members and edge.target not in item.scope.members
            }
            if target in outside:
                return item, outside[target]
            ways = ", ".join(sorted(outside)) or "nowhere"
            raise UnlockRefused(
                f"no edge leads from the loop '{item.name}' to '{target}'; its exits lead to {ways}",
                "exit",
            )
    raise UnlockRefused("the run is not locked inside a free loop, so there is none to leave", "exit")


def _leave(run: Run, target: str) -> None:
    """Leaves the loop for a node outside of it, as if an edge to that node had fired.

    The node gets the last message of the loop.
    """
    activation, node = _find_exit(run, target)
    instance = activation.instance
    assert activation.scope.entry is not None  # it is a loop
    said = history_of(instance, activation.scope.entry).said
    who, text = (said[-1][1], said[-1][3]) if said else ("unlock", "")
    instance.queues[node].append(Message(text, "user", metadata={"source": who}))
    instance.marks[node] = 1
    left: Activation | None = activation
    layer = -1  # before the first layer, so nothing else of this round runs
    while left is not None and left.parent is not None and node not in left.scope.members:
        left.exit_layer, left.exit_reason, left.exit_by = layer, "unlocked", "unlock"
        layer = left.unit.layer if left.unit is not None else -1
        left = left.parent
    # Between two rounds no unit is left that would settle and end the round, so the loop is ended here.
    between = [(item, index) for item, index in run.held if item is activation and index == NEXT_ROUND]
    if between:
        run.held = [held for held in run.held if held not in between]
        leave_between_rounds(run, activation)
