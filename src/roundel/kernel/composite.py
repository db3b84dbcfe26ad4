"""Composite nodes: loop agents, debates and votes, which run graphs (their *bodies*) in iterations.

The node's *controller* decides which body runs when. It sees only what it is given, and does no I/O:

    begin(inputs)                          the node starts
    on_iteration_end(iteration, messages)  a body has ended, or a node in it returned `continue`
    on_break(iteration, messages, reason)  a node in a body returned `break`
    on_failure(iteration, error)           a body has failed, and `catches_failure(iteration)` was true
    on_answer(answer)                      the node's behaviour, called by the host, answered
    on_answer_failed(error)                the node's behaviour failed
    on_retry()                             the run is retried after an error of this controller

Each returns a CompositeAction: iterations to start, an outcome that completes the node, a question for
the node's behaviour (for functions of users, which the kernel does not call), events to emit, a limit
that locks the run, an error that fails the node. An Iteration alone is short for an action that starts
just this one.

An iteration that follows another one of the same body reuses its BodyRun, emptied, so a round of a loop
agent costs little more than one of a free cycle. Everything else starts by way of the ready queue, where
a lock or pause can hold it back.
"""

from __future__ import annotations

from typing import Any, Protocol

from msgspec import Struct

from roundel.kernel.breaker import breaker_of, lock, lock_dead_loop
from roundel.kernel.cancellation import cancel_graphs, is_cancelled
from roundel.kernel.commands import Call
from roundel.kernel.facts import Decide, Failed, Outcome
from roundel.kernel.lifecycle import add_ordinals, complete, deliver_input, fail
from roundel.kernel.loops import begin_round
from roundel.kernel.payloads import EventData, LimitReached, as_told
from roundel.kernel.rounds import Status, begin_node_round, end_node_round, leave_node, node_step
from roundel.kernel.state import (
    ASK_BEHAVIOUR,
    START_ITERATIONS,
    Activation,
    CompositeRun,
    Execution,
    Expansion,
    GraphInstance,
    Iteration,
    Run,
)
from roundel.plan.graph import GraphPlan
from roundel.workflow.message import Message


class CompositeAction(Struct, frozen=True):
    """What a controller wants to happen next."""

    iterations: tuple[Iteration, ...] = ()
    outcome: Outcome | None = None
    ask_behaviour: Any = None
    """A question for the node's behaviour; it becomes the `state` of the Call."""
    inputs: tuple[Message, ...] = ()
    """The inputs of that Call."""
    events: tuple[EventData, ...] = ()
    reached: tuple[str, int] | None = None
    """The name and value of a limit that was reached without locking the run."""
    lock: tuple[str, int] | None = None
    """The name and value of a limit that locks the run; the iterations start after the unlock."""
    last: int | None = None
    """Iterations of later rounds than this are cancelled."""
    error: str = ""
    """Fails the node, if not empty."""


class Controller(Protocol):
    """Decides the iterations of one execution of a node; created by `NodeType.controller` for each.

    A snapshot stores its attributes and restores them into a new object (snapshot.py), so they must be
    data.
    """

    decide: Decide
    """Set by the kernel. Everything that depends on patterns, CEL or Unicode tables goes through it
    (facts.py)."""
    has_independent_rounds: bool
    """Whether each round has a task of its own."""
    semantics: int
    """Set by the kernel: the version of the rules that the run follows (plan/graph.py)."""

    def begin(self, inputs: tuple[Message, ...]) -> CompositeAction | Iteration: ...
    def on_iteration_end(
        self, iteration: Iteration, messages: tuple[Message, ...]
    ) -> CompositeAction | Iteration: ...
    def on_break(
        self, iteration: Iteration, messages: tuple[Message, ...], reason: str
    ) -> CompositeAction | Iteration: ...
    def catches_failure(self, iteration: Iteration) -> bool: ...
    def on_failure(self, iteration: Iteration, error: str) -> CompositeAction | Iteration: ...
    def on_answer(self, answer: Any) -> CompositeAction | Iteration: ...
    def on_answer_failed(self, error: str) -> CompositeAction | Iteration: ...
    def allow(self, rounds: int) -> None:
        """Sets the limit on rounds that a person gave when unlocking the run."""

    def on_retry(self) -> CompositeAction | Iteration:
        """Decides again, after an action with an `error` had failed the node and the run."""


