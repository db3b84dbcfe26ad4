"""Rounds of scopes: how units settle, rounds begin and end, loops are entered and left."""

from __future__ import annotations

from roundel.kernel.facts import Outcome
from roundel.kernel.queue import Key, compacted
from roundel.kernel.state import (
    GRAPH_OVER,
    LOOP_OVER,
    NEXT_ROUND,
    Activation,
    Instance,
    Lock,
    LoopRecord,
    Run,
)
from roundel.plan.scope import Unit


def begin(run: Run, instance: Instance) -> None:
    """Begins a graph."""
    begin_round(run, Activation(run, instance, instance.plan.root))


def begin_round(run: Run, activation: Activation) -> None:
    activation.next_round()
    if activation.parent is not None:
        data = {"loop": activation.name, "round": activation.round}
        run.emit("loop_round", activation.name, activation.prefix[:-1], data)
    for index in activation.scope.roots:
        run.agenda.append((activation, index))


def settle(run: Run, activation: Activation, unit: Unit) -> None:
    """The unit has run or was passed over: whoever waited only for it comes up."""
    waits, agenda = activation.waits, run.agenda
    for index in unit.successors:
        waits[index] = left = waits[index] - 1
        if not left:
            agenda.append((activation, index))
    activation.left = left = activation.left - 1
    if not left:
        _round_over(run, activation)


def enter(run: Run, activation: Activation, unit: Unit, entry: int) -> None:
    instance = activation.instance
    scope = activation.scope.inner(unit, entry)
    for node in scope.forgetful:
        instance.memory.pop(node, None)
    record = run.loops.setdefault(instance.plan.nodes[entry].id, LoopRecord())
    record.entries += 1
    inner = Activation(run, instance, scope, activation, unit, record)
    begin_round(run, inner)


def leave(activation: Activation, unit: Unit, loops: int, node_id: str, outcome: Outcome) -> None:
    """An edge fired that leaves so many loops: none of them goes on past its current layer."""
    for _ in range(loops):
        if activation.exit_layer is None or unit.position < activation.exit_position:
            # Several nodes of a layer may leave; the first in the file names the reason, not the quickest.
            activation.exit_layer = unit.layer
            activation.exit_position = unit.position
            activation.exit_by = node_id
            activation.exit_reason = _reason(outcome)
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
    parent, scope = activation.parent, activation.scope
    if parent is None:
        run.agenda.append((activation, GRAPH_OVER))
        return
    marks = activation.instance.marks
    if activation.exit_layer is not None:
        for node in scope.members:
            marks[node] = 0
        _loop_over(run, activation, activation.exit_reason)
    elif marks[scope.entry]:  # type: ignore[index]
        for node in scope.cleared:
            arrivals = activation.instance.arrivals
            arrivals[node] = compacted(arrivals[node], activation.base)
        if activation.round >= scope.cap:
            _capped(run, activation)
        else:
            begin_round(run, activation)
    else:
        _loop_over(run, activation, "no_trigger")


def _loop_over(run: Run, activation: Activation, reason: str) -> None:
    activation.record.left(reason, moment(activation))
    data = {"loop": activation.name, "rounds": activation.round, "reason": reason}
    if activation.exit_by:
        data["by"] = activation.exit_by
    run.emit("loop_exit", activation.name, activation.address, data)
    # By way of the agenda, so that loops nested a thousand deep need no deep stack to end.
    run.agenda.append((activation, LOOP_OVER))


def moment(activation: Activation) -> Key:
    """When something happens in the order of the whole run, in which nothing happens at the same time."""
    key, instance = activation.key, activation.instance
    while (caller := instance.caller) is not None:
        turn = instance.turn.round if instance.turn is not None else 0
        part = caller.part[1] if caller.part is not None else 0
        key = (*caller.activation.key, caller.unit.layer, caller.unit.position, part, turn, *key)
        instance = caller.activation.instance
    return key


def settle_loop(run: Run, activation: Activation) -> None:
    assert activation.parent is not None
    assert activation.unit is not None
    settle(run, activation.parent, activation.unit)


def _capped(run: Run, activation: Activation) -> None:
    lock(run, "rounds", activation.scope.cap, activation.name, activation.address)
    run.agenda.append((activation, NEXT_ROUND))


def lock(run: Run, what: str, limit: int, node_id: str, address: str) -> None:
    """A limit is met: nothing new begins until a person unlocks the run."""
    data = {"what": what, "limit": limit, "address": address}
    run.emit("limit_reached", node_id, address, data)
    if run.lock is None:
        run.lock = Lock(what, limit, address)
        run.smooth = False
