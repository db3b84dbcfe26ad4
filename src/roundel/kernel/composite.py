"""Nodes that conduct: loop agents, debates and votes run their bodies in turns.

What runs when is the business of the node's conductor, which looks at nothing but what it is told:

    begin(inputs)           the node has come up
    turned(turn, messages)  a body has run to its end
    failed(turn, error)     a body has failed, and `catches(turn)` said that the conductor sees to it
    broken(turn, messages)  a node inside said `break`
    told(answer)            what the node's own behaviour, called by the host, answered
    unanswered(error)       the node's own behaviour failed

Each gives a Move: turns to start, an outcome that ends the node, a question for its behaviour (for
functions of users, which the kernel does not call), events to show, a limit that locks the run, an
error that fails the node. A Turn alone says no more than that it is next.

A turn that follows another has its Stage, emptied: a round of a loop agent costs little more than one of a
free cycle.
"""

from __future__ import annotations

from typing import Any, Protocol

from msgspec import Struct

from roundel.kernel.breaker import breaker_of, goes_in_circles, lock
from roundel.kernel.commands import Call
from roundel.kernel.facts import Decide, Outcome
from roundel.kernel.lifecycle import add_ordinals, call_off, complete, fail, give
from roundel.kernel.loops import begin_round
from roundel.kernel.state import (
    QUESTION,
    TURNS,
    Activation,
    Execution,
    Expansion,
    Instance,
    Performance,
    Run,
    Turn,
    moment,
)
from roundel.plan.graph import GraphPlan
from roundel.workflow.message import Message


class Move(Struct, frozen=True):
    turns: tuple[Turn, ...] = ()
    outcome: Outcome | None = None
    ask: Any = None
    """A question for the node's behaviour, as the state of its call."""
    inputs: tuple[Message, ...] = ()
    """What the question is about."""
    events: tuple[tuple[str, dict[str, Any]], ...] = ()
    reached: tuple[str, int] | None = None
    """What is used up and its limit, although the run goes on."""
    lock: tuple[str, int] | None = None
    """What is used up and its limit: the turns start once the run is unlocked."""
    last: int | None = None
    """Turns of later rounds than this are called off."""
    error: str = ""
    """The node fails."""


class Conductor(Protocol):
    decide: Decide
    """Set by the kernel. What depends on patterns, CEL or Unicode tables goes through it (decisions.py)."""

    def begin(self, inputs: tuple[Message, ...]) -> Move | Turn: ...
    def turned(self, turn: Turn, messages: tuple[Message, ...]) -> Move | Turn: ...
    def broken(self, turn: Turn, messages: tuple[Message, ...]) -> Move | Turn: ...
    def catches(self, turn: Turn) -> bool: ...
    def failed(self, turn: Turn, error: str) -> Move | Turn: ...
    def told(self, answer: Any) -> Move | Turn: ...
    def unanswered(self, error: str) -> Move | Turn: ...


class Stage(Instance):
    """The graph of a turn, to be emptied for the next one."""

    __slots__ = ("root",)

    def __init__(self, run: Run, performance: Performance, body: GraphPlan) -> None:
        execution = performance.execution
        alone = execution.part is None
        ordinals = execution.activation.instance.ordinals if alone else performance.base
        super().__init__(body, "", execution, ordinals)
        self.performance = performance
        self.root = Activation(run, self, body.root)

    def empty(self) -> None:
        self.outputs.clear()
        self.memory.clear()
        if self.histories:
            self.histories.clear()
        if self.budgets:
            self.budgets.clear()
            self.root.budgets.clear()
        for queue in self.queues:
            queue.clear()
        if self.fired:  # without edges there is nothing more
            for arrivals in self.arrivals:
                arrivals.clear()
            self.marks[:] = bytes(len(self.marks))
            self.fired[:] = bytes(len(self.fired))

    def close(self) -> None:
        """For the last time: it and its activation hold each other, which is work for the collector."""
        del self.root


def open_performance(run: Run, performance: Performance) -> None:
    part = performance.execution.part
    if part is not None:
        # Parts run at the same time: each counts for itself, from its own number on.
        expansion, number = part
        performance.base = [count + number for count in expansion.base]
    _make(run, performance, performance.conductor.begin(performance.inputs))


def told(run: Run, execution: Execution, outcome: Outcome) -> None:
    performance = execution.owner
    assert isinstance(performance, Performance)
    execution.owner = None
    _make(run, performance, performance.conductor.told(outcome.state))


def unanswered(run: Run, execution: Execution, error: str) -> None:
    performance = execution.owner
    assert isinstance(performance, Performance)
    execution.owner = None
    _make(run, performance, performance.conductor.unanswered(error))


def as_move(move: Move | Turn) -> Move:
    return Move((move,)) if isinstance(move, Turn) else move


def _make(run: Run, performance: Performance, told: Move | Turn) -> None:
    move = as_move(told)
    execution = performance.execution
    node, address = execution.node, execution.address
    for name, data in move.events:
        run.emit(name, node.id, address, data)
    if move.error:
        fail(run, execution, move.error)
        return
    if move.last is not None:
        _shorten(run, performance, move.last)
    if move.reached is not None:
        what, limit = move.reached
        run.emit("limit_reached", node.id, address, {"what": what, "limit": limit, "address": address})
    if move.lock is not None:
        lock(run, *move.lock, node.id, address)
    if move.turns:
        performance.pending.extend(move.turns)
        run.agenda.append((performance, TURNS))
    if move.ask is not None:
        performance.question = (move.ask, move.inputs)
        run.agenda.append((performance, QUESTION))
    if move.outcome is not None:
        _close(run, performance, move.outcome)