class BodyRun(GraphInstance):
    """The graph instance of an iteration, which can be emptied for the next one."""

    __slots__ = ("root",)

    def __init__(self, run: Run, composite_run: CompositeRun, body: GraphPlan) -> None:
        execution = composite_run.execution
        # `base` and not the shared counts for a part of a dynamic edge: parts run in parallel.
        alone = execution.part is None
        ordinals = execution.activation.instance.ordinals if alone else composite_run.base
        super().__init__(body, "", execution, ordinals)
        self.composite_run = composite_run
        self.root = Activation(run, self, body.root)

    def empty(self) -> None:
        """Resets it for another iteration: the bodies of two iterations share no state.

        Cheaper than a new instance, whose lists, activation and addresses would have to be built again.
        """
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
        """Breaks the reference cycle with its activation, so that it is freed without the cyclic
        collector."""
        del self.root


def begin_composite(run: Run, composite_run: CompositeRun) -> None:
    """Starts the first iterations."""
    part = composite_run.execution.part
    if part is not None:
        # Parts run in parallel: each counts for itself, starting at its own number.
        expansion, number = part
        composite_run.base = [count + number for count in expansion.base]
    _apply(run, composite_run, composite_run.controller.begin(composite_run.inputs))


def on_answer(run: Run, execution: Execution, outcome: Outcome) -> None:
    """Passes the answer of the node's behaviour to the controller."""
    composite_run = execution.owner
    assert isinstance(composite_run, CompositeRun)
    execution.owner = None
    _apply(run, composite_run, composite_run.controller.on_answer(outcome.state))


def on_answer_failed(run: Run, execution: Execution, fact: Failed) -> None:
    """Passes a failure of the node's behaviour to the controller."""
    composite_run = execution.owner
    assert isinstance(composite_run, CompositeRun)
    execution.owner = None
    _apply(run, composite_run, composite_run.controller.on_answer_failed(fact.error), fact)


def as_action(action: CompositeAction | Iteration) -> CompositeAction:
    """The action that a lone iteration stands for."""
    return CompositeAction((action,)) if isinstance(action, Iteration) else action


def decide_again(run: Run, composite_run: CompositeRun) -> None:
    """Retries a decision of the controller that failed."""
    _apply(run, composite_run, composite_run.controller.on_retry())


def _apply(
    run: Run,
    composite_run: CompositeRun,
    decided: CompositeAction | Iteration,
    failed: Failed | None = None,
    ended: GraphInstance | None = None,
    status: Status = "completed",
) -> None:
    """Carries out an action. The order matters: later rounds are cancelled before new ones are queued.
    `failed` is the failed question that led to it, if there was one; `ended` is the body that did, and
    `status` how its round ends."""
    action = as_action(decided)
    execution = composite_run.execution
    node, address = execution.node, execution.address
    for data in action.events:
        run.emit(as_told(node.kind.events, data), node.id, address)
    if ended is not None:
        _end_round(run, composite_run, ended, action.iterations, status)
    if action.error:
        kind, attempts, reason = (
            (failed.error_type, failed.attempts, failed.reason) if failed else ("ExpressionError", 1, "")
        )
        fail(
            run,
            execution,
            action.error,
            kind,
            attempts=attempts,
            owner=composite_run,
            decides=failed is None,
            reason=reason,
        )
        return
    if action.last is not None:
        _cancel_later_rounds(run, composite_run, action.last)
    if action.reached is not None:
        what, limit = action.reached
        run.emit(LimitReached(what, limit, address), node.id, address)
    if action.lock is not None:
        lock(run, *action.lock, node.id, address)
    if action.iterations:
        composite_run.pending.extend(action.iterations)
        run.ready_queue.append((composite_run, START_ITERATIONS))
    if action.ask_behaviour is not None:
        composite_run.question = (action.ask_behaviour, action.inputs)
        run.ready_queue.append((composite_run, ASK_BEHAVIOUR))
    if action.outcome is not None:
        _finish(run, composite_run, action.outcome)


