"""The breaker: sees that a loop says nothing new, that tokens run away, that it all takes too long.

What agents and people say in a loop is compared with what was said in that loop before, by compression: a
message is as new as the bytes that it adds. A message counts for every loop around it, over all its entries.
What literals, guards and pass-through nodes say does not count.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

from roundel.kernel.activation import Activation, History, Instance, moment
from roundel.kernel.execution import Execution
from roundel.kernel.locking import lock
from roundel.kernel.novelty import MOST_EARLIER, novelty
from roundel.kernel.state import Run
from roundel.kernel.trips import TRIPS
from roundel.plan.forecast import forecast
from roundel.plan.graph import GraphPlan, Plan
from roundel.plan.guards import guards
from roundel.plan.scope import Scope
from roundel.workflow.breaker import Breaker
from roundel.workflow.message import Message

Figures = dict[str, Any]
Place = tuple[str, str]
"""A node and an address."""
SHOWN = 500
"""Characters of a message in the evidence."""
MOST_HEARD = 128
"""So many messages of a round are remembered, the last ones."""
FIRST_CALLS = 3
"""So many calls tell how large a call is."""
MOST_CALLS = 1000
"""A worst case beyond this says nothing of what a run usually takes."""


def listen(execution: Execution, messages: tuple[Message, ...]) -> None:
    """An agent or a person spoke: the loops around them remember it until their round is over."""
    if messages:
        told = (moment(execution.activation), execution.unit.position)
        heard = (told, execution.node.id, execution.address, messages[-1].text)
        for history in _histories(execution):
            history.heard.append(heard)
            if len(history.heard) > 2 * MOST_HEARD:
                # A loop inside has many rounds; in order, so that it does not matter who was quicker.
                history.heard.sort()
                del history.heard[:-MOST_HEARD]


def note_tool(execution: Execution, called: str) -> None:
    """A tool was called with these arguments and gave this."""
    if len(called) > SHOWN:
        called = (
            f"{called[:SHOWN]}… ({hashlib.sha256(called.encode('utf-8', 'surrogatepass')).hexdigest()[:16]})"
        )
    for history in _histories(execution):
        history.tools.append(called)


def goes_in_circles(run: Run, history: History, breaker: Breaker, at: Place, scope: Scope | None) -> bool:
    """At the end of a round that another is to follow: whether the loop has said nothing new for a while.

    What was said at the same time is looked at in the order of the file, so that nothing depends on who was
    quicker."""
    heard = sorted(history.heard)[-MOST_EARLIER - breaker.window :]
    before = len(history.said)
    history.said += [(node, address, text) for _, node, address, text in heard]
    history.heard.clear()
    if breaker.watches_loops:
        history.novelty += run.decisions.take(
            _novelty, history.said, max(before, len(history.said) - breaker.window)
        )
    del history.said[: -MOST_EARLIER - breaker.window], history.novelty[: -breaker.window]
    history.calls.append("\n".join(sorted(history.tools)))
    history.tools.clear()
    del history.calls[: -breaker.window]
    figures = _figures(history, breaker) if breaker.watches_loops else None
    if figures is None or run.lock is not None:
        return False
    trip(run, "dead_loop", at, figures, _evidence(run, history, scope))
    history.novelty.clear()
    history.calls.clear()
    return True


def _novelty(said: Sequence[tuple[str, str, str]], first: int) -> list[float]:
    """How new each message is beside those before it, from a message on."""
    texts = [text for _, _, text in said]
    return [
        novelty(text, texts[max(0, number - MOST_EARLIER) : number]) if number else 1.0
        for number, text in enumerate(texts[first:], first)
    ]


def _figures(history: History, breaker: Breaker) -> Figures | None:
    """What shows that the loop is dead; None if it is not."""
    if len(history.novelty) == breaker.window:
        mean = sum(history.novelty) / breaker.window
        if mean < breaker.threshold:
            values = [round(value, 3) for value in history.novelty]
            return {"novelty": values, "mean": round(mean, 3), "threshold": breaker.threshold}
    if len(history.calls) == breaker.window and history.calls[0] and len(set(history.calls)) == 1:
        return {"repeated_calls": history.calls[0][:SHOWN], "times": breaker.window}
    return None


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


def _evidence(run: Run, history: History, scope: Scope | None) -> dict[str, Any]:
    """The last messages side by side, and who could have ended the loop."""
    evidence: dict[str, Any] = {"messages": last_messages(history)}
    nearest = run.decisions.take(_nearest_guard, scope)
    if nearest:
        evidence["guard"] = nearest
    return evidence


def _nearest_guard(scope: Scope | None) -> str:
    found = guards(scope) if scope is not None else ()
    return found[0][0].id if found else ""


def last_messages(history: History) -> list[Figures]:
    said = [*history.said, *(heard[1:] for heard in sorted(history.heard))]
    return [{"node": node, "address": address, "text": text[:SHOWN]} for node, address, text in said[-4:]]


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


def history_of(instance: Instance, entry: int) -> History:
    if entry not in instance.histories:
        instance.histories[entry] = History()
    return instance.histories[entry]