def ask(run: Run, performance: Performance) -> None:
    execution = performance.execution
    address, round_ = execution.address, execution.activation.loop_round
    asked, inputs = performance.question
    performance.question = None
    call = Call(address, execution.node.site, inputs, asked, performance.round, round_)
    execution.command = call
    execution.owner = performance
    run.calls[address] = execution
    run.commands.append(call)


def _shorten(run: Run, performance: Performance, last: int) -> None:
    at_work = performance.at_work
    performance.at_work = [instance for instance in at_work if _turn(instance).round <= last]
    performance.pending = [turn for turn in performance.pending if turn.round <= last]
    _call_off(run, [instance for instance in at_work if _turn(instance).round > last])


def _close(run: Run, performance: Performance, outcome: Outcome) -> None:
    execution = performance.execution
    node = execution.node
    _call_off(run, performance.at_work)
    performance.at_work.clear()
    performance.pending.clear()
    if execution.part is not None:
        _count_part(performance, *execution.part)
    if node.kind.loops:
        performance.record.left(outcome.reason, moment(execution.activation))
        data = {"loop": node.id, "rounds": performance.round, "reason": outcome.reason}
        run.emit("loop_exit", node.id, execution.address, data)
    complete(run, execution, outcome)


def _count_part(performance: Performance, expansion: Expansion, number: int) -> None:
    """What ran in turns that followed each other; turns that ran apart have been counted already."""
    counts = performance.execution.activation.instance.ordinals
    for site, before in enumerate(expansion.base):
        counts[site] += performance.base[site] - before - number


def start_turns(run: Run, performance: Performance) -> None:
    turns = performance.pending
    if turns and _goes_in_circles(run, performance, turns[0]):
        run.held.append((performance, TURNS))
        return
    performance.pending = []
    for turn in turns:
        stage = Stage(run, performance, performance.execution.node.bodies[turn.body])
        performance.at_work.append(stage)
        _play(run, performance, stage, turn)


def _play(run: Run, performance: Performance, stage: Stage, turn: Turn) -> None:
    execution, root, number = performance.execution, stage.root, turn.round
    node, address = execution.node, execution.address
    if node.kind.loops:
        address = f"{performance.stem}{number}]"
        root.loop_round = number
    if number > performance.round:
        performance.round = number
        performance.record.rounds += 1
        if node.kind.loops:
            run.emit("loop_round", node.id, address, {"loop": node.id, "round": number})
    if turn.apart is not None:
        stage.ordinals = [count + turn.apart for count in performance.base]
    if turn.again:
        address = f"{address}#{turn.again + 1}"
    stage.turn = turn
    stage.prefix = root.prefix = address + "/"
    stage.stem = address + "." if node.kind.loops else stage.prefix
    give(stage, turn.inputs)
    begin_round(run, root)


def end_turn(run: Run, instance: Instance, messages: tuple[Message, ...]) -> None:
    assert isinstance(instance, Stage)
    performance, turn = instance.performance, instance.turn
    assert performance is not None
    assert turn is not None
    if turn.apart is not None:
        add_ordinals(performance.execution, instance, performance.base, turn.apart)
    move = performance.conductor.turned(turn, messages)
    follows = isinstance(move, Turn) and move.body == turn.body and run.lock is None and not run.paused
    if follows and isinstance(move, Turn) and not _goes_in_circles(run, performance, move):
        instance.empty()
        _play(run, performance, instance, move)
        return
    performance.at_work.remove(instance)
    instance.close()
    _make(run, performance, move)


def _goes_in_circles(run: Run, performance: Performance, turn: Turn) -> bool:
    """Before a new round: whether the last ones said nothing new, so that the run is locked now."""
    history = performance.history
    if turn.round <= performance.round or not history.has_news:
        return False
    execution = performance.execution
    breaker = breaker_of(execution.activation.instance.plan, execution.node.id)
    address = f"{performance.stem}{performance.round}]"
    return goes_in_circles(run, history, breaker, (execution.node.id, address), None)


def come_back(run: Run, instance: Instance, how: str, what: Any) -> None:
    """A body ends before its time: a node in it failed, or said `break` or `continue`."""
    if is_gone(instance):
        return
    _call_off(run, [instance])
    performance, turn = instance.performance, _turn(instance)
    assert performance is not None
    performance.at_work.remove(instance)
    if turn.apart is not None:
        add_ordinals(performance.execution, instance, performance.base, turn.apart)
    conductor = performance.conductor
    if how == "failed":
        _make(run, performance, conductor.failed(turn, what))
    elif how == "break":
        _make(run, performance, conductor.broken(turn, what))
    else:
        _make(run, performance, conductor.turned(turn, what))


def _turn(instance: Instance) -> Turn:
    assert instance.turn is not None
    return instance.turn


def _call_off(run: Run, instances: list[Instance]) -> None:
    """What is at work in them is cancelled; what comes up in them is passed over."""
    if not instances:
        return
    for instance in instances:
        instance.gone = True
    run.smooth, run.torn = False, True
    inside = [call for call in run.calls.values() if is_gone(call.activation.instance)]
    call_off(run, inside, "the round was ended", instances)


def is_gone(instance: Instance | None) -> bool:
    while instance is not None:
        if instance.gone:
            return True
        instance = instance.caller.activation.instance if instance.caller is not None else None
    return False
