"""The breaker: locks a run whose loop is dead, whose tokens surge, that takes too long, or that a person
locks.

A lock does not end the run: calls in flight finish, nothing new begins, and a person can unlock it
(unlock.py). `lock` serves all limits, also caps and budgets; `trip` adds the evidence and the event of
the breaker. What a surge of tokens is, token_surge.py decides.

The breaker is part of the kernel and sees facts only (docs/decisions/0009): what locks a run decides
what happens next, so a watcher outside of the kernel would let a replay take another way. Usage and
times come in with the facts, and what depends on patterns, Unicode tables or the forecast is a stored
decision.

A message counts for every loop around its speaker, over all entries of the loop. Messages of literals,
guards and pass-through nodes do not count. Loops are examined when a round ends and another one is to
follow, in the order of the file, so that nothing depends on timing and a loop that has just been left
never trips.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from roundel.kernel.dead_loop import SHOWN, LoopHistory, StaleMessages, Utterance, repetitions
from roundel.kernel.novelty import ONE_PLACE
from roundel.kernel.payloads import AnyTrip, LimitReached, Warned
from roundel.kernel.state import TIMEOUT, TRIPS, Activation, Execution, GraphInstance, Lock, Run, order_key
from roundel.plan.graph import GraphPlan
from roundel.plan.guards import guards
from roundel.plan.proof import bounds
from roundel.plan.scope import Scope
from roundel.workflow.limits import Breaker
from roundel.workflow.message import Message


def lock(
    run: Run,
    what: str,
    limit: float,
    node_id: str,
    address: str,
    evidence: dict[str, Any] | None = None,
    *,
    emit_event: bool = True,
) -> None:
    """Locks the run because a limit is reached: nothing new begins until a person unlocks it.

    Only the first lock counts; a later one emits its event, and is found again after the unlock.
    """
    if emit_event:
        locks = run.lock is None
        reached = {"what": what, "limit": limit, "address": address, "locks": locks, **(evidence or {})}
        run.emit(msgspec.convert(reached, LimitReached), node_id, address)
    if run.lock is None:
        run.lock = Lock(what, limit, address, node_id, evidence or {})
        run.lock_budget = None
        run.fast_path = False


Figures = dict[str, Any]
Place = tuple[str, str]
"""A node id and an address; empty for the run as a whole."""


def record_message(execution: Execution, messages: tuple[Message, ...]) -> None:
    """Records a message of an agent or a person in the histories of all loops around it."""
    if messages:
        when = (order_key(execution.activation), execution.unit.position)
        for history in _histories(execution):
            history.record_message(when, execution.node.id, execution.address, messages[-1].text)


def record_result(execution: Execution, text: str) -> None:
    """Records a result of a Python node or a tool, or a score: a new one is progress, whatever the messages
    say."""
    for history in _histories(execution):
        history.record_result(text)


def lock_dead_loop(
    run: Run, history: LoopHistory, breaker: Breaker, at: Place, scope: Scope | None, is_bounded: bool = False
) -> bool:
    """Ends a round in the history of its loop; returns whether the loop is dead, which locks the run.

    Called when another round is to follow. While the run is locked for another reason nothing trips, but
    the history advances. `scope` is that of a free loop, whose proof says whether it is bounded; of a node
    that repeats by itself, the caller knows whether its settings end it (`is_bounded`).
    """
    found = history.end_round(breaker, run.decisions.record_or_replay)
    if found is None or run.lock is not None:
        return False
    evidence = _evidence(run, history, found.messages, scope)
    if found.certainty == ONE_PLACE and (
        is_bounded or (scope is not None and run.decisions.record_or_replay(_is_proved, scope))
    ):
        _warn_about_staleness(run, history, found.rounds, at, evidence)
        return False
    values = [message["novelty"] for message in evidence["messages"]]
    figures = {"novelty": values, "threshold": breaker.threshold, "stale_rounds": found.rounds}
    trip(run, "dead_loop", at, figures, evidence)
    history.reset_staleness()
    return True


def _is_proved(scope: Scope) -> bool:
    """Whether something other than its cap is certain to end a loop."""
    limits, worst = bounds(scope)
    return bool(limits) or worst is not None


def _warn_about_staleness(run: Run, history: LoopHistory, rounds: int, at: Place, evidence: Figures) -> None:
    """Says once that a loop hardly changes, and goes on: its bound ends it."""
    if history.warned:
        return
    history.warned = True
    node_id, address = at
    changes = [pair for message in evidence["messages"] for pair in message.get("changed", ())]
    shown = "; ".join(f"{before[:40]!r} became {now[:40]!r}" for before, now in changes[-2:])
    text = f"For {rounds} rounds, '{node_id}' has changed only a word or a number here and there"
    message = f"{text}: {shown}" if shown else text
    warned = {"message": message, "code": "stale", "address": address, **evidence}
    run.emit(msgspec.convert(warned, Warned), node_id, address)


def check_time(run: Run, execution: Execution) -> None:
    """Trips if the run has worked for too long. `step` calls it when a fact arrives after the
    deadline."""
    if run.worked > run.time_limit:
        trip_time(run, execution)


def trip_time(run: Run, execution: Execution) -> None:
    """Trips because the working time is used up, at a call in flight."""
    allowed = run.plan.time_limit
    figures = {"seconds": round(run.worked, 1), "limit": allowed}
    trip(run, TIMEOUT, (execution.node.id, execution.address), figures, {})
    if not run.plan.semantics:
        # Runs of semantics 0 got the time of the next unlock here, and spent it while the last calls ended.
        run.allow(run.worked + allowed)


def trip(run: Run, trigger: str, at: Place, figures: Figures, evidence: Figures) -> None:
    """Locks the run for one of the reasons in `TRIPS`, with its event and evidence."""
    if run.lock is not None:
        return
    node_id, address = at
    place = {"address": address} if address else {}
    tripped = {"trigger": trigger, "state": "SUSPENDED_LOCKED", **place, **figures, **evidence}
    run.emit(msgspec.convert(tripped, AnyTrip), node_id or None, address or None)
    limit = next((figures[name] for name in TRIPS[trigger].limits if name in figures), 0)
    lock(run, trigger, limit, node_id, address, {**figures, **evidence}, emit_event=False)


def _evidence(run: Run, history: LoopHistory, stale: StaleMessages, scope: Scope | None) -> dict[str, Any]:
    """The stale messages beside those that they repeat, and the guard that could have ended the loop."""
    found: list[dict[str, Any]] = run.decisions.record_or_replay(repetitions, history.said, stale)
    evidence: dict[str, Any] = {"messages": found}
    nearest = run.decisions.record_or_replay(_nearest_guard, scope)
    if nearest:
        evidence["guard"] = nearest
    return evidence


def _nearest_guard(scope: Scope | None) -> str:
    found = guards(scope) if scope is not None else ()
    return found[0][0].id if found else ""


def last_messages(history: LoopHistory) -> list[Figures]:
    """The last messages of a loop, as evidence for a lock at its cap."""
    return [_utterance_data(utterance) for utterance in history.last(4)]


def _utterance_data(utterance: Utterance) -> Figures:
    _, node, address, text = utterance
    return {"node": node, "address": address, "text": text[:SHOWN]}


def _histories(execution: Execution) -> Iterator[LoopHistory]:
    """The histories of the loops around an execution, from the inside out.

    Stops at a loop agent over a list or a count: each element is a case of its own, and messages about
    one do not repeat messages about another.
    """
    activation: Activation | None = execution.activation
    while activation is not None:
        instance = activation.instance
        if activation.parent is not None and activation.scope.entry is not None:
            yield history_of(instance, activation.scope.entry)
            activation = activation.parent
            continue
        composite_run = instance.composite_run
        if composite_run is not None and composite_run.execution.node.kind.loops:
            if getattr(composite_run.controller, "allows_repetition", False):
                return
            yield composite_run.history
        activation = instance.caller.activation if instance.caller is not None else None


def breaker_of(plan: GraphPlan, loop: str) -> Breaker:
    """The breaker settings of a loop: its own, or those of its graph."""
    own = plan.graph.loops.get(loop)
    return (own.breaker if own is not None else None) or plan.breaker


def breaker_around(execution: Execution) -> Breaker:
    """The breaker settings of the innermost free loop, or of the graph."""
    activation = execution.activation
    plan = activation.instance.plan
    return plan.breaker if activation.scope.entry is None else breaker_of(plan, activation.name)


def history_of(instance: GraphInstance, entry: int) -> LoopHistory:
    """The history of a free loop, created on first use. It belongs to the graph instance, not to an
    entry."""
    if entry not in instance.histories:
        instance.histories[entry] = LoopHistory()
    return instance.histories[entry]