def ask_behaviour(run: Run, composite_run: CompositeRun) -> None:
    """Sends the pending question to the host, as a Call at the node's own address."""
    execution = composite_run.execution
    address, round_ = execution.address, execution.activation.loop_round
    question, inputs = composite_run.question
    composite_run.question = None
    call = Call(address, execution.node.site, inputs, question, composite_run.round, round_)
    execution.command = call
    execution.owner = composite_run
    run.calls[address] = execution
    run.commands.append(call)


def _cancel_later_rounds(run: Run, composite_run: CompositeRun, last: int) -> None:
    """Cancels the iterations after round `last`, when a `break` in parallel rounds takes effect.

    A `break` counts as if the rounds had come one after the other, so earlier rounds still finish.
    """
    in_flight = composite_run.in_flight
    composite_run.in_flight = [instance for instance in in_flight if _iteration(instance).round <= last]
    composite_run.pending = [iteration for iteration in composite_run.pending if iteration.round <= last]
    cancel_graphs(run, [instance for instance in in_flight if _iteration(instance).round > last])
    for number in [number for number in composite_run.open if number > last]:
        end_node_round(run, composite_run, number, "cancelled")


def _finish(run: Run, composite_run: CompositeRun, outcome: Outcome) -> None:
    """Completes the node; iterations that are still in flight are cancelled."""
    execution = composite_run.execution
    node = execution.node
    cancel_graphs(run, composite_run.in_flight)
    composite_run.in_flight.clear()
    composite_run.pending.clear()
    if execution.part is not None:
        _count_part(composite_run, *execution.part)
    if node.kind.loops:
        leave_node(run, composite_run, outcome.reason)
    complete(run, execution, outcome)


def _count_part(composite_run: CompositeRun, expansion: Expansion, number: int) -> None:
    """Adds the calls of sequential iterations; `end_iteration` has added those of parallel ones."""
    counts = composite_run.execution.activation.instance.ordinals
    for site, before in enumerate(expansion.base):
        counts[site] += composite_run.base[site] - before - number


def start_iterations(run: Run, composite_run: CompositeRun) -> None:
    """Starts all pending iterations, unless the breaker finds the loop dead."""
    iterations = composite_run.pending
    if iterations and _is_dead_loop(run, composite_run, iterations[0]):
        run.held.append((composite_run, START_ITERATIONS))
        return
    composite_run.pending = []
    for iteration in iterations:
        body_run = BodyRun(run, composite_run, composite_run.execution.node.bodies[iteration.body])
        composite_run.in_flight.append(body_run)
        _start_iteration(run, composite_run, body_run, iteration)


def _start_iteration(run: Run, composite_run: CompositeRun, body_run: BodyRun, iteration: Iteration) -> None:
    """Delivers the input of an iteration and begins its graph.

    The address is `Node[round]/` for a loop, with `#n` for the nth run of a body in the same round.
    """
    execution, root, number = composite_run.execution, body_run.root, iteration.round
    node, address = execution.node, execution.address
    if node.kind.loops:
        address = f"{composite_run.stem}{number}]"
        root.loop_round = number
    around = execution.activation.path
    # Several iterations may belong to one round (the speakers of a debate); the first one begins it.
    if number > composite_run.round:
        composite_run.round = number
        composite_run.record.rounds += 1
        if node.kind.loops:
            path = (*around, node_step(execution, number))
            begin_node_round(run, composite_run, iteration, address, path)
    root.open = composite_run.open.get(number)
    if iteration.parallel_index is not None:
        body_run.ordinals = [count + iteration.parallel_index for count in composite_run.base]
    if iteration.repeat:
        address = f"{address}#{iteration.repeat + 1}"
    body_run.iteration = iteration
    if root.open is not None and not iteration.repeat:
        body_run.path = root.path = root.open.path
    else:
        step = node_step(execution, root.loop_round, iteration.repeat + 1 if iteration.repeat else 0)
        body_run.path = root.path = (*around, step)
    root.address = address
    body_run.prefix = root.prefix = address + "/"
    body_run.stem = address + "." if node.kind.loops else body_run.prefix
    deliver_input(body_run, iteration.inputs)
    begin_round(run, root)


