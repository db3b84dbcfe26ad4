"""Rounds and loops: how units settle, how rounds begin and end, how loops are entered and left.

A unit settles when its node has run or was skipped, or its folded loop has ended. Units that waited only
for it become ready. When all units of a scope have settled, the round is over, and one of three things
follows:

  - an edge has left the loop: its marks are cleared and the loop ends with the reason of that exit;
  - the entry is marked: the next round begins, unless the cap or the breaker locks the run;
  - otherwise nothing can trigger another round, and the loop ends with `no_trigger`.

An exit is only recorded when its edge fires (`leave_loops`); the rest of its layer still runs. If the
loop ended at once, units of the same layer would run or not depending on which was quicker.

The whole graph is a scope as well, with one round. When it is over, `graph_result` is what the graph
gives to its caller: the last output of the first `end` node that has one (docs/decisions/0005).
Collecting the outputs of all rounds instead would let memory grow with their number.
"""

from __future__ import annotations

from collections import Counter

from roundel.kernel.breaker import breaker_of, history_of, last_messages, lock, lock_dead_loop
from roundel.kernel.facts import Outcome
from roundel.kernel.queue import compact
from roundel.kernel.rounds import cap_of, emit_round, end_round, enter_loop, leave_loop
from roundel.kernel.state import (
    GRAPH_OVER,
    LOOP_OVER,
    NEXT_ROUND,
    Activation,
    GraphInstance,
    LoopSummary,
    Run,
)
from roundel.plan.components import reachable
from roundel.plan.scope import Unit
from roundel.workflow.message import Message


def begin(run: Run, instance: GraphInstance) -> None:
    """Begins a graph whose input has been delivered."""
    begin_round(run, Activation(run, instance, instance.plan.root))


def begin_round(run: Run, activation: Activation) -> None:
    """Begins the next round of a scope: its units that wait for nothing are ready."""
    before = activation.prefix
    activation.next_round()
    if activation.parent is not None:
        emit_round(run, activation, before)
    for index in activation.scope.roots:
        run.ready_queue.append((activation, index))


def settle(run: Run, activation: Activation, unit: Unit) -> None:
    """Settles a unit that has run or was skipped: units that waited only for it become ready."""
    waits, ready_queue = activation.waits, run.ready_queue
    for index in unit.successors:
        waits[index] = left = waits[index] - 1
        if not left:
            ready_queue.append((activation, index))
    activation.left = left = activation.left - 1
    if not left:
        _round_over(run, activation)


def enter(run: Run, activation: Activation, unit: Unit, entry: int) -> None:
    """Enters a folded loop at one of its nodes. Rounds count from 1 for each entry."""
    instance = activation.instance
    scope = activation.scope.inner(unit, entry)
    # A guard that is configured to forget counts anew each time that its loop is entered.
    for node in scope.forgetful:
        instance.memory.pop(node, None)
    record = run.loops.setdefault(instance.plan.nodes[entry].id, LoopSummary())
    record.entries += 1
    inner = Activation(run, instance, scope, activation, unit, record)
    enter_loop(run, inner)
    begin_round(run, inner)


def leave_loops(activation: Activation, unit: Unit, loops: int, node_id: str, outcome: Outcome) -> None:
    """Records that an edge fired that leaves this many loops: none of them runs past its current
    layer."""
    names = False
    for number in range(loops):
        # Several nodes of a layer may leave; the first in the file names the reason, not the quickest. If
        # both leave several loops, they are in the same unit of the outer ones, and the inner one decides.
        # All units of a later layer wait for this one (scope._wait_for_exits), so none has started yet.
        first = activation.exit_layer is None or unit.position < activation.exit_position
        names = first or (names and unit.position == activation.exit_position)
        if names:
            activation.exit_layer = unit.layer
            activation.exit_position = unit.position
            activation.exit_by = node_id
            activation.exit_reason = _reason(outcome)
            activation.exit_kept = outcome.kept if number == 0 else None
        outer, place = activation.parent, activation.unit
        assert outer is not None
        assert place is not None
        activation, unit = outer, place


def _reason(outcome: Outcome) -> str:
    if outcome.reason:
        return outcome.reason
    data = outcome.messages[-1].data if outcome.messages else None
    return str((data or {}).get("exit_reason") or "exit_edge")


