"""Limits lock a run; they do not kill it.

The breaker: sees that a loop is dead (circles.py), that tokens run away, that it all takes too long.

A message counts for every loop around its speaker, over all entries of the loop. What literals, guards and
pass-through nodes say does not count.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from roundel.kernel.dead_loop import SHOWN, History, Judged, Said, repetitions
from roundel.kernel.state import TRIPS, Activation, Execution, Instance, Lock, Run, moment
from roundel.plan.forecast import forecast
from roundel.plan.graph import GraphPlan, Plan
from roundel.plan.guards import guards
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
    tell: bool = True,
) -> None:
    """A limit is met: nothing new begins until a person unlocks the run."""
    if tell:
        data = {"what": what, "limit": limit, "address": address, **(evidence or {})}
        run.emit("limit_reached", node_id, address, data)
    if run.lock is None:
        run.lock = Lock(what, limit, address, node_id, evidence or {})
        run.lock_budget = None
        run.smooth = False


Figures = dict[str, Any]
Place = tuple[str, str]
"""A node and an address."""
FIRST_CALLS = 3
"""So many calls tell how large a call is."""
MOST_CALLS = 1000
"""A worst case beyond this says nothing of what a run usually takes."""


def listen(execution: Execution, messages: tuple[Message, ...]) -> None:
    """An agent or a person spoke: the loops around them remember it until their round is over."""
    if messages:
        when = (moment(execution.activation), execution.unit.position)
        for history in _histories(execution):
            history.hear(when, execution.node.id, execution.address, messages[-1].text)


def note_result(execution: Execution, text: str) -> None:
    """A Python node or a tool gave a result."""
    for history in _histories(execution):
        history.note_result(text)


def goes_in_circles(run: Run, history: History, breaker: Breaker, at: Place, scope: Scope | None) -> bool:
    """At the end of a round that another is to follow: whether the loop is dead, which locks the run."""
    stale = history.end_round(breaker, run.decisions.take)
    if stale is None or run.lock is not None:
        return False
    values = [value for _, value in stale]
    rounds = len({history.said[place][0] for place, _ in stale})
    figures = {"novelty": values, "threshold": breaker.threshold, "stale_rounds": rounds}
    trip(run, "dead_loop", at, figures, _evidence(run, history, stale, scope))
    history.start_anew()
    return True


def count_tokens(run: Run, execution: Execution, tokens: int) -> None:
    """Trips if the run has spent far more than was to be expected."""
    breaker = run.plan.breaker
    if not tokens or not breaker.watches_tokens:
        return
    if len(run.watch.first_calls) < FIRST_CALLS:
        run.watch.first_calls.append(tokens)
    spent = run.usage["input_tokens"] + run.usage["output_tokens"] - run.watch.aside
    if spent > breaker.factor * _estimate(run) and spent > run.watch.surge_until:
        figures = {"tokens": spent, "estimate": round(_estimate(run)), "factor": breaker.factor}
        trip(run, "token_surge", (execution.node.id, execution.address), figures, {})
        run.watch.surge_from = spent


def check_time(run: Run, execution: Execution) -> None:
    """Trips if the run has worked for too long."""
    if run.worked > run.patience:
        allowed = run.plan.patience
        figures = {"seconds": round(run.worked, 1), "limit": allowed}
        trip(run, "timeout", (execution.node.id, execution.address), figures, {})
        run.allow(run.worked + allowed)


def trip(run: Run, trigger: str, at: Place, figures: Figures, evidence: Figures) -> None:
    if run.lock is not None:
        return
    node_id, address = at
    shown = {"trigger": trigger, "state": "SUSPENDED_LOCKED", "address": address, **figures, **evidence}
    run.emit("breaker_tripped", node_id, address, shown)
    limit = next((figures[name] for name in TRIPS[trigger].limits if name in figures), 0)
    lock(run, trigger, limit, node_id, address, {**figures, **evidence}, tell=False)


def _evidence(run: Run, history: History, stale: Judged, scope: Scope | None) -> dict[str, Any]:
    """The messages beside those that they repeat, and who could have ended the loop."""
    found: list[dict[str, Any]] = run.decisions.take(repetitions, history.said, stale)
    evidence: dict[str, Any] = {"messages": found}
    nearest = run.decisions.take(_nearest_guard, scope)
    if nearest:
        evidence["guard"] = nearest
    return evidence


def _nearest_guard(scope: Scope | None) -> str:
    found = guards(scope) if scope is not None else ()
    return found[0][0].id if found else ""


def last_messages(history: History) -> list[Figures]:
    return [_shown(said) for said in history.last(4)]


def _shown(said: Said) -> Figures:
    _, node, address, text = said
    return {"node": node, "address": address, "text": text[:SHOWN]}


def _estimate(run: Run) -> float:
    """The tokens that the run may be expected to take: the forecast's calls, of the size that they have."""
    if run.watch.expected is None:
        calls, size = run.decisions.take(expectation, run.plan)
        run.watch.expected = (calls, size)
    calls, size = run.watch.expected
    measured = sum(run.watch.first_calls) / len(run.watch.first_calls) if run.watch.first_calls else 0
    return max(1, calls) * max(size, measured) + run.watch.surge_from


def expectation(plan: Plan) -> tuple[int, float]:
    """How many model calls, and how many tokens each: the forecast's worst case where it is of use."""
    told = forecast(plan)
    calls = told.model_calls
    typical = max(1, calls.typical)
    bounded = calls.worst is not None and calls.worst <= MOST_CALLS
    return (calls.worst or 1) if bounded else typical, told.tokens.typical / typical


def _histories(execution: Execution) -> Iterator[History]:
    """Those of the loops around, inside out. Each element of a list is a case of its own: what is said of one
    does not repeat what was said of another."""
    activation: Activation | None = execution.activation
    while activation is not None:
        instance = activation.instance
        if activation.parent is not None and activation.scope.entry is not None:
            yield history_of(instance, activation.scope.entry)
            activation = activation.parent
            continue
        performance = instance.performance
        if performance is not None and performance.execution.node.kind.loops:
            if getattr(performance.conductor, "independent", False):
                return
            yield performance.history
        activation = instance.caller.activation if instance.caller is not None else None


def breaker_of(plan: GraphPlan, loop: str) -> Breaker:
    """That of a loop, if it has one of its own."""
    own = plan.graph.loops.get(loop)
    return (own.breaker if own is not None else None) or plan.breaker


def breaker_around(execution: Execution) -> Breaker:
    """That of the innermost loop, or of the graph."""
    activation = execution.activation
    plan = activation.instance.plan
    return plan.breaker if activation.scope.entry is None else breaker_of(plan, activation.name)


def history_of(instance: Instance, entry: int) -> History:
    if entry not in instance.histories:
        instance.histories[entry] = History()
    return instance.histories[entry]