def end_iteration(run: Run, instance: GraphInstance, messages: tuple[Message, ...]) -> None:
    """Gives the result of a body that has ended to the controller, and starts what follows."""
    assert isinstance(instance, BodyRun)
    composite_run, iteration = instance.composite_run, instance.iteration
    assert composite_run is not None
    assert iteration is not None
    if iteration.parallel_index is not None:
        add_ordinals(composite_run.execution, instance, composite_run.base, iteration.parallel_index)
    action = composite_run.controller.on_iteration_end(iteration, messages)
    # The fast path: one iteration of the same body follows, and nothing holds it back. It skips the
    # ready queue and reuses the instance.
    follows = (
        isinstance(action, Iteration)
        and action.body == iteration.body
        and run.lock is None
        and not run.paused
    )
    if follows:
        _end_round(run, composite_run, instance, (action,))  # type: ignore[arg-type]
    if follows and isinstance(action, Iteration) and not _is_dead_loop(run, composite_run, action):
        instance.empty()
        _start_iteration(run, composite_run, instance, action)
        return
    composite_run.in_flight.remove(instance)
    instance.close()
    _apply(run, composite_run, action, ended=instance)


def _end_round(
    run: Run,
    composite_run: CompositeRun,
    ended: GraphInstance,
    following: tuple[Iteration, ...],
    status: Status = "completed",
) -> None:
    """Ends the round of a body that has ended, unless more of that round runs or follows."""
    number = _iteration(ended).round
    if number not in composite_run.open:
        return  # only loops have rounds
    others = [_iteration(other) for other in composite_run.in_flight if other is not ended]
    if not any(one.round == number for one in (*following, *composite_run.pending, *others)):
        end_node_round(run, composite_run, number, status)


def _is_dead_loop(run: Run, composite_run: CompositeRun, iteration: Iteration) -> bool:
    """Before a new round: whether the breaker finds the loop dead, which locks the run."""
    history = composite_run.history
    if iteration.round <= composite_run.round or not history.has_new_content:
        return False
    execution = composite_run.execution
    breaker = breaker_of(execution.activation.instance.plan, execution.node.id)
    address = f"{composite_run.stem}{composite_run.round}]"
    is_bounded = not getattr(composite_run.controller, "locks_at_limit", False)
    return lock_dead_loop(run, history, breaker, (execution.node.id, address), None, is_bounded)


def end_body_early(
    run: Run, instance: GraphInstance, how: str, what: Any, reason: str = "", failed: Execution | None = None
) -> None:
    """Ends a body because a node in it failed or returned `break` or `continue`; cancels the rest of
    it. `reason` is that of a `break`; empty if it has none. `failed` is what failed."""
    if is_cancelled(instance):
        return  # two nodes of the body jumped or failed in the same step; the first one counts
    cancel_graphs(run, [instance], failed)
    composite_run, iteration = instance.composite_run, _iteration(instance)
    assert composite_run is not None
    composite_run.in_flight.remove(instance)
    if iteration.parallel_index is not None:
        add_ordinals(composite_run.execution, instance, composite_run.base, iteration.parallel_index)
    controller = composite_run.controller
    if how == "failed":
        action = controller.on_failure(iteration, what)
    elif how == "break":
        action = controller.on_break(iteration, what, reason)
    else:
        action = controller.on_iteration_end(iteration, what)
    status: Status = "completed" if failed is None else "failed"
    _apply(run, composite_run, action, ended=instance, status=status)


def _iteration(instance: GraphInstance) -> Iteration:
    assert instance.iteration is not None
    return instance.iteration