def _round_over(run: Run, activation: Activation) -> None:
    """Decides what follows a round whose units have all settled."""
    parent, scope = activation.parent, activation.scope
    if parent is None:
        run.ready_queue.append((activation, GRAPH_OVER))
        return
    end_round(run, activation)
    marks = activation.instance.marks
    if activation.exit_layer is not None:
        leave_between_rounds(run, activation)
    elif marks[scope.entry]:  # type: ignore[index]
        # Without this, drafts that an edge will clear would wait outside of the loop for all of its
        # rounds.
        for node in scope.cleared:
            arrivals = activation.instance.arrivals
            arrivals[node] = compact(arrivals[node], activation.base)
        next_round(run, activation)
    else:
        _loop_over(run, activation, "no_trigger")


def leave_between_rounds(run: Run, activation: Activation) -> None:
    """Ends a loop by its recorded exit. Leftover marks would trigger its nodes when it is entered
    again."""
    marks, triggers = activation.instance.marks, activation.instance.triggers
    for node in activation.scope.members:
        marks[node] = 0
        if triggers:
            triggers.pop(node, None)
    _loop_over(run, activation, activation.exit_reason)


def _loop_over(run: Run, activation: Activation, reason: str) -> None:
    leave_loop(run, activation, reason)
    # By way of the ready queue, so that loops nested a thousand deep need no deep stack to end.
    run.ready_queue.append((activation, LOOP_OVER))


def settle_loop(run: Run, activation: Activation) -> None:
    assert activation.parent is not None
    assert activation.unit is not None
    settle(run, activation.parent, activation.unit)


def next_round(run: Run, activation: Activation) -> None:
    """Begins the next round unless the cap or the breaker locks the run.

    Called again for held entries after an unlock: another limit may have been reached while the run was
    locked.
    """
    # The first comparison is nearly always false, and saves the look at raised caps.
    if activation.round >= activation.scope.cap and activation.round >= cap_of(run, activation):
        _lock_at_cap(run, activation)
    elif _is_dead(run, activation):
        run.ready_queue.append((activation, NEXT_ROUND))
    else:
        begin_round(run, activation)


def raise_cap(run: Run, activation: Activation, cap: int) -> None:
    """Raises the cap of a loop for all entries, in all instances of its graph."""
    assert activation.scope.entry is not None
    run.guard_stats.raised_caps[activation.instance.plan.nodes[activation.scope.entry].site] = cap


def _lock_at_cap(run: Run, activation: Activation) -> None:
    # The lock takes the run off the fast path, so `advance` moves this entry to `run.held`.
    run.ready_queue.append((activation, NEXT_ROUND))
    if run.lock is not None:
        return  # it is checked again once the run is unlocked
    assert activation.scope.entry is not None
    messages = last_messages(history_of(activation.instance, activation.scope.entry))
    evidence = {"messages": messages} if messages else {}
    lock(run, "rounds", cap_of(run, activation), activation.name, activation.address, evidence)


def _is_dead(run: Run, activation: Activation) -> bool:
    """Whether the breaker finds the loop dead, which locks the run. A round without new content costs
    nothing."""
    history = activation.instance.histories.get(activation.scope.entry)  # type: ignore[arg-type]
    if history is None or not history.has_new_content:
        return False
    breaker = breaker_of(activation.instance.plan, activation.name)
    return lock_dead_loop(run, history, breaker, (activation.name, activation.address), activation.scope)


def graph_result(instance: GraphInstance) -> tuple[Message, ...]:
    """The result of a graph that has ended: the last output of the first `end` node that has one."""
    if instance.plan.graph.is_majority_voting:
        return _majority(instance)
    outputs = instance.outputs
    for end in instance.plan.ends:
        if end in outputs:
            return outputs[end]
    return ()


def _majority(instance: GraphInstance) -> tuple[Message, ...]:
    """The most common text; among equally common ones, that of the first node in the file."""
    outputs = [instance.outputs[end] for end in instance.plan.ends if end in instance.outputs]
    texts = [messages[-1].text.strip() for messages in outputs]
    votes = Counter(text for text in texts if text)
    if not votes:
        return ()
    winner = max(votes, key=lambda text: votes[text])
    return outputs[texts.index(winner)]


def unfired_edges(instance: GraphInstance) -> list[str]:
    """The triggering edges towards an end whose source ran and that did not fire, for
    `end_not_reached`."""
    plan, fired = instance.plan, instance.fired
    triggers = [edge for edge in plan.edges if edge.trigger]
    ran = {*plan.start, *(edge.target for edge in triggers if fired[edge.index])}
    into: dict[int, list[int]] = {}
    for edge in triggers:
        into.setdefault(edge.target, []).append(edge.source)
    on_the_way = reachable(plan.ends, into)
    return [
        str(edge.edge)
        for edge in triggers
        if edge.source in ran and edge.target in on_the_way and not fired[edge.index]
    ]
